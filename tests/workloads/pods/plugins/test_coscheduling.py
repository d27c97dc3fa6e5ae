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
from fairway.hosts.instant import SECOND
from fairway.hosts.nodes import NodeFleet
from fairway.hosts.resources import requested
from fairway.workloads.pods import pod_registry, pod_workload
from fairway.workloads.pods.plugins.coscheduling import GROUP_LABEL, Coscheduling
from fairway.workloads.pods.profile import POD_KIND
from hosts.nodes.builders import node, pod

MINUTE = 60 * SECOND


class Binder:
    name = "Binder"

    async def bind(self, _context: CommitContext, /) -> Status:
        return OK


class Harness:
    """A scheduler with the default profile, and nodes for one pod each."""

    def __init__(self, *, nodes: int) -> None:
        self.fleet = NodeFleet()
        self.fleet.load([node(f"n{at}", ready="True", cpu="1", pods="10") for at in range(nodes)])
        registry = pod_registry(fleet=self.fleet)
        registry.register("Binder", Binder)
        spec = POD_KIND.spec(name="pods")
        points = {
            **spec.points,
            "PreEnqueue": (Enabled("SchedulingGates"), Enabled("Coscheduling")),
            "Reserve": (Enabled("AssumePod"), Enabled("Coscheduling")),
            "Permit": (Enabled("Coscheduling"),),
            "Bind": (Enabled("Binder"),),
        }
        profile = build_profile(replace(spec, points=points), registry)
        (self.gang,) = (permit for permit in profile.permits if isinstance(permit, Coscheduling))
        self.scheduler = Scheduler(
            profiles=[profile],
            profile_name=lambda _: "pods",
            host_key=lambda node: HostKey(node.metadata.name, ""),
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
        for instruction in instructions:
            if isinstance(instruction, RunBind):
                self.perform(self.scheduler.finished(instruction.key, instruction.token, OK, now=self.now))
            elif isinstance(instruction, Bound):
                self.bound.append(instruction.key.name)
                self.gang.upsert_pod(
                    pod(instruction.key.name, on=instruction.hosts[0].name, labels={GROUP_LABEL: "g"})
                )
                self.scheduler.observed(instruction.key, instruction.hosts, now=self.now)

    def wait(self, micros: int) -> None:
        self.now += micros
        self.perform(self.scheduler.advance(now=self.now))
        self.run()

    def explain(self, name: str) -> Explanation:
        explanation = self.scheduler.queue.explain(WorkloadKey("ns1", name, ""))
        assert explanation is not None
        return explanation

    def used(self) -> int:
        return int(self.fleet.snapshot().counts(requested("cpu")).values.sum()) // 1000


def test_group_starts_together_when_its_last_pod_has_a_node() -> None:
    harness = Harness(nodes=3)
    harness.group(min_member=3)
    for name in ("a", "b"):
        harness.put(name)
    assert (harness.bound, harness.used()) == ([], 0)
    harness.put("c")
    assert sorted(harness.bound) == ["a", "b", "c"]


def test_pod_waits_outside_the_queue_until_the_group_has_enough_pods() -> None:
    harness = Harness(nodes=3)
    harness.put("a")
    explanation = harness.explain("a")
    assert (explanation.state, explanation.reasons) == (
        State.GATED,
        ("Coscheduling: pod group ns1/g does not exist",),
    )
    harness.group(min_member=2)
    assert harness.explain("a").reasons == ("Coscheduling: pod group ns1/g has 1 of 2 pods",)
    harness.put("b")
    assert sorted(harness.bound) == ["a", "b"]


def test_group_without_room_gives_all_nodes_back_after_its_timeout() -> None:
    harness = Harness(nodes=2)
    harness.group(min_member=3)
    for name in ("a", "b", "c"):
        harness.put(name)
    assert (harness.bound, harness.used()) == ([], 2)
    harness.put("other", group="", spec={"priority": 1, "preemptionPolicy": "Never"})
    assert harness.bound == []
    harness.wait(MINUTE)
    assert harness.bound == ["other"]


def test_group_starts_once_room_appears() -> None:
    harness = Harness(nodes=2)
    harness.group(min_member=3)
    for name in ("a", "b", "c"):
        harness.put(name)
    change = harness.fleet.upsert_node(node("n9", ready="True", cpu="1", pods="10"))
    event = Event(label="n9 added", hosts=frozenset(change.hosts), columns=change.columns, added=True)
    harness.scheduler.on_event(event, now=harness.now)
    harness.wait(2 * SECOND)
    assert sorted(harness.bound) == ["a", "b", "c"]


def test_deleted_pod_takes_the_nodes_of_the_pods_that_wait_for_it() -> None:
    harness = Harness(nodes=2)
    harness.group(min_member=3)
    for name in ("a", "b", "c"):
        harness.put(name)
    assert harness.used() == 2
    harness.gang.delete_pod(pod("a", labels={GROUP_LABEL: "g"}))
    harness.perform(harness.scheduler.delete(WorkloadKey("ns1", "a", ""), now=0))
    harness.perform(harness.gang.settle(harness.scheduler, now=0))
    assert (harness.bound, harness.used()) == ([], 0)


def test_pod_that_never_waited_takes_no_nodes_from_others() -> None:
    harness = Harness(nodes=2)
    harness.group(min_member=3)
    for name in ("a", "b", "c"):
        harness.put(name)
    attempts = [harness.explain(name).attempts for name in "abc"]
    refused = pod_workload(pod("refused", labels={GROUP_LABEL: "g"}))
    harness.gang.unreserve(CommitContext(workload=refused, hosts=(), started=0))
    harness.run()
    assert [harness.explain(name).attempts for name in "abc"] == attempts


def test_deleted_pods_of_a_group_do_not_count_for_later_ones() -> None:
    harness = Harness(nodes=3)
    harness.group(min_member=2)
    for name in ("a", "b"):
        harness.put(name)
    for at, name in enumerate(("a", "b")):
        harness.gang.delete_pod(pod(name, on=f"n{at}", labels={GROUP_LABEL: "g"}))
    for name in ("c", "d"):
        harness.put(name)
    assert sorted(harness.bound) == ["a", "b"], "one node is not enough for both"


def test_pod_joins_a_group_that_runs() -> None:
    harness = Harness(nodes=3)
    harness.group(min_member=2)
    for name in ("a", "b", "late"):
        harness.put(name)
    assert sorted(harness.bound) == ["a", "b", "late"]


def test_smaller_minimum_starts_the_pods_that_wait() -> None:
    harness = Harness(nodes=2)
    harness.group(min_member=3)
    for name in ("a", "b", "c"):
        harness.put(name)
    harness.group(min_member=2)
    assert len(harness.bound) == 2


def test_pod_without_group_does_not_wait() -> None:
    harness = Harness(nodes=1)
    harness.put("a", group="")
    assert harness.bound == ["a"]


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
    harness = Harness(nodes=nodes)
    for at, (needed, more) in enumerate(sizes):
        harness.group(f"g{at}", min_member=needed)
        for number in range(needed + more):
            harness.put(f"g{at}-{number}", group=f"g{at}")
    for wait in (0, *waits):
        harness.wait(wait)
        for at, (needed, _) in enumerate(sizes):
            started = sum(name.startswith(f"g{at}-") for name in harness.bound)
            assert started == 0 or started >= needed
        assert harness.used() <= nodes
