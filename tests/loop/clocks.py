"""A clock that makes slices as short as the computation allows."""

from clocks import ManualClock
from fairway.controllers.runtime.slicing import SLICE_SECONDS


class SlowClock(ManualClock):
    """A clock on which every step of a computation takes a whole slice."""

    def monotonic(self) -> float:
        self.advance(2 * SLICE_SECONDS)
        return self.seconds
