"""Scores declared in a file: name, unit, and the scale that maps raw values to scores.

scores:
- name: cpuFree
  unit: cores
  scale: {kind: linear, low: 0, high: 100}
- name: price
  unit: EUR/h
  scale: {kind: logarithmic, low: 0.1, high: 100, inverted: true}   # low values are good
- name: latency
  scale: {kind: quantile, inverted: true}                           # by rank in the fleet
- name: balance
  scale: {kind: linear, low: -5, high: 5, floor: -100}              # from -100 to 100 instead of from 0 to 100
"""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct, field

from fairway.providers.definition import is_name, is_resource, is_score
from fairway.providers.document import Document, Seconds, Steps
from fairway.providers.provider import DEADBAND, HIGHEST, INTERVAL_SECONDS, LOWEST, Scale, Score
from fairway.providers.scales import FLOOR, Direct, Inverted, Linear, Logarithmic, Quantile, Spread

SHORTEST_INTERVAL: Final = 1.0
NO_SCALE: Final = "misses the field 'scale', such as {kind: linear, low: 0, high: 100}"
NO_LIMITS: Final = "a {kind} scale needs low and high: the values that score the worst and the best"
UPSIDE_DOWN: Final = (
    "low ({low:g}) must be less than high ({high:g}); if low values are good, exchange them and write "
    "inverted: true"
)
LIMITS_UNUSED: Final = "a {kind} scale has no low and high: remove them, or write kind: linear"
BAD_NAME: Final = (
    "{given!r} is not a valid provider name: use 1 to 63 letters, digits, '-', '_' and '.', such as queue"
)
BAD_RESOURCE: Final = (
    "{given!r} is not a valid resource name: use lower-case letters, digits, '-' and '.', starting and "
    "ending with a letter or digit"
)
BAD_SCORE_NAME: Final = (
    "{given!r} is not a valid score name: use 1 to 100 letters, digits, '-', '_', '.' and ':', "
    "such as queueFree"
)
BAD_DEADBAND: Final = "must be from 0 to 200 points, not {given}"
BAD_THRESHOLD: Final = "must be a score, from -100 to 100, not {given}"
TWO_SCORES: Final = "the score {name!r} is declared twice"
NO_SCORES: Final = "declares no score; write at least one under scores"
TOO_OFTEN: Final = f"must be at least {SHORTEST_INTERVAL:g}s"

_UNLIMITED: Final[dict[str, Callable[[int], Scale]]] = {
    "direct": Direct,
    "quantile": Quantile,
    "spread": lambda floor: Spread(floor=floor),
}


class ScaleEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["direct", "linear", "logarithmic", "quantile", "spread"]
    low: float | None = None
    high: float | None = None
    inverted: bool = False
    """Whether low values are good."""
    floor: Literal[0, -100] | None = None
    """Score of the worst value. Defaults to 0, and to -100 for direct values, which are scores themselves."""

    def scale(self) -> Scale:
        """Raises ValueError."""
        made: Scale
        floor = self.floor
        if floor is None:
            floor = LOWEST if self.kind == "direct" and not self.inverted else FLOOR
        if self.kind in ("linear", "logarithmic"):
            if self.low is None or self.high is None:
                raise ValueError(NO_LIMITS.format(kind=self.kind))
            if self.low > self.high:
                raise ValueError(UPSIDE_DOWN.format(low=self.low, high=self.high))
            made = (Linear if self.kind == "linear" else Logarithmic)(self.low, self.high, floor=floor)
        elif self.low is not None or self.high is not None:
            raise ValueError(LIMITS_UNUSED.format(kind=self.kind))
        else:
            made = _UNLIMITED[self.kind](floor)
        return Inverted(made) if self.inverted else made


class ScoreEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Fields of every declared score. Subclasses add the source of the value."""

    name: str
    scale: ScaleEntry | None = None
    unit: str = ""
    meaning: str = ""
    deadband: int = DEADBAND
    thresholds: tuple[int, ...] = ()
    half_life: Seconds = field(default_factory=lambda: Seconds(0))

    def default_scale(self) -> Scale | None:
        """Return the scale to use if none is declared; None if the declaration is required."""
        return None

    def score(self, document: Document, *path: str | int) -> Score:
        """``path`` is the position of the declaration. Raises DocumentError."""
        if not is_score(self.name):
            raise document.error(BAD_SCORE_NAME.format(given=self.name), *path, "name")
        scale = self.default_scale()
        if self.scale is not None:
            try:
                scale = self.scale.scale()
            except ValueError as error:
                raise document.error(str(error), *path, "scale") from None
        if scale is None:
            raise document.error(NO_SCALE, *path)
        if not 0 <= self.deadband <= HIGHEST - LOWEST:
            raise document.error(BAD_DEADBAND.format(given=self.deadband), *path, "deadband")
        for index, line in enumerate(self.thresholds):
            if not LOWEST <= line <= HIGHEST:
                raise document.error(BAD_THRESHOLD.format(given=line), *path, "thresholds", index)
        return Score(
            name=self.name,
            scale=scale,
            unit=self.unit,
            meaning=self.meaning,
            deadband=self.deadband,
            thresholds=self.thresholds,
            half_life=float(self.half_life),
        )


class ProviderEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Fields of every provider's file."""

    name: str = ""
    resource: str = ""
    """Name of the AddOnPlacementScore; by default the provider's name followed by ``-score``."""
    interval: Seconds = field(default_factory=lambda: Seconds(INTERVAL_SECONDS))

    def names(self, document: Document, *, default: str) -> tuple[str, str]:
        """Return the provider's name and resource. Raises DocumentError."""
        name = self.name or default
        resource = self.resource or f"{name}-score".lower()
        if not is_name(name):
            raise document.error(BAD_NAME.format(given=name), "name")
        if not is_resource(resource):
            raise document.error(BAD_RESOURCE.format(given=resource), "resource")
        if self.interval < SHORTEST_INTERVAL:
            raise document.error(TOO_OFTEN, "interval")
        return name, resource


def convert_scores(
    entries: "tuple[ScoreEntry, ...] | list[ScoreEntry]", document: Document, *path: str | int
) -> tuple[Score, ...]:
    """Convert the list of scores at ``path``. Raises DocumentError, also if it is empty or repeats a name."""
    if not entries:
        raise document.error(NO_SCORES)
    seen: set[str] = set()
    scores = []
    for index, entry in enumerate(entries):
        at: Steps = (*path, index)
        scores.append(entry.score(document, *at))
        if entry.name in seen:
            raise document.error(TWO_SCORES.format(name=entry.name), *at, "name")
        seen.add(entry.name)
    return tuple(scores)
