"""Decisions follow clusters, sets and bindings; tests/controllers/steps tries many more changes in memory."""

import pytest

from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from fairway.controllers.manager import Manager
from kubewire.api.selector import LabelSelector

pytestmark = pytest.mark.embedded

BY_VENDOR = LabelSelector(matchLabels={"vendor": "one"})


@pytest.mark.both_hubs
async def test_deleted_cluster_leaves_its_decisions(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters(*"abc")
    await fleet.place()
    await fleet.chooses("p", *"abc")
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("b"))
    await fleet.chooses("p", *"ac")


async def test_cluster_being_deleted_is_deselected(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters(*"abcd")
    await fleet.cluster("e", finalizers=("fairway.dev/wait",))
    await fleet.place("p", PlacementSpec(numberOfClusters=10))
    await fleet.chooses("p", *"abcde")
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("e"))
    await fleet.chooses("p", *"abcd")
    assert (await fleet.client.get(MANAGED_CLUSTERS, fleet.name("e"))).metadata.deletionTimestamp is not None
    await fleet.edit(MANAGED_CLUSTERS, fleet.name("e"), {"metadata": {"finalizers": None}})


# Sets


async def test_cluster_moved_to_another_set_changes_decisions(manager: Manager, fleet: HubFleet) -> None:
    await fleet.cluster_set("x")
    await fleet.bind("x")
    await fleet.clusters("a", "b")
    await fleet.place("old", PlacementSpec(clusterSets=("s",)))
    await fleet.place("new", PlacementSpec(clusterSets=("x",)))
    await fleet.chooses("old", "a", "b")
    await fleet.chooses("new")
    await fleet.change_cluster("a", member_of="x")
    await fleet.chooses("old", "b")
    await fleet.chooses("new", "a")
    await fleet.change_cluster("a", member_of="")
    await fleet.chooses("new")
    assert fleet.reason("new") == "AllManagedClusterSetsEmpty"


async def test_changed_selector_of_a_set_changes_decisions(manager: Manager, fleet: HubFleet) -> None:
    await fleet.cluster_set("kind", selector=BY_VENDOR)
    await fleet.bind("kind")
    await fleet.cluster("a", labels={"vendor": "one"}, member_of="")
    await fleet.cluster("b", labels={"vendor": "two"}, member_of="")
    await fleet.place()
    await fleet.chooses("p", "a")
    selector = {"labelSelector": {"matchLabels": {"vendor": "two"}}}
    await fleet.edit(MANAGED_CLUSTER_SETS, fleet.name("kind"), {"spec": {"clusterSelector": selector}})
    await fleet.chooses("p", "b")


@pytest.mark.parametrize("selector", [None, LabelSelector(matchLabels={"vendor": "one"})])
async def test_bound_and_unbound_set_changes_decisions(
    manager: Manager, fleet: HubFleet, selector: LabelSelector | None
) -> None:
    await fleet.clusters("a")
    await fleet.cluster_set("x", selector=selector)
    await fleet.cluster("b", labels={"vendor": "one"}, member_of="" if selector else "x")
    await fleet.place()
    await fleet.chooses("p", "a")
    await fleet.bind("x")
    await fleet.chooses("p", "a", "b")
    await fleet.delete(MANAGED_CLUSTER_SET_BINDINGS, fleet.name("x"))
    await fleet.chooses("p", "a")
    await fleet.delete(MANAGED_CLUSTER_SET_BINDINGS, fleet.name("s"))
    await fleet.chooses("p")
    assert fleet.reason("p") == "NoManagedClusterSetBindings"
    await fleet.bind("s")
    await fleet.chooses("p", "a")


async def test_deleted_and_recreated_set_changes_decisions(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b")
    await fleet.place()
    await fleet.chooses("p", "a", "b")
    await fleet.delete(MANAGED_CLUSTER_SETS, fleet.name("s"))
    await fleet.chooses("p")
    assert fleet.reason("p") == "NoManagedClusterSetBindings"
    await fleet.cluster_set("s")
    await fleet.chooses("p", "a", "b")


async def test_binding_created_before_its_set_takes_effect(manager: Manager, fleet: HubFleet) -> None:
    await fleet.bind("later")
    await fleet.cluster("a", member_of="later")
    await fleet.place()
    await fleet.chooses("p")
    await fleet.cluster_set("later")
    await fleet.chooses("p", "a")
