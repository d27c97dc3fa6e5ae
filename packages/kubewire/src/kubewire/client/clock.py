"""The two clocks of a client, and backoff and rate limits based on them.

The wall clock is for timestamps: it may be wrong, and may jump. Durations are measured on the monotonic clock, which
only runs forward and keeps running while the machine is suspended.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol


class Clock(Protocol):
    def wall(self) -> datetime:
        """The time in UTC, for timestamps only."""

    def monotonic(self) -> float:
        """Seconds since a fixed moment; never goes back, and includes the time spent suspended."""


class SystemClock:
    """The clocks of this machine.

    On Linux ``time.monotonic`` stops while the machine is suspended, so a leader that resumes would assume that no
    time has passed. ``CLOCK_BOOTTIME`` includes that time. Neither includes the time for which a virtual machine was
    paused; only a request to the hub detects that.
    """

    __slots__ = ("_monotonic",)

    def __init__(self) -> None:
        self._monotonic: Callable[[], float] = time.monotonic
        if (boot := getattr(time, "CLOCK_BOOTTIME", None)) is not None:
            self._monotonic = partial(time.clock_gettime, boot)

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return self._monotonic()


SYSTEM_CLOCK: Final = SystemClock()

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential backoff: ``base`` seconds, doubled with each failure, at most ``cap``."""

    base: float
    cap: float

    def delay(self, failures: int) -> float:
        """``failures`` is the number of earlier failures. Never overflows."""
        return min(self.cap, math.ldexp(self.base, min(failures, 64)))


class TokenBucket:
    """``burst`` tokens at once, then one ``every`` so many seconds.

    Stores one number, the time at which the bucket is full again. ``now`` is from any monotonic clock.
    """

    __slots__ = ("_burst", "_every", "_full_at")

    def __init__(self, *, burst: int, every: float) -> None:
        self._burst, self._every, self._full_at = burst, every, -math.inf

    def take(self, now: float) -> bool:
        """Take a token if one is available."""
        full_at = max(self._full_at, now) + self._every
        if full_at - now > self._burst * self._every + _ROUNDING:
            return False
        self._full_at = full_at
        return True

    def reserve(self, now: float) -> float:
        """Take a token in advance; return the seconds until it is available."""
        self._full_at = max(self._full_at, now) + self._every
        wait = self._full_at - now - self._burst * self._every
        return wait if wait > _ROUNDING else 0.0
