"""Pods of a group are bound together, or give their nodes back."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from fairway.engine.commit.instructions import Bound, ForCaller, RunBind
from fairway.engine.dependencies import Event
from fairway.engine.points import CommitContext
from fairway.engine.profile import Enabled, build_profile
from fairway.engine.queue import Explanation, State
from fairway.engine.scheduler import Scheduler
from fairway.engine.status import OK, Status
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.fleet.instant import SECOND
from fairway.fleet.resources import requested
from fairway.nodes import NodeFleet
from fairway.plugins.pods import pod_registry, pod_workload
from fairway.plugins.pods.coscheduling import GROUP_LABEL, Coscheduling
from fairway.plugins.pods.profile import default_spec
from nodes.builders import node, pod

MINUTE = 60 * SECOND


class Binder:
    name = "Binder"

    async def bind(self, _context: CommitContext, /) -> Status:
        return OK


class Scene:
    """A scheduler with the default profile, and nodes for one pod each."""

    def __init__(self, *, nodes: int) -> None:
        self.fleet = NodeFleet()
        self.fleet.load([node(f"n{at}", ready="True", cpu="1", pods="10") for at in range(nodes)])
        registry = pod_registry(fleet=self.fleet)
        registry.register("Binder", Binder)
        spec = default_spec(name="pods")
        points = {
            **spec.points,
            "PreEnqueue": (Enabled("SchedulingGates"), Enabled("Coscheduling")),
            "Reserve": (Enabled("AssumePod"), Enabled("Coscheduling")),
            "Permit": (Enabled("Coscheduling"),),
            "Bind": (Enabled("Binder"),),
        }
        profile = build_profile(replace(spec, points=points), registry)
        (self.gang,) = (each for each in profile.permits if isinstance(each, Coscheduling))
        self.scheduler = Scheduler(
            profiles=[profile],
            profile_name=lambda _: "pods",
            host_key=lambda each: HostKey(each.metadata.name, ""),
        )
        self.bound: list[str] = []
        self.now = 0

    def group(self, name: str = "g", *, min_member: int) -> None:
        self.event(self.gang.upsert_group("ns1", name, min_member=min_member, timeout=timedelta(minutes=1)))

    def put(self, name: str, *, group: str = "g", **more: Any) -> None:
        given = pod(name, labels={GROUP_LABEL: group} if group else {}, **({"cpu": "1"} | more))
        changed = self.gang.upsert_pod(given)
        self.scheduler.put(pod_workload(given), now=self.now)
        self.event(changed)

    def event(self, columns: Any) -> None:
        self.scheduler.on_event(Event(label="group", columns=columns), now=self.now)
        self.run()

    def run(self) -> None:
        """Try all pods that are due, and carry out what follows."""
        while True:
            self.perform(self.gang.settle(self.scheduler, now=self.now))
            tried = self.scheduler.schedule_one(self.fleet.snapshot(), now=self.now)
            if tried is None:
                return
            self.perform(tried[1])

    def perform(self, instructions: list[ForCaller]) -> None:
        for each in instructions:
            if isinstance(each, RunBind):
                self.perform(self.scheduler.finished(each.key, each.token, OK, now=self.now))
            elif isinstance(each, Bound):
                self.bound.append(each.key.name)
                self.gang.upsert_pod(pod(each.key.name, on=each.hosts[0].name, labels={GROUP_LABEL: "g"}))
                self.scheduler.observed(each.key, each.hosts, now=self.now)

    def wait(self, micros: int) -> None:
        self.now += micros
        self.perform(self.scheduler.advance(now=self.now))
        self.run()

    def explain(self, name: str) -> Explanation:
        found = self.scheduler.queue.explain(WorkloadKey("ns1", name, ""))
        assert found is not None
        return found

    def used(self) -> int:
        return int(self.fleet.snapshot().counts(requested("cpu")).values.sum()) // 1000


def test_group_starts_together_when_its_last_pod_has_a_node() -> None:
    scene = Scene(nodes=3)
    scene.group(min_member=3)
    for name in ("a", "b"):
        scene.put(name)
    assert (scene.bound, scene.used()) == ([], 0)
    scene.put("c")
    assert sorted(scene.bound) == ["a", "b", "c"]


def test_pod_waits_outside_the_queue_until_the_group_has_enough_pods() -> None:
    scene = Scene(nodes=3)
    scene.put("a")
    found = scene.explain("a")
    assert (found.state, found.reasons) == (State.GATED, ("Coscheduling: pod group ns1/g does not exist",))
    scene.group(min_member=2)
    assert scene.explain("a").reasons == ("Coscheduling: pod group ns1/g has 1 of 2 pods",)
    scene.put("b")
    assert sorted(scene.bound) == ["a", "b"]


def test_group_without_room_gives_all_nodes_back_after_its_timeout() -> None:
    scene = Scene(nodes=2)
    scene.group(min_member=3)
    for name in ("a", "b", "c"):
        scene.put(name)
    assert (scene.bound, scene.used()) == ([], 2)
    scene.put("other", group="", spec={"priority": 1, "preemptionPolicy": "Never"})
    assert scene.bound == []
    scene.wait(MINUTE)
    assert scene.bound == ["other"]


def test_group_starts_once_room_appears() -> None:
    scene = Scene(nodes=2)
    scene.group(min_member=3)
    for name in ("a", "b", "c"):
        scene.put(name)
    change = scene.fleet.upsert_node(node("n9", ready="True", cpu="1", pods="10"))
    event = Event(label="n9 added", hosts=frozenset(change.hosts), columns=change.columns, added=True)
    scene.scheduler.on_event(event, now=scene.now)
    scene.wait(2 * SECOND)
    assert sorted(scene.bound) == ["a", "b", "c"]


def test_deleted_pod_takes_the_nodes_of_the_pods_that_wait_for_it() -> None:
    scene = Scene(nodes=2)
    scene.group(min_member=3)
    for name in ("a", "b", "c"):
        scene.put(name)
    assert scene.used() == 2
    scene.gang.delete_pod(pod("a", labels={GROUP_LABEL: "g"}))
    scene.perform(scene.scheduler.delete(WorkloadKey("ns1", "a", ""), now=0))
    scene.perform(scene.gang.settle(scene.scheduler, now=0))
    assert (scene.bound, scene.used()) == ([], 0)


def test_pod_joins_a_group_that_runs() -> None:
    scene = Scene(nodes=3)
    scene.group(min_member=2)
    for name in ("a", "b", "late"):
        scene.put(name)
    assert sorted(scene.bound) == ["a", "b", "late"]


def test_smaller_minimum_starts_the_pods_that_wait() -> None:
    scene = Scene(nodes=2)
    scene.group(min_member=3)
    for name in ("a", "b", "c"):
        scene.put(name)
    scene.group(min_member=2)
    assert len(scene.bound) == 2


def test_pod_without_group_does_not_wait() -> None:
    scene = Scene(nodes=1)
    scene.put("a", group="")
    assert scene.bound == ["a"]


@pytest.mark.parametrize("finished", ["Succeeded", "Failed"])
def test_finished_pod_counts_no_more(finished: str) -> None:
    gang = Coscheduling()
    gang.upsert_group("ns1", "g", min_member=1)
    one = pod("a", labels={GROUP_LABEL: "g"})
    assert gang.upsert_pod(one)
    assert gang.upsert_pod(pod("a", labels={GROUP_LABEL: "g"}, phase=finished))
    assert gang.delete_pod(one) == {}


@given(
    nodes=st.integers(1, 6),
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=3),
    waits=st.lists(st.sampled_from([SECOND, 10 * SECOND, MINUTE]), max_size=5),
)
@settings(max_examples=40)
def test_no_group_is_ever_bound_in_part(nodes: int, sizes: list[tuple[int, int]], waits: list[int]) -> None:
    scene = Scene(nodes=nodes)
    for at, (needed, more) in enumerate(sizes):
        scene.group(f"g{at}", min_member=needed)
        for number in range(needed + more):
            scene.put(f"g{at}-{number}", group=f"g{at}")
    for wait in (0, *waits):
        scene.wait(wait)
        for at, (needed, _) in enumerate(sizes):
            started = sum(name.startswith(f"g{at}-") for name in scene.bound)
            assert started == 0 or started >= needed
        assert scene.used() <= nodes
