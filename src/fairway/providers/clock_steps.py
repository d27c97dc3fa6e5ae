"""Whether the wall clock was set back: it then moved by less than the time that has passed.

A machine gets the right time long after it has started, an administrator corrects a clock. What was noted with the old
time would be from the future by the new one, for hours or years: it would not age, and pauses would not end.

A clock that is set forward needs no such care. All seems older than it is, which costs a write. And it may be older:
to a virtual machine that was paused, the pause looks the same.
"""

from datetime import datetime, timedelta
from typing import Final

from fairway.kube import Clock

LEAST: Final = timedelta(seconds=1)
"""Less is not worth a word: clocks are kept exact all the time."""
NONE: Final = timedelta(0)


class ClockSteps:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: tuple[datetime, float] | None = None

    def look(self) -> tuple[datetime, timedelta]:
        """What the clock says, and by how much it was set back since the last look."""
        wall, running = self._clock.wall(), self._clock.monotonic()
        last, self._last = self._last, (wall, running)
        if last is None:
            return wall, NONE
        back = last[0] + timedelta(seconds=running - last[1]) - wall
        return wall, back if back >= LEAST else NONE
