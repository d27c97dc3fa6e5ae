"""Clocks for tests: virtual time, and time that a test advances."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)


class LoopClock:
    """Monotonic and wall clock of a virtual event loop; the wall clock is ``off`` by a constant."""

    def __init__(self, *, off: timedelta = timedelta()) -> None:
        self.off = off

    def wall(self) -> datetime:
        return START + self.off + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


@dataclass
class ManualClock:
    """Both clocks stand still until a test advances them."""

    seconds: float = 0.0

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
