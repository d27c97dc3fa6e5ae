"""Detect that the wall clock was set back: it moved by less than the monotonic clock.

A machine may get the correct time long after its start, or an administrator corrects it. Times recorded before would be
in the future, for hours or years: they would not age, and pauses would not end.

A clock that is set forward needs no correction: readings seem older than they are, which costs a write.
"""

from datetime import datetime, timedelta
from typing import Final

from kubewire.client import Clock

MIN_STEP: Final = timedelta(seconds=1)
"""Smaller steps are ignored, because NTP adjusts clocks continuously."""
NONE: Final = timedelta(0)


class ClockSteps:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: tuple[datetime, float] | None = None

    def observe(self) -> tuple[datetime, timedelta]:
        """Return the wall time, and by how much the clock was set back since the previous call."""
        wall, running = self._clock.wall(), self._clock.monotonic()
        last, self._last = self._last, (wall, running)
        if last is None:
            return wall, NONE
        back = last[0] + timedelta(seconds=running - last[1]) - wall
        return wall, back if back >= MIN_STEP else NONE
