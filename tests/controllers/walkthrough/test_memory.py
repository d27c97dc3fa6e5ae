"""Selecting a cluster with more memory free, as the read-me of the resource usage add-on has it: in an old version."""

import pytest
import yaml

from controllers.hub_fleet import HubFleet
from controllers.walkthrough.conftest import Terminal
from fairway.api.resources import PLACEMENTS
from fairway.controllers.manager import Manager

pytestmark = pytest.mark.embedded

PLACEMENT = """
apiVersion: cluster.open-cluster-management.io/v1alpha1
kind: Placement
metadata:
  name: placement
  namespace: {namespace}
spec:
  numberOfClusters: 1
  prioritizerPolicy:
    mode: Exact
    configurations:
      - scoreCoordinate:
          type: AddOn
          addOn:
            resourceName: test-score1
            scoreName: memAvailable
        weight: 1
"""


@pytest.fixture
async def scored(fleet: HubFleet) -> None:
    for word, value in (("cluster1", 20), ("cluster2", 70)):
        await fleet.cluster(word)
        await fleet.score(word, {"memAvailable": value, "cpuAvailable": 100 - value}, resource="test-score1")


EMBEDDED = pytest.mark.parametrize("hub", ["embedded"], indirect=True)
"""A real hub does not turn the old version into the new one."""


@pytest.mark.usefixtures("scored")
@EMBEDDED
async def test_v1alpha1_placement_by_memory_through_the_api(manager: Manager, fleet: HubFleet) -> None:
    body = yaml.safe_load(PLACEMENT.format(namespace=fleet.namespace))
    path = PLACEMENTS.path(namespace=fleet.namespace).replace("v1beta1", "v1alpha1")
    await fleet.client.request("POST", path, body=body)
    await fleet.chooses("placement", "cluster2")


@pytest.mark.usefixtures("scored")
async def test_v1alpha1_placement_by_memory_with_kubectl(
    manager: Manager, fleet: HubFleet, terminal: Terminal
) -> None:
    await terminal("kubectl apply -f -", given=PLACEMENT.format(namespace=fleet.namespace))
    await fleet.chooses("placement", "cluster2")
    shown = [line.split() for line in (await terminal("kubectl get placementdecisions -A")).splitlines()]
    assert [fleet.namespace, "placement-decision-1"] in [line[:2] for line in shown]
    await fleet.score("cluster1", {"memAvailable": 90}, resource="test-score1")
    await fleet.chooses("placement", "cluster1")


@pytest.mark.usefixtures("scored")
@EMBEDDED
async def test_prioritizer_by_name_alone_is_accepted(
    manager: Manager, fleet: HubFleet, terminal: Terminal
) -> None:
    """As it could be written then."""
    await fleet.change_cluster("cluster1", allocatable={"memory": "2Gi"})
    await fleet.change_cluster("cluster2", allocatable={"memory": "1Gi"})
    body = PLACEMENT.format(namespace=fleet.namespace)
    old = body[: body.index("      - scoreCoordinate")] + "      - name: ResourceAllocatableMemory\n"
    await terminal("kubectl apply -f -", given=old)
    await fleet.chooses("placement", "cluster1")
    newest = await fleet.client.get(PLACEMENTS, "placement", namespace=fleet.namespace)
    assert newest.spec.prioritizerPolicy is not None
    (only,) = newest.spec.prioritizerPolicy.configurations
    assert only.scoreCoordinate is not None
    assert only.scoreCoordinate.builtIn == "ResourceAllocatableMemory"
