"""Expected decisions, computed only from clusters, sets, scores and placements."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from fairway.api.meta import Condition, find_condition
from fairway.api.placement import PLACEMENT_LABEL, DecisionGroupStatus, Placement
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
from fairway.placement.conditions import MISCONFIGURED, SATISFIED
from fairway.whatif.world import World

Page = tuple[tuple[tuple[str, str], ...], tuple[str, ...]]
"""Labels and clusters."""

_CAUSES: Final[tuple[Resource[Any], ...]] = (
    MANAGED_CLUSTERS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTER_SET_BINDINGS,
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    PLACEMENTS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    pages: dict[str, Page]
    selected: int
    groups: tuple[DecisionGroupStatus, ...]
    conditions: tuple[tuple[str, str, str], ...]
    """Status, reason and message of both conditions."""


async def computed(client: Client, namespaces: Iterable[str]) -> dict[str, Answer]:
    """Return those of the placement ``p`` in each namespace. They may not depend on earlier decisions."""
    objects = [each for resource in _CAUSES for each in (await client.list(resource)).items]
    world = World(objects)
    found: dict[str, Answer] = {}
    for namespace in namespaces:
        verdict = world.look((namespace, "p"), now=to_micros(datetime.now(UTC)))
        found[namespace] = Answer(
            pages={page.name: (_sorted(page.labels), page.clusters) for page in verdict.pages},
            selected=verdict.selected,
            groups=verdict.groups,
            conditions=_texts_of(verdict.conditions),
        )
    return found


async def written(client: Client, namespaces: Iterable[str]) -> dict[str, Answer]:
    """Return the state on the hub."""
    decisions = (await client.list(PLACEMENT_DECISIONS)).items
    placements = {each.metadata.namespace: each for each in (await client.list(PLACEMENTS)).items}
    found: dict[str, Answer] = {}
    for namespace in namespaces:
        placement = placements.get(namespace, Placement())
        found[namespace] = Answer(
            pages={
                each.metadata.name: (
                    _sorted(each.metadata.labels),
                    tuple(one.clusterName for one in each.status.decisions),
                )
                for each in decisions
                if each.metadata.namespace == namespace and each.metadata.labels.get(PLACEMENT_LABEL) == "p"
            },
            selected=placement.status.numberOfSelectedClusters,
            groups=placement.status.decisionGroups,
            conditions=_texts_of(placement.status.conditions),
        )
    return found


def _sorted(labels: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def _texts_of(conditions: tuple[Condition, ...]) -> tuple[tuple[str, str, str], ...]:
    both = (find_condition(conditions, kind) or Condition() for kind in (SATISFIED, MISCONFIGURED))
    return tuple((each.status, each.reason, each.message) for each in both)
