"""All controllers at once: what one of them writes is news to the next."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controllers.world import World
from fairway.api.cluster import ManagedCluster
from fairway.api.meta import Condition, set_condition
from fairway.api.placement import PlacementSpec, Toleration
from fairway.controllers.manager import Manager
from fairway.kube import MANAGED_CLUSTERS, Conflict

pytestmark = pytest.mark.embedded

AVAILABLE = "ManagedClusterConditionAvailable"
TOLERANT = PlacementSpec(
    tolerations=(Toleration(key="cluster.open-cluster-management.io/unavailable", operator="Exists"),)
)


async def reports(world: World, word: str, status: str) -> None:
    """Report the availability as the cluster's agent, and retry on conflicts."""
    name = world.full(word)
    while True:
        known: ManagedCluster = await world.client.get(MANAGED_CLUSTERS, name)
        told = Condition(type=AVAILABLE, status=status, reason="Told", message="")
        conditions = set_condition(known.status.conditions or (), told, now=datetime.now(UTC))
        body: dict[str, Any] = {
            "metadata": {"resourceVersion": known.metadata.resourceVersion},
            "status": {"conditions": [_plain(each) for each in conditions]},
        }
        try:
            await world.edit(MANAGED_CLUSTERS, name, body, status=True)
        except Conflict:
            continue
        return


def _plain(condition: Condition) -> dict[str, str]:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


async def test_only_available_clusters_are_selected(everything: Manager, world: World) -> None:
    """From the agent's word by way of a taint to the decision, and back."""
    await world.clusters("a", "b")
    await world.place("p")
    await world.place("tolerant", TOLERANT)
    await world.chooses("p")
    await reports(world, "a", "True")
    await reports(world, "b", "True")
    await world.chooses("p", "a", "b")
    await world.chooses("tolerant", "a", "b")
    await reports(world, "a", "False")
    await world.chooses("p", "b")
    assert world.chosen("tolerant") == ["a", "b"]
    await reports(world, "a", "True")
    await world.chooses("p", "a", "b")


async def test_cluster_without_a_set_is_in_the_default_set(everything: Manager, world: World) -> None:
    room = await world.room("elsewhere")
    await world.client.request(
        "POST",
        f"/apis/cluster.open-cluster-management.io/v1beta2/namespaces/{room}/managedclustersetbindings",
        body={
            "apiVersion": "cluster.open-cluster-management.io/v1beta2",
            "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "default"},
            "spec": {"clusterSet": "default"},
        },
    )
    await world.place("p", namespace=room)
    await world.cluster("c", member_of="")
    await reports(world, "c", "True")
    await world.eventually(lambda: "c" in world.chosen("p", namespace=room))


async def test_deleted_cluster_leaves_decisions_at_once(everything: Manager, world: World) -> None:
    """Though cleaning up after it takes its time."""
    await world.clusters("a")
    await reports(world, "a", "True")
    await world.place("p")
    await world.chooses("p", "a")
    await world.delete(MANAGED_CLUSTERS, world.full("a"))
    await world.chooses("p")
