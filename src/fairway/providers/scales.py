"""Scales: how raw values become scores, the higher the better.

Scores run from ``floor``, which is 0 by default, to 100. OCM counts a missing or expired score as 0, so with the
default floor a cluster without a score never ranks above one that has it. ``floor=-100`` is OCM's symmetric form.

Scales are immutable, without I/O, and monotone. Their arguments are always finite.

A score relative to other clusters needs a ``FleetScale``, which is fitted to the values of a round first. ``fit`` does
that for any scale, also for a nested one.
"""

import abc
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from fairway.providers.provider import HIGHEST, LOWEST, Scale

Rounding = Literal["truncate", "nearest", "floor"]
"""``truncate`` rounds toward zero, as OCM's SDK does."""

NOT_FINITE: Final = "{kind}: {name} must be a finite number, not {value!r}"
NO_RANGE: Final = "{kind}: low ({low}) must be less than high ({high})"
UPSIDE_DOWN: Final = "; if low values are good, write Inverted({kind}({high}, {low}))"
NOT_POSITIVE: Final = (
    "Logarithmic: low must be greater than 0, not {low}; write the smallest value that matters, such as 1"
)
UNKNOWN_ROUNDING: Final = "{kind}: rounding must be truncate, nearest or floor, not {given!r}"
BAD_FLOOR: Final = "{kind}: floor, the score of the worst value, must be 0 or -100, not {given!r}"
UNFITTED: Final = "{kind} ranks a cluster among others: fit it to the values of the fleet first"

FLOOR: Final = 0
"""Default of the worst score: OCM counts a missing score as 0."""
FLOORS: Final = (FLOOR, LOWEST)


def clamp(score: float, *, floor: int = LOWEST) -> int:
    return int(min(max(score, floor), HIGHEST))


def _round(score: float, rounding: Rounding, floor: int) -> int:
    if rounding == "truncate":
        return clamp(score, floor=floor)
    return clamp(math.floor(score + 0.5 if rounding == "nearest" else score), floor=floor)


def _check_floor(kind: str, floor: int) -> None:
    if floor not in FLOORS:
        raise ValueError(BAD_FLOOR.format(kind=kind, given=floor))


def _check(kind: str, *, low: float, high: float, rounding: Rounding, floor: int) -> None:
    _check_floor(kind, floor)
    for name, value in (("low", low), ("high", high), ("high - low", high - low)):
        if not math.isfinite(value):
            raise ValueError(NOT_FINITE.format(kind=kind, name=name, value=value))
    if low >= high:
        words = NO_RANGE if low == high else NO_RANGE + UPSIDE_DOWN
        raise ValueError(words.format(kind=kind, low=low, high=high))
    if rounding not in ("truncate", "nearest", "floor"):
        raise ValueError(UNKNOWN_ROUNDING.format(kind=kind, given=rounding))


@dataclass(frozen=True, slots=True)
class Linear:
    """``100 * (value - low) / (high - low)``, or ``200 * (value - low) / (high - low) - 100`` where ``floor`` is -100.

    Values beyond the limits are clamped.
    """

    low: float
    high: float
    rounding: Rounding = "truncate"
    floor: int = FLOOR

    def __post_init__(self) -> None:
        _check("Linear", low=self.low, high=self.high, rounding=self.rounding, floor=self.floor)

    def score(self, value: float, /) -> int:
        if value <= self.low:
            return self.floor
        if value > self.high:
            return HIGHEST
        span = HIGHEST - self.floor
        distance = span * (value - self.low)
        # The reference's order of operations, for the same rounding error, unless it overflows.
        share = distance / (self.high - self.low) if math.isfinite(distance) else span * self._part(value)
        return _round(share + self.floor, self.rounding, self.floor)

    def _part(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Equal ratios are equal distances: 1 to 2 is as far as 100 to 200. ``low`` must be greater than 0."""

    low: float
    high: float
    rounding: Rounding = "nearest"
    floor: int = FLOOR

    def __post_init__(self) -> None:
        if math.isfinite(self.low) and self.low <= 0:
            raise ValueError(NOT_POSITIVE.format(low=self.low))
        _check("Logarithmic", low=self.low, high=self.high, rounding=self.rounding, floor=self.floor)

    def score(self, value: float, /) -> int:
        if value <= self.low:
            return self.floor
        if value >= self.high:
            return HIGHEST
        bottom = math.log(self.low)
        share = (math.log(value) - bottom) / (math.log(self.high) - bottom)
        return _round((HIGHEST - self.floor) * share + self.floor, self.rounding, self.floor)


@dataclass(frozen=True, slots=True)
class Share:
    """``100 * value / most``, at least 1 for a value above 0, so that it differs from nothing."""

    most: float = 1.0
    rounding: Rounding = "truncate"

    floor: ClassVar[int] = FLOOR

    def __post_init__(self) -> None:
        _check("Share", low=0, high=self.most, rounding=self.rounding, floor=FLOOR)

    def score(self, value: float, /) -> int:
        return FLOOR if value <= 0 else max(Linear(0, self.most, self.rounding).score(value), FLOOR + 1)


@dataclass(frozen=True, slots=True)
class Direct:
    """The value is a score: rounded to the nearest integer, and clamped to ``floor`` and 100.

    Negative scores are kept by default.
    """

    floor: int = LOWEST

    def __post_init__(self) -> None:
        _check_floor("Direct", self.floor)

    def score(self, value: float, /) -> int:
        return clamp(math.floor(min(max(value, self.floor), HIGHEST) + 0.5), floor=self.floor)


class FleetScale(abc.ABC):
    """For fleet providers only. ``score`` raises TypeError until the scale is fitted."""

    __slots__ = ()

    @abc.abstractmethod
    def fit(self, values: Iterable[float], /) -> Scale:
        """Return a scale for this round. ``values`` has one value per cluster that was read."""

    def score(self, _: float, /) -> int:
        raise TypeError(UNFITTED.format(kind=type(self).__name__))


@dataclass(frozen=True, slots=True)
class Quantile(FleetScale):
    """By rank: the lowest value of the fleet scores ``floor``, the highest 100; equal values score the same.

    A single value, or equal values, score the middle.
    """

    floor: int = FLOOR

    def __post_init__(self) -> None:
        _check_floor("Quantile", self.floor)

    def fit(self, values: Iterable[float], /) -> Scale:
        return Ranks(tuple(sorted(values)), self.floor)


@dataclass(frozen=True, slots=True)
class Spread(FleetScale):
    """Linear from the fleet's lowest value to its highest. A single value, or equal values, score the middle."""

    rounding: Rounding = "truncate"
    floor: int = FLOOR

    def __post_init__(self) -> None:
        _check_floor("Spread", self.floor)

    def fit(self, values: Iterable[float], /) -> Scale:
        known = sorted(values)
        if not known or known[0] == known[-1]:
            return Ranks(tuple(known), self.floor)
        # The span overflows.
        if not math.isfinite(known[-1] - known[0]):
            return Ranks(tuple(known), self.floor)
        return Linear(known[0], known[-1], self.rounding, self.floor)


@dataclass(frozen=True, slots=True)
class Ranks:
    """A fitted Quantile. ``values`` are sorted."""

    values: tuple[float, ...]
    floor: int = FLOOR

    def score(self, value: float, /) -> int:
        if not self.values or self.values[0] == self.values[-1]:
            middle = (self.floor + HIGHEST) // 2
            return middle if not self.values or value == self.values[0] else self._beyond(value)
        below, upto = bisect_left(self.values, value), bisect_right(self.values, value)
        # The mean rank of equal values, or the position between two values.
        rank = (below + upto - 1) / 2
        last = len(self.values) - 1
        share = min(max(rank / last, 0.0), 1.0)
        return _round((HIGHEST - self.floor) * share + self.floor, "nearest", self.floor)

    def _beyond(self, value: float) -> int:
        return self.floor if value < self.values[0] else HIGHEST


@dataclass(frozen=True, slots=True)
class Inverted:
    """For scales where low values are good: mirrors another scale within its floor and 100.

    A scale without a floor is assumed to range from -100 to 100.
    """

    scale: Scale

    @property
    def floor(self) -> int:
        return int(getattr(self.scale, "floor", LOWEST))

    def score(self, value: float, /) -> int:
        return HIGHEST + self.floor - self.scale.score(value)


def needs_fleet(scale: Scale) -> bool:
    """Whether the scale must be fitted before it can score."""
    return needs_fleet(scale.scale) if isinstance(scale, Inverted) else isinstance(scale, FleetScale)


def fit(scale: Scale, values: Iterable[float]) -> Scale:
    """Fit a FleetScale, also within an Inverted; return other scales unchanged."""
    if isinstance(scale, Inverted):
        return Inverted(fit(scale.scale, values))
    return scale.fit(values) if isinstance(scale, FleetScale) else scale
