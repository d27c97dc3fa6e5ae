"""Time that a test sets."""

from datetime import datetime, timedelta

from kubewire.client import SYSTEM_CLOCK


class ShiftedClock:
    """The machine's own, so many seconds ahead."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def wall(self) -> datetime:
        return SYSTEM_CLOCK.wall() + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic() + self.ahead
