"""Long work on the event loop, done in steps between which others have their turn."""

import asyncio
import time
from typing import Final

STRIDE: Final = 0.005
"""Seconds of work after which others have their turn."""


class Pace:
    """One for each piece of work; ``step`` belongs between any two parts of it that may be apart."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.perf_counter() + STRIDE

    async def step(self) -> None:
        if time.perf_counter() >= self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + STRIDE
