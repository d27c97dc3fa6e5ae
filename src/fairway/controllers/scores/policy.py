"""What happens to a score that is not renewed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

GRACE: Final = 60.0
"""Seconds. Clocks of clusters and hub differ, and a provider needs time to restart."""
SHARE: Final = 0.5
WORST: Final = -100
KNOWN_WORST: Final = {"hosted-clusters-score/hostedClustersCount": 100}
"""Scores where less is better: placements give them a negative weight, and -100 would make a silent host the best."""
LOWEST, HIGHEST = -100, 100

NO_SCORE: Final = (
    "{text!r} does not name a score: write it like hosted-clusters-score/hostedClustersCount=100"
)
NO_NUMBER: Final = "{text!r}: the worst score must be an integer from -100 to 100"
NO_SHARE: Final = "share must be from 0 to 1; got {share:g}"


class SilencePolicyError(ValueError):
    """An invalid policy."""


class Silence(StrEnum):
    LEAVE = "leave"
    """Only report it."""
    WORST = "worst"
    """Replace its values by the worst, for consumers that ignore validUntil; the original values are kept."""
    DROP = "drop"
    """Delete the object."""


class Orphans(StrEnum):
    """What to do with scores of deleted clusters."""

    LEAVE = "leave"
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class SilencePolicy:
    default: Silence = Silence.LEAVE
    by_resource: Mapping[str, Silence] = field(default_factory=dict)
    worst: Mapping[str, int] = field(default_factory=dict)
    """Worst values by ``resource/score``, for scores where less is better; for others the known ones, or -100."""
    grace: float = GRACE
    """Seconds after expiry, or after its cluster became unavailable."""
    share: float = SHARE
    """If more than this share of a provider's scores is silent at once, wait."""
    orphans: Orphans = Orphans.LEAVE

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise SilencePolicyError(NO_SHARE.format(share=self.share))
        for name, value in self.worst.items():
            if not all(name.partition("/")):
                raise SilencePolicyError(NO_SCORE.format(text=f"{name}={value}"))
            if not LOWEST <= value <= HIGHEST:
                raise SilencePolicyError(NO_NUMBER.format(text=f"{name}={value}"))

    def of(self, resource: str) -> Silence:
        return self.by_resource.get(resource, self.default)

    def worst_of(self, resource: str, score: str) -> int:
        name = f"{resource}/{score}"
        return self.worst.get(name, KNOWN_WORST.get(name, WORST))
