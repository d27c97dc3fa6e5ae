"""A circuit breaker as a value: events and the time in, the next state out. Nothing here waits or asks a clock.

Closed, everything goes through, until so many requests in a row have failed. Open, nothing does, for a pause. Then it
is half open: one request goes through as a trial. If that succeeds it is closed again, and if it fails the pause is
twice as long, up to the longest.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

State = Literal["closed", "open", "half-open"]

CLOSED: Final = "closed"
OPEN: Final = "open"
HALF_OPEN: Final = "half-open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Times are in seconds."""

    failures: int = 3
    pause: float = 30.0
    longest: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """``now`` is any clock that never goes back."""

    limits: Limits = Limits()
    state: State = CLOSED
    failures: int = 0
    """In a row."""
    since: float = 0.0
    """When it was opened, or the trial began."""
    pause: float = 0.0
    """Of this time."""

    def ask(self, now: float) -> "tuple[Breaker, bool]":
        """Whether a request may go. One that may must be followed by ``succeeded`` or ``failed``."""
        if self.state == CLOSED:
            return self, True
        # A trial that nobody reported on, because its process was cancelled, does not block for ever.
        if now >= self.since + self.pause:
            return replace(self, state=HALF_OPEN, since=now), True
        return self, False

    def succeeded(self) -> "Breaker":
        return Breaker(limits=self.limits)

    def failed(self, now: float) -> "Breaker":
        failures = self.failures + 1
        if self.state == CLOSED and failures < self.limits.failures:
            return replace(self, failures=failures)
        if self.state == OPEN:
            # A request that had gone before it was opened. It tells nothing new.
            return replace(self, failures=failures)
        pause = self.limits.pause
        if self.state == HALF_OPEN:
            pause = min(self.pause * 2, max(self.limits.longest, pause))
        return replace(self, state=OPEN, failures=failures, since=now, pause=pause)

    def wait(self, now: float) -> float:
        """Seconds until a request may go."""
        return 0.0 if self.state == CLOSED else max(self.since + self.pause - now, 0.0)
