"""Options of the Prometheus provider."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct, field

from fairway.providers.declared import ScoreEntry, convert_scores
from fairway.providers.document import Document, Seconds
from fairway.providers.endpoint import Endpoint
from fairway.providers.endpoint_entry import RemoteEntry
from fairway.providers.prometheus.attribution import ClusterEntry
from fairway.providers.prometheus.reduction import Reduction
from fairway.providers.provider import Score

NAME: Final = "prometheus"

AGES: Final = 3
"""Default of maxAge in intervals."""

NO_QUERY: Final = "is empty; write the PromQL that answers for all clusters"
RANGE_NEEDED: Final = "mode: range needs window and step"
RANGE_UNUSED: Final = "{field} is for mode: range"
BAD_RANGE: Final = "the window must be at least one step, and at most {most} steps"
MOST_POINTS: Final = 11_000
"""Limit of Prometheus per series."""
NO_FRESHNESS: Final = "none"
TOO_FEW: Final = "must be at least 1"
NO_AGE: Final = "must be greater than 0"

_SELECTOR: Final = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*(\s*\{[^{}]*\})?")


class ThanosEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Parameters for Thanos; Prometheus ignores them."""

    dedup: bool = True
    partial_response: bool = False
    max_source_resolution: str = ""

    def params(self) -> dict[str, str]:
        parameters = {
            "dedup": str(self.dedup).lower(),
            "partial_response": str(self.partial_response).lower(),
        }
        if self.max_source_resolution:
            parameters["max_source_resolution"] = self.max_source_resolution
        return parameters


class QueryEntry(ScoreEntry, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A score and the query for its raw values."""

    query: str
    cluster: ClusterEntry | None = None
    """Overrides that of the provider."""
    mode: Literal["instant", "range"] = "instant"
    window: Seconds | None = None
    step: Seconds | None = None
    reduce: str = ""
    freshness: str = ""
    """PromQL for the time of the newest sample of each cluster; ``none`` for no check."""


class PrometheusEntry(RemoteEntry, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    scores: tuple[QueryEntry, ...]
    method: Literal["POST", "GET"] = "POST"
    """GET if a proxy requires other permissions for POST."""
    thanos: ThanosEntry = ThanosEntry()
    params: dict[str, str] = field(default_factory=dict)
    cluster: ClusterEntry = ClusterEntry()
    warnings: Literal["refuse", "accept"] = "refuse"
    max_age: Seconds | None = None
    concurrency: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    window: float
    step: float
    reduction: Reduction


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The query of one score."""

    score: str
    query: str
    cluster: ClusterEntry
    range: Range | None = None
    freshness: str = ""
    """PromQL; empty for no check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusOptions:
    name: str
    resource: str
    interval: float
    max_age: float
    scores: tuple[Score, ...]
    queries: tuple[Query, ...]
    endpoint: Endpoint
    method: str
    params: Mapping[str, str]
    accept_warnings: bool
    concurrency: int


def options_of(document: Document, *, folder: Path) -> PrometheusOptions:
    """Raises DocumentError."""
    entry = document.convert(PrometheusEntry)
    name, resource = entry.names(document, default=NAME)
    scores = convert_scores(entry.scores, document, "scores")
    queries = tuple(_query(raw, entry, document, "scores", index) for index, raw in enumerate(entry.scores))
    entry.cluster.check(document, "cluster")
    if entry.concurrency < 1:
        raise document.error(TOO_FEW, "concurrency")
    if entry.max_age is not None and not entry.max_age > 0:
        raise document.error(NO_AGE, "maxAge")
    return PrometheusOptions(
        name=name,
        resource=resource,
        interval=float(entry.interval),
        max_age=float(entry.max_age if entry.max_age is not None else AGES * entry.interval),
        scores=scores,
        queries=queries,
        endpoint=Endpoint(entry, folder=folder, document=document),
        method=entry.method,
        params={**entry.thanos.params(), **entry.params},
        accept_warnings=entry.warnings == "accept",
        concurrency=entry.concurrency,
    )


def _query(entry: QueryEntry, outer: PrometheusEntry, document: Document, *path: str | int) -> Query:
    if not entry.query.strip():
        raise document.error(NO_QUERY, *path, "query")
    if entry.cluster is not None:
        entry.cluster.check(document, *path, "cluster")
    freshness = entry.freshness
    if not freshness and _SELECTOR.fullmatch(entry.query.strip()):
        # An instant query returns the time of the request; timestamp() returns that of the sample.
        freshness = f"timestamp({entry.query.strip()})"
    return Query(
        score=entry.name,
        query=entry.query,
        cluster=entry.cluster or outer.cluster,
        range=_range(entry, document, *path),
        freshness="" if freshness == NO_FRESHNESS else freshness,
    )


def _range(entry: QueryEntry, document: Document, *path: str | int) -> Range | None:
    if entry.mode == "instant":
        given: dict[str, Any] = {"window": entry.window, "step": entry.step, "reduce": entry.reduce}
        for name, value in given.items():
            if value:
                raise document.error(RANGE_UNUSED.format(field=name), *path, name)
        return None
    if not entry.window or not entry.step:
        raise document.error(RANGE_NEEDED, *path)
    if not 1 <= entry.window / entry.step < MOST_POINTS:
        raise document.error(BAD_RANGE.format(most=MOST_POINTS - 1), *path, "window")
    try:
        reduction = Reduction.parse(entry.reduce or "last")
    except ValueError as error:
        raise document.error(str(error), *path, "reduce") from None
    return Range(window=float(entry.window), step=float(entry.step), reduction=reduction)
