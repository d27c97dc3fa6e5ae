"""SchedulingLoop: a scheduler on the event loop, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from clocks import LoopClock
from engine.test_scheduler import Relief, host_key, workload
from engine.toys import Refuse, fleet_of
from fairway.controllers.runtime.leadership import ALONE, Leadership, leading
from fairway.controllers.runtime.scheduling_loop import CycleLoop, FencedPlugin, SchedulingLoop
from fairway.engine.commit.instructions import Fetch, ForCaller, Nominate, Returned, RunBind
from fairway.engine.dependencies import Event
from fairway.engine.points import CommitContext
from fairway.engine.profile import assemble
from fairway.engine.scheduler import Scheduler
from fairway.engine.status import OK, Code, Status
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.instant import Micros
from kubewire.client.errors import KubeError
from kubewire.client.fence import Lost, Unconfirmed

pytestmark = pytest.mark.looptime

ReadBack = Callable[[WorkloadKey], Awaitable[tuple[HostKey, ...] | None]]


@dataclass
class Hub:
    """Binds workloads, as a Bind plugin, and answers which are bound."""

    bound: dict[WorkloadKey, tuple[HostKey, ...]] = field(default_factory=dict)
    attempts: int = 0
    reads: int = 0
    name: str = "Hub"
    fault: Callable[[CommitContext], None] = lambda _: None
    unreadable: int = 0
    """How many reads fail first."""

    async def bind(self, context: CommitContext, /) -> Status:
        self.attempts += 1
        self.fault(context)
        self.bound[context.workload.key] = context.hosts
        return OK

    async def read(self, key: WorkloadKey) -> tuple[HostKey, ...] | None:
        self.reads += 1
        if self.reads <= self.unreadable:
            raise KubeError("unreachable")
        return self.bound.get(key)


class Approval:
    name = "Approval"

    def permit(self, _context: CommitContext, /) -> tuple[Status, timedelta | None]:
        return Status(Code.WAIT), timedelta(seconds=60)


@asynccontextmanager
async def running(
    hub: Hub,
    *permits: Approval,
    refuse: Refuse | None = None,
    relief: Relief | None = None,
    leadership: Leadership = ALONE,
    read_back: ReadBack | None = None,
    allowed: Sequence[WorkloadKey] = (),
    on_nominated: Callable[[Nominate], None] = lambda _: None,
    on_returned: Callable[[Returned], None] = lambda _: None,
) -> AsyncIterator[SchedulingLoop]:
    fleet = fleet_of("a", "b")
    filters = () if refuse is None else (refuse,)
    post_filters = () if relief is None else (relief,)
    profile = assemble(
        name="default", filters=filters, post_filters=post_filters, permits=permits, binds=(hub,)
    )
    scheduler = Scheduler(profiles=[profile], profile_name=lambda _: "default", host_key=host_key)
    loop = SchedulingLoop(
        scheduler,
        snapshot=fleet.snapshot,
        read_back=read_back or hub.read,
        settle=lambda now: [
            instruction for key in allowed for instruction in scheduler.allow(key, "Approval", now=now)
        ],
        on_nominated=on_nominated,
        on_returned=on_returned,
        clock=LoopClock(),
    )
    with leading(leadership):
        task = asyncio.create_task(loop.run())
    yield loop
    task.cancel()
    await asyncio.wait([task])


async def test_workloads_are_bound_and_the_loop_falls_quiet() -> None:
    hub = Hub()
    async with running(hub) as loop:
        for number in range(200):
            loop.put(workload(f"w{number}"))
        await loop.quiet()
        assert len(hub.bound) == hub.attempts == 200


async def test_infeasible_workload_is_bound_after_the_event_that_helps() -> None:
    hub, refuse = Hub(), Refuse(["a", "b"])
    async with running(hub, refuse=refuse) as loop:
        loop.put(workload("w"))
        await loop.quiet()
        refuse.names = ["a"]
        loop.on_event(Event(label="b changed", hosts=frozenset({"b"})))
        await asyncio.sleep(3)
        assert [host.name for (host,) in hub.bound.values()] == ["b"]


async def test_lost_reply_of_a_bind_that_succeeded_is_not_repeated() -> None:
    hub = Hub(unreadable=3)

    def lose_reply(context: CommitContext) -> None:
        hub.bound[context.workload.key] = context.hosts
        raise TimeoutError

    hub.fault = lose_reply
    async with running(hub) as loop:
        loop.put(workload("w"))
        await asyncio.sleep(60)
        assert (hub.attempts, hub.reads, len(hub.bound)) == (1, 4, 1)


async def test_bind_that_failed_is_retried_after_read_back() -> None:
    hub = Hub()

    def fail_once(_context: CommitContext) -> None:
        if hub.attempts == 1:
            raise TimeoutError

    hub.fault = fail_once
    async with running(hub) as loop:
        loop.put(workload("w"))
        await asyncio.sleep(59)
        assert (hub.attempts, hub.reads) == (1, 1), "the request may still take effect"
        await asyncio.sleep(5)
        assert (hub.attempts, hub.reads, len(hub.bound)) == (2, 2, 1)


async def test_waiting_workload_is_bound_when_it_is_allowed() -> None:
    hub = Hub()
    allowed: list[WorkloadKey] = []
    async with running(hub, Approval(), allowed=allowed) as loop:
        loop.put(workload("w"))
        await asyncio.sleep(59)
        assert not hub.bound
        allowed.append(WorkloadKey("ns", "w", "uid-w"))
        loop.on_event(Event(label="w is allowed", excluded=allowed[0]))
        await loop.quiet()
        assert len(hub.bound) == 1


async def test_waiting_workload_is_given_back_when_its_wait_times_out() -> None:
    hub = Hub()
    allowed: list[WorkloadKey] = []
    returned: list[tuple[str, list[str]]] = []
    async with running(
        hub,
        Approval(),
        allowed=allowed,
        on_returned=lambda workload_returned: returned.append(
            (
                workload_returned.key.name,
                [reason for rejection in workload_returned.rejections for reason in rejection.reasons],
            )
        ),
    ) as loop:
        loop.put(workload("w"))
        await asyncio.sleep(61)
        assert returned == [("w", ["timed out after waiting 60 seconds"])]
        allowed.append(WorkloadKey("ns", "w", "uid-w"))
        loop.on_event(Event(label="w is allowed", excluded=allowed[0]))
        await loop.quiet()
        assert not hub.bound


@dataclass
class Term:
    """A leadership term that raises on entering a batch."""

    error: Exception | None

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[None]:
        if self.error is not None:
            raise self.error
        yield

    def ensure(self) -> None: ...


async def test_loop_ends_when_the_term_is_lost() -> None:
    hub = Hub()
    scheduler = Scheduler(
        profiles=[assemble(name="default", binds=(hub,))], profile_name=lambda _: "default", host_key=host_key
    )
    fleet = fleet_of("a")
    loop = SchedulingLoop(scheduler, snapshot=fleet.snapshot, read_back=hub.read, clock=LoopClock())
    loop.put(workload("w"))
    with leading(Term(Lost("another leads"))), pytest.raises(Lost, match="another leads"):
        await loop.run()
    assert not hub.attempts


async def test_unconfirmed_term_is_retried_without_reading_back() -> None:
    hub, term = Hub(), Term(Unconfirmed("no answer"))
    async with running(hub, leadership=term) as loop:
        loop.put(workload("w"))
        await loop.quiet()
        term.error = None
        await asyncio.sleep(5)
        assert (hub.attempts, hub.reads, len(hub.bound)) == (1, 0, 1)


async def test_steps_of_different_profiles_are_told_apart_although_their_tokens_are_equal() -> None:
    class Slow(Hub):
        async def pre_bind(self, _context: CommitContext, /) -> Status:
            await asyncio.sleep(10)
            return OK

    hub, fleet = Slow(), fleet_of("a")
    profiles = [assemble(name=name, pre_binds=(hub,), binds=(hub,)) for name in ("one", "two")]
    scheduler = Scheduler(profiles=profiles, profile_name=lambda made: str(made.spec), host_key=host_key)
    loop = SchedulingLoop(scheduler, snapshot=fleet.snapshot, read_back=hub.read, clock=LoopClock())
    with leading(ALONE):
        task = asyncio.create_task(loop.run())
    loop.put(workload("first", profile="one"))
    loop.put(workload("second", profile="two"))
    await asyncio.sleep(1)
    loop.delete(WorkloadKey("ns", "first", "uid-first"))
    await asyncio.sleep(10)
    assert [key.name for key in hub.bound] == ["second"]
    task.cancel()
    await asyncio.wait([task])


async def test_read_back_that_raises_is_retried_and_ends_no_loop() -> None:
    hub = Hub()
    hub.fault = lambda _context: (_ for _ in ()).throw(TimeoutError())

    async def broken(_key: WorkloadKey) -> tuple[HostKey, ...] | None:
        hub.reads += 1
        raise ValueError("odd")

    async with running(hub, read_back=broken) as loop:
        loop.put(workload("w"))
        await asyncio.sleep(30)
        assert hub.reads > 2
        hub.fault = lambda _context: None
        loop.put(workload("other"))
        await asyncio.sleep(1)
        assert [key.name for key in hub.bound] == ["other"]


async def test_nomination_is_handed_to_the_caller() -> None:
    nominated: list[Nominate] = []
    relief = Relief("evict ns/x")
    async with running(
        Hub(), refuse=Refuse(["a", "b"]), relief=relief, on_nominated=nominated.append
    ) as loop:
        loop.put(workload("w"))
        await loop.quiet()
    assert [(nomination.key.name, nomination.hosts[0].name, nomination.plan) for nomination in nominated] == [
        ("w", "b", "evict ns/x")
    ]


@dataclass
class Steps:
    """A scheduler without workloads. ``due`` are the instructions of its next cycles."""

    due: list[list[ForCaller]] = field(default_factory=list)
    following: dict[int, list[ForCaller]] = field(default_factory=dict)
    """What comes after the step of a token."""
    ended: list[int] = field(default_factory=list)
    deadline: Micros | None = None
    passes: int = 0

    def advance(self, *, now: Micros) -> list[ForCaller]:
        self.passes += 1
        assert self.passes < 100, "the loop spins"
        return []

    def next_deadline(self) -> Micros | None:
        return self.deadline

    def schedule_one(self, _snapshot: None, /, *, now: Micros) -> tuple[None, list[ForCaller]] | None:
        return (None, self.due.pop(0)) if self.due else None

    def finished(self, _key: WorkloadKey, token: int, _result: object, *, now: Micros) -> list[ForCaller]:
        self.ended.append(token)
        return self.following.get(token, [])

    def failed(self, key: WorkloadKey, token: int, error: Exception, *, now: Micros) -> list[ForCaller]:
        return self.finished(key, token, error, now=now)

    def read_back(self, key: WorkloadKey, token: int, _shown: None, /, *, now: Micros) -> list[ForCaller]:
        return self.finished(key, token, None, now=now)


@dataclass
class Gate(FencedPlugin):
    """Waits until it is opened."""

    long: bool = False
    name: str = "Gate"
    running: int = 0
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    def is_long(self, _context: CommitContext, /) -> bool:
        return self.long

    async def bind(self, _context: CommitContext, /) -> Status:
        self.running += 1
        await self.opened.wait()
        self.running -= 1
        return OK

    def run(self, token: int) -> RunBind:
        context = CommitContext(workload=workload(f"w{token}"), hosts=(), started=0)
        return RunBind(context.workload.key, token, self, context)


async def nothing(_key: WorkloadKey) -> None: ...


@asynccontextmanager
async def carrying_out(loop: CycleLoop[Steps]) -> AsyncIterator[None]:
    with leading(ALONE):
        task = asyncio.create_task(loop.run())
    yield
    task.cancel()
    await asyncio.wait([task])


async def test_long_calls_leave_the_slots_to_others() -> None:
    steps, short, long = Steps(), Gate(), Gate(long=True)
    loop = CycleLoop(steps, read_back=nothing, clock=LoopClock(), at_once=2, commits_first=True)
    steps.due = [[(long if token < 3 else short).run(token)] for token in range(7)]
    async with carrying_out(loop):
        await asyncio.sleep(1)
        assert (long.running, short.running) == (3, 2)
        short.opened.set()
        await asyncio.sleep(1)
        assert (long.running, steps.ended) == (3, [3, 4, 5, 6])


async def test_no_cycle_starts_while_the_most_tasks_run() -> None:
    steps, gate = Steps(), Gate(long=True)
    loop = CycleLoop(steps, read_back=nothing, clock=LoopClock(), most_tasks=3)
    steps.due = [[gate.run(token)] for token in range(5)]
    async with carrying_out(loop):
        await asyncio.sleep(1)
        assert gate.running == 3
        gate.opened.set()
        await asyncio.sleep(1)
        assert sorted(steps.ended) == [0, 1, 2, 3, 4]


async def test_loop_without_room_does_not_spin_for_what_is_due() -> None:
    steps, gate = Steps(deadline=0), Gate()
    loop = CycleLoop(steps, read_back=nothing, clock=LoopClock(), at_once=1, commits_first=True)
    steps.due = [[gate.run(token)] for token in range(2)]
    async with carrying_out(loop):
        await asyncio.sleep(1)
        assert (gate.running, steps.passes) == (1, 1)
        steps.deadline = None
        gate.opened.set()
        await asyncio.sleep(1)
        assert steps.ended == [0, 1]


async def test_results_without_instructions_need_no_pass_each() -> None:
    steps, gates = Steps(), [Gate() for _ in range(50)]
    loop = CycleLoop(steps, read_back=nothing, clock=LoopClock(), at_once=60, commits_first=True)
    steps.due = [[gate.run(token)] for token, gate in enumerate(gates)]
    async with carrying_out(loop):
        for gate in gates:
            await asyncio.sleep(1)
            gate.opened.set()
        await asyncio.wait_for(loop.quiet(), timeout=1)
        assert len(steps.ended) == 50
        assert steps.passes <= 3


async def test_step_that_becomes_long_gives_its_slot_to_the_next_workload() -> None:
    steps, first, second = Steps(), Gate(), Gate(long=True)
    loop = CycleLoop(steps, read_back=nothing, clock=LoopClock(), at_once=1, commits_first=True)
    steps.due = [[first.run(1)], [first.run(2)]]
    steps.following = {1: [second.run(3)], 2: [second.run(4)]}
    first.opened.set()
    async with carrying_out(loop):
        await asyncio.sleep(1)
        assert (second.running, steps.ended) == (2, [1, 2])
        await asyncio.wait_for(loop.quiet(), timeout=1)


async def test_fetched_answer_continues_a_cycle() -> None:
    steps, gate = Steps(), Gate()
    gate.opened.set()

    async def answer() -> list[ForCaller]:
        await asyncio.sleep(5)
        return [gate.run(2)]

    loop = CycleLoop(steps, read_back=nothing, clock=LoopClock())
    steps.due = [[Fetch(workload("w").key, 1, answer)]]
    async with carrying_out(loop):
        await asyncio.sleep(4)
        assert not steps.ended
        await asyncio.sleep(2)
        assert steps.ended == [2]
