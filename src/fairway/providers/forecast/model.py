"""A seasonal trend, and how wrong it would have been. NumPy only; all series of a fleet at once, one per row.

The value some buckets ahead is the level now, plus the slope so many times, plus what that time of the season usually
has. The slope is the median change from one season to the next, so that a few odd points do not tilt it; the season is
the mean over all seasons of what differs from the line; the level follows the last few points.

No forecast is worth more than what it would have been worth before. So it is tried on the past: from several moments of
the last season, knowing only what was known then. Beside it stands the plainest guess of all, that nothing will change.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

LEAST_COVERAGE: Final = 0.8
"""Part of the buckets that must have a value."""
ORIGINS: Final = 24
"""Moments of the past from which a forecast is tried."""
RECENT: Final = 4
"""Buckets that the level follows."""
ROUNDING: Final = 1e-12
"""Part of a value that is lost by reckoning with it."""


@dataclass(frozen=True, slots=True)
class Trend:
    """Fitted to rows; ``at`` is the bucket of their last column."""

    level: Vector
    slope: Vector
    season: Matrix
    at: int

    def ahead(self, buckets: int) -> Vector:
        phase = (self.at + buckets) % self.season.shape[1]
        return self.level + self.slope * buckets + self.season[:, phase]


@dataclass(frozen=True, slots=True)
class Trial:
    """Mean absolute errors, in the unit of the values."""

    error: Vector
    unchanged: Vector
    """Of the guess that nothing changes."""
    relative: Vector
    """The error, as part of the mean absolute value."""


def sufficient(values: Matrix, *, season: int, seasons: int) -> NDArray[np.bool_]:
    """Rows with enough points to say something: so many seasons, with few gaps, and up to now.

    One season more than is fitted is needed for the trial.
    """
    needed = season * seasons
    if values.shape[1] < needed:
        return np.zeros(len(values), dtype=bool)
    recent = np.isfinite(values[:, -needed:])
    # Each season by itself: one that is missing as a whole is not made up for by the others.
    parts = recent.reshape(len(values), seasons, season).mean(axis=2)
    enough: NDArray[np.bool_] = (parts >= LEAST_COVERAGE).all(axis=1) & recent[:, -1]
    return enough


def filled(values: Matrix) -> Matrix:
    """Gaps bridged by straight lines; before the first point and after the last, by those."""
    result = values.copy()
    columns = np.arange(values.shape[1])
    for row in np.flatnonzero(~np.isfinite(values).all(axis=1)):
        known = np.isfinite(values[row])
        result[row] = np.interp(columns, columns[known], values[row, known])
    return result


def fit(values: Matrix, *, season: int, at: int) -> Trend:
    """Without gaps, and at least two seasons of it. ``at`` is the bucket of the last column, for its time of season."""
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
    """Of forecasts so many buckets ahead. The last season is forecast, from at least two seasons before each moment."""
    rows, length = values.shape
    first = max(length - season, 2 * season + ahead)
    spaced = np.linspace(first, length - 1, num=ORIGINS if first < length else 0)
    targets = np.unique(spaced.astype(int))
    errors, unchanged, size = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    for target in targets:
        origin = int(target) - ahead
        trend = fit(values[:, : origin + 1], season=season, at=at - (length - 1 - origin))
        actual = values[:, target]
        errors += np.abs(trend.ahead(ahead) - actual)
        unchanged += np.abs(values[:, origin] - actual)
        size += np.abs(actual)
    count = len(targets)
    if count == 0:
        nothing = np.full(rows, np.inf)
        return Trial(nothing, nothing, nothing)
    # What is lost in the last digits is no error: a series that never changes is forecast without any.
    errors[errors <= ROUNDING * size] = 0.0
    relative = np.divide(errors, size, out=np.full(rows, np.inf), where=size > 0)
    relative[(size == 0) & (errors == 0)] = 0.0
    return Trial(errors / count, unchanged / count, relative)
