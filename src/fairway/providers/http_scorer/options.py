"""Options of the HTTP scorer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, field

from fairway.providers.declared import ScoreEntry
from fairway.providers.document import Document, Seconds
from fairway.providers.endpoint import Endpoint
from fairway.providers.endpoint_entry import EndpointEntry, RemoteEntry
from fairway.providers.http_scorer.breaker import Limits
from fairway.providers.http_scorer.contract import split_queries
from fairway.providers.prometheus.api import Api
from fairway.providers.prometheus.attribution import ClusterEntry
from fairway.providers.prometheus.options import TOO_FEW, ThanosEntry
from fairway.providers.prometheus.reduction import Reduction
from fairway.providers.provider import Scale, Score
from fairway.providers.scales import Direct

NAME: Final = "http-scorer"
CLUSTER: Final = "{cluster}"
"""Placeholder for the cluster's name in a path."""

NO_SLASH: Final = "must start with /"
CLUSTER_IN_FLEET: Final = "{cluster} stands for one cluster: write mode: cluster"
QUERY_NEEDED: Final = "is empty; write the query, or use that of the scorer with sync: full"
RANGE_NEEDS_STEP: Final = "range needs step, and step a range"


class ScorerScoreEntry(ScoreEntry, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The response of a scorer is a score already."""

    def default_scale(self) -> Scale:
        return Direct()


class SourceEntry(EndpointEntry, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The Prometheus with the series for the scorer."""

    query: str = ""
    range: Seconds = field(default_factory=lambda: Seconds(0))
    step: Seconds = field(default_factory=lambda: Seconds(0))
    method: Literal["POST", "GET"] = "POST"
    thanos: ThanosEntry = ThanosEntry()


class BreakerEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    failures: int = 3
    pause: Seconds = field(default_factory=lambda: Seconds(30))
    longest: Seconds = field(default_factory=lambda: Seconds(600))


class ScorerEntry(RemoteEntry, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    score: ScorerScoreEntry
    mode: Literal["fleet", "cluster"] = "fleet"
    path: str = "/scoring"
    sync: Literal["none", "full"] = "none"
    config_path: str = "/config"
    health_path: str = "/healthz"
    source: SourceEntry | None = None
    cluster: ClusterEntry = ClusterEntry()
    reduce: str = ""
    """How to combine several results of a cluster; without it they are an error."""
    last_good: Literal["keep", "drop"] = "keep"
    breaker: BreakerEntry = BreakerEntry()
    concurrency: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    endpoint: Endpoint
    api: Api
    queries: tuple[str, ...]
    """Empty if the scorer's configuration has them."""
    range: float
    step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpScorerOptions:
    name: str
    resource: str
    interval: float
    score: Score
    endpoint: Endpoint
    per_cluster: bool
    path: str
    synced: bool
    config_path: str
    health_path: str
    source: Source | None
    cluster: ClusterEntry
    reduction: Reduction | None
    drops: bool
    limits: Limits
    concurrency: int


def options_of(document: Document, *, folder: Path) -> HttpScorerOptions:
    """Raises DocumentError."""
    entry = document.convert(ScorerEntry)
    name, resource = entry.names(document, default=NAME)
    entry.cluster.check(document, "cluster")
    for path_field, path in (("path", entry.path), ("configPath", entry.config_path)):
        if not path.startswith("/"):
            raise document.error(NO_SLASH, path_field)
    if entry.health_path and not entry.health_path.startswith("/"):
        raise document.error(NO_SLASH, "healthPath")
    if CLUSTER in entry.path and entry.mode == "fleet":
        raise document.error(CLUSTER_IN_FLEET, "path")
    if entry.breaker.failures < 1:
        raise document.error(TOO_FEW, "breaker", "failures")
    if entry.concurrency < 1:
        raise document.error(TOO_FEW, "concurrency")
    try:
        reduction = Reduction.parse(entry.reduce) if entry.reduce else None
    except ValueError as error:
        raise document.error(str(error), "reduce") from None
    return HttpScorerOptions(
        name=name,
        resource=resource,
        interval=float(entry.interval),
        score=entry.score.score(document, "score"),
        endpoint=Endpoint(entry, folder=folder, document=document),
        per_cluster=entry.mode == "cluster",
        path=entry.path,
        synced=entry.sync == "full",
        config_path=entry.config_path,
        health_path=entry.health_path,
        source=_source(entry, document, folder=folder),
        cluster=entry.cluster,
        reduction=reduction,
        drops=entry.last_good == "drop",
        limits=Limits(
            failures=entry.breaker.failures,
            pause=float(entry.breaker.pause),
            longest=float(entry.breaker.longest),
        ),
        concurrency=entry.concurrency,
    )


def _source(outer: ScorerEntry, document: Document, *, folder: Path) -> Source | None:
    entry = outer.source
    if entry is None:
        return None
    queries = split_queries(entry.query)
    if not queries and outer.sync == "none":
        raise document.error(QUERY_NEEDED, "source", "query")
    if bool(entry.range) != bool(entry.step):
        raise document.error(RANGE_NEEDS_STEP, "source")
    endpoint = Endpoint(entry, folder=folder, document=document, path=("source",))
    return Source(
        endpoint=endpoint,
        api=Api(endpoint, method=entry.method, params=entry.thanos.params()),
        queries=queries,
        range=float(entry.range),
        step=float(entry.step),
    )
