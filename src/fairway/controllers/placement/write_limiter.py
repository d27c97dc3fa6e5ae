"""Which writes go first, and how many at a time.

A score may change the decisions of many placements at once. A hub that gets all these writes together works on all of
them and is done with none until the end; given a few at a time, it is done with half of them after half of the time.
And decisions are what others wait for: what is only said about them, such as the status of a placement or new scores
of the same clusters, goes after them.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

AT_ONCE: Final = 8
"""Writes on their way: as many as keep a hub busy, whatever it has to wait for."""


class WriteLimiter:
    def __init__(self, *, at_once: int = AT_ONCE) -> None:
        self._free = at_once
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self, *, urgent: bool) -> AsyncIterator[None]:
        """Around a write."""
        if self._free and not self._urgent:
            self._free -= 1
        else:
            await self._wait(self._urgent if urgent else self._others)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, line: deque[asyncio.Future[None]]) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._pass_on()  # it was this one's turn, and it will not use it
            raise

    def _pass_on(self) -> None:
        for line in (self._urgent, self._others):
            while line:
                turn = line.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1
