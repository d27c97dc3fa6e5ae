"""Publications of one provider for all its clusters. No I/O: readings in, next checks out."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fairway.providers.assessor import Assessor, Findings, Problem, problem_of
from fairway.providers.provider import ProviderError, Reading, Score
from fairway.providers.publication import PublicationState


@dataclass(slots=True, kw_only=True)
class Round:
    """Result of one reading: the next check of each cluster, and problems."""

    next_checks: dict[str, datetime | None] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


class Publisher:
    """``horizon`` and ``interval`` are in seconds."""

    def __init__(self, scores: Sequence[Score], *, horizon: float, interval: float) -> None:
        self._scores = tuple(scores)
        self._horizon, self._interval = horizon, interval
        self._clusters: dict[str, PublicationState] = {}
        self.assessor = Assessor(self._scores, horizon=horizon)

    @property
    def clusters(self) -> Mapping[str, PublicationState]:
        return self._clusters

    def state_of(self, cluster: str) -> PublicationState:
        state = self._clusters.get(cluster)
        if state is None:
            state = self._clusters[cluster] = PublicationState(
                self._scores, horizon=self._horizon, interval=self._interval
            )
        return state

    def forget(self, cluster: str) -> None:
        self._clusters.pop(cluster, None)

    def read(self, readings: Mapping[str, Reading | ProviderError], *, at: datetime, now: datetime) -> Round:
        """``at`` is when the reading began."""
        return self.take(self.assessor.assess(readings, at=at, now=now), now=now)

    def take(self, findings: Findings, *, now: datetime) -> Round:
        result = Round()
        for cluster, problem in findings.failures.items():
            result.problems.append(problem)
            result.next_checks[cluster] = self._record_failure(problem, now)
        for cluster, assessment in findings.assessments.items():
            if not assessment.ok:
                result.problems.append(
                    Problem(
                        cluster=cluster, reason=assessment.reason, message=assessment.message, whole=False
                    )
                )
            result.next_checks[cluster] = self.state_of(cluster).record_reading(assessment, now=now)
        return result

    def record_failure(self, error: ProviderError, *, clusters: Sequence[str], now: datetime) -> Round:
        """Record a reading that failed for all ``clusters``."""
        result = Round()
        for cluster in clusters:
            problem = problem_of(cluster, error)
            result.problems.append(problem)
            result.next_checks[cluster] = self._record_failure(problem, now)
        return result

    def _record_failure(self, problem: Problem, now: datetime) -> datetime | None:
        return self.state_of(problem.cluster).record_reading_failure(
            reason=problem.reason, message=problem.message, now=now
        )

    def shift_back(self, by: timedelta) -> None:
        for publishing in self._clusters.values():
            publishing.shift_back(by)

    def expiry(self, now: datetime) -> float:
        """Seconds until the first published score expires; NaN if none is published."""
        return min((until.timestamp() for until in self._ends()), default=math.nan) - now.timestamp()

    def _ends(self) -> Iterator[datetime]:
        for publishing in self._clusters.values():
            publication = publishing.published
            if publication is not None and publication.scores and publication.valid_until is not None:
                yield publication.valid_until
