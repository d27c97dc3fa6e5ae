"""Decisions follow clusters, sets and bindings; tests/controllers/steps tries many more changes in memory."""

import pytest

from controllers.world import World
from fairway.api.placement import PlacementSpec
from fairway.api.selector import LabelSelector
from fairway.controllers.manager import Manager
from fairway.kube import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS

pytestmark = pytest.mark.embedded

BY_VENDOR = LabelSelector(matchLabels={"vendor": "one"})


@pytest.mark.both_hubs
async def test_deleted_cluster_leaves_its_decisions(manager: Manager, world: World) -> None:
    await world.clusters(*"abc")
    await world.place()
    await world.chooses("p", *"abc")
    await world.delete(MANAGED_CLUSTERS, world.full("b"))
    await world.chooses("p", *"ac")


async def test_a_cluster_that_is_being_deleted_is_left(manager: Manager, world: World) -> None:
    """Whatever holds it up."""
    await world.clusters(*"abcd")
    await world.cluster("e", finalizers=("fairway.dev/wait",))
    await world.place("p", PlacementSpec(numberOfClusters=10))
    await world.chooses("p", *"abcde")
    await world.delete(MANAGED_CLUSTERS, world.full("e"))
    await world.chooses("p", *"abcd")
    assert (await world.client.get(MANAGED_CLUSTERS, world.full("e"))).metadata.deletionTimestamp is not None
    await world.edit(MANAGED_CLUSTERS, world.full("e"), {"metadata": {"finalizers": None}})


# Sets


async def test_a_cluster_moves_to_another_set(manager: Manager, world: World) -> None:
    await world.cluster_set("x")
    await world.bind("x")
    await world.clusters("a", "b")
    await world.place("old", PlacementSpec(clusterSets=("s",)))
    await world.place("new", PlacementSpec(clusterSets=("x",)))
    await world.chooses("old", "a", "b")
    await world.chooses("new")
    await world.change_cluster("a", member_of="x")
    await world.chooses("old", "b")
    await world.chooses("new", "a")
    await world.change_cluster("a", member_of="")
    await world.chooses("new")
    assert world.reason("new") == "AllManagedClusterSetsEmpty"


async def test_the_selector_of_a_set_changes(manager: Manager, world: World) -> None:
    await world.cluster_set("kind", selector=BY_VENDOR)
    await world.bind("kind")
    await world.cluster("a", labels={"vendor": "one"}, member_of="")
    await world.cluster("b", labels={"vendor": "two"}, member_of="")
    await world.place()
    await world.chooses("p", "a")
    selector = {"labelSelector": {"matchLabels": {"vendor": "two"}}}
    await world.edit(MANAGED_CLUSTER_SETS, world.full("kind"), {"spec": {"clusterSelector": selector}})
    await world.chooses("p", "b")


@pytest.mark.parametrize("selector", [None, LabelSelector(matchLabels={"vendor": "one"})])
async def test_a_set_is_bound_and_unbound(
    manager: Manager, world: World, selector: LabelSelector | None
) -> None:
    await world.clusters("a")
    await world.cluster_set("x", selector=selector)
    await world.cluster("b", labels={"vendor": "one"}, member_of="" if selector else "x")
    await world.place()
    await world.chooses("p", "a")
    await world.bind("x")
    await world.chooses("p", "a", "b")
    await world.delete(MANAGED_CLUSTER_SET_BINDINGS, world.full("x"))
    await world.chooses("p", "a")
    await world.delete(MANAGED_CLUSTER_SET_BINDINGS, world.full("s"))
    await world.chooses("p")
    assert world.reason("p") == "NoManagedClusterSetBindings"
    await world.bind("s")
    await world.chooses("p", "a")


async def test_a_set_is_deleted_and_made_again(manager: Manager, world: World) -> None:
    await world.clusters("a", "b")
    await world.place()
    await world.chooses("p", "a", "b")
    await world.delete(MANAGED_CLUSTER_SETS, world.full("s"))
    await world.chooses("p")
    assert world.reason("p") == "NoManagedClusterSetBindings"
    await world.cluster_set("s")
    await world.chooses("p", "a", "b")


async def test_a_binding_that_comes_before_its_set(manager: Manager, world: World) -> None:
    await world.bind("later")
    await world.cluster("a", member_of="later")
    await world.place()
    await world.chooses("p")
    await world.cluster_set("later")
    await world.chooses("p", "a")
