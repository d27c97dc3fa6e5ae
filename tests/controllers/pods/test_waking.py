"""Each change of the table of nodes wakes the pods that read the changed columns, exactly once.

The cause makes no difference: an observation, a pod that takes its place before the hub shows it there, or one that
gives it back.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import Phase, given, settings
from msgspec import structs

from clocks import ManualClock
from controllers.pods.pod_hub import PodHub, profiles, scheduling
from engine.interleavings import BIGGEST, Move, play_all
from fairway.api.pod import ContainerPort, Pod
from fairway.api.pod_affinity import Affinity, PodAffinity, PodAffinityTerm
from fairway.controllers.pods.scheduling import PodScheduling, key_of
from fairway.engine.commit.instructions import ForCaller, RunBind
from fairway.engine.dependencies import Dependencies, Event
from fairway.engine.points import Reads
from fairway.engine.queue import Rejection
from fairway.engine.status import OK, failed
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.column import Key
from fairway.hosts.direction import ANY, DOWN, UP, Direction
from fairway.hosts.nodes.pod_columns import NAMESPACES, NOMINATED, POD_TERMS, host_port
from fairway.hosts.nodes.pod_selection import PodQuery
from fairway.hosts.resources import requested
from fairway.workloads.pods import pod_workload
from hosts.nodes.builders import labelled, node, pod
from kubewire.api.selector import compile_selector
from kubewire.client import Conflict
from rigs.fake_hub import Call, refused

COLORS: Final = ("red", "blue")
COLORED: Final = tuple(
    PodQuery(((frozenset({"ns1"}), compile_selector(labelled(color=name))),), terminating=True).key()
    for name in COLORS
)
COUNTED: Final = (requested("cpu"), host_port("TCP", 80), *COLORED)
SHARED: Final = (POD_TERMS, NAMESPACES, NOMINATED)
WATCHED: Final = (
    *((key, direction) for key in COUNTED for direction in (UP, DOWN)),
    *((key, ANY) for key in SHARED),
)
"""Columns that a rejected pod waits for, and the direction that helps it."""
NODES: Final = ("n1", "n2", "n3")


class Silent:
    """Takes the place of what writes to the hub."""

    def __getattr__(self, _name: str) -> Any:
        return lambda *_args, **_kwargs: None


class Simulation:
    """The scheduling of pods, without a hub: moves are what the watch shows, and results of bindings."""

    def __init__(self) -> None:
        silent: Any = Silent()
        self.scheduling = PodScheduling(
            scheduling=profiles(),
            hub=silent,
            pods=silent,
            claims=silent,
            volumes=silent,
            reporter=silent,
            recorders={},
            metrics=silent,
            wake=lambda _: None,
            clock=ManualClock(),
        )
        self.fleet, self.scheduler = self.scheduling.fleet, self.scheduling.scheduler
        self.pods: dict[str, Pod] = {}
        self.binding: dict[str, RunBind] = {}
        self.events: list[Event] = []
        self.now = self.scheduling.loop._now()
        self._queue_event = self.scheduler.queue.on_event
        self.scheduler.queue.on_event = self._on_event  # type: ignore[method-assign]
        for _ in self.scheduling.load([node(name, cpu="64", pods="100") for name in NODES], []):
            pass
        self.cells()  # columns exist once they are read
        self.watchers = [self._watch(at, *watched) for at, watched in enumerate(WATCHED)]

    def _on_event(self, event: Event, **arguments: Any) -> list[WorkloadKey]:
        self.events.append(event)
        return self._queue_event(event, **arguments)

    def _watch(self, at: int, key: Key, direction: Direction) -> WorkloadKey:
        watcher = pod_workload(pod(f"watcher{at}", spec={"schedulerName": "fairway"}))
        self.scheduler.queue.put(watcher, now=self.now)
        self._reject(watcher.key, key, direction)
        return watcher.key

    def _reject(self, watcher: WorkloadKey, key: Key, direction: Direction) -> None:
        assert self.scheduler.queue.pop(now=self.now, key=watcher) is not None
        reads = Reads(shared=frozenset({key}), helps={key: direction})
        self.scheduler.queue.reject(watcher, (Rejection(plugin="p", reads=reads),), now=self.now)

    def cells(self) -> dict[Key, Any]:
        """Return what the table shows now."""
        view = self.fleet.snapshot()
        shown: dict[Key, Any] = {key: tuple(view.counts(key).values.tolist()) for key in COUNTED}
        terms = frozenset(
            key for info in view.pods.nodes().values() for key in info.total if key[0] == "pod-term"
        )
        return shown | {
            POD_TERMS: terms,
            NAMESPACES: dict(view.namespaces),
            NOMINATED: dict(view.nominations),
        }

    def play(self, moves: Sequence[Move]) -> None:
        for name, number in moves:
            before = self.cells()
            self.events.clear()
            getattr(self, name)(number)
            self.carry_out(self.scheduling.loop._waiting)
            self.scheduling.loop._waiting = []
            self.check(name, before, self.cells())

    def check(self, move: str, before: Mapping[Key, Any], after: Mapping[Key, Any]) -> None:
        for watcher, (key, helps) in zip(self.watchers, WATCHED, strict=True):
            wanted = int(bool(helps & direction_of(before[key], after[key])))
            depends = Dependencies(columns={key: helps})
            wakes = sum(depends.concerned_by(event) for event in self.events)
            # A new node concerns all that were rejected.
            assert wakes == wanted or move == "recreate_node", (key, helps, self.events)
            if wakes:
                self.scheduler.queue.activate([watcher], now=self.now)
                self._reject(watcher, key, helps)

    def carry_out(self, instructions: Sequence[ForCaller]) -> None:
        for instruction in instructions:
            if isinstance(instruction, RunBind):
                self.binding[instruction.key.name] = instruction

    # Moves

    def create(self, number: int) -> None:
        name = f"p{number % 4}"
        if name in self.pods:
            return
        term = PodAffinityTerm(labelSelector=labelled(x=name), topologyKey="zone")
        affinity = Affinity(
            podAntiAffinity=PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=(term,))
        )
        self.pods[name] = pod(
            name,
            labels={"color": COLORS[number // 4 % 2]},
            ports=(ContainerPort(hostPort=80, containerPort=80, protocol="TCP"),) if number // 8 % 2 else (),
            cpu="1",
            spec={"schedulerName": "fairway", "affinity": affinity if number // 16 % 2 else None},
        )
        self.scheduling.upsert_pod(self.pods[name])

    def schedule(self, _number: int) -> None:
        result = self.scheduler.schedule_one(self.fleet.snapshot(), now=self.now)
        if result is not None:
            self.carry_out(result[1])

    def _finish(self, number: int, result: object) -> None:
        name = f"p{number % 4}"
        run = self.binding.pop(name, None)
        if run is not None:
            self.carry_out(self.scheduler.finished(run.key, run.token, result, now=self.now))

    def bind(self, number: int) -> None:
        self._finish(number, OK)

    def fail_to_bind(self, number: int) -> None:
        self._finish(number, failed("refused"))
        self.scheduler.queue.activate([key_of(other) for other in self.pods.values()], now=self.now)

    def observe(self, number: int) -> None:
        """The hub shows a pod on the node that was chosen for it, or on another one, with other labels or not."""
        name = f"p{number % 4}"
        known = self.pods.get(name)
        if known is None:
            return
        placed = self.fleet.snapshot().pods
        chosen = next((other for other in NODES if ("ns1", name) in placed.on(other).pods), "n1")
        on = NODES[number // 4 % 3] if number // 16 % 2 and not known.spec.nodeName else chosen
        color = COLORS[number // 64 % 2] if number // 32 % 2 else known.metadata.labels["color"]
        meta = structs.replace(known.metadata, labels={"color": color}, resourceVersion=str(number))
        self.pods[name] = structs.replace(known, metadata=meta, spec=structs.replace(known.spec, nodeName=on))
        self.scheduling.upsert_pod(self.pods[name], known)

    def delete(self, number: int) -> None:
        known = self.pods.pop(f"p{number % 4}", None)
        if known is not None:
            self.binding.pop(known.metadata.name, None)
            self.scheduling.delete_pod(known)

    def lose_node(self, number: int) -> None:
        known = self.pods.get(f"p{number % 4}")
        if known is not None and known.spec.nodeName:
            back = structs.replace(known, spec=structs.replace(known.spec, nodeName=""))
            self.pods[known.metadata.name] = back
            self.scheduling.reset_pod(back)

    def nominate(self, number: int) -> None:
        known = self.pods.get(f"p{number % 4}")
        if known is not None and not known.spec.nodeName:
            status = structs.replace(known.status, nominatedNodeName=(*NODES, "")[number // 4 % 4])
            self.pods[known.metadata.name] = new = structs.replace(known, status=status)
            self.scheduling.upsert_pod(new, known)

    def recreate_node(self, number: int) -> None:
        """Delete a node and create it again."""
        name = NODES[number % 3]
        old = self.fleet.find_node(name)
        assert old is not None
        self.scheduling.delete_node(old)
        self.scheduling.upsert_node(old)

    def lose_host(self, number: int) -> None:
        """Give up the commits on a node, as if it had been recreated."""
        self.scheduling.loop.remove_host(HostKey(NODES[number % 3], ""))
        self.binding = {
            name: run for name, run in self.binding.items() if run.context.hosts[0].name != NODES[number % 3]
        }


def direction_of(before: Any, after: Any) -> Direction:
    """Return how cells changed."""
    if not isinstance(before, tuple):
        return ANY if before != after else Direction.NONE
    direction = Direction.NONE
    for old, new in zip(before, after, strict=True):
        if old != new:
            direction |= UP if old < new else DOWN
    return direction


MOVES: Final = (
    *("create", "create", "schedule", "schedule", "schedule", "bind", "observe", "observe", "fail_to_bind"),
    *("delete", "lose_node", "nominate", "recreate_node", "lose_host"),
)
moves = st.lists(st.tuples(st.sampled_from(sorted(set(MOVES))), st.integers(0, BIGGEST)), max_size=40)


@settings(max_examples=50, deadline=None, phases=[phase for phase in Phase if phase is not Phase.explain])
@given(moves=moves)
def test_each_change_wakes_the_readers_of_its_columns_exactly_once(moves: list[Move]) -> None:
    Simulation().play(moves)


def test_each_change_wakes_its_readers_exactly_once_in_random_interleavings() -> None:
    play_all(lambda moves: Simulation().play(moves), MOVES, longest=60, share=20)


AFFINITY: Final = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"color": "red"}}, "topologyKey": "kubernetes.io/hostname"}
    ]
}


@pytest.mark.looptime
async def test_pod_that_waits_for_affinity_wakes_when_the_scheduler_places_the_other() -> None:
    hub = PodHub()
    hub.node("n1", labels={"kubernetes.io/hostname": "n1"})
    async with scheduling(hub):
        hub.pod("follower", affinity={"podAffinity": AFFINITY})
        await hub.until(lambda: hub.condition("follower")[0] == "False")
        hub.pod("leader", labels={"color": "red"})
        start = asyncio.get_running_loop().time()
        await hub.until(lambda: hub.place("follower") == "n1")
        assert asyncio.get_running_loop().time() - start < 30


@pytest.mark.looptime
async def test_pod_that_avoids_another_wakes_when_the_binding_of_that_one_fails() -> None:
    hub = PodHub()
    hub.node("n1", labels={"kubernetes.io/hostname": "n1"})

    def refuse(call: Call) -> None:
        if call.name == "first":
            raise refused(Conflict, 409, "Conflict")

    hub.before_binding = refuse
    async with scheduling(hub):
        hub.pod("first", labels={"color": "red"}, priority=10)
        hub.pod("second", affinity={"podAntiAffinity": AFFINITY})
        start = asyncio.get_running_loop().time()
        await hub.until(lambda: hub.place("second") == "n1")
        assert asyncio.get_running_loop().time() - start < 60
