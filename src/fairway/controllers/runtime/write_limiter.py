"""Limit concurrent writes, and order them by urgency.

A score may change the decisions of many placements at once. A hub that gets all writes together completes most of them
at the end; with a few at a time, half of them are complete after half of the time. Consumers wait for changed
decisions, so a status or scores of the same clusters are written after all decisions, and events after those.

The first decisions of a burst are written, and their events recorded, while the last ones are being computed. An event
that took a free slot then would cost the hub as much as one of the decisions to come. So events can wait until no
decision is being written.

A few at a time are best for the next decisions, and keep a hub less busy than it could be. So a long burst, such as the
first decisions after a start, gets more slots.
"""

import asyncio
from collections import deque
from enum import IntEnum
from typing import Final

from kubewire.api.event import CoreEvent, Event
from kubewire.client.events import Sink

AT_ONCE: Final = 8
"""Concurrent writes: half of a burst is complete after half of the time."""
AT_ONCE_IN_LONG_BURST: Final = 16
"""Concurrent writes while many wait: as many as keep a hub busy."""
LONG_BURST: Final = 64
"""Decisions and statuses that had to wait, before none waited any more, make a long burst."""
MOST_AHEAD: Final = 100
"""Writes that may overtake one of a later lane, so that no lane starves."""

Owner = tuple[str, str]
"""Namespace and name."""


class Lane(IntEnum):
    DECISION = 0
    """Decisions of Placements, and bindings of pods."""
    REFRESH = 1
    """Scores of the same clusters, and statuses."""
    EVENT = 2


_UP_TO: Final = {lane: tuple(other for other in Lane if other <= lane) for lane in Lane}
_AFTER: Final = {lane: tuple(other for other in Lane if other > lane) for lane in Lane}


class EventLane:
    """Writes events after decisions and statuses."""

    def __init__(self, sink: Sink, limiter: "WriteLimiter") -> None:
        self._sink, self._limiter = sink, limiter

    async def create(self, event: CoreEvent | Event) -> None:
        async with self._limiter.turn(Lane.EVENT):
            await self._sink.create(event)

    async def patch(self, event: CoreEvent | Event) -> None:
        async with self._limiter.turn(Lane.EVENT):
            await self._sink.patch(event)


class Superseded(Exception):
    """A status need not be written: the placement is decided again."""


class _Waiter:
    __slots__ = ("droppable", "turn")

    def __init__(self, *, droppable: bool) -> None:
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.droppable = droppable


class _Turn:
    """A slot. A class, because every write of a burst takes one."""

    __slots__ = ("_droppable", "_lane", "_limiter", "_owner")

    def __init__(self, limiter: "WriteLimiter", lane: Lane, owner: Owner | None, droppable: bool) -> None:
        self._limiter, self._lane, self._owner, self._droppable = limiter, lane, owner, droppable

    async def __aenter__(self) -> None:
        await self._limiter.begin(self._lane, self._owner, droppable=self._droppable)

    async def __aexit__(self, *_: object) -> None:
        self._limiter.end(self._lane)


class WriteLimiter:
    """``events_after``: events wait while decisions are being written, unless none was begun for so many seconds, as on
    a hub that does not respond. 0: they take any free slot. ``in_long_burst``: slots in a long burst."""

    def __init__(
        self, *, at_once: int = AT_ONCE, in_long_burst: int = AT_ONCE_IN_LONG_BURST, events_after: float = 0.0
    ) -> None:
        self._free = at_once
        """Below 0 if a long burst ended while its slots are taken."""
        self._more = max(in_long_burst - at_once, 0)
        self._waited = 0
        """Decisions and statuses that had to wait since none did."""
        self._lanes: dict[Lane, deque[_Waiter]] = {lane: deque() for lane in Lane}
        self._overtaken = dict.fromkeys(Lane, 0)
        """Writes since a waiter of this lane got a turn."""
        self._waiting: dict[Owner, _Waiter] = {}
        """Writes of placements that can wait."""
        self._events_after = events_after
        self._deciding = 0
        """Decisions that are being written, if events wait for them."""
        self._decided_at = 0.0
        """When the last of them was begun, by the clock of the event loop."""
        self._timer: asyncio.TimerHandle | None = None

    def turn(self, lane: Lane, *, owner: Owner | None = None, droppable: bool = False) -> "_Turn":
        """Take a slot for a write. See ``move_to_front`` for ``owner`` and ``droppable``."""
        return _Turn(self, lane, owner, droppable)

    async def begin(self, lane: Lane, owner: Owner | None, *, droppable: bool) -> None:
        # Not before those that wait: a stream of new writes would starve them.
        if (
            self._free > 0
            and not any(self._lanes[urgent] for urgent in _UP_TO[lane])
            and not (lane is Lane.EVENT and self._holds_events())
        ):
            self._free -= 1
            self._overtake([later for later in _AFTER[lane] if self._lanes[later]])
        else:
            await self._wait(lane, owner, droppable=droppable)
        # After the wait: a writer that is cancelled while it waits never calls ``end``.
        if lane is Lane.DECISION and self._events_after:
            self._deciding += 1
            self._decided_at = asyncio.get_running_loop().time()

    def end(self, lane: Lane) -> None:
        self._deciding -= lane is Lane.DECISION and self._events_after > 0
        self._release_slot()

    def move_to_front(self, owner: Owner) -> None:
        """A placement is to be decided again: raise Superseded in the waiter of its write if that is droppable;
        otherwise give it the urgency of a decision."""
        waiter = self._waiting.pop(owner, None)
        if waiter is None or waiter.turn.done():
            return
        if waiter.droppable:
            waiter.turn.set_exception(Superseded())
        else:
            self._lanes[Lane.DECISION].append(waiter)

    async def _wait(self, lane: Lane, owner: Owner | None, *, droppable: bool) -> None:
        waiter = _Waiter(droppable=droppable)
        self._lanes[lane].append(waiter)
        if owner is not None:
            self._waiting[owner] = waiter
        if lane is not Lane.EVENT:
            self._waited += 1
            if self._waited == LONG_BURST:
                self._free += self._more
                self._fill()
        try:
            await waiter.turn
        except Superseded:
            raise
        except BaseException:
            # A task may be cancelled in the same iteration of the event loop in which it was chosen. A slot that is
            # not given back is lost for the life of the process.
            if waiter.turn.done() and not waiter.turn.cancelled():
                self._release_slot()
            raise
        finally:
            if owner is not None and self._waiting.get(owner) is waiter:
                del self._waiting[owner]

    def _release_slot(self) -> None:
        self._free += 1
        self._fill()

    def _end_burst(self) -> None:
        if self._waited >= LONG_BURST:
            # Perhaps below 0: slots that are taken are not taken away, but those that are given back next stay free.
            self._free -= self._more
        self._waited = 0

    def _fill(self) -> None:
        while self._free > 0 and (chosen := self._choose()) is not None:
            self._free -= 1
            # The slot is handed over here, before the waiter runs: a writer that arrives in between must not take it.
            chosen.turn.set_result(None)

    def _choose(self) -> _Waiter | None:
        """Return the next waiter: of the first lane, unless a later one was overtaken too often."""
        # Cancelled and dropped waiters stay in their lines until they are first: to remove one from the middle would
        # cost a search. ``move_to_front`` leaves its waiter in the old line, too, where it is done by then.
        for line in self._lanes.values():
            while line and line[0].turn.done():
                line.popleft()
        waiting = [lane for lane, line in self._lanes.items() if line]
        if not waiting or waiting == [Lane.EVENT]:
            self._end_burst()
            if not waiting or self._free <= 0 or self._holds_events():
                return None
        lane = next((starved for starved in waiting if self._overtaken[starved] >= MOST_AHEAD), waiting[0])
        self._overtake([later for later in waiting if later > lane])
        self._overtaken[lane] = 0
        return self._lanes[lane].popleft()

    def _overtake(self, lanes: list[Lane]) -> None:
        for lane in lanes:
            self._overtaken[lane] += 1

    def _holds_events(self) -> bool:
        """Return whether events wait for decisions. Then a timer checks again."""
        if not self._deciding or self._overtaken[Lane.EVENT] >= MOST_AHEAD:
            return False
        loop = asyncio.get_running_loop()
        due = self._decided_at + self._events_after
        if loop.time() >= due:
            return False
        if self._timer is None:
            self._timer = loop.call_at(due, self._retry_events)
        return True

    def _retry_events(self) -> None:
        self._timer = None
        self._fill()
