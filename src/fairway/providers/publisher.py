"""What one provider publishes, for every cluster it reads. No I/O: readings in, and out comes when to look at whom."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from fairway.providers.assessment import assess, shortened, tidy_reason
from fairway.providers.intake import Intake, take_in
from fairway.providers.provider import ProviderError, Reading, Scale, Score
from fairway.providers.publication import Publishing
from fairway.providers.scales import fitted, needs_fleet
from fairway.providers.smoothing import Smoothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What was wrong with the reading of one cluster."""

    cluster: str
    reason: str
    message: str
    whole: bool
    """Whether nothing of the reading could be used."""


@dataclass(slots=True, kw_only=True)
class Round:
    """What follows from one reading."""

    looks: dict[str, datetime | None] = field(default_factory=dict)
    """When to look at a cluster's publishing; None for not because of this."""
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Known:
    """The last value of a score."""

    raw: float
    smoothed: float
    at: datetime


class Publisher:
    """``horizon`` is in seconds."""

    def __init__(self, scores: Sequence[Score], *, horizon: float) -> None:
        self._scores = tuple(scores)
        self._horizon = horizon
        self._of_fleet = tuple(score for score in scores if needs_fleet(score.scale))
        self._clusters: dict[str, Publishing] = {}
        self._smoothing: dict[str, Smoothing] = {}
        self._last: dict[str, dict[str, Known]] = {}

    @property
    def clusters(self) -> Mapping[str, Publishing]:
        return self._clusters

    def of(self, cluster: str) -> Publishing:
        found = self._clusters.get(cluster)
        if found is None:
            found = self._clusters[cluster] = Publishing(self._scores, horizon=self._horizon)
            self._smoothing[cluster] = Smoothing(self._scores)
            self._last[cluster] = {}
        return found

    def forget(self, cluster: str) -> None:
        self._clusters.pop(cluster, None)
        self._smoothing.pop(cluster, None)
        self._last.pop(cluster, None)

    def read(self, readings: Mapping[str, Reading | ProviderError], *, at: datetime, now: datetime) -> Round:
        """``at`` is when the reading began: nothing in it is newer than that for sure."""
        result = Round()
        taken: dict[str, Intake] = {}
        smoothed: dict[str, dict[str, float]] = {}
        since: dict[str, datetime] = {}
        for cluster, reading in readings.items():
            publishing = self.of(cluster)
            try:
                intake = take_in(reading, self._scores)
            except ProviderError as error:
                problem = _problem(cluster, error)
                result.problems.append(problem)
                result.looks[cluster] = publishing.failed(
                    reason=problem.reason, message=problem.message, now=now
                )
            else:
                smoothed[cluster] = self._smoothing[cluster].update(intake.values, at=at)
                taken[cluster], since[cluster] = self._completed(
                    cluster, intake, smoothed[cluster], at=at, now=now
                )
        scales = self._fitted(smoothed)
        for cluster, intake in taken.items():
            found = assess(intake, self._scores, at=since[cluster], smoothed=smoothed[cluster], scales=scales)
            if not found.well:
                problem = Problem(cluster=cluster, reason=found.reason, message=found.message, whole=False)
                result.problems.append(problem)
            result.looks[cluster] = self._clusters[cluster].read(found, now=now)
        return result

    def _completed(
        self, cluster: str, intake: Intake, smoothed: dict[str, float], *, at: datetime, now: datetime
    ) -> tuple[Intake, datetime]:
        """With the last values of scores that were lost, unless those have run out, and as old as the oldest of them.

        The object has one validity for all: it must not outlast what is old in it.
        """
        last, since = self._last[cluster], at
        for name in [name for name in last if name not in intake.values and name not in intake.lost]:
            del last[name]
        for name, value in intake.values.items():
            last[name] = Known(value, smoothed[name], at)
        kept = {
            name: last[name]
            for name in intake.lost
            if name in last and now < last[name].at + timedelta(seconds=self._horizon)
        }
        if not kept:
            return intake, since
        smoothed.update((name, known.smoothed) for name, known in kept.items())
        values = {**intake.values, **{name: known.raw for name, known in kept.items()}}
        return replace(intake, values=values), min(since, *(known.at for known in kept.values()))

    def failed(self, error: ProviderError, *, clusters: Sequence[str], now: datetime) -> Round:
        """Nothing could be read of any of these."""
        result = Round()
        for cluster in clusters:
            problem = _problem(cluster, error)
            result.problems.append(problem)
            result.looks[cluster] = self.of(cluster).failed(
                reason=problem.reason, message=problem.message, now=now
            )
        return result

    def expiry(self, now: datetime) -> float:
        """Seconds until the first published score runs out; NaN if nothing is published."""
        return min((until.timestamp() for until in self._ends()), default=math.nan) - now.timestamp()

    def _ends(self) -> Iterator[datetime]:
        for publishing in self._clusters.values():
            found = publishing.published
            if found is not None and found.scores and found.valid_until is not None:
                yield found.valid_until

    def _fitted(self, values: Mapping[str, Mapping[str, float]]) -> dict[str, Scale]:
        return {
            score.name: fitted(
                score.scale, [each[score.name] for each in values.values() if score.name in each]
            )
            for score in self._of_fleet
        }


def _problem(cluster: str, error: ProviderError) -> Problem:
    message = shortened(" ".join(str(error).split())) or type(error).__name__
    return Problem(cluster=cluster, reason=tidy_reason(str(error.reason)), message=message, whole=True)
