"""Assess the readings of one round: scores for every cluster, or the reason why there are none.

All examination of a provider's result happens here, and may run the provider's code: a lazy mapping, a scale that
queries a database. So it runs in the provider's sandbox, within its deadline. The result is plain data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from fairway.providers.assessment import Assessment, assess
from fairway.providers.message_format import describe, tidy, tidy_reason
from fairway.providers.provider import ProviderError, Scale, Score
from fairway.providers.reading_check import CheckedReading, check_reading
from fairway.providers.scales import fit, needs_fleet
from fairway.providers.smoothing import Smoothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Error in the reading of one cluster."""

    cluster: str
    reason: str
    message: str
    whole: bool
    """Whether no value of the reading is usable."""


@dataclass(slots=True, kw_only=True)
class Findings:
    """Results of one round, by cluster."""

    assessments: dict[str, Assessment] = field(default_factory=dict)
    failures: dict[str, Problem] = field(default_factory=dict)
    unrequested: list[str] = field(default_factory=list)
    """Clusters in the result that the round did not request."""


@dataclass(frozen=True, slots=True)
class LastValue:
    raw: float
    smoothed: float
    at: datetime


class Assessor:
    """Assesses the readings of one provider. Keeps earlier values for smoothing and for lost scores.

    ``horizon``: seconds for which a lost score keeps its last value.
    """

    def __init__(self, scores: Sequence[Score], *, horizon: float) -> None:
        self._scores = tuple(scores)
        self._horizon = timedelta(seconds=horizon)
        self._fleet_scores = tuple(score for score in scores if needs_fleet(score.scale))
        self._smoothing: dict[str, Smoothing] = {}
        self._last: dict[str, dict[str, LastValue]] = {}

    def assess(
        self,
        readings: Mapping[str, object],
        *,
        at: datetime,
        now: datetime,
        asked: Mapping[str, object] | None = None,
    ) -> Findings:
        """``at`` is when the reading started, a lower bound for the age of its values. ``asked`` are the requested
        clusters; None accepts every cluster.
        """
        result = Findings()
        taken: dict[str, CheckedReading] = {}
        smoothed: dict[str, dict[str, float]] = {}
        since: dict[str, datetime] = {}
        if asked is not None:
            self._forget(asked)
        for cluster, reading in readings.items():
            if not isinstance(cluster, str) or (asked is not None and cluster not in asked):
                result.unrequested.append(tidy(cluster))
                continue
            try:
                intake = check_reading(reading, self._scores)
            except ProviderError as error:
                result.failures[cluster] = problem_of(cluster, error)
                continue
            # Smoothed before the scales are fitted: one outlier must not move the ranks of all clusters.
            smoothing = self._smoothing.setdefault(cluster, Smoothing(self._scores))
            smoothed[cluster] = smoothing.update(intake.values, at=at)
            taken[cluster], since[cluster] = self._restore_lost(
                cluster, intake, smoothed[cluster], at=at, now=now
            )
        # After all clusters are read, because these scales rank a cluster within the fleet. Restored values take part,
        # or a cluster whose metrics fail for a moment would shift the ranks of the others.
        scales = self._fit_scales(smoothed)
        for cluster, intake in taken.items():
            result.assessments[cluster] = assess(
                intake, self._scores, at=since[cluster], smoothed=smoothed[cluster], scales=scales
            )
        return result

    def shift_back(self, by: timedelta) -> None:
        """Move the times of stored values back after the wall clock was set back, so that they keep their age."""
        for last in self._last.values():
            for name, known in last.items():
                last[name] = replace(known, at=known.at - by)

    def _forget(self, present: Mapping[str, object]) -> None:
        for cluster in self._last.keys() - present.keys():
            del self._last[cluster]
            self._smoothing.pop(cluster, None)

    def _restore_lost(
        self, cluster: str, intake: CheckedReading, smoothed: dict[str, float], *, at: datetime, now: datetime
    ) -> tuple[CheckedReading, datetime]:
        """Add the last values of lost scores that are not expired. Return the reading and the time of its oldest value.

        The object has a single ``validUntil``, which must not exceed that of its oldest value.
        """
        last, since = self._last.setdefault(cluster, {}), at
        for name in [name for name in last if name not in intake.values and name not in intake.lost]:
            del last[name]
        for name, value in intake.values.items():
            last[name] = LastValue(value, smoothed[name], at)
        kept = {
            name: last[name] for name in intake.lost if name in last and now < last[name].at + self._horizon
        }
        if not kept:
            return intake, since
        smoothed.update((name, known.smoothed) for name, known in kept.items())
        values = {**intake.values, **{name: known.raw for name, known in kept.items()}}
        return replace(intake, values=values), min(since, *(known.at for known in kept.values()))

    def _fit_scales(self, values: Mapping[str, Mapping[str, float]]) -> dict[str, Scale]:
        fitted: dict[str, Scale] = {}
        for score in self._fleet_scores:
            known = [value[score.name] for value in values.values() if score.name in value]
            try:
                fitted[score.name] = fit(score.scale, known)
            except Exception as error:  #  a scale may be third-party code
                fitted[score.name] = UnfittedScale(describe(error))
        return fitted


@dataclass(frozen=True, slots=True)
class UnfittedScale:
    """Replaces a scale that could not be fitted to the fleet; always raises."""

    why: str

    def score(self, _: float, /) -> int:
        raise ValueError(self.why)


def problem_of(cluster: str, error: ProviderError) -> Problem:
    message = tidy(error) or type(error).__name__
    return Problem(cluster=cluster, reason=tidy_reason(error.reason), message=message, whole=True)
