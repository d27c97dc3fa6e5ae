"""Time that does not pass by itself."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)


class LoopClock:
    """Both clocks are the loop's, which is virtual; the wall clock may be ``off``."""

    def __init__(self, *, off: timedelta = timedelta()) -> None:
        self.off = off

    def wall(self) -> datetime:
        return START + self.off + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()
