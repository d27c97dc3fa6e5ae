"""One leader at a time, whatever the clocks and the network do. Stopped processes: test_leader_schedules."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from client.fake_lease import KEY, START, FakeLease, ReplicaClock

from fairway.controllers.runtime.leadership import Elected
from kubewire.api.lease import Lease, format_micro_time
from kubewire.client.connection import Connection
from kubewire.client.errors import AlreadyExists, Conflict, NotFound, TransportError
from kubewire.client.fence import NOT_LEADING, NOT_RENEWED, Fence, LeaderError, Lost, Unconfirmed
from kubewire.client.leader import (
    CONTENDED,
    DELETED,
    FAILED,
    LEADER_ELECTION,
    STOPPED,
    TAKEN,
    UNCONFIRMED,
    Elector,
    unique_identity,
)
from kubewire.client.lease import BAD_TIMING, LONGEST_LEASE, HubLease, Timing
from kubewire.client.rest import Client
from rigs.fake_server import FakeServer

Fault = Callable[[Callable[[], Lease]], Awaitable[Lease]]
R = TypeVar("R")


@dataclass
class FaultyLeaseStore:
    """A LeaseStore next to the hub. ``faults`` are used up one per request."""

    hub: FakeLease
    faults: list[Fault] = field(default_factory=list)
    down: bool = False

    async def read(self) -> Lease:
        return await self._send(self.hub.read)

    async def create(self, spec: Mapping[str, Any]) -> Lease:
        return await self._send(lambda: self.hub.create(spec))

    async def patch(self, spec: Mapping[str, Any], *, resource_version: str) -> Lease:
        return await self._send(lambda: self.hub.patch(spec, resource_version))

    async def _send(self, request: Callable[[], Lease]) -> Lease:
        if self.down:
            raise TransportError("no route to hub")
        if self.faults:
            return await self.faults.pop(0)(request)
        return request()


def answer_after(seconds: float) -> Fault:
    async def fault(request: Callable[[], Lease]) -> Lease:
        answer = request()
        await asyncio.sleep(seconds)
        return answer

    return fault


async def answer_lost(request: Callable[[], Lease]) -> Lease:
    request()
    raise TransportError("connection reset")


def frozen(clock: ReplicaClock, seconds: float) -> Fault:
    """The process stands still between question and answer."""

    async def fault(request: Callable[[], Lease]) -> Lease:
        answer = request()
        clock.since += seconds
        return answer

    return fault


async def no_fault(request: Callable[[], Lease]) -> Lease:
    return request()


class Replica:
    """An elector and its callbacks."""

    def __init__(
        self, hub: FakeLease, name: str, *, clock: ReplicaClock | None = None, chance: float = 0.0
    ) -> None:
        self.wire = FaultyLeaseStore(hub)
        self.clock = clock or ReplicaClock(now)
        self.fences: list[Fence] = []
        self.ended: list[float] = []
        self.events: list[tuple[str, str]] = []
        self.stopped = 0
        self.elector = Elector(
            self.wire,
            identity=name,
            on_started=self.work,
            on_stopped=self.count,
            on_event=lambda reason, message: self.events.append((reason, message)),
            clock=self.clock,
            chance=lambda: chance,
        )
        self.task: asyncio.Task[None] | None = None

    def start(self) -> "Replica":
        self.task = asyncio.create_task(self.elector.run())
        return self

    async def work(self, fence: Fence) -> None:
        self.fences.append(fence)
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(now())

    def leads(self) -> bool:
        return self.elector.is_leading

    def count(self) -> None:
        self.stopped += 1

    async def end(self) -> None:
        assert self.task is not None
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.looptime
class TestOne:
    async def test_leader_creates_the_lease_as_client_go(self) -> None:
        hub = FakeLease()
        replica = Replica(hub, "a").start()
        await asyncio.sleep(1)
        assert replica.leads()
        assert hub.spec == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-03-01T12:00:00.000000Z",
            "renewTime": "2026-03-01T12:00:00.000000Z",
            "leaseTransitions": 0,
        }
        await asyncio.sleep(2)
        assert hub.spec["renewTime"] == "2026-03-01T12:00:02.000000Z"
        assert hub.spec["acquireTime"] == "2026-03-01T12:00:00.000000Z"
        assert replica.events == [(LEADER_ELECTION, "a became leader")]
        await replica.end()

    async def test_leader_releases_the_lease_and_keeps_foreign_fields(self) -> None:
        hub = FakeLease()
        replica = Replica(hub, "a").start()
        await asyncio.sleep(1)
        hub.edit(strategy="OldestEmulationVersion", preferredHolder="c", somethingNew={"x": 1})
        await asyncio.sleep(5)
        replica.elector.stop()
        assert replica.task is not None
        await replica.task
        assert (replica.stopped, replica.ended) == (1, [6.0])
        assert not replica.leads()
        assert hub.spec == {
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-03-01T12:00:00.000000Z",
            "renewTime": "2026-03-01T12:00:06.000000Z",
            "leaseTransitions": 0,
            "strategy": "OldestEmulationVersion",
            "preferredHolder": "c",
            "somethingNew": {"x": 1},
        }
        assert replica.events[-1] == (LEADER_ELECTION, f"a stopped leading: {STOPPED}")

    async def test_cancelled_leader_releases_the_lease(self) -> None:
        hub = FakeLease()
        replica = Replica(hub, "a").start()
        await asyncio.sleep(1)
        await replica.end()
        assert hub.holder is None
        assert replica.stopped == 1

    async def test_candidate_stopped_early_writes_nothing(self) -> None:
        hub = FakeLease()
        replica = Replica(hub, "a")
        replica.elector.stop()
        await replica.elector.run()
        assert not hub.exists

    async def test_renewal_in_progress_does_not_prevent_the_release(self) -> None:
        hub = FakeLease()
        replica = Replica(hub, "a").start()
        await asyncio.sleep(1)
        replica.wire.faults = [answer_after(4)]
        await asyncio.sleep(2)  # the renewal of second 2 is applied, its answer not here
        await replica.end()
        assert hub.holder is None

    async def test_leader_stays_until_its_work_has_ended(self) -> None:
        hub = FakeLease()
        replica = Replica(hub, "a")
        proved: list[bool] = []

        async def work(fence: Fence) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(30)  # renewed all the while
                async with elector.guard() as same:
                    proved.append(same is fence)

        elector = Elector(replica.wire, identity="a", on_started=work, clock=replica.clock)
        task = asyncio.create_task(elector.run())
        await asyncio.sleep(1)
        elector.stop()
        await task
        assert proved == [True]
        assert now() == 31
        assert hub.holder is None

    async def test_work_that_does_not_end_keeps_the_lease(self) -> None:
        hub = FakeLease()
        stubborn = asyncio.Event()

        async def work(_: Fence) -> None:
            while not stubborn.is_set():
                with suppress(asyncio.CancelledError):
                    await stubborn.wait()

        elector = Elector(FaultyLeaseStore(hub), identity="a", on_started=work, clock=ReplicaClock(now))
        task = asyncio.create_task(elector.run())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(1)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert hub.holder == "a"
        assert not elector.is_leading
        stubborn.set()

    async def test_work_that_returns_does_not_end_the_term(self) -> None:
        hub = FakeLease()
        elector = Elector(FaultyLeaseStore(hub), identity="a", clock=ReplicaClock(now))
        task = asyncio.create_task(elector.run())
        await asyncio.sleep(100)
        assert elector.is_leading
        elector.stop()
        await task

    async def test_failing_work_releases_the_lease_and_raises(self) -> None:
        hub = FakeLease()
        events: list[str] = []

        async def work(_: Fence) -> None:
            await asyncio.sleep(3)
            raise RuntimeError("broken")

        elector = Elector(
            FaultyLeaseStore(hub),
            identity="a",
            on_started=work,
            clock=ReplicaClock(now),
            on_event=lambda _, message: events.append(message),
        )
        with pytest.raises(RuntimeError, match="broken"):
            await elector.run()
        assert hub.holder is None
        assert events == ["a became leader", f"a stopped leading: {FAILED}"]

    async def test_unreachable_hub_ends_the_term_in_time(self) -> None:
        hub = FakeLease()
        replica = Replica(hub, "a").start()
        await asyncio.sleep(7)  # last renewed in second 6
        replica.wire.down = True
        await asyncio.sleep(8.9)
        assert replica.leads()
        await asyncio.sleep(0.2)
        assert not replica.leads()
        assert (replica.ended, replica.stopped) == ([16.0], 1)
        assert replica.events[-1][1] == f"a stopped leading: {NOT_RENEWED}"
        assert hub.holder == "a"
        replica.wire.down = False
        await asyncio.sleep(3)
        assert [fence.token for fence in replica.fences] == [0, 1]  # the same holder, but another term
        await replica.end()

    async def test_hub_that_never_answers_ends_the_term_in_time(self) -> None:
        hub = FakeLease()
        replica = Replica(hub, "a").start()
        await asyncio.sleep(1)
        replica.wire.faults = [answer_after(1000) for _ in range(5)]
        await asyncio.sleep(20)
        assert replica.ended == [10.0]
        await replica.end()

    async def test_repeated_failures_are_logged_at_debug_level(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        replica = Replica(FakeLease(), "a")
        replica.wire.down = True
        with caplog.at_level(logging.DEBUG, logger="kubewire.client.leader"):
            replica.start()
            await asyncio.sleep(7)
        assert [record.levelno for record in caplog.records] == [logging.WARNING] + [logging.DEBUG] * 3
        assert "a cannot take part in the election: no route to hub" in caplog.messages
        await replica.end()

    async def test_answer_after_the_deadline_does_not_revive_the_term(self) -> None:
        hub = FakeLease()
        replica = Replica(hub, "a").start()
        await asyncio.sleep(1)
        fence = replica.fences[0]
        replica.wire.faults = [frozen(replica.clock, 8.5)]
        await asyncio.sleep(1.25)
        assert hub.spec["renewTime"] == format_micro_time(START + timedelta(seconds=2))
        assert not fence.valid
        assert replica.ended == [2.0]
        await replica.end()

    async def test_renewal_counts_from_its_send_time(self) -> None:
        hub = FakeLease()
        replica = Replica(hub, "a").start()
        await asyncio.sleep(1)
        replica.wire.faults = [frozen(replica.clock, 4)]
        fence = await replica.elector.check()
        assert fence.remaining == 6
        await replica.end()

    async def test_acquisition_counts_from_its_send_time(self) -> None:
        hub = FakeLease()
        replica = Replica(hub, "a")
        replica.wire.faults = [no_fault, frozen(replica.clock, 7)]
        replica.start()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert replica.fences[0].remaining == 3
        await replica.end()

    async def test_late_acquisition_response_does_not_lead(self) -> None:
        hub = FakeLease()
        replica = Replica(hub, "a")
        replica.wire.faults = [no_fault, frozen(replica.clock, 12)]
        replica.start()
        await asyncio.sleep(1)
        assert hub.holder == "a"
        assert not replica.leads()
        assert not replica.fences
        await asyncio.sleep(2)
        assert [fence.token for fence in replica.fences] == [1]
        await replica.end()

    async def test_resumed_leader_detects_the_lost_term_before_any_timer(self) -> None:
        hub = FakeLease()
        replica = Replica(hub, "a").start()
        await asyncio.sleep(1)
        fence = replica.fences[0]
        assert fence.remaining == 9
        replica.clock.since = 9
        assert not replica.leads()
        assert not fence.valid
        assert fence.remaining == 0
        with pytest.raises(Lost, match=NOT_RENEWED):
            fence.ensure()
        writes = hub.writes
        with pytest.raises(Lost):
            await replica.elector.check()
        assert hub.writes == writes
        await replica.end()

    @pytest.mark.parametrize("back", [timedelta(), timedelta(seconds=2), timedelta(hours=1)])
    async def test_wall_clock_steps_do_not_affect_renewals(self, back: timedelta) -> None:
        """Nothing is written twice: others may compare the record instead of its version."""
        hub = FakeLease()
        first = Replica(hub, "a", clock=ReplicaClock(now, stuck=True)).start()
        await asyncio.sleep(1)
        second = Replica(hub, "b").start()
        records = set()
        for _ in range(50):
            first.clock.skew -= back
            await asyncio.sleep(2)
            records.add(hub.spec["renewTime"])
        assert first.leads()
        assert len(records) == 50
        await second.end()
        await first.end()

    @pytest.mark.parametrize(
        "timing", [{"lease": 10, "renew": 10.0}, {"renew": 3.0, "retry": 2.0, "jitter": 0.5}, {"retry": 0.0}]
    )
    def test_invalid_election_timing_is_rejected(self, timing: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="lease > renew > retry") as caught:
            Timing(**timing)
        assert str(caught.value) == BAD_TIMING

    def test_timing_of_another_lease_duration_has_the_proportions_of_the_default(self) -> None:
        assert Timing.of_lease(Timing().lease) == Timing()
        assert Timing.of_lease(30) == Timing(lease=30, renew=20.0, retry=4.0)

    @pytest.mark.parametrize(("seconds", "fresh"), [(3, 0.6), (15, 3.0), (300, 3.0)])
    def test_leader_writes_for_at_most_three_seconds_after_a_confirmation(
        self, seconds: int, fresh: float
    ) -> None:
        assert Timing.of_lease(seconds).fresh == pytest.approx(fresh)

    def test_leader_identities_are_unique(self) -> None:
        assert unique_identity("pod-1") != unique_identity("pod-1")
        assert unique_identity("pod-1").startswith("pod-1_")
        assert (
            Elector(FaultyLeaseStore(FakeLease())).identity != Elector(FaultyLeaseStore(FakeLease())).identity
        )


@pytest.mark.looptime
class TestSeveral:
    @pytest.mark.parametrize("skew", [timedelta(days=-300), timedelta(), timedelta(days=300)])
    async def test_standby_uses_only_its_own_monotonic_clock(self, skew: timedelta) -> None:
        hub = FakeLease()
        first = Replica(hub, "a").start()
        await asyncio.sleep(1)
        second = Replica(hub, "b", clock=ReplicaClock(now, skew=skew, since=12345)).start()
        await asyncio.sleep(60)
        assert not second.fences
        first.wire.down = True  # last renewed in second 60; seen by the second in second 61
        await asyncio.sleep(14)
        assert not second.fences
        await asyncio.sleep(3)
        assert second.leads()
        assert second.fences[0].previous == "a"
        assert second.fences[0].token == 1
        assert second.events == [(LEADER_ELECTION, "b became leader, after a")]
        assert not first.leads()
        first.wire.down = False
        await asyncio.sleep(3)
        await second.end()
        await first.end()

    async def test_standby_waits_the_full_duration_from_its_first_read(self) -> None:
        """What it finds may have been renewed a moment ago, however old the times in it are."""
        hub = FakeLease()
        hub.create(
            {"holderIdentity": "a", "leaseDurationSeconds": 30, "renewTime": "2001-01-01T00:00:00.000000Z"}
        )
        replica = Replica(hub, "b").start()
        await asyncio.sleep(29)
        assert not replica.fences
        await asyncio.sleep(2)
        assert replica.fences
        await replica.end()

    async def test_observed_renewal_counts_from_its_observation(self) -> None:
        """Not from when it asked: the holder may have renewed between question and answer."""
        hub = FakeLease()
        hub.create({"holderIdentity": "a", "leaseDurationSeconds": 15})
        replica = Replica(hub, "b")
        replica.wire.faults = [frozen(replica.clock, 8)]
        replica.start()
        await asyncio.sleep(14)
        assert not replica.fences
        await asyncio.sleep(3)
        assert replica.fences
        await replica.end()

    async def test_lease_without_duration_uses_the_configured_one(self) -> None:
        hub = FakeLease()
        hub.create({"holderIdentity": "a"})
        replica = Replica(hub, "b").start()
        await asyncio.sleep(14)
        assert not replica.fences
        await asyncio.sleep(3)
        assert replica.fences
        await replica.end()

    @pytest.mark.parametrize(
        ("written", "believed"),
        [(2**31 - 1, LONGEST_LEASE), (LONGEST_LEASE + 1, LONGEST_LEASE), (0, 15), (-1, 15)],
    )
    async def test_standby_takes_a_dead_lease_whatever_duration_it_claims(
        self, written: int, believed: int
    ) -> None:
        hub = FakeLease()
        nonsense = {"renewTime": "9999-12-31T23:59:59.000000Z", "leaseTransitions": 2**31 - 1}
        hub.create({"holderIdentity": "a", "leaseDurationSeconds": written, **nonsense})
        replica = Replica(hub, "b").start()
        await asyncio.sleep(believed - 1)
        assert not replica.fences
        await asyncio.sleep(4)
        assert replica.fences
        assert hub.spec["leaseTransitions"] == 0
        await replica.end()

    async def test_standby_reports_who_holds_the_lease_at_once_and_every_minute(self) -> None:
        hub, reported = FakeLease(), list[tuple[float, str]]()
        first = Replica(hub, "a").start()
        await asyncio.sleep(1)
        second = Elector(
            FaultyLeaseStore(hub),
            identity="b",
            on_waiting=lambda lease: reported.append((now(), lease.spec.holderIdentity)),
            clock=ReplicaClock(now),
            chance=lambda: 0.0,
        )
        task = asyncio.create_task(second.run())
        await asyncio.sleep(125)
        assert reported == [(1.0, "a"), (61.0, "a"), (121.0, "a")]
        second.stop()
        await task
        await first.end()

    async def test_released_lease_is_taken_at_the_next_read(self) -> None:
        hub = FakeLease()
        first = Replica(hub, "a").start()
        await asyncio.sleep(1)
        second = Replica(hub, "b").start()
        await asyncio.sleep(10.5)
        await first.end()
        await asyncio.sleep(2)
        assert second.leads()
        await second.end()

    async def test_standbys_read_the_lease_at_different_times(self) -> None:
        hub = FakeLease()
        hub.create({"holderIdentity": "x", "leaseDurationSeconds": 1000})
        eager, lazy = Replica(hub, "a", chance=0.0), Replica(hub, "b", chance=1.0)
        eager.start()
        await asyncio.sleep(12.5)
        assert hub.reads == 7
        await eager.end()
        hub.reads = 0
        lazy.start()
        await asyncio.sleep(12.5)
        assert hub.reads == 5
        await lazy.end()

    async def test_one_of_two_candidates_takes_a_free_lease(self) -> None:
        hub = FakeLease()
        replicas = [Replica(hub, name) for name in "ab"]
        for replica in replicas:
            replica.wire.faults = [answer_after(0.5)]  # both have read before either writes
            replica.start()
        hub.create({"leaseTransitions": 7})
        await asyncio.sleep(1)
        assert [replica.leads() for replica in replicas] == [True, False]
        assert replicas[0].fences[0].token == 8
        for replica in replicas:
            await replica.end()

    async def test_one_of_two_candidates_creates_the_lease(self) -> None:
        hub = FakeLease()

        async def missing(_: Callable[[], Lease]) -> Lease:
            await asyncio.sleep(0.5)
            raise NotFound("no such lease")

        replicas = [Replica(hub, name) for name in "ab"]
        for replica in replicas:
            replica.wire.faults = [missing]
            replica.start()
        await asyncio.sleep(1)
        assert [replica.leads() for replica in replicas] == [True, False]
        for replica in replicas:
            await replica.end()

    async def test_candidate_waits_out_the_holder_of_a_deleted_lease(self) -> None:
        hub = FakeLease()
        first = Replica(hub, "a").start()
        await asyncio.sleep(0.5)
        second = Replica(hub, "b").start()
        await asyncio.sleep(1)
        first.wire.down = True  # it does not know, and leads for 8.5 seconds more
        hub.delete()
        await asyncio.sleep(8)
        assert first.leads()
        assert not second.fences
        await asyncio.sleep(8)
        assert second.leads()
        assert not first.leads()
        assert first.ended == [10.0]
        await second.end()
        await first.end()


@pytest.mark.looptime
class TestGuard:
    async def lead(self, hub: FakeLease) -> Replica:
        replica = Replica(hub, "a").start()
        await asyncio.sleep(1)
        return replica

    async def test_fence_renews_and_returns_the_term(self) -> None:
        hub = FakeLease()
        replica = await self.lead(hub)
        async with replica.elector.guard() as fence:
            assert hub.spec["renewTime"] == format_micro_time(START + timedelta(seconds=1))
            assert (fence.holder, fence.token, fence.uid) == ("a", 0, "uid-1")
            assert "token=0" in repr(fence)
            assert fence.remaining == 10
        await replica.end()

    async def test_term_that_ends_while_leadership_is_proved_is_lost(self) -> None:
        """The renewal is answered in time, but the process stands still before it reads the answer."""
        replica = Replica(FakeLease(), "a")
        depth = 0

        class Freezing:
            async def run(self, work: Coroutine[Any, Any, R], /) -> R:
                nonlocal depth
                depth += 1
                try:
                    return await work
                finally:
                    depth -= 1
                    if depth == 0 and proving:
                        replica.clock.since += 20

        proving = False
        elector = Elector(replica.wire, identity="a", clock=replica.clock, runner=Freezing())
        task = asyncio.create_task(elector.run())
        await asyncio.sleep(1)
        depth, proving = 0, True
        with pytest.raises(Lost):
            await elector.check()
        proving = False
        task.cancel()
        await asyncio.wait([task])

    async def test_fence_without_leadership_is_lost(self) -> None:
        replica = Replica(FakeLease(), "a")
        with pytest.raises(Lost, match=NOT_LEADING):
            await replica.elector.check()
        assert issubclass(Lost, LeaderError)

    async def test_fence_accepts_a_recent_renewal_on_request(self) -> None:
        hub = FakeLease()
        replica = await self.lead(hub)
        writes = hub.writes
        await replica.elector.check(fresh=1.5)
        assert hub.writes == writes
        await replica.elector.check(fresh=1.0)
        assert hub.writes == writes + 1
        await replica.end()

    async def test_batches_of_writes_need_no_request_while_renewals_succeed(self) -> None:
        hub = FakeLease()
        replica = await self.lead(hub)
        leadership = Elected(replica.elector, replica.fences[0])
        renewals = hub.writes
        for _ in range(100):
            await asyncio.sleep(0.1)
            async with leadership.batch():
                leadership.ensure()
        assert hub.writes == renewals + 5  # every two seconds, none by a batch
        replica.wire.faults = [answer_lost] * 2
        await asyncio.sleep(Timing().fresh)
        renewals = hub.writes
        async with leadership.batch():
            assert hub.writes > renewals
        await replica.end()

    async def test_concurrent_fence_checks_share_a_renewal(self) -> None:
        hub = FakeLease()
        replica = await self.lead(hub)
        writes = hub.writes
        replica.wire.faults = [answer_after(0.1)]
        early = asyncio.create_task(replica.elector.check())
        await asyncio.sleep(0.05)
        # What was sent before they asked proves nothing to these; one more serves them all.
        later = [asyncio.create_task(replica.elector.check()) for _ in range(10)]
        await asyncio.gather(early, *later)
        assert hub.writes == writes + 2
        await replica.end()

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"holderIdentity": "b"}, TAKEN.format(holder="b")),
            ({"holderIdentity": None}, TAKEN.format(holder="an empty holder")),
            ({"leaseTransitions": 1}, TAKEN.format(holder="a")),
        ],
    )
    async def test_fence_of_another_term_is_lost(self, change: dict[str, Any], why: str) -> None:
        hub = FakeLease()
        replica = await self.lead(hub)
        hub.edit(**change)
        assert replica.leads()  # unknown without a request
        with pytest.raises(Lost, match=why):
            await replica.elector.check()
        assert not replica.leads()
        await asyncio.sleep(0.1)
        assert replica.ended == [1.0]
        assert replica.events[1] == (LEADER_ELECTION, f"a stopped leading: {why}")
        await replica.end()

    @pytest.mark.parametrize("again", [False, True])
    async def test_fence_of_a_deleted_lease_is_lost(self, again: bool) -> None:
        hub = FakeLease()
        replica = await self.lead(hub)
        hub.delete()
        if again:
            hub.create({"holderIdentity": "a", "leaseTransitions": 0})
        with pytest.raises(Lost, match="lease was taken" if again else DELETED):
            await replica.elector.check()
        await replica.end()

    async def test_fence_of_a_lease_deleted_after_a_conflict_is_lost(self) -> None:
        hub = FakeLease()
        replica = await self.lead(hub)

        async def vanish(request: Callable[[], Lease]) -> Lease:
            hub.delete()
            raise Conflict("changed meanwhile")

        replica.wire.faults = [vanish]
        with pytest.raises(Lost, match=DELETED):
            await replica.elector.check()
        await replica.end()

    async def test_unrelated_lease_edit_keeps_leadership(self) -> None:
        hub = FakeLease()
        replica = await self.lead(hub)
        hub.edit(strategy="OldestEmulationVersion")
        await replica.elector.check()
        assert replica.leads()
        await replica.end()

    async def test_lost_renewal_response_keeps_leadership(self) -> None:
        hub = FakeLease()
        replica = await self.lead(hub)
        replica.wire.faults = [answer_lost]
        with pytest.raises(Unconfirmed, match="connection reset"):
            await replica.elector.check()
        await replica.elector.check()
        assert replica.leads()
        await replica.end()

    async def test_fence_gives_up_on_endless_edits(self) -> None:
        hub = FakeLease()
        replica = await self.lead(hub)

        async def disturb(request: Callable[[], Lease]) -> Lease:
            hub.edit(disturbed=hub.hub.revision)
            return request()

        replica.wire.faults = [disturb, no_fault] * 3
        with pytest.raises(Unconfirmed, match=CONTENDED):
            await replica.elector.check()
        await replica.end()

    async def test_slow_hub_leaves_the_fence_undecided(self) -> None:
        hub = FakeLease()
        replica = await self.lead(hub)
        replica.wire.faults = [answer_after(100)]
        with pytest.raises(Unconfirmed, match=UNCONFIRMED):
            await replica.elector.check()
        assert now() == 6
        assert replica.leads()
        await replica.end()

    async def test_slow_hub_beyond_the_deadline_loses_the_fence(self) -> None:
        hub = FakeLease()
        replica = await self.lead(hub)
        replica.wire.faults = [answer_after(100)] * 3
        await asyncio.sleep(8)
        with pytest.raises(Lost, match=NOT_RENEWED):
            await replica.elector.check()
        assert now() == 10
        await replica.end()

    async def test_error_of_the_hub_after_the_deadline_loses_the_fence(self) -> None:
        replica = await self.lead(FakeLease())

        async def fail_late(_request: Callable[[], Lease]) -> Lease:
            replica.clock.since += 20
            raise TransportError("connection reset")

        replica.wire.faults = [fail_late]
        with pytest.raises(Lost, match=NOT_RENEWED):
            await replica.elector.check()
        await replica.end()

    async def test_guarded_block_is_cancelled_when_the_term_ends(self) -> None:
        hub = FakeLease()
        replica = await self.lead(hub)
        reached = []

        async def batch() -> None:
            async with replica.elector.guard(), replica.elector.guard():
                replica.wire.down = True
                await asyncio.sleep(100)
                reached.append("write")

        with pytest.raises(Lost, match=NOT_RENEWED):
            await batch()
        assert now() == 11
        assert not reached
        current = asyncio.current_task()
        assert current is not None
        assert current.cancelling() == 0
        await replica.end()

    async def test_guarded_block_continues_while_the_term_is_renewed(self) -> None:
        replica = await self.lead(FakeLease())
        async with replica.elector.guard():
            await asyncio.sleep(1000)
        await replica.end()

    async def test_guarded_block_left_after_a_freeze_is_lost(self) -> None:
        replica = await self.lead(FakeLease())

        async def batch() -> None:
            async with replica.elector.guard():
                replica.clock.since = 11

        with pytest.raises(Lost):
            await batch()
        await replica.end()

    @pytest.mark.parametrize("error", [TimeoutError("its own"), Conflict("changed")])
    async def test_errors_of_a_guarded_block_are_raised_unchanged(self, error: Exception) -> None:
        replica = await self.lead(FakeLease())

        async def batch() -> None:
            async with replica.elector.guard():
                raise error

        with pytest.raises(type(error)) as caught:
            await batch()
        assert caught.value is error
        await replica.end()

    async def test_work_that_raises_the_loss_is_not_a_failure(self) -> None:
        hub = FakeLease()
        clock = ReplicaClock(now)
        tokens = []

        async def work(fence: Fence) -> None:
            tokens.append(fence.token)
            while True:
                await asyncio.sleep(1)
                if now() == 3:
                    clock.since = 30
                fence.ensure()

        elector = Elector(FaultyLeaseStore(hub), identity="a", on_started=work, clock=clock)
        task = asyncio.create_task(elector.run())
        await asyncio.sleep(10)
        assert tokens == [0, 1]
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_lease_is_acquired_on_a_hub() -> None:
    async with FakeServer() as server, Client(Connection(server=server.url)) as client:
        hub = server.objects
        store = HubLease(client, namespace="fairway", name="scheduler")
        with pytest.raises(NotFound):
            await store.read()
        lease = await store.create({"holderIdentity": "a", "leaseTransitions": 3, "strategy": "x"})
        assert hub.documents[KEY]["kind"] == "Lease"
        assert (lease.spec.holderIdentity, lease.spec.leaseTransitions) == ("a", 3)
        assert lease.metadata.uid == hub.documents[KEY]["metadata"]["uid"]
        with pytest.raises(AlreadyExists):
            await store.create({"holderIdentity": "b"})
        version = lease.metadata.resourceVersion
        lease = await store.patch({"holderIdentity": None, "leaseTransitions": 4}, resource_version=version)
        assert hub.documents[KEY]["spec"] == {"leaseTransitions": 4, "strategy": "x"}
        assert await store.read() == lease
        with pytest.raises(Conflict):
            await store.patch({"holderIdentity": "b"}, resource_version=version)


async def test_election_on_a_hub_by_the_system_clock() -> None:
    async with FakeServer() as server, Client(Connection(server=server.url)) as client:
        hub = server.objects
        written: list[tuple[int, str]] = []

        async def work(_: Fence) -> None:
            async with elector.guard() as fence:
                written.append((fence.token, hub.documents[KEY]["spec"]["holderIdentity"]))
            elector.stop()

        elector = Elector(
            HubLease(client, namespace="fairway", name="scheduler"),
            timing=Timing(lease=600, renew=500, retry=300),  # so that no renewal comes in between
            on_started=work,
        )
        await elector.run()
        assert written == [(0, elector.identity)]
        assert "holderIdentity" not in hub.documents[KEY]["spec"]
        assert [request.method for request in server.asked("write")] == ["POST", "PATCH", "PATCH"]
