"""The first decision of a placement, and its conditions."""

import msgspec
import pytest

from controllers.figures import writes
from controllers.hub_fleet import HubFleet
from fairway.api.placement import (
    GROUP_INDEX_LABEL,
    GROUP_NAME_LABEL,
    PLACEMENT_LABEL,
    DecisionGroupStatus,
    PlacementSpec,
)
from fairway.api.resources import MANAGED_CLUSTERS, PLACEMENT_DECISIONS
from fairway.controllers.manager import Manager
from fairway.testing import builders
from fairway.workloads.placement.conditions import MISCONFIGURED, SATISFIED
from kubewire.api.meta import OwnerReference
from kubewire.api.selector import LabelSelector

pytestmark = pytest.mark.embedded


@pytest.mark.both_hubs
async def test_satisfied_placement_has_decision_and_status(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b", "c")
    placement = await fleet.place("p", PlacementSpec(numberOfClusters=3))
    await fleet.chooses("p", "a", "b", "c")
    assert fleet.status("p").decisionGroups == (
        DecisionGroupStatus(decisions=("p-decision-1",), clusterCount=3),
    )
    assert [condition.type for condition in fleet.status("p").conditions] == [MISCONFIGURED, SATISFIED]
    assert fleet.condition("p", MISCONFIGURED) == (
        "False",
        "Succeedconfigured",
        "Placement configurations check pass",
    )
    assert fleet.condition("p") == ("True", "AllDecisionsScheduled", "All cluster decisions scheduled")
    (page,) = fleet.decisions("p")
    assert page.metadata.labels == {PLACEMENT_LABEL: "p", GROUP_INDEX_LABEL: "0", GROUP_NAME_LABEL: ""}
    assert page.metadata.ownerReferences == (
        OwnerReference(
            apiVersion="cluster.open-cluster-management.io/v1beta1",
            kind="Placement",
            name="p",
            uid=placement.metadata.uid,
            controller=True,
            blockOwnerDeletion=True,
        ),
    )


@pytest.mark.both_hubs
async def test_new_placement_takes_three_requests(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a")
    await fleet.after(manager, MANAGED_CLUSTERS, await fleet.cluster("b"))
    await fleet.place()
    await fleet.chooses("p", "a", "b")
    await fleet.settled(manager)
    assert writes(manager) == {
        "create placementdecisions": 1,
        "patch placementdecisions": 1,
        "patch placements": 1,
    }


async def test_conditions_have_no_observed_generation(manager: Manager, fleet: HubFleet) -> None:
    await fleet.place()
    await fleet.chooses("p")
    assert {condition.observedGeneration for condition in fleet.status("p").conditions} == {0}


@pytest.mark.both_hubs
async def test_unsatisfied_placement_gets_all_feasible_clusters(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b", "c")
    await fleet.place("p", PlacementSpec(numberOfClusters=4))
    await fleet.chooses("p", "a", "b", "c")
    assert fleet.condition("p") == ("False", "NotAllDecisionsScheduled", "1 cluster decisions unscheduled")


@pytest.mark.both_hubs
@pytest.mark.parametrize("number", [0, -1])
async def test_zero_or_negative_number_of_clusters_selects_none(
    manager: Manager, fleet: HubFleet, number: int
) -> None:
    await fleet.clusters("a")
    await fleet.place("p", PlacementSpec(numberOfClusters=number))
    await fleet.chooses("p")
    assert fleet.reason("p") == "NoManagedClusterMatched"


# Nothing to choose from


async def test_placement_without_bindings_is_unsatisfied(manager: Manager, fleet: HubFleet) -> None:
    room = await fleet.create_namespace("elsewhere")
    await fleet.clusters("a")
    await fleet.place("p", namespace=room)
    await fleet.chooses("p", namespace=room)
    assert fleet.condition("p", namespace=room) == (
        "False",
        "NoManagedClusterSetBindings",
        "No valid ManagedClusterSetBindings found in placement namespace",
    )
    assert [group.clusterCount for group in fleet.status("p", namespace=room).decisionGroups] == [0]


async def test_placement_without_matching_clusters_is_unsatisfied(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a")
    nowhere = builders.predicate(labels=LabelSelector(matchLabels={"cloud": "none"}))
    await fleet.place("p", PlacementSpec(predicates=(nowhere,)))
    await fleet.chooses("p")
    assert fleet.condition("p") == (
        "False",
        "NoManagedClusterMatched",
        "No ManagedCluster matches any of the cluster predicate",
    )


@pytest.mark.both_hubs
async def test_new_empty_decision_has_no_status(manager: Manager, fleet: HubFleet) -> None:
    async def status() -> object:
        path = PLACEMENT_DECISIONS.path(namespace=fleet.namespace, name="p-decision-1")
        return msgspec.json.decode((await fleet.client.request("GET", path)).body).get("status")

    await fleet.place()
    await fleet.chooses("p")
    assert await status() is None
    await fleet.clusters("a")
    await fleet.chooses("p", "a")
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("a"))
    await fleet.chooses("p")
    assert await status() == {"decisions": []}


# Sets


async def test_placement_uses_named_or_all_bound_sets(manager: Manager, fleet: HubFleet) -> None:
    for word in ("x", "y"):
        await fleet.cluster_set(word)
        await fleet.bind(word)
        await fleet.cluster(f"in-{word}", member_of=word)
    await fleet.clusters("a")
    await fleet.place("all")
    await fleet.place("one", PlacementSpec(clusterSets=("y",)))
    await fleet.place("two", PlacementSpec(clusterSets=("y", "x", "missing")))
    await fleet.chooses("all", "a", "in-x", "in-y")
    await fleet.chooses("one", "in-y")
    await fleet.chooses("two", "in-x", "in-y")


async def test_binding_counts_by_its_own_name(manager: Manager, fleet: HubFleet) -> None:
    """The spec of a binding only affects its condition."""
    room = await fleet.create_namespace("elsewhere")
    bound = builders.binding(fleet.name("s"), namespace=room)
    body = {"metadata": {"name": bound.metadata.name}, "spec": {"clusterSet": "another"}}
    await fleet.client.request(
        "POST",
        f"/apis/cluster.open-cluster-management.io/v1beta2/namespaces/{room}/managedclustersetbindings",
        body={
            "apiVersion": "cluster.open-cluster-management.io/v1beta2",
            "kind": "ManagedClusterSetBinding",
            **body,
        },
    )
    await fleet.clusters("a")
    await fleet.place("p", namespace=room)
    await fleet.chooses("p", "a", namespace=room)
