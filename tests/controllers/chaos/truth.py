"""Find wrong decisions on a hub, by computing them from the objects on the hub.

A placement that uses Balance is not decided again when others choose a cluster, so for it only the rules that hold at
any time are checked.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from fairway.api.decision import PlacementDecision
from fairway.api.placement import PLACEMENT_LABEL, SORT_BY_SCORE, Placement
from fairway.engine.status import Code
from fairway.fleet.instant import to_micros
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    Client,
    Resource,
)
from fairway.placement.reconcile_plan import KEEP, ON_MISCONFIGURATION
from fairway.placement.unscored import unscored_condition
from fairway.placement.verdict import Verdict
from fairway.plugins.balance import NAME as BALANCE
from fairway.whatif.world import World

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
    objects = [each for resource in KINDS for each in (await client.list(resource)).items]
    return list(found_in(objects, now=datetime.now(UTC)))


def found_in(objects: Sequence[Any], *, now: datetime) -> Iterator[str]:
    world = World(objects)
    decisions = [each for each in objects if isinstance(each, PlacementDecision)]
    uids = {each.metadata.uid for each in world.placements.values()}
    for each in decisions:
        owners = [owner.uid for owner in each.metadata.ownerReferences]
        if owners and not uids.intersection(owners):
            yield f"decision {_name(each)} belongs to a placement that is gone"
    for key, placement in world.placements.items():
        if not world.workload(key).idle:
            own = {each.metadata.name: each for each in decisions if _is_of(key, each)}
            verdict = world.look(key, now=to_micros(now))
            balanced = any(each.plugin.name == BALANCE for each in verdict.outcome.plugins.scores)
            for text in _wrong(placement, verdict, own, balanced=balanced):
                yield f"placement {'/'.join(key)}: {text}"


def _wrong(
    placement: Placement, found: Verdict, own: dict[str, PlacementDecision], *, balanced: bool
) -> Iterator[str]:
    status = placement.status
    said = {(each.type, each.status, each.reason, each.message) for each in status.conditions}
    if found.frozen:
        if found.status.message not in {message for *_, message in said}:
            yield f"does not say {found.status.message!r}: {said}"
        return
    unscored = unscored_condition(found.outcome)
    conditions = [*found.conditions, *([] if unscored is None else [unscored])]
    wanted = {(each.type, each.status, each.reason, each.message) for each in conditions}
    if said != wanted:
        yield f"says {sorted(said - wanted)}, should say {sorted(wanted - said)}"
    keeps = placement.metadata.annotations.get(ON_MISCONFIGURATION) == KEEP
    if found.status.code is Code.MISCONFIGURED and keeps:
        return
    named = [each.clusterName for page in own.values() for each in page.status.decisions]
    if len(named) != len(set(named)):
        yield f"names clusters twice: {sorted(named)}"
    if status.numberOfSelectedClusters != len(named):
        yield f"says it has {status.numberOfSelectedClusters} clusters, has {len(named)}"
    for each in own.values():
        if placement.metadata.uid not in {owner.uid for owner in each.metadata.ownerReferences}:
            yield f"does not own {each.metadata.name}"
    if balanced:
        yield from _wrong_in_any_case(found, named, own)
        return
    if status.decisionGroups != found.groups:
        yield f"has groups {status.decisionGroups}, should have {found.groups}"
    if placement.spec.sortBy == SORT_BY_SCORE:
        # The decision itself changes scores, so that the cluster may move to another group later.
        if sorted(named) != sorted(each for page in found.pages for each in page.clusters):
            yield f"has {sorted(named)}, should have {[page.clusters for page in found.pages]}"
        return
    got = {name: (dict(each.metadata.labels), _clusters(each)) for name, each in own.items()}
    want = {page.name: (dict(page.labels), list(page.clusters)) for page in found.pages}
    if got != want:
        yield f"has {got}, should have {want}"


def _wrong_in_any_case(
    found: Verdict, named: Sequence[str], own: dict[str, PlacementDecision]
) -> Iterator[str]:
    if len(named) != found.selected:
        yield f"has {len(named)} clusters, should have {found.selected}"
    names = found.outcome.snapshot.hosts.names
    feasible = {names[row] for row in found.outcome.details.rows.tolist()}
    if not feasible.issuperset(named):
        yield f"has {sorted(set(named) - feasible)}, which is out of the question"
    if own.keys() != {page.name for page in found.pages}:
        yield f"has pages {sorted(own)}, should have {[page.name for page in found.pages]}"


def _clusters(decision: PlacementDecision) -> list[str]:
    return [each.clusterName for each in decision.status.decisions]


def _is_of(key: Key, decision: PlacementDecision) -> bool:
    meta = decision.metadata
    return (meta.namespace, meta.labels.get(PLACEMENT_LABEL)) == key


def _name(decision: PlacementDecision) -> str:
    return f"{decision.metadata.namespace}/{decision.metadata.name}"


def first_lines(found: Iterable[str]) -> str:
    return "\n".join(list(found)[:10])
