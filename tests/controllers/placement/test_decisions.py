"""From a placement to its decision: what is written for the first time, and what the conditions say."""

import msgspec
import pytest

from controllers.figures import writes
from controllers.world import World
from fairway.api.meta import OwnerReference
from fairway.api.placement import (
    GROUP_INDEX_LABEL,
    GROUP_NAME_LABEL,
    PLACEMENT_LABEL,
    DecisionGroupStatus,
    PlacementSpec,
)
from fairway.api.selector import LabelSelector
from fairway.controllers.manager import Manager
from fairway.kube import MANAGED_CLUSTERS, PLACEMENT_DECISIONS
from fairway.placement.conditions import MISCONFIGURED, SATISFIED
from fairway.testing import builders

pytestmark = pytest.mark.embedded


@pytest.mark.both_hubs
async def test_satisfied_placement_has_decision_and_status(manager: Manager, world: World) -> None:
    await world.clusters("a", "b", "c")
    placement = await world.place("p", PlacementSpec(numberOfClusters=3))
    await world.chooses("p", "a", "b", "c")
    assert world.status("p").decisionGroups == (
        DecisionGroupStatus(decisions=("p-decision-1",), clusterCount=3),
    )
    assert [each.type for each in world.status("p").conditions] == [MISCONFIGURED, SATISFIED]
    assert world.condition("p", MISCONFIGURED) == (
        "False",
        "Succeedconfigured",
        "Placement configurations check pass",
    )
    assert world.condition("p") == ("True", "AllDecisionsScheduled", "All cluster decisions scheduled")
    (page,) = world.decisions("p")
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
async def test_it_takes_three_requests(manager: Manager, world: World) -> None:
    await world.clusters("a")
    await world.after(manager, MANAGED_CLUSTERS, await world.cluster("b"))
    await world.place()
    await world.chooses("p", "a", "b")
    await world.settled(manager)
    assert writes(manager) == {
        "create placementdecisions": 1,
        "patch placementdecisions": 1,
        "patch placements": 1,
    }


async def test_conditions_say_nothing_of_generations(manager: Manager, world: World) -> None:
    await world.place()
    await world.chooses("p")
    assert {each.observedGeneration for each in world.status("p").conditions} == {0}


@pytest.mark.both_hubs
async def test_an_unsatisfied_placement_still_gets_what_there_is(manager: Manager, world: World) -> None:
    await world.clusters("a", "b", "c")
    await world.place("p", PlacementSpec(numberOfClusters=4))
    await world.chooses("p", "a", "b", "c")
    assert world.condition("p") == ("False", "NotAllDecisionsScheduled", "1 cluster decisions unscheduled")


@pytest.mark.both_hubs
@pytest.mark.parametrize("number", [0, -1])
async def test_a_number_of_none_or_less_chooses_nothing(manager: Manager, world: World, number: int) -> None:
    await world.clusters("a")
    await world.place("p", PlacementSpec(numberOfClusters=number))
    await world.chooses("p")
    assert world.reason("p") == "NoManagedClusterMatched"


# Nothing to choose from


async def test_placement_without_bindings_is_unsatisfied(manager: Manager, world: World) -> None:
    room = await world.room("elsewhere")
    await world.clusters("a")
    await world.place("p", namespace=room)
    await world.chooses("p", namespace=room)
    assert world.condition("p", namespace=room) == (
        "False",
        "NoManagedClusterSetBindings",
        "No valid ManagedClusterSetBindings found in placement namespace",
    )
    assert [each.clusterCount for each in world.status("p", namespace=room).decisionGroups] == [0]


async def test_clusters_that_all_do_not_match(manager: Manager, world: World) -> None:
    await world.clusters("a")
    nowhere = builders.predicate(labels=LabelSelector(matchLabels={"cloud": "none"}))
    await world.place("p", PlacementSpec(predicates=(nowhere,)))
    await world.chooses("p")
    assert world.condition("p") == (
        "False",
        "NoManagedClusterMatched",
        "No ManagedCluster matches any of the cluster predicate",
    )


@pytest.mark.both_hubs
async def test_an_empty_decision_has_no_status_until_it_was_emptied(manager: Manager, world: World) -> None:
    async def status() -> object:
        path = PLACEMENT_DECISIONS.path(namespace=world.namespace, name="p-decision-1")
        return msgspec.json.decode((await world.client.request("GET", path)).body).get("status")

    await world.place()
    await world.chooses("p")
    assert await status() is None
    await world.clusters("a")
    await world.chooses("p", "a")
    await world.delete(MANAGED_CLUSTERS, world.full("a"))
    await world.chooses("p")
    assert await status() == {"decisions": []}


# Sets


async def test_all_bound_sets_or_only_those_named(manager: Manager, world: World) -> None:
    for word in ("x", "y"):
        await world.cluster_set(word)
        await world.bind(word)
        await world.cluster(f"in-{word}", member_of=word)
    await world.clusters("a")
    await world.place("all")
    await world.place("one", PlacementSpec(clusterSets=("y",)))
    await world.place("two", PlacementSpec(clusterSets=("y", "x", "missing")))
    await world.chooses("all", "a", "in-x", "in-y")
    await world.chooses("one", "in-y")
    await world.chooses("two", "in-x", "in-y")


async def test_a_binding_counts_by_its_own_name(manager: Manager, world: World) -> None:
    """What its spec says matters to nobody but the one who reports whether it is bound."""
    room = await world.room("elsewhere")
    bound = builders.binding(world.full("s"), namespace=room)
    body = {"metadata": {"name": bound.metadata.name}, "spec": {"clusterSet": "another"}}
    await world.client.request(
        "POST",
        f"/apis/cluster.open-cluster-management.io/v1beta2/namespaces/{room}/managedclustersetbindings",
        body={
            "apiVersion": "cluster.open-cluster-management.io/v1beta2",
            "kind": "ManagedClusterSetBinding",
            **body,
        },
    )
    await world.clusters("a")
    await world.place("p", namespace=room)
    await world.chooses("p", "a", namespace=room)
