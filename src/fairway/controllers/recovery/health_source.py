"""The score that health is read from: of an AddOnPlacementScore, or a calculator's ManagedClusterScore."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fairway.api.score import AddOnPlacementScore, ManagedClusterScore, ManagedClusterScoreStatus
from fairway.hosts.clusters.scores import calculator_of, is_stand_in

NO_COORDINATE: Final = (
    "{text!r} does not name a score: write RESOURCE/SCORE, like health-score/health, "
    "or the calculator of a ManagedClusterScore, like health"
)


class HealthSourceError(ValueError):
    """The text does not name a score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSource:
    """``resource`` is empty if ``score`` is a calculator, which is in lower case then."""

    resource: str = ""
    score: str

    @classmethod
    def parse(cls, text: str) -> "HealthSource":
        """Raises HealthSourceError."""
        resource, slash, score = (part.strip() for part in text.rpartition("/"))
        if not score or (slash and (not resource or "/" in resource)):
            raise HealthSourceError(NO_COORDINATE.format(text=text))
        return cls(resource=resource, score=score) if slash else cls(score=score.lower())

    def __str__(self) -> str:
        return f"{self.resource}/{self.score}" if self.resource else self.score


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReading:
    """A published health score. ``expires`` None means never."""

    score: int
    expires: datetime | None = None

    def at(self, moment: datetime) -> int | None:
        """Return None if it has expired by then."""
        return None if self.expires is not None and moment >= self.expires else self.score


def read(
    published: AddOnPlacementScore | ManagedClusterScore, *, at: HealthSource, fresh: float | None
) -> HealthReading | None:
    """Return None if the object does not contain this cluster's health."""
    if isinstance(published, AddOnPlacementScore):
        # The replacement values of a silent score are not the cluster's health.
        if published.metadata.name != at.resource or is_stand_in(published):
            return None
        for item in reversed(published.status.scores):  # as for placements, the last item of a name counts
            if item.name == at.score:
                return HealthReading(score=item.value, expires=published.status.validUntil)
        return None
    if calculator_of(published) != at.score:
        return None
    status = published.status
    updated = [
        condition.lastUpdateTime for condition in status.conditions if condition.lastUpdateTime is not None
    ]
    if published.value is None:
        return None
    if not updated and (fresh is not None or status == ManagedClusterScoreStatus()):
        return None  # it is not written yet, or its age is unknown
    return HealthReading(
        score=published.value, expires=None if fresh is None else _later(max(updated), seconds=fresh)
    )


def _later(moment: datetime, *, seconds: float) -> datetime | None:
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:  # beyond the largest datetime
        return None
