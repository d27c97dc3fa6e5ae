"""Decisions follow scores, in the modes and weights a placement asks for."""

from typing import Any

import pytest

from controllers.world import World
from fairway.api.placement import PlacementSpec
from fairway.controllers.manager import Manager
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
)
from fairway.testing import builders
from fairway.testing.builders import addon, builtin

pytestmark = pytest.mark.embedded

CPU, MEMORY = "ResourceAllocatableCPU", "ResourceAllocatableMemory"


def best(number: int, *configurations: Any, mode: str = "Exact", **rest: Any) -> PlacementSpec:
    policy = builders.policy(*configurations, mode=mode)
    return PlacementSpec(numberOfClusters=number, prioritizerPolicy=policy, **rest)


async def test_a_better_cluster_comes_and_goes(manager: Manager, world: World) -> None:
    await world.cluster("a", allocatable={"cpu": "5"})
    await world.cluster("b", allocatable={"cpu": "4"})
    await world.place("p", best(1, builtin(CPU)))
    await world.chooses("p", "a")
    await world.cluster("c", allocatable={"cpu": "9"})
    await world.chooses("p", "c")
    await world.delete(MANAGED_CLUSTERS, world.full("c"))
    await world.chooses("p", "a")
    await world.change_cluster("b", allocatable={"cpu": "6"})
    await world.chooses("p", "b")


async def test_balance_avoids_what_others_have(manager: Manager, world: World) -> None:
    await world.cluster("a", allocatable={"cpu": "10"})
    await world.cluster("b", allocatable={"cpu": "9"})
    await world.cluster("c", allocatable={"cpu": "8"})
    await world.after(manager, PLACEMENT_DECISIONS, await world.hold("foreign", "a"))
    await world.place("p", best(1, builtin("Balance", 2), builtin(CPU), mode="Additive"))
    await world.chooses("p", "b")


async def test_a_burst_of_placements_spreads(manager: Manager, world: World) -> None:
    """The next one sees what the last one chose, though it may not even be written yet."""
    await world.clusters(*"abc")
    await world.after(manager, MANAGED_CLUSTERS, await world.cluster("d"))
    for number in range(8):
        await world.place(f"p{number}", PlacementSpec(numberOfClusters=1))
    names = [f"p{number}" for number in range(8)]
    await world.eventually(lambda: all(world.chosen(name) for name in names))
    counts = [sum(world.chosen(name) == [word] for name in names) for word in "abcd"]
    assert counts == [2, 2, 2, 2]


async def test_steady_keeps_what_it_has(manager: Manager, world: World) -> None:
    await world.cluster("a", allocatable={"cpu": "1"})
    await world.cluster("b", allocatable={"cpu": "2"})
    await world.place("p", best(1, builtin("Steady", 3), builtin(CPU), mode="Additive"))
    await world.chooses("p", "b")
    await world.after(manager, PLACEMENT_DECISIONS, await world.hold("foreign", "b"))
    written = await world.cluster("c", allocatable={"cpu": "3"})
    before = await world.versions()
    await world.after(manager, MANAGED_CLUSTERS, written)
    assert world.chosen("p") == ["b"]
    assert await world.versions() == before


async def test_published_scores_decide(manager: Manager, world: World) -> None:
    await world.clusters("a", "b", "c")
    for word, value in (("a", 80), ("b", 90), ("c", 100)):
        await world.score(word, {"cpu": value})
    await world.place("p", best(2, addon("cpu")))
    await world.chooses("p", "b", "c")
    await world.score("a", {"cpu": 95})
    await world.chooses("p", "a", "c")
    await world.delete(ADD_ON_PLACEMENT_SCORES, "default", namespace=world.full("c"))
    await world.chooses("p", "a", "b")


async def test_scores_that_are_published_later(manager: Manager, world: World) -> None:
    await world.clusters("a", "b")
    await world.place("p", best(1, addon("cpu")))
    await world.chooses("p", "a")
    await world.score("b", {"cpu": 1})
    await world.chooses("p", "b")
    await world.score("a", {"other": 50})
    await world.score("a", {"other": 50, "cpu": 2})
    await world.chooses("p", "a")


async def test_changed_prioritizer_policy_takes_effect(manager: Manager, world: World) -> None:
    await world.cluster("a", allocatable={"cpu": "1", "memory": "2"})
    await world.cluster("b", allocatable={"cpu": "2", "memory": "1"})
    await world.place("p", best(1, builtin(CPU)))
    await world.chooses("p", "b")
    memory = {"scoreCoordinate": {"type": "BuiltIn", "builtIn": MEMORY}, "weight": 1}
    await world.replace("p", prioritizerPolicy={"mode": "Exact", "configurations": [memory]})
    await world.chooses("p", "a")


# What OCM does not have


async def test_scores_of_a_calculator(manager: Manager, world: World) -> None:
    await world.clusters("a", "b")
    await world.calculated("a", "ResourceRatioCPU", 10)
    await world.calculated("b", "ResourceRatioCPU", 20)
    await world.place("p", best(1, builtin("ResourceRatioCPU")))
    await world.chooses("p", "b")
    await world.calculated("a", "ResourceRatioCPU", 30)
    await world.chooses("p", "a")
    name = f"{world.full('a')}-resourceratiocpu"
    await world.delete(MANAGED_CLUSTER_SCORES, name, namespace=world.full("a"))
    await world.chooses("p", "b")


async def test_a_calculator_that_nobody_has_heard_of_until_it_publishes(
    manager: Manager, world: World
) -> None:
    calculator = f"Quiet{world.prefix}"
    await world.clusters("a", "b")
    await world.place("p", best(1, builtin(calculator)))
    await world.eventually(lambda: world.mistake("p") == f":incorrect builtin prioritizer: {calculator}")
    await world.calculated("b", calculator, 5)
    await world.chooses("p", "b")
    assert world.mistake("p") == ""
