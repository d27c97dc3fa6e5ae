"""Scales: how raw values become scores between -100 and 100, the higher the better.

All are frozen values that only compare and compute, and all are monotone. What is not finite never reaches a scale.

A scale that ranks a cluster among the others cannot know a score from one value: it is a ``FleetScale``, which is
fitted to the values of one round first. ``fitted`` does that for any scale, also where one is within another.
"""

import abc
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from fairway.providers.provider import HIGHEST, LOWEST, Scale

Rounding = Literal["truncate", "nearest", "floor"]
"""``truncate`` is toward zero, as OCM's own SDK does it."""

NOT_FINITE: Final = "{kind}: {name} must be a finite number, not {value!r}"
NO_RANGE: Final = "{kind}: low ({low}) must be less than high ({high})"
UPSIDE_DOWN: Final = "; if low values are good, write Inverted({kind}({high}, {low}))"
NOT_POSITIVE: Final = (
    "Logarithmic: low must be greater than 0, not {low}; write the smallest value that matters, such as 1"
)
UNKNOWN_ROUNDING: Final = "{kind}: rounding must be truncate, nearest or floor, not {given!r}"
UNFITTED: Final = "{kind} ranks a cluster among others: fit it to the values of the fleet first"

_SPAN: Final = HIGHEST - LOWEST


def clamped(score: float) -> int:
    """The nearest score there is, without the part after the point."""
    return int(min(max(score, LOWEST), HIGHEST))


def _rounded(score: float, rounding: Rounding) -> int:
    if rounding == "truncate":
        return clamped(score)
    return clamped(math.floor(score + 0.5 if rounding == "nearest" else score))


def _check(kind: str, *, low: float, high: float, rounding: Rounding) -> None:
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
    """``200 * (value - low) / (high - low) - 100``; limits are assumptions, so what lies beyond them is clamped."""

    low: float
    high: float
    rounding: Rounding = "truncate"

    def __post_init__(self) -> None:
        _check("Linear", low=self.low, high=self.high, rounding=self.rounding)

    def score(self, value: float, /) -> int:
        if value <= self.low:
            return LOWEST
        if value > self.high:
            return HIGHEST
        distance = _SPAN * (value - self.low)
        # The reference's order of operations, so that it errs by the same last bit; it would overflow here.
        share = distance / (self.high - self.low) if math.isfinite(distance) else _SPAN * self._part(value)
        return _rounded(share + LOWEST, self.rounding)

    def _part(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Equal ratios are equal distances: from 1 to 2 is as far as from 100 to 200. ``low`` is greater than 0."""

    low: float
    high: float
    rounding: Rounding = "nearest"

    def __post_init__(self) -> None:
        if math.isfinite(self.low) and self.low <= 0:
            raise ValueError(NOT_POSITIVE.format(low=self.low))
        _check("Logarithmic", low=self.low, high=self.high, rounding=self.rounding)

    def score(self, value: float, /) -> int:
        if value <= self.low:
            return LOWEST
        if value >= self.high:
            return HIGHEST
        bottom = math.log(self.low)
        share = (math.log(value) - bottom) / (math.log(self.high) - bottom)
        return _rounded(_SPAN * share + LOWEST, self.rounding)


@dataclass(frozen=True, slots=True)
class Direct:
    """The value is a score already: rounded to the nearest, and clamped."""

    def score(self, value: float, /) -> int:
        return clamped(math.floor(min(max(value, LOWEST), HIGHEST) + 0.5))


class FleetScale(abc.ABC):
    """For fleet providers only. By itself it scores nothing: ``score`` raises TypeError."""

    __slots__ = ()

    @abc.abstractmethod
    def fit(self, values: Iterable[float], /) -> Scale:
        """A scale for this round. ``values`` are those of all clusters that were read in it, one each."""

    def score(self, _: float, /) -> int:
        raise TypeError(UNFITTED.format(kind=type(self).__name__))


@dataclass(frozen=True, slots=True)
class Quantile(FleetScale):
    """By rank: the lowest value of the fleet scores -100, the highest 100, equal values the same in between.

    A fleet of one, or of equals, scores 0: there is nothing to tell it from the others.
    """

    def fit(self, values: Iterable[float], /) -> Scale:
        return Ranks(tuple(sorted(values)))


@dataclass(frozen=True, slots=True)
class Spread(FleetScale):
    """Linear from the fleet's lowest value to its highest. A fleet of one, or of equals, scores 0."""

    rounding: Rounding = "truncate"

    def fit(self, values: Iterable[float], /) -> Scale:
        known = sorted(values)
        if not known or known[0] == known[-1]:
            return Ranks(tuple(known))
        # A span that is no number any more is still one of numbers at half the size.
        if not math.isfinite(known[-1] - known[0]):
            return Ranks(tuple(known))
        return Linear(known[0], known[-1], self.rounding)


@dataclass(frozen=True, slots=True)
class Ranks:
    """A Quantile that was fitted. ``values`` are sorted."""

    values: tuple[float, ...]

    def score(self, value: float, /) -> int:
        if not self.values or self.values[0] == self.values[-1]:
            return 0 if not self.values or value == self.values[0] else self._beyond(value)
        below, upto = bisect_left(self.values, value), bisect_right(self.values, value)
        # The mean rank of those equal to it, or the place between two.
        rank = (below + upto - 1) / 2
        last = len(self.values) - 1
        return _rounded(_SPAN * min(max(rank / last, 0.0), 1.0) + LOWEST, "nearest")

    def _beyond(self, value: float) -> int:
        return LOWEST if value < self.values[0] else HIGHEST


@dataclass(frozen=True, slots=True)
class Inverted:
    """Low values are good ones: the other scale, upside down."""

    scale: Scale

    def score(self, value: float, /) -> int:
        return -self.scale.score(value)


def needs_fleet(scale: Scale) -> bool:
    """Whether it must be fitted before it can score."""
    return needs_fleet(scale.scale) if isinstance(scale, Inverted) else isinstance(scale, FleetScale)


def fitted(scale: Scale, values: Iterable[float]) -> Scale:
    """The same scale if it needs no fleet."""
    if isinstance(scale, Inverted):
        return Inverted(fitted(scale.scale, values))
    return scale.fit(values) if isinstance(scale, FleetScale) else scale
