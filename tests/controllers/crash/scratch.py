"""Expected decisions, computed only from clusters, sets, scores and placements."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from fairway.api.placement import PLACEMENT_LABEL, DecisionGroupStatus, Placement
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.hosts.instant import to_micros
from fairway.whatif.world import World
from fairway.workloads.placement.conditions import MISCONFIGURED, SATISFIED
from kubewire.api.meta import Condition, find_condition
from kubewire.client import Client, Resource

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
    objects = [item for resource in _CAUSES for item in (await client.list(resource)).items]
    world = World(objects)
    answers: dict[str, Answer] = {}
    for namespace in namespaces:
        verdict = world.decide((namespace, "p"), now=to_micros(datetime.now(UTC)))
        answers[namespace] = Answer(
            pages={page.name: (_sorted(page.labels), page.clusters) for page in verdict.pages},
            selected=verdict.selected,
            groups=verdict.groups,
            conditions=_texts_of(verdict.conditions),
        )
    return answers


async def written(client: Client, namespaces: Iterable[str]) -> dict[str, Answer]:
    """Return the state on the hub."""
    decisions = (await client.list(PLACEMENT_DECISIONS)).items
    placements = {
        placement.metadata.namespace: placement for placement in (await client.list(PLACEMENTS)).items
    }
    answers: dict[str, Answer] = {}
    for namespace in namespaces:
        placement = placements.get(namespace, Placement())
        answers[namespace] = Answer(
            pages={
                decision.metadata.name: (
                    _sorted(decision.metadata.labels),
                    tuple(one.clusterName for one in decision.status.decisions),
                )
                for decision in decisions
                if decision.metadata.namespace == namespace
                and decision.metadata.labels.get(PLACEMENT_LABEL) == "p"
            },
            selected=placement.status.numberOfSelectedClusters,
            groups=placement.status.decisionGroups,
            conditions=_texts_of(placement.status.conditions),
        )
    return answers


def _sorted(labels: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def _texts_of(conditions: tuple[Condition, ...]) -> tuple[tuple[str, str, str], ...]:
    both = (find_condition(conditions, kind) or Condition() for kind in (SATISFIED, MISCONFIGURED))
    return tuple((condition.status, condition.reason, condition.message) for condition in both)
