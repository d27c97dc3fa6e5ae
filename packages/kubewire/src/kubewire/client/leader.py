"""One leader among several processes, by a Lease on the hub: safe with wrong clocks and frozen processes.

**Who leads.** The Lease names its holder. The holder renews it; the others watch it, and take it once it has not
changed for ``leaseDurationSeconds`` *by their own monotonic clock*, counted from when they saw the change. The times in
the Lease are for users only: they are never compared with a clock, so wall clocks may differ by hours. Every write
carries the resourceVersion it is based on, so the hub accepts only one of several takers.

**When to stop.** The holder counts from the moment it *sent* the last renewal that the hub confirmed, and leads for
``renew`` seconds from there. Others can take the Lease ``lease`` seconds after they saw that renewal, which was later,
and ``renew`` is less than ``lease``: one term is over before the next begins, as long as no two clocks differ in speed
by more than ``lease / renew``. A timer ends the term, but a process that was stopped (SIGSTOP, a suspended machine, a
long garbage collection) resumes with its timers late. So the clock is read by ``is_leading``, by ``Fence.ensure``,
and on entering and leaving ``guard``. A term that is over stays over, even if a renewal is confirmed later.

**What a guard promises.** ``async with elector.guard() as fence`` renews the Lease before the block, and

- the block is entered only if the hub, asked after the call, still had our term (holder, ``leaseTransitions``, uid);
- no elector that keeps to the protocol can hold another term until ``lease`` seconds after that renewal was sent;
- the block is cancelled when the term ends, and ``Lost`` raised;
- if the block is left without ``Lost``, the term was never interrupted: every write that was confirmed inside it was
  made while no other process led.

**What remains.** A write that was sent cannot be revoked: if a process is frozen between reading the clock and the
system call, or a packet takes longer than ``lease - renew`` seconds, the write may reach the hub while another process
leads. No local clock includes the time for which a virtual machine was paused: the renewal at the start of a guard
detects that, but a pause within the block stays unnoticed until the next one, as does one within the ``fresh`` seconds
in which a guard needs no renewal. The hub does not know fences, so such writes must be harmless: give them the
resourceVersion they are based on. Then the hub rejects them once the new leader has written; until then they are what
the old term decided. If the Lease is deleted, any process may create it: the holder notices with its next renewal or
guard.

**On which thread.** With a ``LeaseThread`` the requests are made on its event loop, so a renewal does not wait for the
event loop of the controllers. If that loop does not respond for ``stuck`` seconds, its term is ended, and the Lease is
no longer renewed.

The format is client-go's, so kubectl shows the holder and other electors can take part. Other fields of the Lease
(``strategy``, ``preferredHolder``, labels) stay unchanged.
"""

import asyncio
import logging
import math
import random
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

from kubewire.api.lease import Lease, format_micro_time
from kubewire.client.clock import SYSTEM_CLOCK, Clock
from kubewire.client.errors import AlreadyExists, Conflict, KubeError, NotFound
from kubewire.client.fence import NOT_LEADING, NOT_RENEWED, Fence, Lost, Term, Unconfirmed
from kubewire.client.lease import IN_PLACE, LeaseStore, Runner, Timing, effective_lease_seconds

log: Final = logging.getLogger(__name__)

LEADER_ELECTION: Final = "LeaderElection"
"""The reason of the events."""

TAKEN: Final = "the lease was taken by {holder}"
DELETED: Final = "the lease was deleted"
STOPPED: Final = "was asked to stop"
FAILED: Final = "the work of the leader failed"
UNCONFIRMED: Final = "the hub did not confirm the lease in time"
STUCK: Final = "the event loop of the leader was blocked for {seconds:g} s"
CONTENDED: Final = "another client keeps changing the lease"

_TICK: Final = 0.001
"""Seconds. Timers use another clock than the term; a shorter wait might end before the term and be repeated."""

_MOST_TRANSITIONS: Final = 2**31 - 1
"""The maximum of the field; then the count restarts."""
WAITING_SECONDS: Final = 60.0
"""Seconds between reports that another process holds the Lease."""

_CONFLICTS: Final = 3  # so many conflicts in a row are retried


@dataclass(frozen=True, slots=True)
class _Sighting:
    version: str
    holder: str
    until: float
    """When the Lease expires without another change, by our clock."""


async def _ignore(_: Fence) -> None: ...


def unique_identity(name: str = "") -> str:
    """``name`` or the host's name, and a unique suffix."""
    return f"{name or socket.gethostname()}_{uuid4()}"


class Elector:
    """Takes part in the election while ``run`` runs.

    ``identity`` must be unique: two processes that share one would take the Lease from each other forever.

    ``on_started`` runs as a task for the length of each term and is cancelled at its end; the next term begins only
    after it has ended. It may return early. If it raises, ``run`` releases the Lease and raises the same.
    ``on_stopped`` follows. ``on_event`` gets the reason and message of an Event about the Lease. ``on_waiting`` gets
    the Lease that another process holds: at once, when the holder changes, and every minute.
    """

    def __init__(
        self,
        store: LeaseStore,
        *,
        identity: str = "",
        timing: Timing | None = None,
        on_started: Callable[[Fence], Coroutine[Any, Any, None]] = _ignore,
        on_stopped: Callable[[], None] = lambda: None,
        on_event: Callable[[str, str], None] = lambda _reason, _message: None,
        on_waiting: Callable[[Lease], None] = lambda _: None,
        runner: Runner = IN_PLACE,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.identity: Final = identity or unique_identity()
        self._store = store
        self.timing: Final = timing or Timing()
        self._on_started, self._on_stopped = on_started, on_stopped
        self._on_event = on_event
        self._on_waiting, self._waiting_for, self._reported = on_waiting, "", -math.inf
        self._clock, self._chance = clock, chance
        self._runner = runner
        self._term: Term | None = None
        self._seen: _Sighting | None = None
        self._leader = ""
        self._complaint = ""
        self._stop = asyncio.Event()
        self._renewing = asyncio.Lock()

    @property
    def is_leading(self) -> bool:
        """Whether the term is valid now, by the clock; see ``Fence.valid``."""
        return self._term is not None and self._term.valid

    @property
    def fence(self) -> Fence | None:
        """The current term, which may be ending."""
        return self._term

    async def run(self) -> None:
        """Wait for the Lease, lead, and when it is lost wait again, until ``stop`` or cancelled.

        Either way the work is ended first and then the Lease released, so that the next leader need not wait.
        """
        while (term := await self._campaign()) is not None:
            await self._lead(term)

    def stop(self) -> None:
        """Make ``run`` return. The leader's work is cancelled; the term continues until it has ended."""
        self._stop.set()

    async def check(self, *, fresh: float = 0.0) -> Fence:
        """Renew the Lease, or raise Lost or Unconfirmed; see the guarantees above.

        A renewal sent less than ``fresh`` seconds ago suffices. Concurrent calls share one request.
        """
        return await self._check(fresh)

    async def _check(self, fresh: float) -> Term:
        term = self._term
        if term is None:
            raise Lost(f"{self.identity} {NOT_LEADING}")
        term.ensure()
        now = self._clock.monotonic()
        if now - term.sent >= fresh:
            await self._runner.run(self._confirm(term, since=now))
        term.ensure()
        return term

    @asynccontextmanager
    async def guard(self, *, fresh: float = 0.0) -> AsyncIterator[Fence]:
        """``check``, then run the block, which is cancelled when the term ends. Raise Lost if the term ended."""
        term = await self._check(fresh)
        limit = asyncio.timeout(None)
        try:
            async with limit:
                term.limits.add(limit)
                try:
                    yield term
                finally:
                    term.limits.discard(limit)
        except TimeoutError:
            if not limit.expired():
                raise
        term.ensure()

    # --- waiting ---

    async def _campaign(self) -> Term | None:
        while not self._stop.is_set():
            try:
                # A hub that accepts connections and never answers must not stop the campaign: the next attempt may
                # reach another replica.
                async with asyncio.timeout(self.timing.request):
                    term = await self._attempt()
            except (KubeError, TimeoutError) as error:
                self._log_once(f"cannot take part in the election: {str(error) or UNCONFIRMED}")
            else:
                if term is not None:
                    return term
            with suppress(TimeoutError):
                # Jitter, as in client-go: replicas that start together would otherwise conflict in every attempt.
                async with asyncio.timeout(self.timing.retry * (1 + self.timing.jitter * self._chance())):
                    await self._stop.wait()
        return None

    async def _attempt(self) -> Term | None:
        try:
            lease = await self._runner.run(self._store.read())
        except NotFound:
            # Deleting the Lease does not end the term of a live holder, which may not have noticed.
            if self._held_by_another():
                return None
            return await self._take(None)
        self._observe(lease)
        if self._held_by_another():
            self._report(lease)
            return None
        return await self._take(lease)

    def _report(self, lease: Lease) -> None:
        holder, now = lease.spec.holderIdentity, self._clock.monotonic()
        if holder != self._waiting_for or now - self._reported >= WAITING_SECONDS:
            self._waiting_for, self._reported = holder, now
            self._on_waiting(lease)

    def _held_by_another(self) -> bool:
        seen = self._seen
        return (
            seen is not None
            and seen.holder not in ("", self.identity)
            # By our own clock, since the Lease last changed before our eyes. Comparing renewTime with the wall clock,
            # two leaders are possible when clocks differ; this waits longer after a start, and needs no synchronised
            # clocks.
            and self._clock.monotonic() < seen.until
        )

    async def _take(self, lease: Lease | None) -> Term | None:
        wall = self._clock.wall()
        stamp = format_micro_time(wall)
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.timing.lease,
            "acquireTime": stamp,
            "renewTime": stamp,
            # Also when the Lease still names us from a term that is over: every term has its own token.
            "leaseTransitions": 0 if lease is None else _next(lease.spec.leaseTransitions),
        }
        # Before the request: the term counts from when it was sent, so it ends no later here than another process may
        # take over.
        sent = self._clock.monotonic()
        try:
            if lease is None:
                lease = await self._runner.run(self._store.create(spec))
            else:
                version = lease.metadata.resourceVersion
                lease = await self._runner.run(self._store.patch(spec, resource_version=version))
        except (AlreadyExists, Conflict):  # another process was quicker
            return None
        previous = self._leader
        self._observe(lease)
        term = Term(
            lease=lease, previous=previous, clock=self._clock, sent=sent, stamp=wall, lasts=self.timing.renew
        )
        # A response that took longer than the whole term proves nothing about now.
        return term if term.valid else None

    def _observe(self, lease: Lease) -> None:
        """Any change of the Lease shows that its holder is alive, counted from when the change was seen."""
        spec, version = lease.spec, lease.metadata.resourceVersion
        if self._seen is None or self._seen.version != version:
            lasts = effective_lease_seconds(spec.leaseDurationSeconds, default=self.timing.lease)
            self._seen = _Sighting(version, spec.holderIdentity, self._clock.monotonic() + lasts)
        self._leader = spec.holderIdentity or self._leader

    # --- leading ---

    async def _lead(self, term: Term) -> None:
        after = f", after {term.previous}" if term.previous not in ("", self.identity) else ""
        self._on_event(LEADER_ELECTION, f"{self.identity} became leader{after}")
        work = asyncio.create_task(self._on_started(term))
        # Renewals run beside the work, and with LeaseThread in another thread: work that blocks the event loop does not
        # cost the lease before ``stuck``.
        keeper = asyncio.create_task(self._runner.run(self._renew_until_over(term)))
        self._term = term
        try:
            await self._wait_until_over(term, work)
        finally:
            try:
                await _cancel_and_wait(work)  # the term is still renewed meanwhile, unless it is lost
            finally:
                failure = _failure(work)
                term.end((FAILED if failure else STOPPED) if term.valid else NOT_RENEWED)
                await _cancel_and_wait(keeper)
                self._term = None
                self._on_event(LEADER_ELECTION, f"{self.identity} stopped leading: {term.ended}")
                self._on_stopped()
                # Only a term that was still valid is released: after a loss the Lease belongs to another process
                # already.
                if work.done() and term.ended in (STOPPED, FAILED):
                    await self._release(term)
        if failure is not None and (term.ended == FAILED or not isinstance(failure, Lost)):
            raise failure

    async def _wait_until_over(self, term: Term, work: asyncio.Task[None]) -> None:
        """Wait until the term is lost, ``stop`` was called, or the work failed, but not until the work is done."""
        over, stop = asyncio.create_task(term.over.wait()), asyncio.create_task(self._stop.wait())
        try:
            while not (over.done() or stop.done() or _failure(work)):
                pending: set[asyncio.Task[Any]] = {task for task in (over, stop, work) if not task.done()}
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
            stop.cancel()

    async def _renew_until_over(self, term: Term) -> None:
        """Renew until the term ends, and end it when its time is over."""
        while term.valid:
            await asyncio.sleep(min(self.timing.retry, max(term.remaining, _TICK)))
            # A blocked loop cannot react to the end of its term, and might write right after it wakes: it is not
            # renewed any more.
            if self._clock.monotonic() - term.responded > self.timing.stuck:
                term.end(STUCK.format(seconds=self.timing.stuck))
                self._log_once(f"gave up the lease: {term.ended}")
                break
            term.ping()
            try:
                await self._confirm(term, since=self._clock.monotonic())
            except Unconfirmed as error:
                self._log_once(f"could not renew the lease: {error}")
            except Lost:
                break
        term.end(NOT_RENEWED)

    async def _confirm(self, term: Term, *, since: float) -> None:
        try:
            # One renewal at a time. Those who wait for the lock find it confirmed since they asked, and send none.
            async with asyncio.timeout(min(self.timing.request, term.remaining)), self._renewing:
                if term.sent < since:
                    await self._renew(term)
        except TimeoutError:
            term.ensure()
            raise Unconfirmed(UNCONFIRMED) from None
        except KubeError as error:
            term.ensure()
            raise Unconfirmed(f"{UNCONFIRMED}: {error}") from error

    async def _renew(self, term: Term) -> None:
        for _ in range(_CONFLICTS):
            term.ensure()
            # A write without a change would not show others that this process is alive. So the time written always
            # differs, even if the wall clock stands still or goes back.
            term.stamp = max(self._clock.wall(), term.stamp + timedelta(microseconds=1))
            spec = {"leaseDurationSeconds": self.timing.lease, "renewTime": format_micro_time(term.stamp)}
            sent = self._clock.monotonic()
            try:
                lease = await self._runner.run(self._store.patch(spec, resource_version=term.version))
            except NotFound:
                term.end(DELETED)
            except Conflict:
                await self._resolve_conflict(term)
            else:
                term.extend(lease, sent=sent)
                self._observe(lease)
                return
        # The term still runs, but each attempt found another version of the Lease with our name in it.
        raise Unconfirmed(CONTENDED)

    async def _resolve_conflict(self, term: Term) -> bool:
        """A conflict means that the Lease is lost, was edited elsewhere, or has our own unconfirmed write."""
        try:
            lease = await self._runner.run(self._store.read())
        except NotFound:
            term.end(DELETED)
            return False
        self._observe(lease)
        spec, meta = lease.spec, lease.metadata
        # The token as well as the name: a process that restarted with the same identity has another term.
        if (meta.uid, spec.holderIdentity, spec.leaseTransitions) == (term.uid, term.holder, term.token):
            term.version = meta.resourceVersion
            return True
        term.end(TAKEN.format(holder=spec.holderIdentity or "an empty holder"))
        return False

    async def _release(self, term: Term) -> None:
        """Release the Lease after the work has ended. If another process took it, its version changed, and it stays."""
        spec = {"holderIdentity": None, "renewTime": format_micro_time(self._clock.wall())}
        try:
            async with asyncio.timeout(self.timing.request):
                for _ in range(_CONFLICTS):
                    try:
                        await self._runner.run(self._store.patch(spec, resource_version=term.version))
                        return
                    except Conflict:
                        if not await self._resolve_conflict(term):
                            return
        except (KubeError, TimeoutError) as error:
            self._log_once(f"could not release the lease, it expires instead: {str(error) or UNCONFIRMED}")

    def _log_once(self, what: str) -> None:
        """Log a message once, not for every retry."""
        level = logging.DEBUG if what == self._complaint else logging.WARNING
        self._complaint = what
        log.log(level, "%s %s", self.identity, what)


def _next(transitions: int) -> int:
    return transitions + 1 if 0 <= transitions < _MOST_TRANSITIONS else 0


async def _cancel_and_wait(task: asyncio.Task[None]) -> None:
    """Cancel the task, and wait until it has ended."""
    task.cancel()
    await asyncio.wait({task})


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None
