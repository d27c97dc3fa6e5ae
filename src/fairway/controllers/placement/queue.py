"""The queue of placements: the engine's scheduling queue, with a clock and metrics.

Placements are queued by name: one that is deleted and created again waits until the writes of its predecessor have
ended.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from fairway.api.placement import Placement
from fairway.controllers.runtime.reconciler import RETRIES_BURST, RETRIES_EVERY
from fairway.engine.dependencies import Dependencies, Event
from fairway.engine.profile import OnFault, Profile
from fairway.engine.queue import Backoff, Explanation, Rejection, RetryLimit, SchedulingQueue
from fairway.engine.workload import Workload, WorkloadKey
from fairway.hosts.clusters import cells
from fairway.hosts.instant import SECOND, Micros, to_micros
from kubewire.api.meta import format_time
from kubewire.client import Clock
from kubewire.client.workqueue import UNOBSERVED, QueueObserver

Owner = tuple[str, str]
"""(namespace, name) of a placement."""

BACKOFF: Final = Backoff(initial=SECOND // 200, maximum=60 * SECOND, window=0)
"""Most errors are conflicts with writes of other clients, which the next attempt takes into account."""

NEW_TERM: Final = "this process became the leader"
DIRTY: Final = "another client changed its status or a decision"
LISTED: Final = Event(label="all clusters were listed", wildcard=True)


class PlacementQueue:
    """``changed_in_flight`` is called for placements that are changed while they are being written."""

    def __init__(
        self,
        clock: Clock,
        *,
        profile: Profile | None = None,
        backoff: Backoff = BACKOFF,
        observer: QueueObserver = UNOBSERVED,
    ) -> None:
        self._clock, self._observer = clock, observer
        self._queue = SchedulingQueue(
            sort=None if profile is None else profile.queue_sort,
            gates=() if profile is None else profile.pre_enqueues,
            backoff=backoff,
            skips_faults=profile is not None and profile.on_fault is OnFault.SKIP,
            retries=RetryLimit(burst=RETRIES_BURST, every=int(RETRIES_EVERY * SECOND)),
            describe=cells.describe,
        )
        self.on_change: Callable[[], None] = lambda: None
        """Called when a placement may have become ready, or a deadline is earlier."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._awaited: Micros | None = None
        """The deadline at which the caller wakes by itself."""
        self._started: dict[Owner, Micros] = {}
        """When placements in flight were taken."""
        self.adds = 0
        """How often a placement became ready."""
        self.changed_in_flight: Callable[[Owner], None] = lambda _: None

    def now(self) -> Micros:
        return int(self._clock.monotonic() * SECOND)

    def wall(self) -> datetime:
        return self._clock.wall()

    @property
    def busy(self) -> bool:
        """Whether a placement is ready or being tried."""
        return bool(self._queue.active or self._queue.handed_out)

    @property
    def active(self) -> int:
        """Number of placements that are ready."""
        return self._queue.active

    # From the state

    def put(self, placement: Placement) -> None:
        """Add a placement, or replace its spec."""
        meta = placement.metadata
        key = _key((meta.namespace, meta.name))
        created = 0 if meta.creationTimestamp is None else to_micros(meta.creationTimestamp)
        self._queue.put(Workload(key=key, spec=placement, created=created), now=self.now())
        self._woke((key,))

    def wake(self, owners: Iterable[Owner], *, trigger: str) -> None:
        keys = [_key(owner) for owner in owners]
        self._queue.activate(keys, now=self.now(), trigger=trigger)
        self._woke(keys)

    def change(self, event: Event, *, is_unaffected: Callable[[Owner], bool] | None = None) -> None:
        """Wake the placements that depend on what changed, except settled ones that are unaffected."""
        check = None if is_unaffected is None else _named(is_unaffected)
        woken = self._queue.on_event(event, now=self.now(), is_unaffected=check)
        if woken:
            self._woke(woken)

    def discard(self, owner: Owner) -> None:
        self._queue.delete(_key(owner))
        self._settled()

    # From the controller

    def pop(self, owner: Owner | None = None, *, now: Micros | None = None) -> Owner | None:
        """Take the next placement, or the given one if it is ready."""
        now = self.now() if now is None else now
        workload = self._queue.pop(now=now, key=None if owner is None else _key(owner))
        if workload is None:
            return None
        owner = (workload.namespace, workload.name)
        self._count()
        self._started[owner] = now
        woken = self._queue.woken(workload.key)
        waited = 0 if woken is None else now - woken
        self._observer.started(waited=waited / SECOND, depth=self._queue.active)
        return owner

    def next_deadline(self) -> Micros | None:
        """Return when a placement becomes ready without an event."""
        self._awaited = self._queue.next_deadline()
        return self._awaited

    def next_wait(self) -> float | None:
        """Return the seconds until then."""
        deadline = self.next_deadline()
        return None if deadline is None else max(0, deadline - self.now()) / SECOND

    def woken(self, owner: Owner) -> Micros | None:
        """Return when a placement was woken for the attempt in flight."""
        return self._queue.woken(_key(owner))

    def is_changed(self, owner: Owner) -> bool:
        """Return whether a placement in flight will be tried again."""
        return self._queue.is_changed(_key(owner))

    def errors(self, owner: Owner) -> int:
        """Return how many attempts in a row failed by an error."""
        return self._queue.errors(_key(owner))

    def bind(self, owner: Owner, dependencies: Dependencies) -> None:
        """The placement is decided, and being written."""
        self._queue.bind(_key(owner), dependencies)

    def settle(self, owner: Owner, dependencies: Dependencies, *, after: float | None) -> None:
        """Put back a placement until something that it depends on changes, or so many seconds have passed."""
        now = self.now()
        deadline = None if after is None else now + int(after * SECOND)
        self._queue.settle(_key(owner), dependencies, now=now, deadline=deadline)
        self._returned(owner, now)
        # Not for each of the thousands that settle in a burst: their deadlines are minutes away.
        earlier = deadline is not None and (self._awaited is None or deadline < self._awaited)
        if earlier or self._queue.active:
            self.on_change()

    def reject(self, owner: Owner, rejections: tuple[Rejection, ...], dependencies: Dependencies) -> None:
        """Put back a placement whose decision was rejected by plugins at its commit, until something changes that
        they read, or that the decision depends on."""
        now = self.now()
        self._queue.reject(_key(owner), rejections, now=now, dependencies=dependencies)
        self._returned(owner, now)
        self.on_change()

    def lower_deadline(self, owner: Owner, *, after: float) -> None:
        """Try a settled placement again after so many seconds, unless it is to be tried earlier."""
        self._queue.lower_deadline(_key(owner), self.now() + int(after * SECOND))
        self.on_change()  # the next deadline may be new

    def fail(self, owner: Owner, error: str) -> None:
        """Put back a placement after an error, to retry it after its back-off."""
        now = self.now()
        self._observer.retried()
        self._queue.fail(_key(owner), error, now=now)
        self._returned(owner, now)
        self.on_change()

    def release(self, owner: Owner) -> None:
        """Put back a placement whose attempt was abandoned."""
        now = self.now()
        self._queue.release(_key(owner), now=now)
        self._returned(owner, now)
        self.on_change()

    def trigger(self, owner: Owner) -> str:
        """Return what woke a placement last."""
        return self._queue.trigger(_key(owner))

    def explain(self, owner: Owner) -> Explanation | None:
        return self._queue.explain(_key(owner))

    def describe(self, owner: Owner) -> dict[str, Any] | None:
        """Return the explanation as a document, with times of the wall clock."""
        explanation = self.explain(owner)
        if explanation is None:
            return None
        now, wall = self.now(), self._clock.wall()

        def time_of(moment: Micros) -> str:
            return format_time((wall + timedelta(microseconds=moment - now)).replace(microsecond=0))

        return {
            "placement": "/".join(owner),
            "state": explanation.state.value,
            "since": time_of(explanation.since),
            "added": time_of(explanation.added),
            "attempts": explanation.attempts,
            "trigger": explanation.trigger,
            "reasons": list(explanation.reasons),
            "wakes": list(explanation.wakes),
            "nextTry": None if explanation.next_try is None else time_of(explanation.next_try),
        }

    async def join(self) -> None:
        """Wait until no placement is ready or being tried."""
        while self.busy:
            self._idle.clear()
            await self._idle.wait()

    def _woke(self, keys: Iterable[WorkloadKey]) -> None:
        self.on_change()
        self._count()
        for key in keys:
            if self._queue.is_changed(key):
                self.changed_in_flight((key.namespace, key.name))

    def _returned(self, owner: Owner, now: Micros) -> None:
        self._observer.finished(took=(now - self._started.pop(owner, now)) / SECOND)
        self._count()
        self._settled()

    def _count(self) -> None:
        for _ in range(self._queue.activations - self.adds):
            self._observer.added(depth=self._queue.active)
        self.adds = self._queue.activations

    def _settled(self) -> None:
        if not self.busy:
            self._idle.set()


def _named(is_unaffected: Callable[[Owner], bool]) -> Callable[[WorkloadKey], bool]:
    return lambda key: is_unaffected((key.namespace, key.name))


def _key(owner: Owner) -> WorkloadKey:
    return WorkloadKey(*owner)
