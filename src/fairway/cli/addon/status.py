"""`fairway addon status`: where an add-on runs and publishes, and why not on the other clusters."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from fairway.api.addon import PLACEMENTS as PLACEMENTS_STRATEGY
from fairway.api.addon import ClusterManagementAddOn, ManagedClusterAddOn
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_ADD_ONS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.api.score import AddOnPlacementScore
from fairway.cli.client.objects import listed
from fairway.providers.addon import FAIRWAY, MANAGED_BY, SCORE_LABEL
from kubewire.api.meta import FALSE, TRUE, find_condition, format_time
from kubewire.client import Client, NotFound

UPDATED: Final = "AddOnPlacementScoreUpdated"
AVAILABLE: Final = "Available"
FAILURES: Final = ("Configured", "RegistrationApplied", "ManifestApplied")
"""Conditions that explain why an agent does not run, causes before consequences."""

NOT_INSTALLED: Final = "add-on {name} is not installed; install it with: fairway addon install {provider}"
SUMMARY: Final = "add-on {name} runs on {running} of {all} {clusters}; {publishing} {publish} valid scores"
WITHOUT_AGENT: Final = "{count} accepted {clusters} not selected {where}, without the agent: {names}"
MAX_NAMES: Final = 10
"""Clusters named in the summary; `-o json` lists all."""
NONE_SELECTED: Final = "add-on {name} is installed, but no cluster is selected for it ({where})"
NOT_YET: Final = "not installed there yet: is `fairway run`, or OCM's addon-manager, running on the hub?"
NOT_REPORTED: Final = "availability not reported yet"
NO_SCORE: Final = "no score published yet"
FOREIGN: Final = "{name} is not managed by this add-on: label {label}={value} is missing"
EXPIRED: Final = "its scores expired at {when}: the agent has stopped publishing"

COLUMNS: Final = {
    "cluster": "cluster",
    "available": "available",
    "publishing": "publishing",
    "valid_until": "valid until",
    "why": "why not",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    cluster: str
    available: str
    publishing: bool
    valid_until: str
    why: str

    @property
    def healthy(self) -> bool:
        return self.available == TRUE and self.publishing

    def row(self) -> dict[str, object]:
        return {
            "cluster": self.cluster,
            "available": self.available,
            "publishing": self.publishing,
            "valid_until": self.valid_until,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    add_on: str
    where: str
    """How clusters are selected."""
    clusters: tuple[ClusterStatus, ...]
    without_agent: tuple[str, ...] = ()
    """Accepted clusters that are not selected and have no agent."""
    for_all: bool = False
    """Whether the add-on is installed for every cluster, so that a cluster without the agent is a failure."""

    @property
    def healthy(self) -> bool:
        if self.for_all and self.without_agent:
            return False
        return bool(self.clusters) and all(cluster.healthy for cluster in self.clusters)

    def summary(self) -> str:
        lines = [self._running()]
        if self.without_agent:
            count = len(self.without_agent)
            names = [*self.without_agent[:MAX_NAMES], *(["…"] if count > MAX_NAMES else [])]
            lines.append(
                WITHOUT_AGENT.format(
                    count=count,
                    clusters="cluster" if count == 1 else "clusters",
                    where=self.where,
                    names=", ".join(names),
                )
            )
        return "\n".join(lines)

    def _running(self) -> str:
        if not self.clusters:
            return NONE_SELECTED.format(name=self.add_on, where=self.where)
        publishing = sum(cluster.publishing for cluster in self.clusters)
        return SUMMARY.format(
            name=self.add_on,
            running=sum(cluster.available == TRUE for cluster in self.clusters),
            all=len(self.clusters),
            clusters="cluster" if len(self.clusters) == 1 else "clusters",
            publishing=publishing,
            publish="publishes" if publishing == 1 else "publish",
        )

    def document(self) -> dict[str, Any]:
        return {
            "addon": self.add_on,
            "clusters": len(self.clusters),
            "running": sum(cluster.available == TRUE for cluster in self.clusters),
            "publishing": sum(cluster.publishing for cluster in self.clusters),
            "withoutAgent": list(self.without_agent),
            "perCluster": [cluster.row() for cluster in self.clusters],
        }


async def report(client: Client, *, add_on: str, provider: str, now: datetime) -> Report | None:
    """Return the add-on's status; None if it is not installed."""
    try:
        offer = await client.get(CLUSTER_MANAGEMENT_ADD_ONS, add_on)
    except NotFound:
        return None
    add_ons = {
        agent.metadata.namespace: agent
        for agent in await listed(client, MANAGED_CLUSTER_ADD_ONS)
        if agent.metadata.name == add_on
    }
    scores = _newest_scores(await listed(client, ADD_ON_PLACEMENT_SCORES), provider)
    present = add_ons.keys() | await _selected(client, offer)
    statuses = (
        _cluster_status(cluster, add_ons.get(cluster), scores.get(cluster), provider=provider, now=now)
        for cluster in sorted(present)
    )
    accepted = {
        cluster.metadata.name
        for cluster in await listed(client, MANAGED_CLUSTERS)
        if cluster.spec.hubAcceptsClient
    }
    return Report(
        add_on=add_on,
        where=_where(offer),
        clusters=tuple(statuses),
        without_agent=tuple(sorted(accepted - present)),
        for_all=await _is_for_all(client, offer),
    )


def _newest_scores(published: Iterable[AddOnPlacementScore], provider: str) -> dict[str, AddOnPlacementScore]:
    """Return the provider's score of each cluster, by label, because its name can be configured (SCORE_NAME)."""
    scores: dict[str, AddOnPlacementScore] = {}

    def order(score: AddOnPlacementScore) -> tuple[bool, datetime]:
        until = score.status.validUntil
        own = score.metadata.labels.get(SCORE_LABEL) == provider
        return own, until or datetime.min.replace(tzinfo=UTC)

    for score in published:
        if score.metadata.labels.get(SCORE_LABEL) == provider or score.metadata.name == f"{provider}-score":
            cluster = score.metadata.namespace
            if cluster not in scores or order(score) > order(scores[cluster]):
                scores[cluster] = score
    return scores


async def _is_for_all(client: Client, offer: ClusterManagementAddOn) -> bool:
    """Whether one of its Placements selects every cluster: no predicates, no numberOfClusters."""
    strategy = offer.spec.installStrategy
    if strategy.type != PLACEMENTS_STRATEGY:
        return False
    for placement in strategy.placements:
        with suppress(NotFound):
            spec = (await client.get(PLACEMENTS, placement.name, namespace=placement.namespace)).spec
            if not spec.predicates and spec.numberOfClusters is None:
                return True
    return False


async def _selected(client: Client, offer: ClusterManagementAddOn) -> set[str]:
    strategy = offer.spec.installStrategy
    if strategy.type != PLACEMENTS_STRATEGY:
        return set()
    clusters: set[str] = set()
    for placement in strategy.placements:
        pages = await client.list(
            PLACEMENT_DECISIONS, namespace=placement.namespace, labels=f"{PLACEMENT_LABEL}={placement.name}"
        )
        clusters |= {decision.clusterName for page in pages.items for decision in page.status.decisions}
    return clusters


def _where(offer: ClusterManagementAddOn) -> str:
    strategy = offer.spec.installStrategy
    if strategy.type != PLACEMENTS_STRATEGY:
        return "manually, by a ManagedClusterAddOn in the cluster's namespace"
    names = ", ".join(f"{placement.namespace}/{placement.name}" for placement in strategy.placements)
    return f"by Placement {names}"


def _cluster_status(
    cluster: str,
    add_on: ManagedClusterAddOn | None,
    score: AddOnPlacementScore | None,
    *,
    provider: str,
    now: datetime,
) -> ClusterStatus:
    available = None if add_on is None else find_condition(add_on.status.conditions, AVAILABLE)
    until = None if score is None else score.status.validUntil
    ours = score is not None and score.metadata.labels.get(MANAGED_BY) == FAIRWAY
    ours = ours and score is not None and score.metadata.labels.get(SCORE_LABEL) == provider
    publishing = ours and until is not None and until > now
    reasons: Iterator[str] = _reasons(add_on, score, ours=ours, until=until, now=now, provider=provider)
    return ClusterStatus(
        cluster=cluster,
        available=available.status if available is not None else "Unknown",
        publishing=publishing,
        valid_until=format_time(until) if ours and until is not None else "",
        why=next(reasons, ""),
    )


def unavailable(add_on: ManagedClusterAddOn | None) -> Iterator[str]:
    """Yield why an agent does not run, causes before consequences; nothing if it runs."""
    if add_on is None:
        yield NOT_YET
        return
    for kind in FAILURES:
        condition = find_condition(add_on.status.conditions, kind)
        if condition is not None and condition.status == FALSE:
            yield f"{condition.reason}: {condition.message}"
    available = find_condition(add_on.status.conditions, AVAILABLE)
    if available is None:
        yield NOT_REPORTED
    elif available.status != TRUE:
        yield f"{available.reason}: {available.message}"


def _reasons(
    add_on: ManagedClusterAddOn | None,
    score: AddOnPlacementScore | None,
    *,
    ours: bool,
    until: datetime | None,
    now: datetime,
    provider: str,
) -> Iterator[str]:
    """Yield the reasons, the most important first."""
    yield from unavailable(add_on)
    if add_on is None:
        return
    if score is None:
        yield NO_SCORE
        return
    if not ours:
        labels: Mapping[str, str] = {MANAGED_BY: FAIRWAY, SCORE_LABEL: provider}
        label, value = next(
            (key, wanted) for key, wanted in labels.items() if score.metadata.labels.get(key) != wanted
        )
        yield FOREIGN.format(name=score.metadata.name, label=label, value=value)
        return
    if until is not None and until <= now:
        yield EXPIRED.format(when=format_time(until))
    updated = find_condition(score.status.conditions, UPDATED)
    if updated is not None and updated.status == FALSE:
        yield f"{updated.reason}: {updated.message}"
    if until is None:
        yield NO_SCORE
