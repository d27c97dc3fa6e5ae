"""Long work on the event loop that yields between its steps."""

import time

from kubehub.flowcontrol.turns import STRIDE, yield_turn


class Yielder:
    """Create one per piece of work and await ``step`` between any two parts that may be interrupted."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.perf_counter() + STRIDE

    async def step(self) -> None:
        if time.perf_counter() >= self._until:
            await yield_turn()
            self._until = time.perf_counter() + STRIDE
