"""A rate-limited work queue, as client-go's: each item once, and one worker per item.

An item is a key, such as ``(namespace, name)``; the worker looks up the current state when it takes the item. So a
thousand changes of one object that arrive while it waits are one item. An item is in up to three places:

- ``dirty``: it changed since a worker last took it;
- ``processing``: a worker has it;
- the queue: dirty and not processing, in order of arrival. Items may have owners, which take turns (``turns``).

An item that becomes dirty while a worker has it returns to the queue when the worker is done: no change is lost, and no
two workers have the same item. Time is the event loop's. Not thread-safe.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from kubewire.client.clock import Backoff, TokenBucket
from kubewire.client.turns import Turns

T = TypeVar("T", bound=Hashable)

NOT_TAKEN: Final = "was not taken from the work queue"

DEFAULT_BACKOFF: Final = Backoff(base=0.005, cap=1000.0)


class QueueObserver(Protocol):
    """Hooks for metrics."""

    def added(self, *, depth: int) -> None:
        """An item became dirty; ``depth`` items are queued."""

    def started(self, *, waited: float, depth: int) -> None:
        """A worker took an item that was dirty for ``waited`` seconds."""

    def finished(self, *, took: float) -> None:
        """A worker is done with an item after ``took`` seconds."""

    def retried(self) -> None:
        """An item was added with a rate limit."""


class Unobserved:
    """For a queue without metrics."""

    def added(self, *, depth: int) -> None:
        pass

    def started(self, *, waited: float, depth: int) -> None:
        pass

    def finished(self, *, took: float) -> None:
        pass

    def retried(self) -> None:
        pass


UNOBSERVED: Final[QueueObserver] = Unobserved()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    depth: int
    """Items queued."""
    delayed: int
    processing: int
    adds: int
    """Since the start; an item that was dirty already does not count."""
    retries: int
    unfinished_seconds: float
    """Of all items being processed together."""
    longest_seconds: float
    """Of the item processed for the longest time. Growing without end means a worker is stuck."""


class WorkQueue(Generic[T]):
    """``backoff`` spaces the retries of one item, ``bucket`` the retries of all items together.

    Workers take an item of each owner in turn: ``owner_of`` is called when an item is queued.
    """

    def __init__(
        self,
        *,
        backoff: Backoff = DEFAULT_BACKOFF,
        bucket: TokenBucket | None = None,
        observer: QueueObserver = UNOBSERVED,
        owner_of: Callable[[T], Hashable] = lambda _: None,
    ) -> None:
        self._backoff = backoff
        self._bucket = bucket or TokenBucket(burst=100, every=0.1)
        self._observer = observer
        self._queue: Turns[T] = Turns()
        self._owner_of = owner_of
        self._dirty: dict[T, float] = {}
        # Insertion order is the order of starting, so the first one has run for the longest time.
        self._processing: dict[T, float] = {}
        self._delayed: dict[T, asyncio.TimerHandle] = {}
        self._failures: dict[T, int] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._joiners: list[asyncio.Future[None]] = []
        self._adds = 0
        self._retries = 0

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def busy(self) -> bool:
        """Whether anything is queued or being worked on."""
        return bool(self._dirty or self._processing)

    def add(self, item: T) -> None:
        """Queue ``item``. A running delay of it continues."""
        # Also while a worker has it and it became dirty again: one more run sees all changes.
        if item in self._dirty:
            return
        self._dirty[item] = asyncio.get_running_loop().time()
        self._adds += 1
        # An item that is being processed is queued by ``done``: two workers must not have it at the same time.
        if item not in self._processing:
            self._enqueue(item)
        self._observer.added(depth=len(self._queue))

    def discard(self, item: T) -> None:
        """Drop the item, unless a worker has it."""
        self.forget(item)
        delayed = self._delayed.pop(item, None)
        if delayed is not None:
            delayed.cancel()
        if self._dirty.pop(item, None) is not None and item not in self._processing:
            self._queue.discard(item)
        self._wake_joiners()

    def add_after(self, item: T, *, delay: float) -> None:
        """Add the item after ``delay`` seconds. Of several delays of one item, the first to end counts."""
        if delay <= 0:
            self.add(item)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + delay
        running = self._delayed.get(item)
        if running is not None:
            if running.when() <= when:
                return
            running.cancel()
        self._delayed[item] = loop.call_at(when, self._on_delay_end, item)

    def add_rate_limited(self, item: T) -> None:
        """Add the item after a failure: later each time, until ``forget``."""
        failures = self._failures.get(item, 0)
        self._failures[item] = failures + 1
        self._retries += 1
        self._observer.retried()
        # The bucket limits the retries of all items together, as client-go's does: when the hub fails, thousands of
        # items retry with their first, short delays.
        overall = self._bucket.reserve(asyncio.get_running_loop().time())
        self.add_after(item, delay=max(self._backoff.delay(failures), overall))

    def forget(self, item: T) -> None:
        """Reset the item's failures, after a success or when giving up."""
        self._failures.pop(item, None)

    def retries(self, item: T) -> int:
        """How often it was added with a rate limit since it was last forgotten."""
        return self._failures.get(item, 0)

    async def get(self) -> T:
        """Take the next item; ``done`` must follow. Cancelling never loses an item."""
        while not self._queue:
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except BaseException:
                if not taker.cancelled():
                    self._wake()  # this waiter was chosen, and will not use its turn
                raise
            finally:
                if taker in self._takers:
                    self._takers.remove(taker)
        # The loop has checked again since the wake: a caller that came in between may have taken the item.
        item = self._queue.pop()
        now = asyncio.get_running_loop().time()
        waited = now - self._dirty.pop(item)
        self._processing[item] = now
        self._wake_joiners()
        self._observer.started(waited=waited, depth=len(self._queue))
        return item

    def done(self, item: T) -> None:
        """Finish an item, successful or not. If it became dirty meanwhile, it is queued again."""
        started = self._processing.pop(item, None)
        if started is None:
            raise ValueError(f"{item!r} {NOT_TAKEN}")
        if item in self._dirty:
            self._enqueue(item)
        self._observer.finished(took=asyncio.get_running_loop().time() - started)
        self._wake_joiners()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[T]:
        """``get`` and, however the block ends, ``done``."""
        item = await self.get()
        try:
            yield item
        finally:
            self.done(item)

    async def join(self) -> None:
        """Wait until nothing is queued or processed, except running delays."""
        while self._dirty or self._processing:
            joiner: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._joiners.append(joiner)
            try:
                await joiner
            finally:
                if joiner in self._joiners:
                    self._joiners.remove(joiner)

    def stats(self) -> QueueStats:
        now = asyncio.get_running_loop().time()
        return QueueStats(
            depth=len(self._queue),
            delayed=len(self._delayed),
            processing=len(self._processing),
            adds=self._adds,
            retries=self._retries,
            unfinished_seconds=sum(now - started for started in self._processing.values()),
            longest_seconds=now - next(iter(self._processing.values()), now),
        )

    def _on_delay_end(self, item: T) -> None:
        del self._delayed[item]
        self.add(item)

    def _enqueue(self, item: T) -> None:
        self._queue.push(item, owner=self._owner_of(item))
        self._wake()

    def _wake(self) -> None:
        """Wake one waiter."""
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _wake_joiners(self) -> None:
        if self._dirty or self._processing:
            return
        for joiner in self._joiners:
            if not joiner.done():
                joiner.set_result(None)
