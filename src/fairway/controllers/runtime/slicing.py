"""Run long computations on the event loop in slices, between which other tasks get a turn."""

import asyncio
from typing import Final, TypeVar

from fairway.hosts.steps import Steps
from kubewire.client import SYSTEM_CLOCK, Clock

T = TypeVar("T")

SLICE_SECONDS: Final = 0.005
"""A computation runs for about this long before other tasks get a turn."""


async def in_slices(steps: Steps[T], *, clock: Clock = SYSTEM_CLOCK) -> T:
    """Do all steps, and return the result."""
    began = clock.monotonic()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        # By time and not after so many steps, because steps differ in length by orders of magnitude.
        if clock.monotonic() - began >= SLICE_SECONDS:
            await asyncio.sleep(0)
            began = clock.monotonic()
