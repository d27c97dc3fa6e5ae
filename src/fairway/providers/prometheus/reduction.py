"""Reduce the points of one series to one value, or to the reason why there is none."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

UNKNOWN: Final = "must be last, avg, max, min, or a percentile such as p95, not {given!r}"
LEAST_COVERAGE: Final = 0.5
"""Minimum share of the steps of a window with a value."""

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
        if percentile := _PERCENTILE.fullmatch(given):
            return cls("percentile", float(percentile[1]))
        raise ValueError(UNKNOWN.format(given=given))

    def reduce(self, points: Sequence[Point]) -> float:
        """Reduce at least one point. NaN and Inf are gaps, except for ``last``. Not finite if no value is left."""
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

    def has_enough(self, points: Sequence[Point], *, steps: int) -> bool:
        """Whether a window of ``steps`` steps has enough values."""
        if self.kind == "last":
            return True
        return sum(math.isfinite(value) for _, value in points) >= LEAST_COVERAGE * steps


def _percentile(values: Sequence[float], percent: float) -> float:
    """Interpolate linearly, as PromQL's ``quantile_over_time`` does."""
    rank = percent / 100 * (len(values) - 1)
    below = math.floor(rank)
    above = min(below + 1, len(values) - 1)
    return values[below] * (1 - (rank - below)) + values[above] * (rank - below)
