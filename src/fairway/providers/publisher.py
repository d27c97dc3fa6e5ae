"""Publications of one provider for all its clusters. No I/O: readings in, next checks out."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fairway.providers.assessor import Assessor, Findings, Problem, problem_of
from fairway.providers.provider import ProviderError, Reading, Score
from fairway.providers.publication import Publishing


@dataclass(slots=True, kw_only=True)
class Round:
    """What follows from one reading."""

    looks: dict[str, datetime | None] = field(default_factory=dict)
    """When to look at a cluster's publishing; None for not because of this."""
    problems: list[Problem] = field(default_factory=list)


class Publisher:
    """``horizon`` and ``interval`` are in seconds."""

    def __init__(self, scores: Sequence[Score], *, horizon: float, interval: float) -> None:
        self._scores = tuple(scores)
        self._horizon, self._interval = horizon, interval
        self._clusters: dict[str, Publishing] = {}
        self.assessor = Assessor(self._scores, horizon=horizon)

    @property
    def clusters(self) -> Mapping[str, Publishing]:
        return self._clusters

    def of(self, cluster: str) -> Publishing:
        found = self._clusters.get(cluster)
        if found is None:
            found = self._clusters[cluster] = Publishing(
                self._scores, horizon=self._horizon, interval=self._interval
            )
        return found

    def forget(self, cluster: str) -> None:
        self._clusters.pop(cluster, None)

    def read(self, readings: Mapping[str, Reading | ProviderError], *, at: datetime, now: datetime) -> Round:
        """``at`` is when the reading began."""
        return self.take(self.assessor.assess(readings, at=at, now=now), now=now)

    def take(self, findings: Findings, *, now: datetime) -> Round:
        result = Round()
        for cluster, problem in findings.failures.items():
            result.problems.append(problem)
            result.looks[cluster] = self._failed(problem, now)
        for cluster, found in findings.assessments.items():
            if not found.well:
                result.problems.append(
                    Problem(cluster=cluster, reason=found.reason, message=found.message, whole=False)
                )
            result.looks[cluster] = self.of(cluster).read(found, now=now)
        return result

    def failed(self, error: ProviderError, *, clusters: Sequence[str], now: datetime) -> Round:
        """Nothing could be read of any of these."""
        result = Round()
        for cluster in clusters:
            problem = problem_of(cluster, error)
            result.problems.append(problem)
            result.looks[cluster] = self._failed(problem, now)
        return result

    def _failed(self, problem: Problem, now: datetime) -> datetime | None:
        return self.of(problem.cluster).failed(reason=problem.reason, message=problem.message, now=now)

    def set_back(self, by: timedelta) -> None:
        """Our clock was."""
        for publishing in self._clusters.values():
            publishing.set_back(by)

    def expiry(self, now: datetime) -> float:
        """Seconds until the first published score runs out; NaN if nothing is published."""
        return min((until.timestamp() for until in self._ends()), default=math.nan) - now.timestamp()

    def _ends(self) -> Iterator[datetime]:
        for publishing in self._clusters.values():
            found = publishing.published
            if found is not None and found.scores and found.valid_until is not None:
                yield found.valid_until
