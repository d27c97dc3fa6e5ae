"""Long work on the event loop, done in steps between which others have their turn."""

import time
from collections.abc import Callable

from fairway.hub.flowcontrol.turns import STRIDE, yield_turn


class Yielder:
    """One for each piece of work; ``step`` belongs between any two parts of it that may be apart."""

    __slots__ = ("_clock", "_until")

    def __init__(self, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._until = clock() + STRIDE

    async def step(self) -> None:
        if self._clock() >= self._until:
            await yield_turn()
            self._until = self._clock() + STRIDE
