"""Decisions follow scores, in the modes and weights a placement asks for."""

from typing import Any

import pytest

from controllers.world import World
from fairway.api.placement import PlacementSpec, SpreadConstraint, SpreadPolicy
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


async def test_by_default_the_first_by_name(manager: Manager, world: World) -> None:
    await world.clusters("c", "b", "a")
    await world.place("p", PlacementSpec(numberOfClusters=2))
    await world.chooses("p", "a", "b")


async def test_allocatable_resources(manager: Manager, world: World) -> None:
    """CPU says −100, −71 and 100; memory 100, 100 and −100; what is equal goes by name."""
    await world.cluster("a", allocatable={"cpu": "10", "memory": "100"})
    await world.cluster("b", allocatable={"cpu": "8", "memory": "80"})
    await world.cluster("c", allocatable={"cpu": "3", "memory": "150"})
    await world.place("p", best(2, builtin(CPU), builtin(MEMORY)))
    await world.chooses("p", "a", "c")


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


async def test_published_scores(manager: Manager, world: World) -> None:
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


async def test_a_negative_weight_prefers_the_lowest(manager: Manager, world: World) -> None:
    await world.clusters("a", "b")
    await world.score("a", {"cost": 50})
    await world.score("b", {"cost": -50})
    await world.place("p", best(1, addon("cost", -1)))
    await world.chooses("p", "b")


async def test_exact_and_additive(manager: Manager, world: World) -> None:
    """What is listed alone, or together with Balance and Steady."""
    await world.clusters("a", "b")
    await world.score("a", {"cpu": 10})
    await world.after(manager, PLACEMENT_DECISIONS, await world.hold("foreign", "a"))
    await world.place("exact", best(1, addon("cpu")))
    await world.chooses("exact", "a")
    await world.place("additive", best(1, addon("cpu"), mode="Additive"))
    await world.chooses("additive", "b")
    balance = {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Balance"}, "weight": 0}
    cpu = {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "default", "scoreName": "cpu"}}}
    await world.place("without", PlacementSpec(numberOfClusters=1, clusterSets=("none",)))
    policy = {"mode": "Additive", "configurations": [cpu, balance]}
    await world.replace("without", clusterSets=[], prioritizerPolicy=policy)
    await world.chooses("without", "a")


async def test_the_policy_changes(manager: Manager, world: World) -> None:
    await world.cluster("a", allocatable={"cpu": "1", "memory": "2"})
    await world.cluster("b", allocatable={"cpu": "2", "memory": "1"})
    await world.place("p", best(1, builtin(CPU)))
    await world.chooses("p", "b")
    memory = {"scoreCoordinate": {"type": "BuiltIn", "builtIn": MEMORY}, "weight": 1}
    await world.replace("p", prioritizerPolicy={"mode": "Exact", "configurations": [memory]})
    await world.chooses("p", "a")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"mode": "Sometimes"}, ":incorrect prioritizer policy mode: Sometimes"),
        (
            {"configurations": [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Luck"}}]},
            ":incorrect builtin prioritizer: Luck",
        ),
        ({"configurations": [{"scoreCoordinate": {"type": "AddOn"}}]}, ":addOn should not be empty"),
    ],
    ids=["mode", "builtin", "addon"],
)
async def test_a_policy_that_makes_no_sense(
    manager: Manager, world: World, policy: dict[str, Any], message: str
) -> None:
    """Said even where there is nothing to choose from."""
    await world.place()
    await world.chooses("p")
    await world.replace("p", prioritizerPolicy=policy)
    await world.eventually(lambda: world.mistake("p") == message)
    await world.replace("p", prioritizerPolicy=None)
    await world.eventually(lambda: not world.mistake("p"))


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


async def test_spread_over_regions(manager: Manager, world: World) -> None:
    for word, region in (("a", "north"), ("b", "north"), ("c", "north"), ("d", "south"), ("e", "south")):
        await world.cluster(word, labels={"region": region})
    even = SpreadConstraint(
        topologyKey="region", topologyKeyType="Label", maxSkew=1, whenUnsatisfiable="DoNotSchedule"
    )
    policy = SpreadPolicy(spreadConstraints=(even,))
    await world.place("p", PlacementSpec(numberOfClusters=4, spreadPolicy=policy))
    await world.chooses("p", *"abde")
    await world.change_cluster("e", labels={"region": "north"})
    await world.chooses("p", "a", "b", "d")
    assert world.condition("p") == ("False", "NotAllDecisionsScheduled", "1 cluster decisions unscheduled")


async def test_spread_over_claims_if_possible(manager: Manager, world: World) -> None:
    for word, zone in (("a", "1"), ("b", "1"), ("c", "2")):
        await world.cluster(word, claims={"zone": zone})
    even = SpreadConstraint(topologyKey="zone", topologyKeyType="Claim")
    policy = SpreadPolicy(spreadConstraints=(even,))
    await world.place("p", PlacementSpec(numberOfClusters=2, spreadPolicy=policy))
    await world.chooses("p", "a", "c")
    await world.cluster("d", claims={"zone": "3"})
    await world.change_cluster("c", claims={"zone": "1"})
    await world.chooses("p", "a", "d")
