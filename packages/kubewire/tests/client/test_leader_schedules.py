"""Electors in processes that are stopped and resumed, on a network that loses and delays, with clocks that disagree.

Each process has its own event loop, and the simulation has the time and all timers. So it can stop a process as SIGSTOP
does: nothing in it runs while time passes, and afterwards all due timers fire at once, late.
"""

import asyncio
import heapq
import itertools
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, TypeVarTuple, Unpack

from client.fake_lease import FakeLease, ReplicaClock
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kubewire.api.lease import Lease
from kubewire.client.errors import Conflict, KubeError, TransportError
from kubewire.client.fence import Fence, Lost, Unconfirmed
from kubewire.client.leader import Elector

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class ProcessLoop(asyncio.SelectorEventLoop):
    """The event loop of a simulated process: its timers belong to the simulation, which can stop them all."""

    def __init__(self, simulation: "ElectionSimulation") -> None:
        self.simulation = simulation
        self.calls = 0
        self.frozen = False
        self.late: list[Callable[[], object]] = []
        super().__init__()

    def time(self) -> float:
        return self.simulation.now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self.calls += 1
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def fire() -> None:
            if not handle.cancelled():
                callback(*args)

        self.simulation.schedule(when, lambda: self.call_soon(fire, context=context), process=self)
        return handle

    def receive(self, happening: Callable[[], object]) -> None:
        """Now, or when it runs again."""
        if self.frozen:
            self.late.append(happening)
        else:
            happening()
            self.settle()

    def settle(self) -> None:
        while True:
            before = self.calls
            super().call_soon(self.stop)
            self.run_forever()
            if self.calls == before:
                return

    def end(self) -> None:
        self.frozen = False
        for task in asyncio.all_tasks(self):
            task.cancel()
        self.settle()
        self.close()


@dataclass(frozen=True)
class NetworkFaults:
    """How bad the network is: shares of requests lost, answers lost, and the longest delay of either."""

    lost_requests: float = 0.0
    lost_answers: float = 0.0
    delay: float = 0.1


@dataclass(frozen=True)
class ProcessFaults:
    """What befalls a process right after it has sent a request: it is stopped, and then cut off from the hub."""

    stopped: float
    cut_off: float


class ElectionSimulation:
    def __init__(self, *, seed: int, weather: NetworkFaults) -> None:
        self.now = 0.0
        self.chance = random.Random(seed)
        self.weather = weather
        self.hub = FakeLease()
        self.register = 0
        self.written: list[int] = []
        self.astray = 0
        self.closing = False
        self.members: list[Member] = []
        self._agenda: list[tuple[float, int, ProcessLoop | None, Callable[[], object]]] = []
        self._order = itertools.count()

    def schedule(
        self, when: float, happening: Callable[[], object], *, process: ProcessLoop | None = None
    ) -> None:
        heapq.heappush(self._agenda, (max(when, self.now), next(self._order), process, happening))

    def run(self, *, until: float) -> None:
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, process, happening = heapq.heappop(self._agenda)
            self.look()
            if process is None:
                happening()
            else:
                process.receive(happening)
            self.look()
        self.now = until

    def look(self) -> None:
        """A process that claims to lead is the Lease's holder in its current term; an ended term stays ended."""
        for member in self.members:
            if member.loop.frozen or (fence := member.elector.fence) is None:
                continue
            if fence.valid:
                assert fence is not member.over
                member.must_lead(fence)
            else:
                member.over = fence

    def freeze(self, member: "Member", *, at: float, seconds: float) -> None:
        def thaw() -> None:
            loop = member.loop
            loop.frozen = False
            late, loop.late = loop.late, []
            self.look()
            for happening in late:
                happening()
            loop.settle()

        def stop() -> None:
            if not member.loop.frozen:
                member.loop.frozen = True
                self.schedule(self.now + seconds, thaw)

        self.schedule(at, stop)

    async def send(self, process: ProcessLoop, request: Callable[[], R]) -> R:
        if self.closing:
            raise TransportError("the simulation ends")
        answer: asyncio.Future[R] = process.create_future()
        weather, chance = self.weather, self.chance
        member = next(candidate for candidate in self.members if candidate.loop is process)
        cut_off = self.now < member.cut_off_until
        member.requests += 1
        if trouble := member.troubles.get(member.requests):
            self.freeze(member, at=self.now, seconds=trouble.stopped)
            member.cut_off_until = self.now + trouble.stopped + trouble.cut_off

        def respond(result: R | None, error: KubeError | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                assert result is not None
                answer.set_result(result)

        def reach_hub() -> None:
            result, error = None, None
            try:
                result = request()
            except KubeError as refusal:
                error = refusal
            if chance.random() < weather.lost_answers:
                result, error = None, TransportError("connection reset")
            back = self.now + chance.uniform(0, weather.delay)
            self.schedule(back, lambda: respond(result, error), process=process)

        if cut_off or chance.random() < weather.lost_requests:
            failure = TransportError("no route to hub")
            self.schedule(self.now + 0.01, lambda: respond(None, failure), process=process)
        else:
            self.schedule(self.now + chance.uniform(0, weather.delay), reach_hub)
        return await answer

    def touch_lease(self) -> None:
        """A user edits a field that electors do not use."""
        if self.hub.exists:
            self.hub.edit(note=self.now)

    def read_register(self) -> int:
        return self.register

    def write_register(self, version: int, fence: Fence) -> bool:
        """Whether the term still ran on the hub. A write that was on its way when it ended is applied all the same."""
        if version != self.register:
            raise Conflict("changed meanwhile")
        self.register += 1
        self.written.append(fence.token)
        in_time = (self.hub.holder, self.hub.spec["leaseTransitions"]) == (fence.holder, fence.token)
        self.astray += not in_time
        return in_time


class Member:
    """A process: an elector, and work that writes under its guard, each write with the version it is based on."""

    def __init__(
        self, simulation: ElectionSimulation, name: str, *, skew: float, stuck: bool, rate: float
    ) -> None:
        self.simulation, self.name = simulation, name
        self.loop = ProcessLoop(simulation)
        self.clock = ReplicaClock(
            lambda: simulation.now, skew=timedelta(seconds=skew), stuck=stuck, since=abs(skew), rate=rate
        )
        self.elector = Elector(
            self, identity=name, on_started=self.work, clock=self.clock, chance=simulation.chance.random
        )
        self.done = 0
        self.refused = 0
        self.requests = 0
        self.troubles: dict[int, ProcessFaults] = {}
        self.cut_off_until = 0.0
        self.over: Fence | None = None
        self.task = self.loop.create_task(self.elector.run())
        simulation.schedule(0.0, lambda: None, process=self.loop)
        simulation.members.append(self)

    async def read(self) -> Lease:
        return await self.simulation.send(self.loop, self.simulation.hub.read)

    async def create(self, spec: Mapping[str, Any]) -> Lease:
        return await self.simulation.send(self.loop, lambda: self.simulation.hub.create(spec))

    async def patch(self, spec: Mapping[str, Any], *, resource_version: str) -> Lease:
        return await self.simulation.send(
            self.loop, lambda: self.simulation.hub.patch(spec, resource_version)
        )

    def must_lead(self, fence: Fence) -> None:
        hub = self.simulation.hub
        assert hub.holder == self.name == fence.holder
        assert hub.spec["leaseTransitions"] == fence.token

    async def work(self, _: Fence) -> None:
        while True:
            try:
                await self.batch()
                self.done += 1
            except (KubeError, Unconfirmed):
                pass
            except Lost:
                self.refused += 1
                raise
            await asyncio.sleep(self.simulation.chance.uniform(0, 3))

    async def batch(self) -> None:
        simulation = self.simulation
        async with self.elector.guard() as fence:
            self.must_lead(fence)
            version = await simulation.send(self.loop, simulation.read_register)
            fence.ensure()
            self.must_lead(fence)
            in_time = await simulation.send(self.loop, lambda: simulation.write_register(version, fence))
        assert in_time


@contextmanager
def simulation_of(
    *members: dict[str, Any], seed: int, weather: NetworkFaults
) -> Iterator[ElectionSimulation]:
    simulation = ElectionSimulation(seed=seed, weather=weather)
    logging.disable(logging.WARNING)
    try:
        for name, member in zip("abc", members, strict=False):
            Member(simulation, name, **member)
        yield simulation
    finally:
        logging.disable(logging.NOTSET)
        simulation.closing = True
        for running in simulation.members:
            running.loop.end()


CALM = {"skew": 0.0, "stuck": False, "rate": 1.0}
MEMBERS = st.lists(
    st.fixed_dictionaries(
        {
            "skew": st.sampled_from([0.0, 3600.0, -3600.0, 1e8]),
            "stuck": st.booleans(),
            "rate": st.sampled_from([0.9, 1.0, 1.1]),
        }
    ),
    min_size=2,
    max_size=3,
)
WEATHER = st.builds(
    NetworkFaults,
    lost_requests=st.sampled_from([0.0, 0.05, 0.3]),
    lost_answers=st.sampled_from([0.0, 0.05, 0.3]),
    delay=st.sampled_from([0.1, 0.5, 1.5, 4.0, 20.0]),
)
SECONDS = st.sampled_from([0.0, 0.5, 4.9, 5.5, 7.5, 9.5, 10.5, 14.5, 16.0, 40.0])
TROUBLES = st.lists(
    st.dictionaries(
        st.integers(min_value=1, max_value=60),
        st.builds(ProcessFaults, stopped=SECONDS, cut_off=SECONDS),
        max_size=5,
    ),
    min_size=3,
    max_size=3,
)
MOMENTS = st.floats(min_value=0, max_value=150)


@settings(max_examples=30)
@given(
    members=MEMBERS,
    weather=WEATHER,
    troubles=TROUBLES,
    freezes=st.lists(st.tuples(st.integers(min_value=0, max_value=2), MOMENTS, SECONDS), max_size=5),
    edits=st.lists(MOMENTS, max_size=3),
    seed=st.integers(min_value=0, max_value=2**32),
)
def test_at_most_one_replica_leads_under_any_schedule(
    members: list[dict[str, Any]],
    weather: NetworkFaults,
    troubles: list[dict[int, ProcessFaults]],
    freezes: list[tuple[int, float, float]],
    edits: list[float],
    seed: int,
) -> None:
    with simulation_of(*members, seed=seed, weather=weather) as simulation:
        for member, fate in zip(simulation.members, troubles, strict=False):
            member.troubles = fate
        for index, at, seconds in freezes:
            simulation.freeze(simulation.members[index % len(members)], at=at, seconds=seconds)
        for at in edits:
            simulation.schedule(at, simulation.touch_lease)
        simulation.run(until=200)
        # Writes may have been lost on a slow network; none of them came after one of a later term.
        assert simulation.written == sorted(simulation.written)
        event(f"terms: {min(9, len(set(simulation.written)))}")
        event(f"astray: {min(3, simulation.astray)}")
        event(f"refused: {min(3, sum(member.refused for member in simulation.members))}")
        # Without faults a leader is elected.
        simulation.weather = NetworkFaults()
        for member in simulation.members:
            member.troubles = {}
        simulation.run(until=320)
        assert [member.elector.is_leading for member in simulation.members].count(True) == 1
        assert sum(member.done for member in simulation.members) > 0
        assert all(not member.task.done() for member in simulation.members)


def test_stopped_leader_detects_its_loss_on_the_first_step() -> None:
    with simulation_of(CALM, CALM, seed=1, weather=NetworkFaults()) as simulation:
        simulation.run(until=20)
        first, second = simulation.members
        if second.elector.is_leading:
            first, second = second, first
        term = first.elector.fence
        assert term is not None
        simulation.freeze(first, at=20, seconds=40)
        simulation.run(until=59)
        assert second.elector.is_leading
        assert second.done > 0
        done = first.done
        simulation.run(until=70)
        assert not term.valid
        assert not first.elector.is_leading
        assert first.done == done
        assert simulation.astray == 0


def test_write_in_transit_is_rejected_by_its_version() -> None:
    """What a guard cannot do: the packet leaves within the term and arrives long after."""
    with simulation_of(CALM, CALM, seed=1, weather=NetworkFaults()) as simulation:
        simulation.run(until=20)
        first, second = simulation.members
        if second.elector.is_leading:
            first, second = second, first
        term, version = first.elector.fence, simulation.register
        assert term is not None
        simulation.freeze(first, at=20, seconds=100)
        refused: list[KubeError] = []

        def arrive() -> None:
            try:
                simulation.write_register(version, term)
            except Conflict as error:
                refused.append(error)

        simulation.schedule(60, arrive)
        simulation.run(until=61)
        assert second.elector.is_leading
        assert len(refused) == 1
