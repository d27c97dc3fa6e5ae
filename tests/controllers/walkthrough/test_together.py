"""All controllers at once: what one of them writes is news to the next."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controllers.hub_fleet import HubFleet
from fairway.api.cluster import ManagedCluster
from fairway.api.placement import PlacementSpec, Toleration
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.manager import Manager
from kubewire.api.meta import Condition, set_condition
from kubewire.client import Conflict

pytestmark = pytest.mark.embedded

AVAILABLE = "ManagedClusterConditionAvailable"
TOLERANT = PlacementSpec(
    tolerations=(Toleration(key="cluster.open-cluster-management.io/unavailable", operator="Exists"),)
)


async def reports(fleet: HubFleet, word: str, status: str) -> None:
    """Report the availability as the cluster's agent, and retry on conflicts."""
    name = fleet.name(word)
    while True:
        known: ManagedCluster = await fleet.client.get(MANAGED_CLUSTERS, name)
        told = Condition(type=AVAILABLE, status=status, reason="Told", message="")
        conditions = set_condition(known.status.conditions or (), told, now=datetime.now(UTC))
        body: dict[str, Any] = {
            "metadata": {"resourceVersion": known.metadata.resourceVersion},
            "status": {"conditions": [_plain(condition) for condition in conditions]},
        }
        try:
            await fleet.edit(MANAGED_CLUSTERS, name, body, status=True)
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


async def test_only_available_clusters_are_selected(everything: Manager, fleet: HubFleet) -> None:
    """From the agent's word by way of a taint to the decision, and back."""
    await fleet.clusters("a", "b")
    await fleet.place("p")
    await fleet.place("tolerant", TOLERANT)
    await fleet.chooses("p")
    await reports(fleet, "a", "True")
    await reports(fleet, "b", "True")
    await fleet.chooses("p", "a", "b")
    await fleet.chooses("tolerant", "a", "b")
    await reports(fleet, "a", "False")
    await fleet.chooses("p", "b")
    assert fleet.chosen("tolerant") == ["a", "b"]
    await reports(fleet, "a", "True")
    await fleet.chooses("p", "a", "b")


async def test_cluster_without_a_set_is_in_the_default_set(everything: Manager, fleet: HubFleet) -> None:
    room = await fleet.create_namespace("elsewhere")
    await fleet.client.request(
        "POST",
        f"/apis/cluster.open-cluster-management.io/v1beta2/namespaces/{room}/managedclustersetbindings",
        body={
            "apiVersion": "cluster.open-cluster-management.io/v1beta2",
            "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "default"},
            "spec": {"clusterSet": "default"},
        },
    )
    await fleet.place("p", namespace=room)
    await fleet.cluster("c", member_of="")
    await reports(fleet, "c", "True")
    await fleet.eventually(lambda: "c" in fleet.chosen("p", namespace=room))


async def test_deleted_cluster_leaves_decisions_at_once(everything: Manager, fleet: HubFleet) -> None:
    """Though cleaning up after it takes its time."""
    await fleet.clusters("a")
    await reports(fleet, "a", "True")
    await fleet.place("p")
    await fleet.chooses("p", "a")
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("a"))
    await fleet.chooses("p")
