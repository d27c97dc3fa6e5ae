"""The two clocks of a client, and backoff and rate limits based on them.

The wall clock is for timestamps: it may be wrong, and may jump. Durations are measured on the monotonic clock, which
only runs forward and keeps running while the machine is suspended.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol


class Clock(Protocol):
    def wall(self) -> datetime:
        """In UTC, for timestamps only."""

    def monotonic(self) -> float:
        """Seconds since some moment in the past; never goes back, and counts the time spent suspended."""


class SystemClock:
    """Of this machine.

    ``time.monotonic`` stands still on Linux while the machine is suspended, so a leader that wakes up would believe
    that no time has passed. ``CLOCK_BOOTTIME`` is the same clock with the time asleep counted in. Neither counts
    the time a virtual machine was paused from outside: against that only asking the hub helps.
    """

    __slots__ = ("_monotonic",)

    def __init__(self) -> None:
        self._monotonic: Callable[[], float] = time.monotonic
        if (boot := getattr(time, "CLOCK_BOOTTIME", None)) is not None:
            self._monotonic = lambda: time.clock_gettime(boot)

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return self._monotonic()


SYSTEM_CLOCK: Final = SystemClock()

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long to wait after so many failures: ``base`` seconds, doubled each time, never more than ``cap``."""

    base: float
    cap: float

    def delay(self, failures: int) -> float:
        """``failures`` counts those before this one. Without an overflow, however many there are."""
        return min(self.cap, math.ldexp(self.base, min(failures, 64)))


class TokenBucket:
    """``burst`` tokens at once, then one ``every`` so many seconds.

    Keeps one number, the moment at which it would be full again. ``now`` is any clock that never goes back.
    """

    __slots__ = ("_burst", "_every", "_full_at")

    def __init__(self, *, burst: int, every: float) -> None:
        self._burst, self._every, self._full_at = burst, every, -math.inf

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        full_at = max(self._full_at, now) + self._every
        if full_at - now > self._burst * self._every + _ROUNDING:
            return False
        self._full_at = full_at
        return True

    def reserve(self, now: float) -> float:
        """Take a token in any case; returns the seconds until it is there."""
        self._full_at = max(self._full_at, now) + self._every
        wait = self._full_at - now - self._burst * self._every
        return wait if wait > _ROUNDING else 0.0
