"""One leader among several processes, by a Lease on the hub: safe with wrong clocks and frozen processes.

**Who leads.** The Lease names its holder. The holder renews it; the others watch it, and take it once it has not
changed for ``leaseDurationSeconds`` *by their own running clock*, counted from when they saw the change. The times
written into the Lease are for people: they are never compared with any clock here, so wall clocks may be hours apart.
Every write carries the resourceVersion it is based on, so of several takers the hub lets one through.

**When to stop.** The holder counts from the moment it *sent* the last renewal that the hub confirmed, and leads for
``renew`` seconds from there. Others can take the Lease ``lease`` seconds after they saw that renewal, which was later,
and ``renew`` is less than ``lease``: one term is over before the next begins, as long as no two clocks differ in speed
by more than ``lease / renew``. A timer ends the term, but a process that was stopped (SIGSTOP, a suspended machine, a
long garbage collection) resumes with its timers late. So the clock is read wherever it matters: by ``is_leading``,
by ``Fence.ensure``, on entering and on leaving ``guard``. A term that is over stays over, even when the answer to a
renewal still comes.

**What a guard promises.** ``async with elector.guard() as fence`` renews the Lease before the block, and

- the block is entered only if the hub, asked after the call, still had our term (holder, ``leaseTransitions``, uid);
- no elector that keeps to the protocol can hold another term until ``lease`` seconds after that renewal was sent;
- the block is cancelled when the term ends, and ``Lost`` raised;
- if the block is left without ``Lost``, the term was never interrupted: every write that was answered inside it was
  made while nobody else led.

**What remains.** A write that is already on its way cannot be called back: a process frozen between its last look at
the clock and the system call, or a packet that travels for longer than ``lease - renew`` seconds, may reach the hub
when somebody else leads. Nor does any local clock count the time for which a virtual machine was paused from outside:
the renewal at the start of a guard finds that out, a pause within the block goes unnoticed until the next one. The hub
knows nothing of fences, so such writes must be harmless in themselves: give them the resourceVersion they are based on.
Then the hub refuses them as soon as the new leader has written, and until then they are what the old term decided.
A Lease that somebody deletes is a Lease that anybody may create: the holder notices with its next renewal or guard.

The format is client-go's, so kubectl shows the holder and other electors can take part. Fields of the Lease that are
not written here (``strategy``, ``preferredHolder``, labels, and whatever comes) are left as they are.
"""

import asyncio
import logging
import random
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol
from uuid import uuid4

from fairway.api.lease import Lease, format_micro_time
from fairway.kube.clock import SYSTEM_CLOCK, Clock
from fairway.kube.errors import AlreadyExists, Conflict, KubeError, NotFound

log: Final = logging.getLogger(__name__)

LEADER_ELECTION: Final = "LeaderElection"
"""The reason of the events."""

NOT_LEADING: Final = "is not leading"
NOT_RENEWED: Final = "could not renew the lease in time"
TAKEN: Final = "the lease was taken by {holder}"
DELETED: Final = "the lease was deleted"
STOPPED: Final = "was asked to stop"
FAILED: Final = "the work of the leader failed"
UNCONFIRMED: Final = "the hub did not confirm the lease in time"
DISTURBED: Final = "the lease is being changed by somebody else"
BAD_TIMING: Final = "must be lease > renew > retry × (1 + jitter) > 0"

_TICK: Final = 0.001
"""Seconds. Timers run by another clock than the term; a shorter wait might end before the term and be repeated."""

_CONFLICTS: Final = 3  # as many strange edits of the lease in a row are taken for bad luck


class LeaderError(Exception):
    """Leadership cannot be relied on."""


class Lost(LeaderError):
    """The term is over. Whatever is not written yet must not be written."""


class Unconfirmed(LeaderError):
    """The hub could not be asked. The term may still run: try the batch again."""


class LeaseStore(Protocol):
    """One Lease. Raises KubeErrors: NotFound, AlreadyExists, Conflict."""

    async def read(self) -> Lease:
        """As the hub has it at the moment, not from a cache."""

    async def create(self, spec: Mapping[str, Any]) -> Lease: ...

    async def patch(self, spec: Mapping[str, Any], *, resource_version: str) -> Lease:
        """Change these fields only, None removing one. Conflict if the Lease is not of that version any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds."""

    lease: int = 15
    """For so long others leave the Lease alone after they saw it renewed."""
    renew: float = 10.0
    """For so long the leader goes on without a confirmed renewal."""
    retry: float = 2.0
    """Between renewals, and between the looks of those who wait."""
    jitter: float = 0.5
    """Those who wait add up to this share of ``retry``, so that they do not come all at once."""

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry * (1 + self.jitter) > 0:
            raise ValueError(BAD_TIMING)

    @property
    def request(self) -> float:
        """For one request; leaves time for a second one."""
        return self.renew / 2


class Fence:
    """One term of leadership. ``token`` grows with every term, as long as the Lease, told by ``uid``, exists."""

    def __init__(
        self, *, lease: Lease, holder: str, previous: str, clock: Clock, sent: float, renew: float
    ) -> None:
        self.uid: Final = lease.metadata.uid
        self.token: Final = lease.spec.leaseTransitions
        self.holder: Final = holder
        self.previous: Final = previous
        """Who led before, as far as this elector saw; empty when it did not."""
        self._clock, self._renew = clock, renew
        self._ended = ""
        self._over = asyncio.Event()
        self._limits: set[asyncio.Timeout] = set()
        self._sent = self._deadline = 0.0
        self._version = self._stamp = ""
        self._renewed(lease, sent=sent)

    def __repr__(self) -> str:
        return f"Fence(holder={self.holder!r}, token={self.token}, uid={self.uid!r}, valid={self.valid})"

    @property
    def valid(self) -> bool:
        """By the clock, at this moment. Costs no request, and once False stays False."""
        return not self._ended and self._clock.monotonic() < self._deadline

    @property
    def remaining(self) -> float:
        """Seconds for which the term lasts without another renewal."""
        return 0.0 if self._ended else max(0.0, self._deadline - self._clock.monotonic())

    def ensure(self) -> None:
        """Raise Lost unless ``valid``. For right before a write: there is nothing cheaper, and nothing later."""
        if not self.valid:
            raise Lost(f"{self.holder} {NOT_LEADING}: {self._ended or NOT_RENEWED}")

    def _renewed(self, lease: Lease, *, sent: float) -> None:
        self._sent, self._deadline = sent, sent + self._renew
        self._version, self._stamp = lease.metadata.resourceVersion, lease.spec.renewTime

    def _end(self, why: str) -> None:
        if self._ended:
            return
        self._ended = why
        self._over.set()
        for limit in self._limits:
            limit.reschedule(asyncio.get_running_loop().time())


@dataclass(frozen=True, slots=True)
class _Sighting:
    version: str
    holder: str
    until: float
    """When the holder's time is over if nothing more is seen of it, by our clock."""


async def _nothing(_: Fence) -> None: ...


def unique_identity(name: str = "") -> str:
    """``name``, or that of this host, and something no other process has."""
    return f"{name or socket.gethostname()}_{uuid4()}"


class Elector:
    """Takes part in the election while ``run`` runs.

    ``identity`` must be this process's own: two that share one would take the Lease from each other for ever.

    ``on_started`` runs as a task for the length of each term and is cancelled at its end; the next term begins only
    after it has ended. It may return early. If it raises, ``run`` gives the Lease back and raises the same.
    ``on_stopped`` follows when it has ended. ``on_new_leader`` is told of every new holder seen, oneself included.
    ``on_event`` gets a reason and a message, for an Event about the Lease.
    """

    def __init__(
        self,
        store: LeaseStore,
        *,
        identity: str = "",
        timing: Timing | None = None,
        on_started: Callable[[Fence], Coroutine[Any, Any, None]] = _nothing,
        on_stopped: Callable[[], None] = lambda: None,
        on_new_leader: Callable[[str], None] = lambda _: None,
        on_event: Callable[[str, str], None] = lambda _reason, _message: None,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.identity: Final = identity or unique_identity()
        self._store = store
        self._timing = timing or Timing()
        self._on_started, self._on_stopped = on_started, on_stopped
        self._on_new_leader, self._on_event = on_new_leader, on_event
        self._clock, self._chance = clock, chance
        self._fence: Fence | None = None
        self._seen: _Sighting | None = None
        self._leader = ""
        self._complaint = ""
        self._stop = asyncio.Event()
        self._renewing = asyncio.Lock()

    @property
    def is_leading(self) -> bool:
        """By the clock, at this moment; see ``Fence.valid``."""
        return self._fence is not None and self._fence.valid

    @property
    def leader(self) -> str:
        """The last holder seen; empty before the first."""
        return self._leader

    async def run(self) -> None:
        """Wait for the Lease, lead, and when it is lost wait again, until ``stop`` or cancelled.

        Either way the work is ended first and then the Lease given back, so that the next one need not wait.
        """
        while (fence := await self._campaign()) is not None:
            await self._lead(fence)

    def stop(self) -> None:
        """Have ``run`` return. The work of the leader is cancelled and may end in peace: until then it still leads."""
        self._stop.set()

    async def check(self, *, fresh: float = 0.0) -> Fence:
        """Renew the Lease, or raise Lost or Unconfirmed; what this proves is said above.

        A renewal sent less than ``fresh`` seconds ago is proof enough and saves the request. Calls at the same time
        share one.
        """
        fence = self._fence
        if fence is None:
            raise Lost(f"{self.identity} {NOT_LEADING}")
        fence.ensure()
        now = self._clock.monotonic()
        if now - fence._sent >= fresh:
            await self._prove(fence, since=now)
        fence.ensure()
        return fence

    @asynccontextmanager
    async def guard(self, *, fresh: float = 0.0) -> AsyncIterator[Fence]:
        """``check``, then the block, which is cancelled when the term ends. Raises Lost if it did not last."""
        fence = await self.check(fresh=fresh)
        limit = asyncio.timeout(None)
        try:
            async with limit:
                fence._limits.add(limit)
                try:
                    yield fence
                finally:
                    fence._limits.discard(limit)
        except TimeoutError:
            if not limit.expired():
                raise
        fence.ensure()

    # --- waiting ---

    async def _campaign(self) -> Fence | None:
        while not self._stop.is_set():
            try:
                async with asyncio.timeout(self._timing.request):
                    fence = await self._attempt()
            except (KubeError, TimeoutError) as error:
                self._complain(f"cannot take part in the election: {str(error) or UNCONFIRMED}")
            else:
                if fence is not None:
                    return fence
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.retry * (1 + self._timing.jitter * self._chance())):
                    await self._stop.wait()
        return None

    async def _attempt(self) -> Fence | None:
        try:
            lease = await self._store.read()
        except NotFound:
            # Deleting the Lease does not end the term of a holder that was seen alive: it may not know yet.
            if self._held_by_another():
                return None
            return await self._take(None)
        self._see(lease)
        return None if self._held_by_another() else await self._take(lease)

    def _held_by_another(self) -> bool:
        seen = self._seen
        return (
            seen is not None
            and seen.holder not in ("", self.identity)
            and self._clock.monotonic() < seen.until
        )

    async def _take(self, lease: Lease | None) -> Fence | None:
        stamp = format_micro_time(self._clock.wall())
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timing.lease,
            "acquireTime": stamp,
            "renewTime": stamp,
            # Also when the Lease still names us from a term that is over: every term has its own token.
            "leaseTransitions": 0 if lease is None else lease.spec.leaseTransitions + 1,
        }
        sent = self._clock.monotonic()
        try:
            if lease is None:
                lease = await self._store.create(spec)
            else:
                lease = await self._store.patch(spec, resource_version=lease.metadata.resourceVersion)
        except (AlreadyExists, Conflict):  # somebody was quicker
            return None
        previous = self._leader
        self._see(lease)
        fence = Fence(
            lease=lease,
            holder=self.identity,
            previous=previous,
            clock=self._clock,
            sent=sent,
            renew=self._timing.renew,
        )
        return fence if fence.valid else None

    def _see(self, lease: Lease) -> None:
        """Any change of the Lease counts as a sign of life, and it counts from when it was seen, not sent or asked."""
        spec, version = lease.spec, lease.metadata.resourceVersion
        if self._seen is None or self._seen.version != version:
            lasts = spec.leaseDurationSeconds if spec.leaseDurationSeconds > 0 else self._timing.lease
            self._seen = _Sighting(version, spec.holderIdentity, self._clock.monotonic() + lasts)
        if spec.holderIdentity not in ("", self._leader):
            self._leader = spec.holderIdentity
            self._on_new_leader(spec.holderIdentity)

    # --- leading ---

    async def _lead(self, fence: Fence) -> None:
        after = f", after {fence.previous}" if fence.previous not in ("", self.identity) else ""
        self._on_event(LEADER_ELECTION, f"{self.identity} became leader{after}")
        work = asyncio.create_task(self._on_started(fence))
        keeper = asyncio.create_task(self._keep(fence))
        self._fence = fence
        try:
            await self._until_over(fence, work)
        finally:
            try:
                await _end(work)  # while the term goes on being renewed, unless it is lost
            finally:
                failure = _failure(work)
                fence._end((FAILED if failure else STOPPED) if fence.valid else NOT_RENEWED)
                await _end(keeper)
                self._fence = None
                self._on_event(LEADER_ELECTION, f"{self.identity} stopped leading: {fence._ended}")
                self._on_stopped()
                if work.done() and fence._ended in (STOPPED, FAILED):
                    await self._release(fence)
        if failure is not None and (fence._ended == FAILED or not isinstance(failure, Lost)):
            raise failure

    async def _until_over(self, fence: Fence, work: asyncio.Task[None]) -> None:
        """Until the term is lost, ``stop`` was called, or the work failed; that it is done is no reason."""
        over, stop = asyncio.create_task(fence._over.wait()), asyncio.create_task(self._stop.wait())
        try:
            while not (over.done() or stop.done() or _failure(work)):
                pending: set[asyncio.Task[Any]] = {each for each in (over, stop, work) if not each.done()}
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
            stop.cancel()

    async def _keep(self, fence: Fence) -> None:
        """Renew until the term ends, and end it when its time is over."""
        while fence.valid:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(self._timing.retry, max(fence.remaining, _TICK))):
                    await fence._over.wait()
            try:
                await self._prove(fence, since=self._clock.monotonic())
            except Unconfirmed as error:
                self._complain(f"could not renew the lease: {error}")
            except Lost:
                break
        fence._end(NOT_RENEWED)

    async def _prove(self, fence: Fence, *, since: float) -> None:
        try:
            async with asyncio.timeout(min(self._timing.request, fence.remaining)), self._renewing:
                if fence._sent < since:
                    await self._renew(fence)
        except TimeoutError:
            fence.ensure()
            raise Unconfirmed(UNCONFIRMED) from None
        except KubeError as error:
            fence.ensure()
            raise Unconfirmed(f"{UNCONFIRMED}: {error}") from error

    async def _renew(self, fence: Fence) -> None:
        for _ in range(_CONFLICTS):
            fence.ensure()
            moment = self._clock.wall()
            if (stamp := format_micro_time(moment)) == fence._stamp:
                # A write that changes nothing is none, and others would not see a sign of life.
                stamp = format_micro_time(moment + timedelta(microseconds=1))
            spec = {"leaseDurationSeconds": self._timing.lease, "renewTime": stamp}
            sent = self._clock.monotonic()
            try:
                lease = await self._store.patch(spec, resource_version=fence._version)
            except NotFound:
                fence._end(DELETED)
            except Conflict:
                await self._look_again(fence)
            else:
                fence.ensure()
                fence._renewed(lease, sent=sent)
                self._see(lease)
                return
        raise Unconfirmed(DISTURBED)

    async def _look_again(self, fence: Fence) -> bool:
        """A conflict is a loss, an edit of something else, or our own write whose answer did not come."""
        try:
            lease = await self._store.read()
        except NotFound:
            fence._end(DELETED)
            return False
        self._see(lease)
        spec, meta = lease.spec, lease.metadata
        if (meta.uid, spec.holderIdentity, spec.leaseTransitions) == (fence.uid, fence.holder, fence.token):
            fence._version, fence._stamp = meta.resourceVersion, spec.renewTime
            return True
        fence._end(TAKEN.format(holder=spec.holderIdentity or "nobody"))
        return False

    async def _release(self, fence: Fence) -> None:
        """Only after the work has ended. Whoever took the Lease meanwhile changed its version, and keeps it."""
        spec = {"holderIdentity": None, "renewTime": format_micro_time(self._clock.wall())}
        try:
            async with asyncio.timeout(self._timing.request):
                for _ in range(_CONFLICTS):
                    try:
                        await self._store.patch(spec, resource_version=fence._version)
                        return
                    except Conflict:
                        if not await self._look_again(fence):
                            return
        except (KubeError, TimeoutError) as error:
            self._complain(f"could not give the lease back, others must wait: {str(error) or UNCONFIRMED}")

    def _complain(self, what: str) -> None:
        """Every retry says the same; once is enough."""
        level = logging.DEBUG if what == self._complaint else logging.WARNING
        self._complaint = what
        log.log(level, "%s %s", self.identity, what)


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel it and wait until it has ended, whatever it ends with."""
    task.cancel()
    await asyncio.wait({task})


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None
