"""Selecting a cluster with more memory free, as the read-me of the resource usage add-on has it: in an old version."""

import pytest
import yaml

from controllers.walkthrough.conftest import Terminal
from controllers.world import World
from fairway.controllers.manager import Manager
from fairway.kube import PLACEMENTS

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
async def scored(world: World) -> None:
    for word, value in (("cluster1", 20), ("cluster2", 70)):
        await world.cluster(word)
        await world.score(word, {"memAvailable": value, "cpuAvailable": 100 - value}, resource="test-score1")


EMBEDDED = pytest.mark.parametrize("hub", ["embedded"], indirect=True)
"""A real hub does not turn the old version into the new one."""


@pytest.mark.usefixtures("scored")
@EMBEDDED
async def test_v1alpha1_placement_by_memory_through_the_api(manager: Manager, world: World) -> None:
    body = yaml.safe_load(PLACEMENT.format(namespace=world.namespace))
    path = PLACEMENTS.path(namespace=world.namespace).replace("v1beta1", "v1alpha1")
    await world.client.request("POST", path, body=body)
    await world.chooses("placement", "cluster2")


@pytest.mark.usefixtures("scored")
async def test_v1alpha1_placement_by_memory_with_kubectl(
    manager: Manager, world: World, terminal: Terminal
) -> None:
    await terminal("kubectl apply -f -", given=PLACEMENT.format(namespace=world.namespace))
    await world.chooses("placement", "cluster2")
    shown = [line.split() for line in (await terminal("kubectl get placementdecisions -A")).splitlines()]
    assert [world.namespace, "placement-decision-1"] in [line[:2] for line in shown]
    await world.score("cluster1", {"memAvailable": 90}, resource="test-score1")
    await world.chooses("placement", "cluster1")


@pytest.mark.usefixtures("scored")
@EMBEDDED
async def test_prioritizer_by_name_alone_is_accepted(
    manager: Manager, world: World, terminal: Terminal
) -> None:
    """As it could be written then."""
    await world.change_cluster("cluster1", allocatable={"memory": "2Gi"})
    await world.change_cluster("cluster2", allocatable={"memory": "1Gi"})
    body = PLACEMENT.format(namespace=world.namespace)
    old = body[: body.index("      - scoreCoordinate")] + "      - name: ResourceAllocatableMemory\n"
    await terminal("kubectl apply -f -", given=old)
    await world.chooses("placement", "cluster1")
    newest = await world.client.get(PLACEMENTS, "placement", namespace=world.namespace)
    assert newest.spec.prioritizerPolicy is not None
    (only,) = newest.spec.prioritizerPolicy.configurations
    assert only.scoreCoordinate is not None
    assert only.scoreCoordinate.builtIn == "ResourceAllocatableMemory"
