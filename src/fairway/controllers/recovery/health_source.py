"""Where health is read: a score of an AddOnPlacementScore, or a calculator's ManagedClusterScore."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fairway.api.score import AddOnPlacementScore, ManagedClusterScore, ManagedClusterScoreStatus
from fairway.fleet.scores import calculator_of, is_stand_in

NO_COORDINATE: Final = (
    "{text!r} does not name a score: write RESOURCE/SCORE, like health-score/health, "
    "or the calculator of a ManagedClusterScore, like health"
)


class HealthSourceError(ValueError):
    """What was written names no score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSource:
    """``resource`` is empty if ``score`` is a calculator, which is lower-case then."""

    resource: str = ""
    score: str

    @classmethod
    def parse(cls, text: str) -> "HealthSource":
        """Raises CoordinateError."""
        resource, slash, score = (part.strip() for part in text.rpartition("/"))
        if not score or (slash and (not resource or "/" in resource)):
            raise HealthSourceError(NO_COORDINATE.format(text=text))
        return cls(resource=resource, score=score) if slash else cls(score=score.lower())

    def __str__(self) -> str:
        return f"{self.resource}/{self.score}" if self.resource else self.score


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReading:
    """What was published. ``expires`` None means never."""

    score: int
    expires: datetime | None = None

    def at(self, moment: datetime) -> int | None:
        """None if it has run out by then."""
        return None if self.expires is not None and moment >= self.expires else self.score


def read(
    published: AddOnPlacementScore | ManagedClusterScore, *, at: HealthSource, fresh: float | None
) -> HealthReading | None:
    """None if the object does not tell this cluster's health."""
    if isinstance(published, AddOnPlacementScore):
        # What the janitor put in the place of a silent score is nobody's word on the cluster's health.
        if published.metadata.name != at.resource or is_stand_in(published):
            return None
        for item in reversed(published.status.scores):  # as placements read it, the last of its name counts
            if item.name == at.score:
                return HealthReading(score=item.value, expires=published.status.validUntil)
        return None
    if calculator_of(published) != at.score:
        return None
    status = published.status
    updated = [each.lastUpdateTime for each in status.conditions if each.lastUpdateTime is not None]
    if published.value is None:
        return None
    if not updated and (fresh is not None or status == ManagedClusterScoreStatus()):
        return None  # it is yet to be written, or nobody knows how old it is
    return HealthReading(
        score=published.value, expires=None if fresh is None else _later(max(updated), seconds=fresh)
    )


def _later(moment: datetime, *, seconds: float) -> datetime | None:
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:  # after the end of times
        return None
