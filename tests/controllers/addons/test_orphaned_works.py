"""Works that wait for an agent without rights, and add-ons deleted before the controller observes them."""

import logging

import pytest

from controllers.addons.harness import AddOnHarness
from controllers.hubs import HubUnderTest
from controllers.running import RunningController, at_work, limited
from fairway.api.resources import MANAGED_CLUSTER_ADD_ONS, MANAGED_CLUSTERS, MANIFEST_WORKS
from fairway.api.work import MANIFEST_WORK_FINALIZER, ManifestWork
from fairway.controllers.addons import RULES, AddOnController
from fairway.controllers.addons.controller import GONE
from fairway.controllers.addons.keys import AddOnKey, ClusterKey
from fairway.controllers.addons.names import deploy_work
from fairway.controllers.addons.orphaned_works import WAITS, klusterlet_binding
from fairway.controllers.kinds import RBAC_GROUP, ROLE_BINDINGS
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE, leading
from fairway.observe.meters import Meters
from kubewire.client import Client, NotFound
from rigs.waiting import edit, until, until_deleted

pytestmark = pytest.mark.embedded


async def held(client: Client, harness: AddOnHarness) -> str:
    """A cluster with the work of an add-on whose agent has something to remove first."""
    cluster = await harness.cluster()
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    work = await harness.work(cluster)
    finalizers = {"metadata": {"finalizers": [MANIFEST_WORK_FINALIZER]}}
    await edit(client, MANIFEST_WORKS, work.metadata.name, finalizers, namespace=cluster)
    return cluster


async def end_of(client: Client, harness: AddOnHarness, cluster: str) -> ManifestWork:
    await client.delete(MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)
    return await until(
        client,
        MANIFEST_WORKS,
        deploy_work(harness.name),
        lambda work: work.metadata.deletionTimestamp is not None,
        namespace=cluster,
    )


@pytest.mark.both_hubs
@pytest.mark.parametrize("first", ["cluster", "add-on"])
async def test_add_on_work_is_deleted_with_its_cluster(
    client: Client, harness: AddOnHarness, running: RunningController, first: str
) -> None:
    cluster = await held(client, harness)
    if first == "add-on":
        await end_of(client, harness, cluster)
        await client.delete(MANAGED_CLUSTERS, cluster)
    else:
        await client.delete(MANAGED_CLUSTERS, cluster)
        await client.delete(MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)
    await until_deleted(client, MANIFEST_WORKS, deploy_work(harness.name), namespace=cluster)


async def test_add_on_work_waits_for_an_agent_with_rights(
    client: Client, harness: AddOnHarness, running: RunningController
) -> None:
    """With OCM's registration, which keeps the agent's rights until all works are deleted."""
    cluster = await held(client, harness)
    rights = {
        "metadata": {"name": klusterlet_binding(cluster)},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "view"},
        "subjects": [],
    }
    await running.caught_up(ROLE_BINDINGS, await client.create(ROLE_BINDINGS, rights, namespace=cluster))
    await client.delete(MANAGED_CLUSTERS, cluster)
    ending = await end_of(client, harness, cluster)
    await running.caught_up(MANIFEST_WORKS, ending)
    work = await client.get(MANIFEST_WORKS, deploy_work(harness.name), namespace=cluster)
    assert work.metadata.finalizers == (MANIFEST_WORK_FINALIZER,)
    await client.delete(ROLE_BINDINGS, klusterlet_binding(cluster), namespace=cluster)
    await until_deleted(client, MANIFEST_WORKS, deploy_work(harness.name), namespace=cluster)


async def works_of_user(client: Client, cluster: str) -> ManifestWork:
    """One that is deleted, and waits for an agent."""
    body = {
        "metadata": {"name": "app", "finalizers": [MANIFEST_WORK_FINALIZER]},
        "spec": {"workload": {"manifests": []}},
    }
    await client.create(MANIFEST_WORKS, body, namespace=cluster)
    await client.delete(MANIFEST_WORKS, "app", namespace=cluster)
    return await client.get(MANIFEST_WORKS, "app", namespace=cluster)


@pytest.mark.parametrize("first", ["cluster", "work"])
async def test_waiting_work_of_a_user_is_logged_once(
    client: Client,
    harness: AddOnHarness,
    running: RunningController,
    caplog: pytest.LogCaptureFixture,
    first: str,
) -> None:
    caplog.set_level(logging.INFO, logger="fairway.controllers.addons")
    cluster = await harness.cluster()
    await running.settled()
    line = WAITS % (cluster, "app", cluster)
    if first == "work":
        waits = await works_of_user(client, cluster)
        await running.caught_up(MANIFEST_WORKS, waits)
        assert line not in caplog.messages
        await client.delete(MANAGED_CLUSTERS, cluster)
    else:
        await client.delete(MANAGED_CLUSTERS, cluster)
        await works_of_user(client, cluster)
    labels = {"metadata": {"labels": {"seen": "yes"}}}
    for value in ("yes", "again"):
        labels["metadata"]["labels"]["seen"] = value
        changed = await edit(client, MANIFEST_WORKS, "app", labels, namespace=cluster)
        await running.caught_up(MANIFEST_WORKS, changed)
    assert caplog.messages.count(line) == 1
    assert (await client.get(MANIFEST_WORKS, "app", namespace=cluster)).metadata.finalizers
    await edit(client, MANIFEST_WORKS, "app", {"metadata": {"finalizers": None}}, namespace=cluster)


async def test_waiting_works_are_logged_at_start(
    client: Client, hub: HubUnderTest, harness: AddOnHarness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="fairway.controllers.addons")
    cluster = await harness.cluster()
    await client.delete(MANAGED_CLUSTERS, cluster)
    await works_of_user(client, cluster)
    async with at_work(hub, lambda client: AddOnController(client, meters=Meters()), rules=RULES) as begun:
        await begun.settled()
    assert caplog.messages.count(WAITS % (cluster, "app", cluster)) == 1
    await edit(client, MANIFEST_WORKS, "app", {"metadata": {"finalizers": None}}, namespace=cluster)


@pytest.mark.both_hubs
async def test_add_on_deleted_before_its_watch_event_logs_nothing(
    client: Client, hub: HubUnderTest, harness: AddOnHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a hub went back to a backup, when everything known is of a past that never was."""
    cluster = await harness.cluster()
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    caplog.set_level(logging.DEBUG, logger="fairway.controllers.addons")
    async with Client(await limited(client, hub.administrator, RULES)) as known:
        controller, informers = AddOnController(known, meters=Meters()), InformerFactory(known)
        controller.watch(informers)
        async with informers:
            await informers.synced()
        # Its watches have ended.
        await client.delete(MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)
        await until_deleted(client, MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)
        with leading(ALONE):
            await controller.reconcile(AddOnKey(cluster, harness.name))
        assert GONE % (cluster, harness.name) in caplog.messages
        await client.delete(MANAGED_CLUSTERS, cluster)
        await until_deleted(client, MANAGED_CLUSTERS, cluster)
        with leading(ALONE):
            await controller.reconcile(ClusterKey(cluster))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_not_found_error_of_another_object_is_raised(
    client: Client, hub: HubUnderTest, harness: AddOnHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = await harness.cluster()
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    async with Client(await limited(client, hub.administrator, RULES)) as known:
        controller, informers = AddOnController(known, meters=Meters()), InformerFactory(known)
        controller.watch(informers)
        async with informers:
            await informers.synced()

        async def missing(*_: object) -> None:
            raise NotFound("something else", code=404)

        monkeypatch.setattr(controller._deployer, "deploy", missing)
        with leading(ALONE), pytest.raises(NotFound, match="something else"):
            await controller.reconcile(AddOnKey(cluster, harness.name))
