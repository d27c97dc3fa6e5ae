"""Reduce the points of one series to one value, or to the reason why there is none."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

UNKNOWN: Final = "must be last, avg, max, min, or a percentile such as p95, not {given!r}"
LEAST_COVERAGE: Final = 0.5
"""Part of the steps of a window that must have a value; a mean over a few leftovers is another number."""

_PERCENTILE: Final = re.compile(r"p(\d{1,2}(?:\.\d+)?|100)")

Point = tuple[float, float]
"""Time in seconds since 1970, and value."""


@dataclass(frozen=True, slots=True)
class Reduction:
    kind: str
    percent: float = 0.0

    @classmethod
    def parse(cls, given: str) -> "Reduction":
        """Raises ValueError."""
        if given in ("last", "avg", "max", "min"):
            return cls(given)
        if found := _PERCENTILE.fullmatch(given):
            return cls("percentile", float(found[1]))
        raise ValueError(UNKNOWN.format(given=given))

    def reduce(self, points: Sequence[Point]) -> float:
        """Of at least one point. NaN and Inf are gaps, except as the last: not finite if nothing is left."""
        if self.kind == "last":
            return points[-1][1]
        values = sorted(value for _, value in points if math.isfinite(value))
        if not values:
            return math.nan
        if self.kind == "avg":
            return math.fsum(values) / len(values)
        if self.kind == "max":
            return values[-1]
        if self.kind == "min":
            return values[0]
        return _percentile(values, self.percent)

    def enough(self, points: Sequence[Point], *, steps: int) -> bool:
        """Whether the points say something about a window of so many steps."""
        if self.kind == "last":
            return True
        return sum(math.isfinite(value) for _, value in points) >= LEAST_COVERAGE * steps


def _percentile(values: Sequence[float], percent: float) -> float:
    """Between two values in proportion, as PromQL's ``quantile_over_time`` does."""
    rank = percent / 100 * (len(values) - 1)
    below = math.floor(rank)
    above = min(below + 1, len(values) - 1)
    return values[below] * (1 - (rank - below)) + values[above] * (rank - below)
