"""The watch cache: recent changes, for watches and for lists at an older revision.

Changes are indexed in one buffer per resource and one per (resource, namespace). A watch reads one buffer, so changes
in other buffers cost it nothing, and waking it costs one bisection. Count and bytes are bounded over all buffers;
evictions move ``oldest``. A watch is too old only if an unread change of *its* buffer was evicted.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import Final

from kubehub.storage.entry import Change, Closed, Item, Key, TooOld

# Encodings are cached for this many of the newest changes; slower watchers encode again.
RECENT: Final = 1_024
# Evicted changes are cut from the front of a buffer's lists in strides, since every cut moves the rest.
STRIDE: Final = 512

Place = tuple[str, str | None]


class EventBuffer:
    __slots__ = ("changes", "first", "lost", "place", "revisions", "waiting", "watches")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.changes: list[Change] = []
        self.revisions: list[int] = []
        self.first = 0
        self.lost = 0
        """The newest evicted revision."""
        self.watches = 0
        self.waiting: dict[asyncio.Future[None], None] = {}

    @property
    def newest(self) -> int:
        # A buffer whose changes were all evicted still knows how far it reached, so its watches can tell a gap from
        # silence.
        return self.revisions[-1] if self.first < len(self.revisions) else self.lost

    @property
    def idle(self) -> bool:
        return not self.watches and self.first == len(self.changes)

    def append(self, change: Change) -> None:
        self.changes.append(change)
        self.revisions.append(change.revision)

    def forget(self) -> None:
        # Only ``first`` moves: cutting the front of the list for each eviction would be quadratic.
        self.lost = self.revisions[self.first]
        self.first += 1
        if self.first >= STRIDE and self.first * 2 >= len(self.changes):
            del self.changes[: self.first], self.revisions[: self.first]
            self.first = 0

    def after(self, revision: int) -> list[Change]:
        at = bisect_right(self.revisions, revision, self.first)
        return self.changes[at:]

    def wake(self) -> None:
        for waiter in self.waiting:
            # A watch whose client disconnected has been cancelled and is removed in its own ``finally``.
            if not waiter.done():
                waiter.set_result(None)
        self.waiting.clear()


class WatchCache:
    """Append changes in the order of revisions. ``newest`` is the newest revision that readers can see."""

    def __init__(self, *, newest: int, oldest: int, count: int, size: int) -> None:
        self.newest, self.oldest = newest, oldest
        self.closed = False
        self._count, self._size, self._held = max(count, 1), size, 0
        self._order: deque[Change] = deque()
        self._buffers: dict[Place, EventBuffer] = {}
        self._stirred: dict[Place, EventBuffer] = {}

    def __len__(self) -> int:
        return len(self._order)

    def _buffer_of(self, place: Place) -> EventBuffer:
        buffer = self._buffers.get(place)
        if buffer is None:
            buffer = self._buffers[place] = EventBuffer(place)
        return buffer

    def append(self, change: Change) -> None:
        resource, namespace, _ = change.key
        for place in ((resource, None), (resource, namespace)):
            buffer = self._stirred[place] = self._buffer_of(place)
            buffer.append(change)
        self._order.append(change)
        self._held += len(change.raw)
        self.newest = change.revision
        if len(self._order) > RECENT:
            # Watches of one resource share encodings. They hold several times the size of the change, so the old ones
            # go.
            self._order[-RECENT - 1].forms.clear()

    def shrink(self) -> list[Change]:
        """Return the changes that exceed the bounds. The newest change always stays: it carries the revision."""
        order, fallen = self._order, []
        # Bytes as well as count: 20,000 large Secrets would be gigabytes.
        while len(order) > 1 and (len(order) > self._count or self._held > self._size):
            change = order.popleft()
            self._held -= len(change.raw)
            self.oldest = change.revision
            resource, namespace, _ = change.key
            for place in ((resource, None), (resource, namespace)):
                buffer = self._buffers[place]
                buffer.forget()
                self._drop_if_idle(buffer)
            fallen.append(change)
        return fallen

    def _drop_if_idle(self, buffer: EventBuffer) -> None:
        if buffer.idle:
            self._buffers.pop(buffer.place, None)

    def wake(self) -> None:
        """Wake every watch whose buffer changed, once per batch."""
        for buffer in self._stirred.values():
            buffer.wake()
        self._stirred.clear()

    def differences(self, resource: str, namespace: str | None, *, since: int) -> dict[Key, Item | None]:
        """Return, for every key changed after ``since``, its state at ``since``."""
        buffer = self._buffers.get((resource, namespace))
        past: dict[Key, Item | None] = {}
        for change in buffer.after(since) if buffer else ():
            # The first change after ``since`` has the state at ``since``; later changes of the key do not matter.
            past.setdefault(change.key, change.before)
        return past

    def watch(self, resource: str, namespace: str | None, *, since: int) -> "Watch":
        buffer = self._buffer_of((resource, namespace))
        buffer.watches += 1
        return Watch(self, buffer, since=since)

    def unsubscribe(self, buffer: EventBuffer) -> None:
        buffer.watches -= 1
        self._drop_if_idle(buffer)

    def close(self) -> None:
        self.closed = True
        for buffer in self._buffers.values():
            buffer.wake()


class Watch:
    """A reader of one buffer, for one task at a time."""

    __slots__ = ("_buffer", "_closed", "_history", "_position", "_waiter")

    def __init__(self, history: WatchCache, buffer: EventBuffer, *, since: int) -> None:
        self._history, self._buffer = history, buffer
        self._position = since
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def position(self) -> int:
        """Every change up to this revision was delivered or doesn't concern this watch. Bookmarks contain it; it
        never decreases."""
        if self._buffer.newest <= self._position:
            # All of this buffer has been delivered, so changes elsewhere are progress, too. Without this, a watch of a
            # quiet resource could never resume: its last version would be evicted with the changes of busy ones.
            self._position = max(self._position, self._history.newest)
        return self._position

    async def next(self) -> Sequence[Change]:
        """Return all changes since the last call; wait for at least one. A cancelled call loses none."""
        while True:
            if self._closed or self._history.closed:
                raise Closed
            # Against the buffer, not the whole cache: etcd compacts all resources at once, and a busy one then makes
            # every quiet watch list again.
            if self._buffer.lost > self._position:
                raise TooOld(asked=self._position, oldest=self._history.oldest)
            changes = self._buffer.after(self._position)
            if changes:
                self._position = changes[-1].revision
                return changes
            self._waiter = waiter = asyncio.get_running_loop().create_future()
            # Registered without an await since ``after``, so no change can come in between.
            self._buffer.waiting[waiter] = None
            try:
                await waiter
            finally:
                self._buffer.waiting.pop(waiter, None)
                self._waiter = None

    def close(self) -> None:
        """End a waiting ``next`` with Closed."""
        if self._closed:
            return
        self._closed = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._history.unsubscribe(self._buffer)
