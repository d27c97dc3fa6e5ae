"""Decisions follow scores, with the mode and the weights of the placement."""

from typing import Any

import pytest

from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
)
from fairway.controllers.manager import Manager
from fairway.testing import builders
from fairway.testing.builders import addon, builtin

pytestmark = pytest.mark.embedded

CPU, MEMORY = "ResourceAllocatableCPU", "ResourceAllocatableMemory"


def best(number: int, *configurations: Any, mode: str = "Exact", **rest: Any) -> PlacementSpec:
    policy = builders.policy(*configurations, mode=mode)
    return PlacementSpec(numberOfClusters=number, prioritizerPolicy=policy, **rest)


async def test_better_cluster_is_selected_while_it_exists(manager: Manager, fleet: HubFleet) -> None:
    await fleet.cluster("a", allocatable={"cpu": "5"})
    await fleet.cluster("b", allocatable={"cpu": "4"})
    await fleet.place("p", best(1, builtin(CPU)))
    await fleet.chooses("p", "a")
    await fleet.cluster("c", allocatable={"cpu": "9"})
    await fleet.chooses("p", "c")
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("c"))
    await fleet.chooses("p", "a")
    await fleet.change_cluster("b", allocatable={"cpu": "6"})
    await fleet.chooses("p", "b")


async def test_balance_avoids_clusters_of_other_placements(manager: Manager, fleet: HubFleet) -> None:
    await fleet.cluster("a", allocatable={"cpu": "10"})
    await fleet.cluster("b", allocatable={"cpu": "9"})
    await fleet.cluster("c", allocatable={"cpu": "8"})
    await fleet.after(manager, PLACEMENT_DECISIONS, await fleet.hold("foreign", "a"))
    await fleet.place("p", best(1, builtin("Balance", 2), builtin(CPU), mode="Additive"))
    await fleet.chooses("p", "b")


async def test_burst_of_placements_spreads(manager: Manager, fleet: HubFleet) -> None:
    """Each placement counts the decisions before it, also those that are not written yet."""
    await fleet.clusters(*"abc")
    await fleet.after(manager, MANAGED_CLUSTERS, await fleet.cluster("d"))
    for number in range(8):
        await fleet.place(f"p{number}", PlacementSpec(numberOfClusters=1))
    names = [f"p{number}" for number in range(8)]
    await fleet.eventually(lambda: all(fleet.chosen(name) for name in names))
    counts = [sum(fleet.chosen(name) == [word] for name in names) for word in "abcd"]
    assert counts == [2, 2, 2, 2]


async def test_steady_keeps_selected_clusters(manager: Manager, fleet: HubFleet) -> None:
    await fleet.cluster("a", allocatable={"cpu": "1"})
    await fleet.cluster("b", allocatable={"cpu": "2"})
    await fleet.place("p", best(1, builtin("Steady", 3), builtin(CPU), mode="Additive"))
    await fleet.chooses("p", "b")
    await fleet.after(manager, PLACEMENT_DECISIONS, await fleet.hold("foreign", "b"))
    written = await fleet.cluster("c", allocatable={"cpu": "3"})
    before = await fleet.versions()
    await fleet.after(manager, MANAGED_CLUSTERS, written)
    assert fleet.chosen("p") == ["b"]
    assert await fleet.versions() == before


async def test_published_score_selects_the_cluster(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b", "c")
    for word, value in (("a", 80), ("b", 90), ("c", 100)):
        await fleet.score(word, {"cpu": value})
    await fleet.place("p", best(2, addon("cpu")))
    await fleet.chooses("p", "b", "c")
    await fleet.score("a", {"cpu": 95})
    await fleet.chooses("p", "a", "c")
    await fleet.delete(ADD_ON_PLACEMENT_SCORES, "default", namespace=fleet.name("c"))
    await fleet.chooses("p", "a", "b")


async def test_score_published_later_changes_the_decision(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b")
    await fleet.place("p", best(1, addon("cpu")))
    await fleet.chooses("p", "a")
    await fleet.score("b", {"cpu": 1})
    await fleet.chooses("p", "b")
    await fleet.score("a", {"other": 50})
    await fleet.score("a", {"other": 50, "cpu": 2})
    await fleet.chooses("p", "a")


async def test_changed_prioritizer_policy_takes_effect(manager: Manager, fleet: HubFleet) -> None:
    await fleet.cluster("a", allocatable={"cpu": "1", "memory": "2"})
    await fleet.cluster("b", allocatable={"cpu": "2", "memory": "1"})
    await fleet.place("p", best(1, builtin(CPU)))
    await fleet.chooses("p", "b")
    memory = {"scoreCoordinate": {"type": "BuiltIn", "builtIn": MEMORY}, "weight": 1}
    await fleet.replace("p", prioritizerPolicy={"mode": "Exact", "configurations": [memory]})
    await fleet.chooses("p", "a")


# What OCM does not have


async def test_calculator_scores_rank_clusters(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b")
    await fleet.calculated("a", "ResourceRatioCPU", 10)
    await fleet.calculated("b", "ResourceRatioCPU", 20)
    await fleet.place("p", best(1, builtin("ResourceRatioCPU")))
    await fleet.chooses("p", "b")
    await fleet.calculated("a", "ResourceRatioCPU", 30)
    await fleet.chooses("p", "a")
    name = f"{fleet.name('a')}-resourceratiocpu"
    await fleet.delete(MANAGED_CLUSTER_SCORES, name, namespace=fleet.name("a"))
    await fleet.chooses("p", "b")


async def test_unknown_calculator_counts_once_it_publishes(manager: Manager, fleet: HubFleet) -> None:
    calculator = f"Quiet{fleet.prefix}"
    await fleet.clusters("a", "b")
    await fleet.place("p", best(1, builtin(calculator)))
    await fleet.eventually(lambda: fleet.mistake("p") == f":incorrect builtin prioritizer: {calculator}")
    await fleet.calculated("b", calculator, 5)
    await fleet.chooses("p", "b")
    assert fleet.mistake("p") == ""
