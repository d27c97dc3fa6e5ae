"""Configuration of the bridge: which scores are copied, in which direction, and how."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

RESOURCE: Final = "managed-cluster-scores"
TTL_SECONDS: Final = 300.0

NO_DIRECTION: Final = "the bridge has no direction: choose toAddOn, toManaged or both"
NO_TTL: Final = "ttl must be greater than 0 seconds; got {ttl:g}"
NO_RANGE: Final = "range of {calculator}: low must be less than high; got {low} and {high}"
NOT_LOWER: Final = "calculator names are lower case; got {calculator!r}"
NO_RESOURCE: Final = (
    "{resource!r} is not a valid AddOnPlacementScore name: "
    "use lower case letters, digits, '-' and '.', and begin and end with a letter or digit"
)
NO_SCORE: Final = "calculator {calculator} would get an empty score name"
SAME_SCORE: Final = (
    "calculators {one} and {other} would get the same score name {score!r}: give them different names"
)

LONGEST_NAME: Final = 253
_PART: Final = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
NAME: Final = re.compile(rf"{_PART}(?:\.{_PART})*", re.ASCII)


class BridgeOptionsError(ValueError):
    """Invalid options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """``low`` scores ``floor``, which is 0 or -100, and ``high`` scores 100."""

    low: int
    high: int
    floor: int = 0

    def score(self, value: int) -> int:
        """Apply the formula of score providers, with OCM's limits and truncation; exact for every int64."""
        if value <= self.low:
            return self.floor
        if value > self.high:
            return 100
        span = self.high - self.low
        excess = (100 - self.floor) * (value - self.low) + self.floor * span
        whole = abs(excess) // span
        return whole if excess >= 0 else -whole


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeOptions:
    """Raises OptionsError."""

    to_add_on: bool = True
    """Copy ManagedClusterScores to an AddOnPlacementScore, for Placements."""
    to_managed: bool = False
    """Copy scores of AddOnPlacementScores to ManagedClusterScores, for readers of those."""
    ttl: float = TTL_SECONDS
    """Seconds for which a ManagedClusterScore is valid after its last update."""
    resource: str = RESOURCE
    """The name of the AddOnPlacementScore in every cluster's namespace."""
    calculators: frozenset[str] = frozenset()
    """Calculators to copy; empty: all."""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """Scale by calculator; without one, as Placements read it (decision 0007), but over the whole fleet."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of scores by calculator; by default the calculator's name."""
    resources: frozenset[str] = frozenset()
    """AddOnPlacementScores to copy; empty: all."""

    def __post_init__(self) -> None:
        if not (self.to_add_on or self.to_managed):
            raise BridgeOptionsError(NO_DIRECTION)
        if not self.ttl > 0:
            raise BridgeOptionsError(NO_TTL.format(ttl=self.ttl))
        for calculator in (*self.calculators, *self.ranges, *self.names):
            if calculator != calculator.lower():
                raise BridgeOptionsError(NOT_LOWER.format(calculator=calculator))
        if len(self.resource) > LONGEST_NAME or not NAME.fullmatch(self.resource):
            raise BridgeOptionsError(NO_RESOURCE.format(resource=self.resource))
        for calculator, limits in self.ranges.items():
            if limits.low >= limits.high:
                raise BridgeOptionsError(
                    NO_RANGE.format(calculator=calculator, low=limits.low, high=limits.high)
                )
        given: dict[str, str] = {}
        for calculator, score in self.names.items():
            if not score:
                raise BridgeOptionsError(NO_SCORE.format(calculator=calculator))
            other = given.setdefault(score, calculator)
            if other != calculator:
                raise BridgeOptionsError(SAME_SCORE.format(one=other, other=calculator, score=score))

    def score_of(self, calculator: str) -> str:
        return self.names.get(calculator, calculator)

    def bridges_calculator(self, calculator: str) -> bool:
        return not self.calculators or calculator in self.calculators

    def bridges_resource(self, resource: str) -> bool:
        return not self.resources or resource in self.resources
