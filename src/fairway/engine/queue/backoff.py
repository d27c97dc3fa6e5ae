"""How long failed workloads wait: each by its own failures, and all together."""

from dataclasses import dataclass

from fairway.hosts.instant import SECOND, Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The initial time, doubled with each failure, at most the maximum."""

    initial: Micros = SECOND
    maximum: Micros = 10 * SECOND
    window: Micros = SECOND
    """Back-offs end together at multiples of this, so that QueueSort decides among workloads that failed together."""

    def duration(self, failures: int) -> Micros:
        if failures < 1 or self.maximum <= 0:
            return 0
        # An int of Python has no largest value: without a bound, a workload that fails for weeks would shift by
        # thousands of bits, only to take the minimum.
        doublings = min(failures - 1, 62)
        return min(self.initial << doublings, self.maximum)

    def end(self, failed: Micros, failures: int) -> Micros:
        """Return the end of the window in which the back-off expires."""
        duration = self.duration(failures)
        if not duration:
            return failed
        end = failed + duration
        # Rounded up, never down: a back-off that ended early would make the retries of an error faster than
        # configured.
        return end // self.window * self.window + self.window if self.window else end


class RetryLimit:
    """Spaces the retries of all workloads: a burst at once, then one per interval."""

    def __init__(self, *, burst: int, every: Micros) -> None:
        self._burst, self._every = burst, every
        self._next: Micros | None = None
        """When the next retry would be due if no burst were allowed."""

    def reserve(self, now: Micros) -> Micros:
        """Return when the next retry may start."""
        # A token bucket without a timer: its content is the time since ``_next``, of which more than a burst is worth
        # nothing.
        allowed = self._burst * self._every
        due = max(now - allowed, now - allowed if self._next is None else self._next) + self._every
        self._next = due
        return max(now, due)
