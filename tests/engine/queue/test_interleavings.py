"""No wake-up is lost: once events stop, whatever could be placed is placed, once, and no workload is forgotten.

A small world has hosts with room and a label, and workloads with a demand, a label and a gate. A cycle decides on a
snapshot of the world from when the workload was popped; everything else may happen in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
from hypothesis import Phase, given, settings

from engine.interleavings import BIGGEST, Move, play_all
from fairway.engine.dependencies import Event
from fairway.engine.points import Reads
from fairway.engine.queue import Rejection, SchedulingQueue, State
from fairway.engine.status import OK, Status, unschedulable
from fairway.engine.workload import Workload, WorkloadKey
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.instant import SECOND

FREE: Key = ("free",)
LABEL: Key = ("label",)
GATES: Key = ("gates",)
FIT = Rejection(plugin="Fit", reads=Reads(cells=frozenset({FREE}), helps={FREE: Direction.UP}))
AFFINITY = Rejection(plugin="Affinity", reads=Reads(cells=frozenset({LABEL})))
NEVER = 1 << 60
MOST_HOSTS = 4


@dataclass(frozen=True)
class Spec:
    demand: int
    label: int


@dataclass
class World:
    """Also the PreEnqueue plugin, which reads the closed gates."""

    free: list[int] = field(default_factory=lambda: [0, 2])
    label: list[int] = field(default_factory=lambda: [0, 1])
    closed: set[str] = field(default_factory=set)
    name = "Gate"

    def pre_enqueue(self, workload: Workload[Any], /) -> Status:
        return unschedulable("closed", plugin=self.name) if workload.name in self.closed else OK

    def gate_reads(self, workload: Workload[Any], /) -> Reads:
        return Reads(shared=frozenset({GATES}))

    def host_for(self, spec: Spec) -> int | None:
        hosts = zip(self.free, self.label, strict=True)
        fitting = (
            at for at, (free, label) in enumerate(hosts) if free >= spec.demand and label == spec.label
        )
        return next(fitting, None)

    def rejections(self, spec: Spec) -> set[str]:
        """Filter order: affinity first, so that Fit rejects only hosts with the label."""
        return {"Affinity" if label != spec.label else "Fit" for label in self.label}


class Simulation:
    def __init__(self) -> None:
        self.world = World()
        self.queue = SchedulingQueue(gates=[self.world], flush_after=NEVER)
        self.now = 0
        self.known: dict[str, Workload[Spec]] = {}
        self.placed: dict[str, tuple[int, int]] = {}
        """Host and demand."""
        self.cycles: list[tuple[Workload[Spec], World]] = []
        self.born = 0

    def play(self, moves: Sequence[Move]) -> None:
        for name, number in moves:
            getattr(self, name)(number)
        self.settle()

    def event(self, at: int | None, column: Key, direction: Direction) -> None:
        hosts = frozenset() if at is None else frozenset({f"n{at}"})
        self.queue.on_event(Event(label="change", hosts=hosts, columns={column: direction}), now=self.now)

    def add(self, number: int) -> None:
        self.born += 1
        name = f"w{number % 4}"
        if name not in self.placed:
            self.known[name] = Workload(
                key=WorkloadKey("ns", name, str(self.born)),
                spec=Spec(demand=1 + number // 4 % 3, label=number // 16 % 2),
                priority=number // 64 % 2,
            )
            self.queue.put(self.known[name], now=self.now)

    def update(self, number: int) -> None:
        name = f"w{number % 4}"
        if name in self.known:
            key = self.known[name].key
            self.known[name] = Workload(key=key, spec=Spec(1 + number // 4 % 3, number // 16 % 2))
            if name not in self.placed:
                self.queue.put(self.known[name], now=self.now)

    def delete(self, number: int) -> None:
        name = f"w{number % 4}"
        if name in self.known:
            self.queue.delete(self.known.pop(name).key)
            if name in self.placed:
                host, demand = self.placed.pop(name)
                self.world.free[host] += demand
                self.event(host, FREE, Direction.UP)

    def resize(self, number: int) -> None:
        host, room = number % len(self.world.free), number // 4 % 5
        old, self.world.free[host] = self.world.free[host], room
        if room != old:
            self.event(host, FREE, Direction.UP if room > old else Direction.DOWN)

    def add_host(self, number: int) -> None:
        """Without a label, which counts as 0: the event does not list that column."""
        if len(self.world.free) < MOST_HOSTS:
            self.world.free.append(number % 4)
            self.world.label.append(0)
            hosts = frozenset({f"n{len(self.world.free) - 1}"})
            event = Event(label="added", hosts=hosts, columns={FREE: Direction.ANY}, added=True)
            self.queue.on_event(event, now=self.now)

    def relabel(self, number: int) -> None:
        host = number % len(self.world.label)
        self.world.label[host] = number // 4 % 2
        self.event(host, LABEL, Direction.ANY)

    def gate(self, number: int) -> None:
        self.world.closed ^= {f"w{number % 4}"}
        self.event(None, GATES, Direction.ANY)

    def activate(self, number: int) -> None:
        self.queue.activate([WorkloadKey("ns", f"w{number % 4}")], now=self.now)

    def wait(self, number: int) -> None:
        self.now += number % (3 * SECOND)

    def begin(self, _number: int) -> None:
        workload = self.queue.pop(now=self.now)
        if workload is not None:
            snapshot = World(free=list(self.world.free), label=list(self.world.label))
            self.cycles.append((workload, snapshot))

    def finish(self, number: int) -> None:
        if not self.cycles:
            return
        workload, snapshot = self.cycles.pop(number % len(self.cycles))
        spec = workload.spec
        host = snapshot.host_for(spec)
        if host is None:
            rejected = snapshot.rejections(spec)
            given = [rejection for rejection in (FIT, AFFINITY) if rejection.plugin in rejected]
            self.queue.reject(workload.key, given, now=self.now)
            return
        if self.known.get(workload.name) != workload or number // 8 % 8 == 0:
            self.queue.fail(workload.key, "changed or failed meanwhile", now=self.now)
            return
        if self.world.host_for(spec) is None:
            self.queue.reject(workload.key, [FIT, AFFINITY], now=self.now)
            return
        self.bind(workload, snapshot)

    def bind(self, workload: Workload[Spec], snapshot: World) -> None:
        host = self.world.host_for(workload.spec)
        assert host is not None
        assert workload.name not in self.placed, "placed twice"
        self.world.free[host] -= workload.spec.demand
        self.placed[workload.name] = (host, workload.spec.demand)
        self.event(host, FREE, Direction.DOWN)
        self.queue.bind(workload.key)
        self.queue.done(workload.key)

    def settle(self) -> None:
        """Finish all cycles; pass time as the queue asks for, until only events could change anything."""
        for _ in range(200):
            while self.cycles:
                self.finish(1 << 3)
            self.begin(0)
            if self.cycles:
                continue
            deadline = self.queue.next_deadline()
            if deadline is None or deadline >= NEVER:
                break
            assert deadline > self.now, "a deadline in the past would be polling"
            self.now = deadline
        else:
            raise AssertionError("does not come to rest")
        waiting = {name for name in self.known if name not in self.placed}
        assert len(self.queue) == len(waiting), "forgotten or left behind"
        for name in waiting:
            explanation = self.queue.explain(self.known[name].key)
            assert explanation is not None
            if name in self.world.closed:  # a gate that closed after a rejection changes nothing
                assert explanation.state in (State.GATED, State.UNSCHEDULABLE)
            else:
                assert explanation.state is State.UNSCHEDULABLE
                assert self.world.host_for(self.known[name].spec) is None, "could be placed"
        assert len(self.queue._in_flight._events) == 0


MOVES = (
    *("add", "add", "begin", "begin", "begin", "finish", "finish", "finish", "resize", "resize"),
    *("update", "delete", "relabel", "gate", "activate", "wait", "add_host"),
)
moves = st.lists(st.tuples(st.sampled_from(sorted(set(MOVES))), st.integers(0, BIGGEST)), max_size=40)


@settings(max_examples=50, phases=[phase for phase in Phase if phase is not Phase.explain])
@given(moves=moves)
def test_no_wake_up_is_lost_and_no_workload_is_placed_twice_or_forgotten(moves: list[Move]) -> None:
    Simulation().play(moves)


def test_no_wake_up_is_lost_in_random_interleavings() -> None:
    play_all(lambda moves: Simulation().play(moves), MOVES, longest=40)
