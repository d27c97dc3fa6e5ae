"""A circuit breaker as an immutable value: event and time in, next state out. No I/O.

Closed, all requests pass until several in a row have failed. Open, none pass during a pause. Then it is half open: one
request passes as a trial. A success closes the breaker; a failure doubles the pause, up to the limit.
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
    """``now`` is monotonic time."""

    limits: Limits = Limits()
    state: State = CLOSED
    failures: int = 0
    """Consecutive failures."""
    since: float = 0.0
    """When it opened, or the trial started."""
    pause: float = 0.0
    """Current pause."""

    def admit(self, now: float) -> "tuple[Breaker, bool]":
        """Return whether a request may be sent; ``on_success`` or ``on_failure`` must follow."""
        if self.state == CLOSED:
            return self, True
        # A trial without a result, because its task was cancelled, must not block forever.
        if now >= self.since + self.pause:
            return replace(self, state=HALF_OPEN, since=now), True
        return self, False

    def on_success(self) -> "Breaker":
        return Breaker(limits=self.limits)

    def on_failure(self, now: float) -> "Breaker":
        failures = self.failures + 1
        if self.state == CLOSED and failures < self.limits.failures:
            return replace(self, failures=failures)
        if self.state == OPEN:
            # A request sent before it opened.
            return replace(self, failures=failures)
        pause = self.limits.pause
        if self.state == HALF_OPEN:
            # Longer after each failed trial: a server that is overloaded recovers sooner with fewer requests.
            pause = min(self.pause * 2, max(self.limits.longest, pause))
        return replace(self, state=OPEN, failures=failures, since=now, pause=pause)

    def wait(self, now: float) -> float:
        """Seconds until a request may be sent."""
        return 0.0 if self.state == CLOSED else max(self.since + self.pause - now, 0.0)
