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
from fairway.kube.clock import SYSTEM_CLOCK, Clock
from fairway.providers.catalogue import Context, OptionsError
from fairway.providers.document import Document, DocumentError
from fairway.providers.prometheus.api import INCOMPLETE, NOT_COMPLETE, Api, Result, Series
from fairway.providers.prometheus.attribution import Attributed, Clusters, some
from fairway.providers.prometheus.options import PrometheusOptions, Question, options_of
from fairway.providers.prometheus.reduction import Point
from fairway.providers.provider import FleetProvider, ProviderError, Reading, Wake

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
class _Doubt:
    """Why there is no value."""

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

        async def asked(question: Question) -> "Mapping[str, float | _Doubt] | ProviderError":
            async with slots:
                try:
                    return await self._answer(question, clusters)
                except ProviderError as error:
                    return error

        answers = await asyncio.gather(*(asked(each) for each in self._options.questions))
        failures = [each for each in answers if isinstance(each, ProviderError)]
        if len(failures) == len(answers):
            raise self._all_failed(answers)
        return {name: self._reading(name, answers) for name in clusters}

    async def history(
        self, clusters: Mapping[str, ManagedCluster], *, start: float, end: float, step: float
    ) -> Mapping[tuple[str, str], tuple[Point, ...]]:
        """What the queries would have said, by cluster and score; without scores that are of ranges themselves.

        Raises ProviderError.
        """
        found: dict[tuple[str, str], tuple[Point, ...]] = {}
        for question in self._options.questions:
            if question.range is not None:
                continue
            result = await self._api.range(question.query, start=start, end=end, step=step)
            self._heed(result)
            for name, mine in Clusters(question.cluster, clusters).attribute(result.series).of.items():
                if len(mine) == 1:
                    finite = tuple(point for point in mine[0].points if math.isfinite(point[1]))
                    found[name, question.score] = finite
        return found

    def _all_failed(self, answers: list[Any]) -> ProviderError:
        """One text for one cause, however many scores it has cost."""
        texts: dict[str, list[str]] = {}
        for question, error in zip(self._options.questions, answers, strict=True):
            texts.setdefault(str(error), []).append(question.score)
        words = "; ".join(f"{', '.join(scores)}: {text}" for text, scores in texts.items())
        return ProviderError(words, reason=answers[0].reason)

    def _reading(self, cluster: str, answers: list[Any]) -> Reading | ProviderError:
        values: dict[str, float] = {}
        doubts: list[_Doubt] = []
        lost: list[str] = []
        for question, answer in zip(self._options.questions, answers, strict=True):
            found = (
                _Doubt(answer.reason, str(answer)) if isinstance(answer, ProviderError) else answer[cluster]
            )
            if isinstance(found, _Doubt):
                doubts.append(_Doubt(found.reason, f"{question.score}: {found.words}"))
                lost.append(question.score)
            else:
                values[question.score] = found
        if not doubts:
            return Reading(values=values)
        problem = "; ".join(each.words for each in doubts)
        if not values:
            return ProviderError(problem, reason=doubts[0].reason)
        return Reading(values=values, problem=problem, reason=doubts[0].reason, lost=tuple(lost))

    async def _answer(
        self, question: Question, clusters: Mapping[str, ManagedCluster]
    ) -> "Mapping[str, float | _Doubt]":
        """For every cluster. Raises ProviderError."""
        known = Clusters(question.cluster, clusters)
        result, now = await self._series(question)
        self._heed(result)
        label = question.cluster.label
        if result.series and not any(label in each.labels for each in result.series):
            labels = some(sorted({key for each in result.series for key in each.labels})) or "none at all"
            raise ProviderError(NO_SUCH_LABEL.format(label=label, labels=labels), reason=UNLABELLED)
        attributed = known.attribute(result.series)
        sampled = await self._sampled(question, known)
        shared = {name: value for value, names in attributed.shared.items() for name in names}
        found: dict[str, float | _Doubt] = {}
        for name in clusters:
            mine = attributed.of.get(name, [])
            if len(mine) == 1:
                doubt = None if sampled is None else self._fresh(question, sampled, name)
                found[name] = doubt or self._value(question, mine[0], now)
            elif mine:
                series = some(str(each) for each in mine)
                words = SEVERAL_SERIES.format(count=len(mine), series=series, label=label)
                found[name] = _Doubt(AMBIGUOUS, words)
            elif name in shared:
                value = shared[name]
                names = some(attributed.shared[value])
                words = SEVERAL_CLUSTERS.format(label=label, value=value, clusters=names)
                found[name] = _Doubt(AMBIGUOUS, words)
            else:
                found[name] = _Doubt(MISSING, NO_SERIES.format(hint=_hint(attributed, label)))
        return found

    async def _series(self, question: Question) -> tuple[Result, float]:
        """And the moment that the answer is about."""
        if question.range is None:
            result = await self._api.instant(question.query)
            return result, max((each.points[-1][0] for each in result.series), default=0.0)
        end = self._clock.wall().timestamp()
        start = end - question.range.window
        step = question.range.step
        return await self._api.range(question.query, start=start, end=end, step=step), end

    def _heed(self, result: Result) -> None:
        if result.warnings and not self._options.accept_warnings:
            words = NOT_COMPLETE.format(warnings=some(result.warnings))
            raise ProviderError(words, reason=INCOMPLETE)

    async def _sampled(self, question: Question, known: Clusters) -> Mapping[str, float] | None:
        """How old the oldest of the newest samples of each cluster is, in seconds. None if nobody asks."""
        if not question.freshness:
            return None
        result = await self._api.instant(question.freshness)
        self._heed(result)
        ages: dict[str, float] = {}
        for name, mine in known.attribute(result.series).of.items():
            # The server's clock against the server's clock.
            found = [at - sampled for each in mine for at, sampled in each.points]
            ages[name] = max(found) if all(map(math.isfinite, found)) else math.inf
        return ages

    def _fresh(self, question: Question, ages: Mapping[str, float], cluster: str) -> _Doubt | None:
        age = ages.get(cluster, math.inf)
        if age <= self._options.max_age:
            return None
        if not math.isfinite(age):
            return _Doubt(STALE, AGE_UNKNOWN.format(query=question.freshness))
        return _Doubt(STALE, TOO_OLD.format(age=age, most=self._options.max_age))

    def _value(self, question: Question, series: Series, now: float) -> float | _Doubt:
        if question.range is None:
            value = series.points[-1][1]
        else:
            wanted = question.range
            age = now - series.points[-1][0]
            most = max(self._options.max_age, wanted.step)
            if age > most:
                return _Doubt(STALE, TOO_OLD.format(age=age, most=most))
            steps = math.floor(wanted.window / wanted.step) + 1
            if not wanted.reduction.enough(series.points, steps=steps):
                count = sum(math.isfinite(value) for _, value in series.points)
                return _Doubt(SPARSE, TOO_SPARSE.format(count=count, steps=steps))
            value = wanted.reduction.reduce(series.points)
        return value if math.isfinite(value) else _Doubt(NOT_FINITE, NO_NUMBER.format(value=value))


def _hint(attributed: Attributed[Series], label: str) -> str:
    if attributed.of:
        return ""
    if not attributed.strangers:
        return ANSWER_EMPTY
    return ANSWER_NAMES.format(label=label, names=some(attributed.strangers))


def create(options: Mapping[str, Any], context: Context) -> Prometheus:
    """For the catalogue. Raises OptionsError."""
    try:
        checked = options_of(Document(dict(options), context.name), folder=context.folder)
    except DocumentError as error:
        raise OptionsError(error.message, field=error.field) from None
    return Prometheus(checked, clock=context.clock)
