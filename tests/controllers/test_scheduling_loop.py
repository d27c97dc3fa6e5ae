"""SchedulingLoop: a scheduler on the event loop, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from clocks import LoopClock
from engine.test_scheduler import Relief, host_key, workload
from engine.toys import Refuse, fleet_of
from fairway.controllers.leadership import ALONE, Leadership
from fairway.controllers.scheduling_loop import SchedulingLoop
from fairway.engine.commit.instructions import Nominate, Returned
from fairway.engine.dependencies import Event
from fairway.engine.points import CommitContext
from fairway.engine.profile import assemble
from fairway.engine.scheduler import Scheduler
from fairway.engine.status import OK, Code, Status
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.kube.errors import KubeError
from fairway.kube.fence import Lost, Unconfirmed

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
        on_nominated=on_nominated,
        on_returned=on_returned,
        clock=LoopClock(),
    )
    task = asyncio.create_task(loop.run(leadership))
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
    async with running(hub, Approval()) as loop:
        loop.put(workload("w"))
        await asyncio.sleep(59)
        assert not hub.bound
        loop.allow(WorkloadKey("ns", "w", "uid-w"), "Approval")
        await loop.quiet()
        assert len(hub.bound) == 1


async def test_waiting_workload_is_given_back_when_its_wait_times_out() -> None:
    hub = Hub()
    returned: list[tuple[str, tuple[str, ...]]] = []
    async with running(
        hub, Approval(), on_returned=lambda each: returned.append((each.key.name, each.reasons))
    ) as loop:
        loop.put(workload("w"))
        await asyncio.sleep(61)
        assert returned == [("w", ("Approval: timed out after waiting 60 seconds",))]
        loop.allow(WorkloadKey("ns", "w", "uid-w"), "Approval")
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
    with pytest.raises(Lost, match="another leads"):
        await loop.run(Term(Lost("another leads")))
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
    scheduler = Scheduler(profiles=profiles, profile_name=lambda each: str(each.spec), host_key=host_key)
    loop = SchedulingLoop(scheduler, snapshot=fleet.snapshot, read_back=hub.read, clock=LoopClock())
    task = asyncio.create_task(loop.run(ALONE))
    loop.put(workload("first", profile="one"))
    loop.put(workload("second", profile="two"))
    await asyncio.sleep(1)
    loop.delete(WorkloadKey("ns", "first", "uid-first"))
    await asyncio.sleep(10)
    assert [key.name for key in hub.bound] == ["second"]
    task.cancel()
    await asyncio.wait([task])


async def test_workload_of_an_earlier_leader_is_bound_once_its_lost_request_cannot_take_effect() -> None:
    hub = Hub()
    async with running(hub) as loop:
        loop.adopt(workload("w"), (HostKey("a", ""),))
        await asyncio.sleep(59)
        assert (hub.attempts, hub.reads) == (0, 1)
        await asyncio.sleep(5)
        assert (hub.attempts, hub.reads, len(hub.bound)) == (1, 2, 1)


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
    found: list[Nominate] = []
    relief = Relief("evict ns/x")
    async with running(Hub(), refuse=Refuse(["a", "b"]), relief=relief, on_nominated=found.append) as loop:
        loop.put(workload("w"))
        await loop.quiet()
    assert [(each.key.name, each.hosts[0].name, each.plan) for each in found] == [("w", "b", "evict ns/x")]
