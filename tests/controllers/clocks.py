"""A clock for controllers that stands still until a test moves it.

Nothing depends on how fast a test gets ahead then. Timers run by the machine's own clock all the same: one that was set
for a moment just ahead of a clock that stands still comes again and again, and finds the moment there once it is.
"""

from datetime import UTC, datetime, timedelta

from kubewire.client import SYSTEM_CLOCK

NOON = datetime(2031, 5, 5, 12, 0, tzinfo=UTC)
"""Some moment. Hubs keep no time for anything here, so it need not be today."""
JUST = timedelta(milliseconds=50)


class Stopped:
    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def wall(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()
