"""Works in the namespace of a deleted cluster without an agent that could remove their objects."""

from collections.abc import AsyncIterator

import pytest

from controllers.hubs import HubUnderTest
from controllers.running import MARK, RunningController, at_work
from fairway.api import ManagedCluster
from fairway.api.cluster import CONDITION_ACCEPTED
from fairway.api.resources import MANAGED_CLUSTERS, MANIFEST_WORKS
from fairway.api.work import MANIFEST_WORK_FINALIZER, ManifestWork
from fairway.controllers.acceptance import RULES, AcceptanceController
from fairway.controllers.acceptance.conditions import (
    DELETING,
    ENDING_MESSAGE,
    KEPT_MESSAGE,
    NAMESPACE_ENDING,
    ending,
)
from fairway.controllers.acceptance.orphaned_works import kept_by
from fairway.controllers.cluster_names import PREFIX, WORK
from fairway.controllers.kinds import (
    CLUSTER_NAME_LABEL,
    NAMESPACES,
    RBAC_GROUP,
    ROLE_BINDINGS,
    Namespace,
    NamespaceStatus,
)
from fairway.observe.meters import Meters
from kubewire.api.meta import Condition, find_condition
from kubewire.client import Client
from rigs.waiting import edit, fresh, until, until_deleted

pytestmark = pytest.mark.embedded

HELD = "fairway.dev/held"


@pytest.fixture
async def running(hub: HubUnderTest, client: Client) -> AsyncIterator[RunningController]:
    async with at_work(
        hub, lambda client: AcceptanceController(client, meters=Meters()), rules=RULES
    ) as begun:
        yield begun


async def join(client: Client, name: str) -> None:
    body = {"metadata": {"name": name, "labels": MARK}, "spec": {"hubAcceptsClient": True}}
    await client.create(MANAGED_CLUSTERS, body)


def accepted(cluster: ManagedCluster) -> bool:
    condition = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
    return condition is not None and condition.status == "True"


async def room(client: Client, name: str, *, labelled: bool = True) -> None:
    labels = {CLUSTER_NAME_LABEL: name} if labelled else {}
    await client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})


async def work(client: Client, namespace: str) -> ManifestWork:
    """Of a user, with something on the cluster that an agent would have to remove first."""
    body = {
        "metadata": {"name": "app", "finalizers": [MANIFEST_WORK_FINALIZER]},
        "spec": {"workload": {"manifests": []}},
    }
    return await client.create(MANIFEST_WORKS, body, namespace=namespace)


async def remove_finalizers(client: Client, name: str) -> None:
    await edit(client, MANIFEST_WORKS, "app", {"metadata": {"finalizers": None}}, namespace=name)


async def is_held(client: Client, name: str) -> bool:
    work = await client.get(MANIFEST_WORKS, "app", namespace=name)
    return work.metadata.deletionTimestamp is not None and bool(work.metadata.finalizers)


@pytest.mark.both_hubs
async def test_works_of_a_removed_cluster_do_not_block_its_namespace(
    client: Client, running: RunningController
) -> None:
    name = fresh("c")
    await join(client, name)
    await until(client, MANAGED_CLUSTERS, name, accepted)
    await work(client, name)
    await client.delete(MANAGED_CLUSTERS, name)
    await client.delete(NAMESPACES, name)
    await until_deleted(client, NAMESPACES, name)


async def test_cluster_that_rejoins_during_cleanup_is_accepted(client: Client, hub: HubUnderTest) -> None:
    """No controller ran while the namespace was deleted."""
    name = fresh("c")
    await room(client, name)
    await work(client, name)
    first = await client.get(NAMESPACES, name)
    await client.delete(NAMESPACES, name)
    await until(
        client,
        MANIFEST_WORKS,
        "app",
        lambda work: work.metadata.deletionTimestamp is not None,
        namespace=name,
    )
    await join(client, name)
    async with at_work(hub, lambda client: AcceptanceController(client, meters=Meters()), rules=RULES):
        await until(client, MANAGED_CLUSTERS, name, accepted)
    assert (await client.get(NAMESPACES, name)).metadata.uid != first.metadata.uid


async def test_works_are_left_to_an_agent_with_rights(client: Client, running: RunningController) -> None:
    """OCM keeps the agent's rights until all works are deleted."""
    name = fresh("c")
    await room(client, name)
    await work(client, name)
    rights = {
        "metadata": {"name": f"{PREFIX}{name}:{WORK}", "finalizers": [HELD]},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "view"},
        "subjects": [],
    }
    bound = await client.create(ROLE_BINDINGS, rights, namespace=name)
    await running.caught_up(ROLE_BINDINGS, bound)
    await client.delete(NAMESPACES, name)
    ending_work = await until(
        client,
        MANIFEST_WORKS,
        "app",
        lambda work: work.metadata.deletionTimestamp is not None,
        namespace=name,
    )
    assert ending_work.metadata.finalizers == (MANIFEST_WORK_FINALIZER,)
    await running.caught_up(NAMESPACES, await client.get(NAMESPACES, name))
    assert await is_held(client, name)
    await edit(client, ROLE_BINDINGS, bound.metadata.name, {"metadata": {"finalizers": None}}, namespace=name)
    await until_deleted(client, NAMESPACES, name)


async def test_works_of_an_unreachable_cluster_wait_for_its_agent(
    client: Client, running: RunningController
) -> None:
    name = fresh("c")
    await join(client, name)
    await until(client, MANAGED_CLUSTERS, name, accepted)
    await work(client, name)
    await client.delete(MANAGED_CLUSTERS, name)
    await until(
        client,
        MANIFEST_WORKS,
        "app",
        lambda work: work.metadata.deletionTimestamp is not None,
        namespace=name,
    )
    waiting = await until(
        client,
        MANAGED_CLUSTERS,
        name,
        lambda cluster: find_condition(cluster.status.conditions or (), DELETING) is not None,
    )
    await running.caught_up(MANAGED_CLUSTERS, waiting)
    assert await is_held(client, name)
    assert (await client.get(ROLE_BINDINGS, f"{PREFIX}{name}:{WORK}", namespace=name)).subjects
    await remove_finalizers(client, name)
    await until_deleted(client, MANAGED_CLUSTERS, name)


async def test_works_of_a_denied_cluster_do_not_block_its_deletion(
    client: Client, running: RunningController
) -> None:
    name = fresh("c")
    await join(client, name)
    await until(client, MANAGED_CLUSTERS, name, accepted)
    await work(client, name)
    await edit(client, MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": False}})
    await until_deleted(client, ROLE_BINDINGS, f"{PREFIX}{name}:{WORK}", namespace=name)
    await running.settled()
    assert (await client.get(MANIFEST_WORKS, "app", namespace=name)).metadata.finalizers, (
        "denied, not deleted"
    )
    await client.delete(MANAGED_CLUSTERS, name)
    await until_deleted(client, MANIFEST_WORKS, "app", namespace=name)
    await until_deleted(client, MANAGED_CLUSTERS, name)


async def test_works_in_a_foreign_namespace_are_kept(client: Client, running: RunningController) -> None:
    name = fresh("n")
    await room(client, name, labelled=False)
    await work(client, name)
    await client.delete(NAMESPACES, name)
    await until(
        client,
        MANIFEST_WORKS,
        "app",
        lambda work: work.metadata.deletionTimestamp is not None,
        namespace=name,
    )
    await running.caught_up(NAMESPACES, await client.get(NAMESPACES, name))
    assert await is_held(client, name)
    await remove_finalizers(client, name)
    await until_deleted(client, NAMESPACES, name)


def test_condition_names_objects_that_block_the_namespace() -> None:
    content = Condition(
        type="NamespaceContentRemaining", status="True", message="Some resources are remaining"
    )
    held = Condition(type="NamespaceFinalizersRemaining", status="True", message="x.dev/held in 1 resource")
    over = Condition(type="NamespaceDeletionContentFailure", status="False", message="All content deleted")
    cause = kept_by(Namespace(status=NamespaceStatus(conditions=(over, content, held))))
    assert cause == held.message
    plain = ENDING_MESSAGE.format(name="c1")
    assert ending("c1", kept_by=cause).message == KEPT_MESSAGE.format(ending=plain, why=held.message)
    assert kept_by(Namespace()) == ""
    assert (ending("c1", kept_by="").reason, ending("c1", kept_by="").message) == (NAMESPACE_ENDING, plain)
