"""Recent restarts and request latencies. Time is an argument, in seconds of a monotonic clock."""

import math
from collections import deque
from collections.abc import Iterable
from typing import Final

STEPS: Final = 60
"""Number of buckets of a window."""
QUANTILE: Final = 0.9


class Count:
    """Number of events within the last ``seconds``, with the precision of a bucket."""

    def __init__(self, *, seconds: float) -> None:
        self._seconds, self._step = seconds, seconds / STEPS
        self._counts: deque[tuple[int, int]] = deque()
        self._total = 0

    def add(self, number: int, *, at: float, now: float) -> None:
        """``at`` must not be after ``now``; events before the window are ignored."""
        if number <= 0 or at <= now - self._seconds:
            return
        self._total += number
        step = math.floor(min(at, now) / self._step)
        if self._counts and self._counts[-1][0] == step:
            self._counts[-1] = (step, self._counts[-1][1] + number)
        elif not self._counts or self._counts[-1][0] < step:
            self._counts.append((step, number))
        else:  #  counted late, as at the start
            self._counts = deque(sorted([*self._counts, (step, number)]))

    def total(self, *, now: float) -> int:
        while self._counts and (self._counts[0][0] + 1) * self._step <= now - self._seconds:
            self._total -= self._counts.popleft()[1]
        return self._total


class Latency:
    """Durations of requests. A request without a response counts with its timeout."""

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._samples: deque[tuple[float, float]] = deque()

    def add(self, took: float, *, now: float) -> None:
        self._samples.append((now, took))
        self._forget(now)

    def high(self, *, now: float) -> float | None:
        """Return the 90th percentile by nearest rank; None without samples."""
        self._forget(now)
        return quantile((took for _, took in self._samples), QUANTILE)

    def _forget(self, now: float) -> None:
        while self._samples and self._samples[0][0] <= now - self._seconds:
            self._samples.popleft()


def quantile(values: Iterable[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
