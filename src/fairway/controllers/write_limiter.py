"""Limit concurrent writes, and order them by urgency.

A score may change the decisions of many placements at once. A hub that gets all writes together completes most of them
at the end; with a few at a time, half of them are complete after half of the time. Consumers wait for changed
decisions, so a status or scores of the same clusters are written after all decisions, and events after those.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import Final

from fairway.api.event import CoreEvent, Event
from fairway.kube.events import Sink

AT_ONCE: Final = 8
"""Concurrent writes: as many as keep a hub busy."""
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


class WriteLimiter:
    def __init__(self, *, at_once: int = AT_ONCE) -> None:
        self._free = at_once
        self._lanes: dict[Lane, deque[_Waiter]] = {lane: deque() for lane in Lane}
        self._overtaken = dict.fromkeys(Lane, 0)
        """Writes since a waiter of this lane got a turn."""
        self._waiting: dict[Owner, _Waiter] = {}
        """Writes of placements that can wait."""

    @asynccontextmanager
    async def turn(
        self, lane: Lane, *, owner: Owner | None = None, droppable: bool = False
    ) -> AsyncIterator[None]:
        """Take a slot for a write. See ``hurry`` for ``owner`` and ``droppable``."""
        if self._free and not any(self._lanes[each] for each in Lane if each <= lane):
            self._free -= 1
        else:
            await self._wait(lane, owner, droppable=droppable)
        try:
            yield
        finally:
            self._pass_on()

    def hurry(self, owner: Owner) -> None:
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
        try:
            await waiter.turn
        except Superseded:
            raise
        except BaseException:
            if waiter.turn.done() and not waiter.turn.cancelled():
                self._pass_on()  # this waiter was chosen, and will not use its slot
            raise
        finally:
            if owner is not None and self._waiting.get(owner) is waiter:
                del self._waiting[owner]

    def _pass_on(self) -> None:
        chosen = self._choose()
        if chosen is None:
            self._free += 1
        else:
            chosen.turn.set_result(None)

    def _choose(self) -> _Waiter | None:
        """Return the next waiter: of the first lane, unless a later one was overtaken too often."""
        for line in self._lanes.values():
            while line and line[0].turn.done():
                line.popleft()
        waiting = [lane for lane, line in self._lanes.items() if line]
        if not waiting:
            return None
        lane = next((each for each in waiting if self._overtaken[each] >= MOST_AHEAD), waiting[0])
        for each in waiting:
            if each > lane:
                self._overtaken[each] += 1
        self._overtaken[lane] = 0
        return self._lanes[lane].popleft()
