"""Find wrong decisions on a hub, by computing them from the objects on the hub.

A placement that uses Balance is not decided again when others choose a cluster, so for it only the rules that hold at
any time are checked.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from fairway.api.decision import PlacementDecision
from fairway.api.placement import PLACEMENT_LABEL, SORT_BY_SCORE, Placement
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.engine.status import Code
from fairway.hosts.instant import to_micros
from fairway.whatif.world import World
from fairway.workloads.placement.plugins.balance import NAME as BALANCE
from fairway.workloads.placement.reconcile_plan import KEEP, ON_MISCONFIGURATION
from fairway.workloads.placement.unscored import unscored_condition
from fairway.workloads.placement.verdict import Verdict
from kubewire.client import Client, Resource

Key = tuple[str, str]

KINDS: Final[tuple[Resource[Any], ...]] = (
    MANAGED_CLUSTERS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTER_SET_BINDINGS,
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)


async def problems(client: Client) -> list[str]:
    """Return the problems; concurrent changes may cause false ones."""
    objects = [item for resource in KINDS for item in (await client.list(resource)).items]
    return list(found_in(objects, now=datetime.now(UTC)))


def found_in(objects: Sequence[Any], *, now: datetime) -> Iterator[str]:
    world = World(objects)
    decisions = [obj for obj in objects if isinstance(obj, PlacementDecision)]
    uids = {placement.metadata.uid for placement in world.placements.values()}
    for decision in decisions:
        owners = [owner.uid for owner in decision.metadata.ownerReferences]
        if owners and not uids.intersection(owners):
            yield f"decision {_name(decision)} belongs to a placement that is gone"
    for key, placement in world.placements.items():
        if not world.workload(key).idle:
            own = {decision.metadata.name: decision for decision in decisions if _is_of(key, decision)}
            verdict = world.decide(key, now=to_micros(now))
            balanced = any(scorer.plugin.name == BALANCE for scorer in verdict.outcome.plugins.scores)
            for text in _wrong(placement, verdict, own, balanced=balanced):
                yield f"placement {'/'.join(key)}: {text}"


def _wrong(
    placement: Placement, verdict: Verdict, own: dict[str, PlacementDecision], *, balanced: bool
) -> Iterator[str]:
    status = placement.status
    said = {
        (condition.type, condition.status, condition.reason, condition.message)
        for condition in status.conditions
    }
    if verdict.frozen:
        if verdict.status.message not in {message for *_, message in said}:
            yield f"does not say {verdict.status.message!r}: {said}"
        return
    unscored = unscored_condition(verdict.outcome)
    conditions = [*verdict.conditions, *([] if unscored is None else [unscored])]
    wanted = {
        (condition.type, condition.status, condition.reason, condition.message) for condition in conditions
    }
    if said != wanted:
        yield f"says {sorted(said - wanted)}, should say {sorted(wanted - said)}"
    keeps = placement.metadata.annotations.get(ON_MISCONFIGURATION) == KEEP
    if verdict.status.code is Code.MISCONFIGURED and keeps:
        return
    named = [decision.clusterName for page in own.values() for decision in page.status.decisions]
    if len(named) != len(set(named)):
        yield f"names clusters twice: {sorted(named)}"
    if status.numberOfSelectedClusters != len(named):
        yield f"says it has {status.numberOfSelectedClusters} clusters, has {len(named)}"
    for owned_page in own.values():
        if placement.metadata.uid not in {owner.uid for owner in owned_page.metadata.ownerReferences}:
            yield f"does not own {owned_page.metadata.name}"
    if balanced:
        yield from _wrong_in_any_case(verdict, named, own)
        return
    if status.decisionGroups != verdict.groups:
        yield f"has groups {status.decisionGroups}, should have {verdict.groups}"
    if placement.spec.sortBy == SORT_BY_SCORE:
        # The decision itself changes scores, so that the cluster may move to another group later.
        if sorted(named) != sorted(cluster for page in verdict.pages for cluster in page.clusters):
            yield f"has {sorted(named)}, should have {[page.clusters for page in verdict.pages]}"
        return
    got = {
        name: (dict(owned_page.metadata.labels), _clusters(owned_page)) for name, owned_page in own.items()
    }
    want = {page.name: (dict(page.labels), list(page.clusters)) for page in verdict.pages}
    if got != want:
        yield f"has {got}, should have {want}"


def _wrong_in_any_case(
    verdict: Verdict, named: Sequence[str], own: dict[str, PlacementDecision]
) -> Iterator[str]:
    if len(named) != verdict.selected:
        yield f"has {len(named)} clusters, should have {verdict.selected}"
    names = verdict.outcome.snapshot.hosts.names
    feasible = {names[row] for row in verdict.outcome.details.rows.tolist()}
    if not feasible.issuperset(named):
        yield f"has {sorted(set(named) - feasible)}, which is out of the question"
    if own.keys() != {page.name for page in verdict.pages}:
        yield f"has pages {sorted(own)}, should have {[page.name for page in verdict.pages]}"


def _clusters(decision: PlacementDecision) -> list[str]:
    return [item.clusterName for item in decision.status.decisions]


def _is_of(key: Key, decision: PlacementDecision) -> bool:
    meta = decision.metadata
    return (meta.namespace, meta.labels.get(PLACEMENT_LABEL)) == key


def _name(decision: PlacementDecision) -> str:
    return f"{decision.metadata.namespace}/{decision.metadata.name}"


def first_lines(lines: Iterable[str]) -> str:
    return "\n".join(list(lines)[:10])
