"""A leadership term, as seen by code that writes while it leads. See ``leader`` for the guarantees."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from kubewire.api.lease import Lease
from kubewire.client.clock import Clock

NOT_LEADING: Final = "is not leading"
NOT_RENEWED: Final = "could not renew the lease in time"


class LeaderError(Exception):
    """Leadership cannot be relied on."""


class Lost(LeaderError):
    """The term is over: nothing more may be written."""


class Unconfirmed(LeaderError):
    """The hub could not confirm the term, which may still run: retry the batch."""


class TermGroup(asyncio.TaskGroup):
    """Tasks of one term. If it ends, the group raises one Lost, not a group of them, unless a task failed otherwise."""

    async def __aexit__(self, *raised: Any) -> None:
        try:
            await super().__aexit__(*raised)
        except BaseExceptionGroup as group:
            lost, others = group.split(Lost)
            # A failure that is not the end of the term must not look like it: the next term would hide it.
            if lost is None or others is not None:
                raise
            raise _first(lost) from None


def _first(group: BaseExceptionGroup[Lost]) -> Lost:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


class Fence:
    """``token`` grows with every term as long as the Lease, identified by ``uid``, exists."""

    def __init__(self, *, lease: Lease, previous: str, clock: Clock) -> None:
        self.uid: Final = lease.metadata.uid
        self.token: Final = lease.spec.leaseTransitions
        self.holder: Final = lease.spec.holderIdentity
        self.previous: Final = previous
        """The previous leader, as far as this elector observed it; empty otherwise."""
        self.ended = ""
        """Why the term was ended; empty while it was not, even if its time is over."""
        self._clock = clock
        self._deadline = 0.0
        self._lapsed = False
        # Renewals may come from another thread: a term that was found over must not be extended at the same moment.
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Fence(holder={self.holder!r}, token={self.token}, uid={self.uid!r}, valid={self.valid})"

    @property
    def valid(self) -> bool:
        """Whether the term is valid now, by the clock. Costs no request, and once False stays False."""
        with self._lock:
            return self._is_current()

    def _is_current(self) -> bool:
        if not self._lapsed and self._clock.monotonic() >= self._deadline:
            # Sticky: a clock read later, or a renewal whose response arrives late, must not revive a term whose end was
            # seen.
            self._lapsed = True
        return not (self.ended or self._lapsed)

    @property
    def remaining(self) -> float:
        """Seconds until the term ends without another renewal."""
        return 0.0 if self.ended or self._lapsed else max(0.0, self._deadline - self._clock.monotonic())

    def ensure(self) -> None:
        """Raise Lost unless ``valid``. Call it right before a write."""
        if not self.valid:
            raise Lost(f"{self.holder} {NOT_LEADING}: {self.ended or NOT_RENEWED}")


class Term(Fence):
    """The elector's side of a term. It belongs to the event loop it is created on.

    ``extend``, ``ping`` and ``end`` may be called on another thread.
    """

    def __init__(
        self, *, lease: Lease, previous: str, clock: Clock, sent: float, stamp: datetime, lasts: float
    ) -> None:
        super().__init__(lease=lease, previous=previous, clock=clock)
        self._lasts = lasts
        self._loop = asyncio.get_running_loop()
        self.responded = sent
        """When the event loop last responded to ``ping``."""
        self.over = asyncio.Event()
        self.limits: set[asyncio.Timeout] = set()
        """Tasks that must not outlive the term."""
        self.sent = 0.0
        """When the last confirmed renewal was sent."""
        self.version = ""
        """The resourceVersion of the Lease, as of the last response."""
        self.stamp = stamp
        """The last renewTime written, confirmed or not."""
        self._extend(lease, sent=sent)

    def extend(self, lease: Lease, *, sent: float) -> None:
        """Raises Lost if the term was over before: then the renewal does not count."""
        with self._lock:
            if self._is_current():
                self._extend(lease, sent=sent)
                return
        self.ensure()

    def _extend(self, lease: Lease, *, sent: float) -> None:
        # From when the renewal was sent, not from its response, as other processes may count from the moment the hub
        # stored it.
        self.sent, self._deadline = sent, sent + self._lasts
        self.version = lease.metadata.resourceVersion

    def ping(self) -> None:
        """Check that the term's event loop responds: it sets ``responded``."""
        self._call(self._on_ping)

    def _on_ping(self) -> None:
        self.responded = self._clock.monotonic()

    def end(self, why: str) -> None:
        """End the term; only the first reason counts. ``valid`` is False at once; blocks are cancelled by their
        loop."""
        with self._lock:
            if self.ended:
                return
            self.ended = why
        # Outside of the lock: what wakes up may ask for ``valid``.
        self._call(self._finish)

    def _finish(self) -> None:
        self.over.set()
        for limit in self.limits:
            # Expire now: the guarded blocks are cancelled where they are, also within a request.
            limit.reschedule(self._loop.time())

    def _call(self, call: Callable[[], None]) -> None:
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            call()
            return
        with suppress(RuntimeError):  # the loop is closed: nothing to cancel
            self._loop.call_soon_threadsafe(call)
