"""The provider: sends Prometheus data, or just cluster names, to a scorer, and publishes its response.

A scorer is another team's program that may hang, fail or return invalid data. Requests have a deadline, and after
several failures in a row a circuit breaker pauses them. A failure of the data source does not count against the scorer.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar
from urllib.parse import quote

from fairway.api.cluster import ManagedCluster
from fairway.providers.catalogue import Context, OptionsError
from fairway.providers.document import Document, DocumentError
from fairway.providers.http_scorer.breaker import HALF_OPEN, Breaker
from fairway.providers.http_scorer.contract import (
    BAD_ANSWER,
    BAD_CONFIG,
    Result,
    ScorerConfig,
    config_of,
    request_body,
    results_of,
    split_queries,
)
from fairway.providers.http_scorer.options import CLUSTER, HttpScorerOptions, Source, options_of
from fairway.providers.prometheus.api import INCOMPLETE, NOT_COMPLETE, Api, Series
from fairway.providers.prometheus.attribution import Clusters, abbreviate
from fairway.providers.provider import FleetProvider, ProviderError, Reading, Wake
from kubewire.client.clock import SYSTEM_CLOCK, Clock

CIRCUIT_OPEN: Final = "CircuitOpen"
NOT_SCORED: Final = "ClusterNotScored"
AMBIGUOUS: Final = "ClusterAmbiguous"
OTHER_CLUSTER: Final = "OtherCluster"
OTHER_SCORE: Final = "OtherScore"
NO_DATA: Final = "NoData"

PAUSED: Final = "the scorer failed {failures} times in a row; no requests for another {wait:.0f} s"
LAST_ERROR: Final = "{words}; last error: {error}"
NO_RESULT: Final = "the response of the scorer has no result for this cluster{hint}"
RESULTS_NAME: Final = ": label {label} has the values {names}"
RESULTS_WITHOUT: Final = ": its results have no label {label}"
SEVERAL_RESULTS: Final = "{count} results for this cluster: set reduce to combine them"
WRONG_CLUSTER: Final = "results[{index}].metric.{label} is {given!r}, but {wanted!r} was requested"
WRONG_SCORE: Final = "the scorer computes {theirs!r} by its configuration, not {ours!r}"
NO_QUERY: Final = "the scorer needs data, but its configuration has no query: source.params.query"
NO_SERIES: Final = "the data source has no series for this cluster"
SOURCE: Final = "data source: {error}"
NO_STEP: Final = "configuration returned by the scorer: source.params.step: must be greater than 0"

T = TypeVar("T")
Outcome = Reading | ProviderError
Data = Sequence[tuple[Mapping[str, str], Sequence[tuple[float, float]]]]


class SourceFailed(ProviderError):
    """The data source failed, not the scorer."""


class HttpScorer(FleetProvider):
    def __init__(self, options: HttpScorerOptions, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name, self.resource = options.name, options.resource
        self.scores, self.interval = (options.score,), options.interval
        self._options, self._clock = options, clock
        self.breaker = Breaker(limits=options.limits)
        self._last_error = ""

    @asynccontextmanager
    async def running(self, _wake: Wake, /) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._options.endpoint.open())
            if self._options.source is not None:
                await stack.enter_async_context(self._options.source.endpoint.open())
            yield

    async def read(self, clusters: Mapping[str, ManagedCluster], /) -> Mapping[str, Outcome]:
        read = self._read_each if self._options.per_cluster else self._read_fleet
        try:
            readings = await read(clusters)
        except ProviderError as error:
            if not self._options.drops:
                raise
            readings = dict.fromkeys(clusters, error)
        return (
            {name: self._without_last_value(reading) for name, reading in readings.items()}
            if self._options.drops
            else readings
        )

    def _without_last_value(self, outcome: Outcome) -> Reading:
        """Convert an error to a reading without values, so that the published score is removed at once."""
        if isinstance(outcome, Reading):
            return outcome
        return Reading(problem=str(outcome), reason=outcome.reason)

    async def _read_fleet(self, clusters: Mapping[str, ManagedCluster]) -> Mapping[str, Outcome]:
        known = Clusters(self._options.cluster, clusters)

        async def score() -> tuple[Result, ...]:
            path, data = await self._prepare(known)
            return await self._post(path, [entry for entries in data.values() for entry in entries])

        answer = await self._with_breaker(score)
        attributed = known.attribute(answer)
        if attributed.of or not answer:
            hint = ""
        elif attributed.unknown:
            hint = RESULTS_NAME.format(label=known.label, names=abbreviate(attributed.unknown))
        else:
            hint = RESULTS_WITHOUT.format(label=known.label)
        return {name: self._reading(attributed.of.get(name, []), hint=hint) for name in clusters}

    async def _read_each(self, clusters: Mapping[str, ManagedCluster]) -> Mapping[str, Outcome]:
        known = Clusters(self._options.cluster, clusters)
        names_by_cluster = known.label_values()
        slots = asyncio.Semaphore(self._options.concurrency)
        errors: list[ProviderError] = []

        async def score(name: str, path: str, data: Data) -> Outcome:
            results = await self._post(path.replace(CLUSTER, quote(name, safe="")), data)
            return self._reading(
                _check_cluster(results, label=known.label, wanted=names_by_cluster.get(name, name))
            )

        async def try_one() -> tuple[str, Mapping[str, Data], Mapping[str, Outcome]]:
            """Send a single request, so that a failing server does not get many."""
            path, data = await self._prepare(known)
            first = next(iter(data.items()), None)
            return path, data, {first[0]: await score(first[0], path, first[1])} if first else {}

        async def score_one(name: str) -> Outcome:
            if name not in data:
                return ProviderError(NO_SERIES, reason=NO_DATA)
            async with slots:
                try:
                    return await self._with_breaker(lambda: score(name, path, data[name]))
                except ProviderError as error:
                    errors.append(error)
                    return error

        tried: Mapping[str, Outcome] = {}
        if self.breaker.admit(self._clock.monotonic())[0].state == HALF_OPEN:
            path, data, tried = await self._with_breaker(try_one)
        else:
            path, data = await self._with_breaker(lambda: self._prepare(known), proof=False)
        names = [name for name in clusters if name not in tried]
        readings = dict(zip(names, await asyncio.gather(*map(score_one, names)), strict=True))
        if errors and len(errors) == len(data):
            raise errors[0]
        return {**tried, **readings}

    async def _prepare(self, known: Clusters) -> tuple[str, Mapping[str, Data]]:
        """Return the path and the data of each cluster. Raises ProviderError."""
        options = self._options
        config = await self._config() if options.synced else ScorerConfig()
        path = config.scoring.path or options.path
        path = path if path.startswith("/") else f"/{path}"
        if options.source is None:
            return path, {name: [({known.label: value}, ())] for name, value in known.label_values().items()}
        queries, window, step = _queries(options.source, config)
        try:
            series = await self._series(options.source.api, queries, window=window, step=step)
        except ProviderError as error:
            raise SourceFailed(SOURCE.format(error=error), reason=error.reason) from None
        return path, {
            name: [(one_series.labels, one_series.points) for one_series in mine]
            for name, mine in known.attribute(series).of.items()
        }

    async def _config(self) -> ScorerConfig:
        config = config_of((await self._options.endpoint.request("GET", self._options.config_path)).value)
        theirs, ours = config.scoring.params.name, self._options.score.name
        if theirs and theirs != ours:
            raise ProviderError(WRONG_SCORE.format(theirs=theirs, ours=ours), reason=OTHER_SCORE)
        return config

    async def _series(self, api: Api, queries: Sequence[str], *, window: float, step: float) -> list[Series]:
        series: list[Series] = []
        end = self._clock.wall().timestamp()
        for query in queries:
            if window > 0:
                result = await api.range(query, start=end - window, end=end, step=step)
            else:
                result = await api.instant(query)
            if result.warnings:
                words = NOT_COMPLETE.format(warnings=abbreviate(result.warnings))
                raise ProviderError(words, reason=INCOMPLETE)
            series += result.series
        return series

    async def _post(self, path: str, data: Data) -> tuple[Result, ...]:
        answer = await self._options.endpoint.request("POST", path, body=request_body(data))
        return results_of(answer.value)

    async def _with_breaker(self, request: Callable[[], Awaitable[T]], *, proof: bool = True) -> T:
        """Call ``request`` if the breaker is closed or half open; with ``proof``, a success closes it."""
        now, before = self._clock.monotonic(), self.breaker
        self.breaker, admitted = before.admit(now)
        if not admitted:
            words = PAUSED.format(failures=before.failures, wait=math.ceil(before.wait(now)))
            raise ProviderError(LAST_ERROR.format(words=words, error=self._last_error), reason=CIRCUIT_OPEN)
        try:
            if self.breaker.state == HALF_OPEN and self._options.health_path:
                await self._options.endpoint.request("GET", self._options.health_path, ignore_body=True)
            answer = await request()
        except SourceFailed:
            self.breaker = before
            raise
        except ProviderError as error:
            self.breaker = self.breaker.on_failure(self._clock.monotonic())
            self._last_error = str(error)
            raise
        if proof:
            self.breaker = self.breaker.on_success()
        return answer

    def _reading(self, results: Sequence[Result], *, hint: str = "") -> Outcome:
        if not results:
            return ProviderError(NO_RESULT.format(hint=hint), reason=NOT_SCORED)
        for result in results:
            if result.problem:
                return ProviderError(result.problem, reason=BAD_ANSWER)
        if len(results) > 1 and self._options.reduction is None:
            return ProviderError(SEVERAL_RESULTS.format(count=len(results)), reason=AMBIGUOUS)
        score = results[-1].score
        if self._options.reduction is not None:
            score = self._options.reduction.reduce([(0.0, result.score) for result in results])
        return Reading(values={self._options.score.name: score})


def _queries(source: Source, config: ScorerConfig) -> tuple[tuple[str, ...], float, float]:
    """Return queries, window and step: ours, else those of the scorer. Raises ProviderError."""
    if source.queries:
        return source.queries, source.range, source.step
    params = config.source.params
    queries = split_queries(params.query)
    if not queries:
        raise ProviderError(NO_QUERY, reason=BAD_CONFIG)
    if params.range > 0 and params.step <= 0:
        raise ProviderError(NO_STEP, reason=BAD_CONFIG)
    return queries, params.range, params.step


def _check_cluster(results: Sequence[Result], *, label: str, wanted: str) -> Sequence[Result]:
    """Reject results of other clusters. A result without the label counts for ``wanted``. Raises ProviderError."""
    for index, result in enumerate(results):
        given = result.labels.get(label, wanted)
        if given != wanted:
            words = WRONG_CLUSTER.format(index=index, label=label, given=given, wanted=wanted)
            raise ProviderError(words, reason=OTHER_CLUSTER)
    return results


def create(options: Mapping[str, Any], context: Context) -> HttpScorer:
    """Catalogue factory. Raises OptionsError."""
    try:
        checked = options_of(Document(dict(options), context.name), folder=context.folder)
    except DocumentError as error:
        raise OptionsError(error.message, field=error.field) from None
    return HttpScorer(checked, clock=context.clock)
