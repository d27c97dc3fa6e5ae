"""Limit concurrent writes, and order them by urgency.

A score may change the decisions of many placements at once. A hub that gets all writes together completes most of them
at the end; with a few at a time, half of them are complete after half of the time. Consumers wait for changed
decisions, so updates of status or scores of the same clusters come after them.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

AT_ONCE: Final = 8
"""Concurrent writes: as many as keep a hub busy."""


class WriteLimiter:
    def __init__(self, *, at_once: int = AT_ONCE) -> None:
        self._free = at_once
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self, *, urgent: bool) -> AsyncIterator[None]:
        """Take a slot for a write."""
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
                self._pass_on()  # this waiter was chosen, and will not use its slot
            raise

    def _pass_on(self) -> None:
        for line in (self._urgent, self._others):
            while line:
                turn = line.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1
