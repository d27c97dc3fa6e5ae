"""`fairway addon status`: on how many clusters an add-on runs and publishes, and on the others, why not."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from fairway.api.addon import PLACEMENTS as PLACEMENTS_STRATEGY
from fairway.api.addon import ClusterManagementAddOn, ManagedClusterAddOn
from fairway.api.meta import FALSE, TRUE, find_condition, format_time
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.score import AddOnPlacementScore
from fairway.cli.addon.objects import FAIRWAY, MANAGED_BY, SCORE_LABEL
from fairway.cli.client.objects import listed
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_ADD_ONS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    Client,
    NotFound,
)

UPDATED: Final = "AddOnPlacementScoreUpdated"
AVAILABLE: Final = "Available"
TROUBLE: Final = ("Configured", "RegistrationApplied", "ManifestApplied")
"""Conditions that explain why an agent is not there, the cause before what follows from it."""

NOT_INSTALLED: Final = "add-on {name} is not installed; install it with: fairway addon install {provider}"
SUMMARY: Final = (
    "add-on {name} runs on {running} of {all} {clusters}, and {publishing} {publish} valid scores"
)
WITHOUT_AGENT: Final = "{count} accepted {clusters} without the agent, not selected {where}: {names}"
MOST_NAMES: Final = 10
"""Clusters that the summary names; `-o json` has all of them."""
NOBODY_CHOSEN: Final = "add-on {name} is installed, and no cluster is chosen for it ({where})"
NOT_YET: Final = (
    "nobody has installed it there yet: does `fairway run`, or OCM's addon-manager, run on the hub?"
)
NOTHING_SAID: Final = "its state is not known yet"
NO_SCORE: Final = "it has published nothing yet"
FOREIGN: Final = "{name} there is not Fairway's: labels {label}={value} are missing"
EXPIRED: Final = "its scores ran out at {when}: the agent is silent"

COLUMNS: Final = {
    "cluster": "cluster",
    "available": "available",
    "publishing": "publishing",
    "valid_until": "valid until",
    "why": "why not",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnCluster:
    cluster: str
    available: str
    publishing: bool
    valid_until: str
    why: str

    @property
    def well(self) -> bool:
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
    """How clusters are chosen."""
    clusters: tuple[OnCluster, ...]
    without_agent: tuple[str, ...] = ()
    """Accepted clusters that are not selected and have no agent."""
    for_all: bool = False
    """The add-on is installed for every cluster, so that one without the agent is a fault."""

    @property
    def well(self) -> bool:
        if self.for_all and self.without_agent:
            return False
        return bool(self.clusters) and all(each.well for each in self.clusters)

    def summary(self) -> str:
        lines = [self._running()]
        if self.without_agent:
            count = len(self.without_agent)
            names = [*self.without_agent[:MOST_NAMES], *(["…"] if count > MOST_NAMES else [])]
            lines.append(
                WITHOUT_AGENT.format(
                    count=count,
                    clusters="cluster is" if count == 1 else "clusters are",
                    where=self.where,
                    names=", ".join(names),
                )
            )
        return "\n".join(lines)

    def _running(self) -> str:
        if not self.clusters:
            return NOBODY_CHOSEN.format(name=self.add_on, where=self.where)
        publishing = sum(each.publishing for each in self.clusters)
        return SUMMARY.format(
            name=self.add_on,
            running=sum(each.available == TRUE for each in self.clusters),
            all=len(self.clusters),
            clusters="cluster" if len(self.clusters) == 1 else "clusters",
            publishing=publishing,
            publish="publishes" if publishing == 1 else "publish",
        )

    def document(self) -> dict[str, Any]:
        return {
            "addon": self.add_on,
            "clusters": len(self.clusters),
            "running": sum(each.available == TRUE for each in self.clusters),
            "publishing": sum(each.publishing for each in self.clusters),
            "withoutAgent": list(self.without_agent),
            "perCluster": [each.row() for each in self.clusters],
        }


async def report(client: Client, *, add_on: str, provider: str, now: datetime) -> Report | None:
    """None if it is not installed."""
    try:
        offer = await client.get(CLUSTER_MANAGEMENT_ADD_ONS, add_on)
    except NotFound:
        return None
    add_ons = {
        each.metadata.namespace: each
        for each in await listed(client, MANAGED_CLUSTER_ADD_ONS)
        if each.metadata.name == add_on
    }
    scores = {
        each.metadata.namespace: each
        for each in await listed(client, ADD_ON_PLACEMENT_SCORES)
        if each.metadata.name == f"{provider}-score"
    }
    present = add_ons.keys() | await _chosen(client, offer)
    found = (
        _on(cluster, add_ons.get(cluster), scores.get(cluster), provider=provider, now=now)
        for cluster in sorted(present)
    )
    accepted = {
        each.metadata.name for each in await listed(client, MANAGED_CLUSTERS) if each.spec.hubAcceptsClient
    }
    return Report(
        add_on=add_on,
        where=_where(offer),
        clusters=tuple(found),
        without_agent=tuple(sorted(accepted - present)),
        for_all=await _is_for_all(client, offer),
    )


async def _is_for_all(client: Client, offer: ClusterManagementAddOn) -> bool:
    """Whether one of its Placements asks for every cluster: no predicate, no number."""
    strategy = offer.spec.installStrategy
    if strategy.type != PLACEMENTS_STRATEGY:
        return False
    for each in strategy.placements:
        with suppress(NotFound):
            spec = (await client.get(PLACEMENTS, each.name, namespace=each.namespace)).spec
            if not spec.predicates and spec.numberOfClusters is None:
                return True
    return False


async def _chosen(client: Client, offer: ClusterManagementAddOn) -> set[str]:
    strategy = offer.spec.installStrategy
    if strategy.type != PLACEMENTS_STRATEGY:
        return set()
    clusters: set[str] = set()
    for each in strategy.placements:
        pages = await client.list(
            PLACEMENT_DECISIONS, namespace=each.namespace, labels=f"{PLACEMENT_LABEL}={each.name}"
        )
        clusters |= {decision.clusterName for page in pages.items for decision in page.status.decisions}
    return clusters


def _where(offer: ClusterManagementAddOn) -> str:
    strategy = offer.spec.installStrategy
    if strategy.type != PLACEMENTS_STRATEGY:
        return "each by hand, by a ManagedClusterAddOn in its namespace"
    names = ", ".join(f"{each.namespace}/{each.name}" for each in strategy.placements)
    return f"by Placement {names}"


def _on(
    cluster: str,
    add_on: ManagedClusterAddOn | None,
    score: AddOnPlacementScore | None,
    *,
    provider: str,
    now: datetime,
) -> OnCluster:
    available = None if add_on is None else find_condition(add_on.status.conditions, AVAILABLE)
    until = None if score is None else score.status.validUntil
    ours = score is not None and score.metadata.labels.get(MANAGED_BY) == FAIRWAY
    ours = ours and score is not None and score.metadata.labels.get(SCORE_LABEL) == provider
    publishing = ours and until is not None and until > now
    reasons: Iterator[str] = _reasons(add_on, score, ours=ours, until=until, now=now, provider=provider)
    return OnCluster(
        cluster=cluster,
        available=available.status if available is not None else "Unknown",
        publishing=publishing,
        valid_until=format_time(until) if ours and until is not None else "",
        why=next(reasons, ""),
    )


def unavailable(add_on: ManagedClusterAddOn | None) -> Iterator[str]:
    """Why an agent does not run, the cause before what follows from it; nothing if it does."""
    if add_on is None:
        yield NOT_YET
        return
    for kind in TROUBLE:
        found = find_condition(add_on.status.conditions, kind)
        if found is not None and found.status == FALSE:
            yield f"{found.reason}: {found.message}"
    available = find_condition(add_on.status.conditions, AVAILABLE)
    if available is None:
        yield NOTHING_SAID
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
    """The first one is what to look at."""
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
