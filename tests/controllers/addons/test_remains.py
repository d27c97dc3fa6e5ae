"""Works that wait for an agent which may do nothing any more."""

import pytest

from controllers.addons.scenery import Scene
from controllers.clustersets.stage import Stage, edit, gone, until
from fairway.api.work import MANIFEST_WORK_FINALIZER, ManifestWork
from fairway.controllers.addons.names import deploy_work
from fairway.controllers.addons.remains import klusterlet_binding
from fairway.controllers.kinds import RBAC_GROUP, ROLE_BINDINGS
from fairway.kube import MANAGED_CLUSTER_ADD_ONS, MANAGED_CLUSTERS, MANIFEST_WORKS, Client


async def held(client: Client, scene: Scene) -> str:
    """A cluster with the work of an add-on whose agent has something to remove first."""
    cluster = await scene.cluster()
    await scene.template()
    await scene.offer()
    await scene.enable(cluster)
    work = await scene.work(cluster)
    finalizers = {"metadata": {"finalizers": [MANIFEST_WORK_FINALIZER]}}
    await edit(client, MANIFEST_WORKS, work.metadata.name, finalizers, namespace=cluster)
    return cluster


async def end_of(client: Client, scene: Scene, cluster: str) -> ManifestWork:
    await client.delete(MANAGED_CLUSTER_ADD_ONS, scene.name, namespace=cluster)
    return await until(
        client,
        MANIFEST_WORKS,
        deploy_work(scene.name),
        lambda work: work.metadata.deletionTimestamp is not None,
        namespace=cluster,
    )


@pytest.mark.parametrize("first", ["cluster", "add-on"])
async def test_a_work_goes_when_its_cluster_is_gone(
    client: Client, scene: Scene, stage: Stage, first: str
) -> None:
    cluster = await held(client, scene)
    if first == "add-on":
        await end_of(client, scene, cluster)
        await client.delete(MANAGED_CLUSTERS, cluster)
    else:
        await client.delete(MANAGED_CLUSTERS, cluster)
        await client.delete(MANAGED_CLUSTER_ADD_ONS, scene.name, namespace=cluster)
    await gone(client, MANIFEST_WORKS, deploy_work(scene.name), namespace=cluster)


async def test_an_agent_that_still_may_removes_things_first(
    client: Client, scene: Scene, stage: Stage
) -> None:
    """On a hub with OCM's own registration, which keeps the rights of the agent until all works are gone."""
    cluster = await held(client, scene)
    rights = {
        "metadata": {"name": klusterlet_binding(cluster)},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "view"},
        "subjects": [],
    }
    await client.create(ROLE_BINDINGS, rights, namespace=cluster)
    await client.delete(MANAGED_CLUSTERS, cluster)
    ending = await end_of(client, scene, cluster)
    await stage.caught_up(MANIFEST_WORKS, ending)
    work = await client.get(MANIFEST_WORKS, deploy_work(scene.name), namespace=cluster)
    assert work.metadata.finalizers == (MANIFEST_WORK_FINALIZER,)
    await client.delete(ROLE_BINDINGS, klusterlet_binding(cluster), namespace=cluster)
    await gone(client, MANIFEST_WORKS, deploy_work(scene.name), namespace=cluster)
