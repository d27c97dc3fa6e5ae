"""A clock in virtual time."""

import asyncio
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
