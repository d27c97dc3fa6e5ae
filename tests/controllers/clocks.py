"""Clocks for controllers, so that a moment that can only be written in whole seconds comes soon enough for a test."""

from datetime import UTC, datetime, timedelta

from fairway.kube import SYSTEM_CLOCK

NOON = datetime(2031, 5, 5, 12, 0, tzinfo=UTC)
"""Some moment. Hubs keep no time for anything here, so it need not be today."""
SOON = timedelta(milliseconds=300)
"""Enough for a test to make what it needs, and see it before its time comes."""


class Shifted:
    """Goes as fast as any other, and begins at ``now``."""

    def __init__(self, now: datetime = NOON) -> None:
        self._shift = now - SYSTEM_CLOCK.wall()

    def wall(self) -> datetime:
        return SYSTEM_CLOCK.wall() + self._shift

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()

    def set(self, now: datetime) -> None:
        """From here on. Timers that run already do not notice."""
        self._shift = now - SYSTEM_CLOCK.wall()
