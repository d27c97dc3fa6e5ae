"""The provider: runs every query once per round, and reports values and problems per cluster.

Uncertain values are left out: a missing score expires visibly, a wrong one goes unnoticed.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from fairway.api.cluster import ManagedCluster
from fairway.providers.catalogue import Context, OptionsError
from fairway.providers.document import Document, DocumentError
from fairway.providers.prometheus.api import INCOMPLETE, NOT_COMPLETE, Api, Result, Series
from fairway.providers.prometheus.attribution import Attributed, Clusters, abbreviate
from fairway.providers.prometheus.options import PrometheusOptions, Query, options_of
from fairway.providers.prometheus.reduction import Point
from fairway.providers.provider import FleetProvider, ProviderError, Reading, Wake
from kubewire.client.clock import SYSTEM_CLOCK, Clock

MISSING: Final = "ClusterMissing"
AMBIGUOUS: Final = "ClusterAmbiguous"
UNLABELLED: Final = "ClusterLabelMissing"
NOT_FINITE: Final = "ValueNotFinite"
STALE: Final = "SampleTooOld"
SPARSE: Final = "SeriesTooSparse"

NO_SERIES: Final = "no series for this cluster{hint}"
ANSWER_EMPTY: Final = ": the query result is empty"
ANSWER_NAMES: Final = ": label {label} has the values {names}"
NO_SUCH_LABEL: Final = "no series has the label {label}, which names the cluster; there are {labels}"
SEVERAL_SERIES: Final = (
    "{count} series for this cluster: {series}; aggregate them, as in max by ({label}) (...)"
)
SEVERAL_CLUSTERS: Final = "label {label} is {value!r}, which several clusters have: {clusters}"
NO_NUMBER: Final = "the value is {value}"
TOO_OLD: Final = "the newest sample is {age:.0f} s old, more than {most:.0f} s"
AGE_UNKNOWN: Final = "{query} does not return the age of the newest sample"
TOO_SPARSE: Final = "{count} of {steps} points of the window have a value"


@dataclass(frozen=True, slots=True)
class _Rejection:
    """Why a cluster has no value."""

    reason: str
    words: str


class Prometheus(FleetProvider):
    def __init__(self, options: PrometheusOptions, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name, self.resource = options.name, options.resource
        self.scores, self.interval = options.scores, options.interval
        self._options, self._clock = options, clock
        self._api = Api(options.endpoint, method=options.method, params=options.params)

    @asynccontextmanager
    async def running(self, _wake: Wake, /) -> AsyncIterator[None]:
        async with self._options.endpoint.open():
            yield

    async def read(self, clusters: Mapping[str, ManagedCluster], /) -> Mapping[str, Reading | ProviderError]:
        slots = asyncio.Semaphore(self._options.concurrency)

        async def run(query: Query) -> "Mapping[str, float | _Rejection] | ProviderError":
            async with slots:
                try:
                    return await self._run(query, clusters)
                except ProviderError as error:
                    return error

        answers = await asyncio.gather(*(run(query) for query in self._options.queries))
        failures = [answer for answer in answers if isinstance(answer, ProviderError)]
        if len(failures) == len(answers):
            raise self._combine_errors(answers)
        return {name: self._reading(name, answers) for name in clusters}

    async def history(
        self, clusters: Mapping[str, ManagedCluster], *, start: float, end: float, step: float
    ) -> Mapping[tuple[str, str], tuple[Point, ...]]:
        """Past values of the queries by cluster and score, without scores of range queries. Raises ProviderError."""
        points: dict[tuple[str, str], tuple[Point, ...]] = {}
        for query in self._options.queries:
            if query.range is not None:
                continue
            result = await self._api.range(query.query, start=start, end=end, step=step)
            self._check_warnings(result)
            for name, mine in Clusters(query.cluster, clusters).attribute(result.series).of.items():
                if len(mine) == 1:
                    finite = tuple(point for point in mine[0].points if math.isfinite(point[1]))
                    points[name, query.score] = finite
        return points

    def _combine_errors(self, answers: list[Any]) -> ProviderError:
        """Combine the errors; scores with the same error share one text."""
        texts: dict[str, list[str]] = {}
        for query, error in zip(self._options.queries, answers, strict=True):
            texts.setdefault(str(error), []).append(query.score)
        words = "; ".join(f"{', '.join(scores)}: {text}" for text, scores in texts.items())
        return ProviderError(words, reason=answers[0].reason)

    def _reading(self, cluster: str, answers: list[Any]) -> Reading | ProviderError:
        values: dict[str, float] = {}
        rejections: list[_Rejection] = []
        lost: list[str] = []
        for query, answer in zip(self._options.queries, answers, strict=True):
            value = (
                _Rejection(answer.reason, str(answer))
                if isinstance(answer, ProviderError)
                else answer[cluster]
            )
            if isinstance(value, _Rejection):
                rejections.append(_Rejection(value.reason, f"{query.score}: {value.words}"))
                lost.append(query.score)
            else:
                values[query.score] = value
        if not rejections:
            return Reading(values=values)
        problem = "; ".join(rejection.words for rejection in rejections)
        if not values:
            return ProviderError(problem, reason=rejections[0].reason)
        return Reading(values=values, problem=problem, reason=rejections[0].reason, lost=tuple(lost))

    async def _run(
        self, query: Query, clusters: Mapping[str, ManagedCluster]
    ) -> "Mapping[str, float | _Rejection]":
        """Return a value or a rejection for every cluster. Raises ProviderError."""
        known = Clusters(query.cluster, clusters)
        result, now = await self._series(query)
        self._check_warnings(result)
        label = query.cluster.label
        if result.series and not any(label in one_series.labels for one_series in result.series):
            labels = (
                abbreviate(sorted({key for one_series in result.series for key in one_series.labels}))
                or "none at all"
            )
            raise ProviderError(NO_SUCH_LABEL.format(label=label, labels=labels), reason=UNLABELLED)
        attributed = known.attribute(result.series)
        ages = await self._sample_ages(query, known)
        shared = {name: value for value, names in attributed.shared.items() for name in names}
        values: dict[str, float | _Rejection] = {}
        for name in clusters:
            mine = attributed.of.get(name, [])
            if len(mine) == 1:
                rejection = None if ages is None else self._check_age(query, ages, name)
                values[name] = rejection or self._value(query, mine[0], now)
            elif mine:
                series = abbreviate(str(one_series) for one_series in mine)
                words = SEVERAL_SERIES.format(count=len(mine), series=series, label=label)
                values[name] = _Rejection(AMBIGUOUS, words)
            elif name in shared:
                value = shared[name]
                names = abbreviate(attributed.shared[value])
                words = SEVERAL_CLUSTERS.format(label=label, value=value, clusters=names)
                values[name] = _Rejection(AMBIGUOUS, words)
            else:
                values[name] = _Rejection(MISSING, NO_SERIES.format(hint=_hint(attributed, label)))
        return values

    async def _series(self, query: Query) -> tuple[Result, float]:
        """Return the result, and the time that it describes."""
        if query.range is None:
            result = await self._api.instant(query.query)
            return result, max((series.points[-1][0] for series in result.series), default=0.0)
        end = self._clock.wall().timestamp()
        start = end - query.range.window
        step = query.range.step
        return await self._api.range(query.query, start=start, end=end, step=step), end

    def _check_warnings(self, result: Result) -> None:
        if result.warnings and not self._options.accept_warnings:
            words = NOT_COMPLETE.format(warnings=abbreviate(result.warnings))
            raise ProviderError(words, reason=INCOMPLETE)

    async def _sample_ages(self, query: Query, known: Clusters) -> Mapping[str, float] | None:
        """Age of the newest sample by cluster, in seconds; the oldest if there are several. None for no check."""
        if not query.freshness:
            return None
        result = await self._api.instant(query.freshness)
        self._check_warnings(result)
        ages: dict[str, float] = {}
        for name, mine in known.attribute(result.series).of.items():
            # Both times are the server's.
            sample_ages = [at - sampled for series in mine for at, sampled in series.points]
            ages[name] = max(sample_ages) if all(map(math.isfinite, sample_ages)) else math.inf
        return ages

    def _check_age(self, query: Query, ages: Mapping[str, float], cluster: str) -> _Rejection | None:
        age = ages.get(cluster, math.inf)
        if age <= self._options.max_age:
            return None
        if not math.isfinite(age):
            return _Rejection(STALE, AGE_UNKNOWN.format(query=query.freshness))
        return _Rejection(STALE, TOO_OLD.format(age=age, most=self._options.max_age))

    def _value(self, query: Query, series: Series, now: float) -> float | _Rejection:
        if query.range is None:
            value = series.points[-1][1]
        else:
            wanted = query.range
            age = now - series.points[-1][0]
            most = max(self._options.max_age, wanted.step)
            if age > most:
                return _Rejection(STALE, TOO_OLD.format(age=age, most=most))
            steps = math.floor(wanted.window / wanted.step) + 1
            if not wanted.reduction.has_enough(series.points, steps=steps):
                count = sum(math.isfinite(value) for _, value in series.points)
                return _Rejection(SPARSE, TOO_SPARSE.format(count=count, steps=steps))
            value = wanted.reduction.reduce(series.points)
        return value if math.isfinite(value) else _Rejection(NOT_FINITE, NO_NUMBER.format(value=value))


def _hint(attributed: Attributed[Series], label: str) -> str:
    if attributed.of:
        return ""
    if not attributed.unknown:
        return ANSWER_EMPTY
    return ANSWER_NAMES.format(label=label, names=abbreviate(attributed.unknown))


def create(options: Mapping[str, Any], context: Context) -> Prometheus:
    """Catalogue factory. Raises OptionsError."""
    try:
        checked = options_of(Document(dict(options), context.name), folder=context.folder)
    except DocumentError as error:
        raise OptionsError(error.message, field=error.field) from None
    return Prometheus(checked, clock=context.clock)
