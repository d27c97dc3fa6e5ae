"""Long work on the event loop that yields between its steps."""

import time
from collections.abc import Callable

from fairway.hub.flowcontrol.turns import STRIDE, yield_turn


class Yielder:
    """Create one per piece of work and await ``step`` between any two parts that may be interrupted."""

    __slots__ = ("_clock", "_until")

    def __init__(self, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._until = clock() + STRIDE

    async def step(self) -> None:
        if self._clock() >= self._until:
            await yield_turn()
            self._until = self._clock() + STRIDE
