"""A seasonal trend and its past error. NumPy only; all series of a fleet at once, one per row.

The forecast is the level, plus the slope times the buckets ahead, plus the seasonal deviation of that time. The slope
is the median change from one season to the next, which ignores outliers; the seasonal deviation is the mean over all
seasons; the level follows the last few points.

The error is measured on the past: forecasts from several times of the last season, with the values known then. It is
compared with the error of assuming no change.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

LEAST_COVERAGE: Final = 0.8
"""Minimum share of buckets with a value."""
ORIGINS: Final = 24
"""Number of past times from which a forecast is tested."""
RECENT: Final = 4
"""Buckets that determine the level."""
ROUNDING: Final = 1e-12
"""Relative rounding error."""


@dataclass(frozen=True, slots=True)
class Trend:
    """Parameters per row; ``at`` is the bucket of the last column."""

    level: Vector
    slope: Vector
    season: Matrix
    at: int

    def forecast(self, buckets: int) -> Vector:
        phase = (self.at + buckets) % self.season.shape[1]
        return self.level + self.slope * buckets + self.season[:, phase]


@dataclass(frozen=True, slots=True)
class Trial:
    """Mean absolute errors, in the unit of the values."""

    error: Vector
    unchanged: Vector
    """Error of assuming no change."""
    relative: Vector
    """Error relative to the mean absolute value."""


def sufficient(values: Matrix, *, season: int, seasons: int) -> NDArray[np.bool_]:
    """Select rows with enough points: ``seasons`` seasons with few gaps, up to the last bucket.

    The test needs one season more than the fit.
    """
    needed = season * seasons
    if values.shape[1] < needed:
        return np.zeros(len(values), dtype=bool)
    recent = np.isfinite(values[:, -needed:])
    # Each season must be covered: the others do not replace a missing one.
    parts = recent.reshape(len(values), seasons, season).mean(axis=2)
    enough: NDArray[np.bool_] = (parts >= LEAST_COVERAGE).all(axis=1) & recent[:, -1]
    return enough


def fill_gaps(values: Matrix) -> Matrix:
    """Interpolate gaps linearly; extend the first and last point outward."""
    result = values.copy()
    columns = np.arange(values.shape[1])
    for row in np.flatnonzero(~np.isfinite(values).all(axis=1)):
        known = np.isfinite(values[row])
        result[row] = np.interp(columns, columns[known], values[row, known])
    return result


def fit(values: Matrix, *, season: int, at: int) -> Trend:
    """Fit at least two seasons without gaps. ``at`` is the bucket of the last column, which gives the phase."""
    rows, length = values.shape
    slope = np.median(values[:, season:] - values[:, :-season], axis=1) / season
    columns = np.arange(length)
    detrended = values - slope[:, None] * (columns - (length - 1))
    phases = (at - (length - 1) + columns) % season
    profile = np.empty((rows, season))
    for phase in range(season):
        profile[:, phase] = detrended[:, phases == phase].mean(axis=1)
    profile -= profile.mean(axis=1, keepdims=True)
    recent = detrended[:, -RECENT:] - profile[:, phases[-RECENT:]]
    weights = 0.5 ** np.arange(min(RECENT, length))[::-1]
    level = recent @ (weights / weights.sum())
    return Trend(level, slope, profile, at)


def trial(values: Matrix, *, season: int, at: int, ahead: int) -> Trial:
    """Test forecasts ``ahead`` buckets ahead on the last season, each from at least two seasons before it."""
    rows, length = values.shape
    first = max(length - season, 2 * season + ahead)
    spaced = np.linspace(first, length - 1, num=ORIGINS if first < length else 0)
    targets = np.unique(spaced.astype(int))
    errors, unchanged, size = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    for target in targets:
        origin = int(target) - ahead
        trend = fit(values[:, : origin + 1], season=season, at=at - (length - 1 - origin))
        actual = values[:, target]
        errors += np.abs(trend.forecast(ahead) - actual)
        unchanged += np.abs(values[:, origin] - actual)
        size += np.abs(actual)
    count = len(targets)
    if count == 0:
        nothing = np.full(rows, np.inf)
        return Trial(nothing, nothing, nothing)
    # Rounding is not an error: a constant series is forecast exactly.
    errors[errors <= ROUNDING * size] = 0.0
    relative = np.divide(errors, size, out=np.full(rows, np.inf), where=size > 0)
    relative[(size == 0) & (errors == 0)] = 0.0
    return Trial(errors / count, unchanged / count, relative)
