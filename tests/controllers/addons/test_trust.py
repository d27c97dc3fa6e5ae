"""What neither a cluster nor a user of one namespace can get by way of add-ons, under the rights the controller has."""

from dataclasses import replace
from typing import Any

import pytest

from controllers.addons.harness import ROLE, AddOnHarness, condition, found_in
from controllers.addons.test_csr_approval import ask, asking, klusterlet, usual
from controllers.hubs import HubUnderTest
from controllers.running import MARK, RunningController
from fairway.api.cluster import CONDITION_ACCEPTED
from fairway.api.resources import (
    ADD_ON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_ADD_ONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
)
from fairway.controllers.addons import conditions, csr_approval
from fairway.controllers.addons.configs import OTHER_ADD_ON
from fairway.controllers.addons.names import (
    FEATURE_PREFIX,
    LIFECYCLE,
    binding,
    cluster_group,
    common_group,
    deploy_work,
    klusterlet_group,
    user,
)
from fairway.controllers.kinds import CLUSTER_ROLES, ROLE_BINDINGS
from kubewire.client import Client, NotFound, Patch
from kubewire.client.csr import SIGNING_REQUESTS
from rigs.waiting import edit, fresh, until, until_deleted

pytestmark = [pytest.mark.embedded, pytest.mark.usefixtures("running")]

GROUP = CLUSTER_MANAGEMENT_ADD_ONS.group


def grants(*roles: str) -> list[dict[str, Any]]:
    permissions = [{"type": "CurrentCluster", "currentCluster": {"clusterRoleName": role}} for role in roles]
    return [{"type": "KubeClient", "kubeClient": {"hubPermissions": permissions}}]


async def registered(harness: AddOnHarness, cluster: str) -> None:
    await harness.awaited(cluster, conditions.REGISTRATION_APPLIED, "True", conditions.PERMISSION_APPLIED)


async def nothing_came_of_it(client: Client, harness: AddOnHarness, namespace: str) -> None:
    with pytest.raises(NotFound):
        await client.get(MANIFEST_WORKS, deploy_work(harness.name), namespace=namespace)
    with pytest.raises(NotFound):
        await client.get(ROLE_BINDINGS, binding(harness.name), namespace=namespace)


async def is_undecided(client: Client, name: str) -> bool:
    return not (await client.get(SIGNING_REQUESTS, name)).status.conditions


# Certificates


async def test_self_written_registration_gets_no_certificate(
    hub: HubUnderTest,
    client: Client,
    harness: AddOnHarness,
    running: RunningController,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The agent may write the status of its add-ons, which must not lead to an approval."""
    cluster = await harness.cluster()
    await harness.template(registration=[])
    await harness.offer()
    await harness.enable(cluster)
    await harness.awaited(cluster, conditions.REGISTRATION_APPLIED, "True", conditions.NO_REGISTRATION)
    subject = {"user": user(cluster, harness.name), "groups": [common_group(harness.name)]}
    forged = {
        "status": {
            "registrations": [{"signerName": "kubernetes.io/kube-apiserver-client", "subject": subject}]
        }
    }
    await edit(client, MANAGED_CLUSTER_ADD_ONS, harness.name, forged, namespace=cluster, subresource="status")
    async with klusterlet(hub, client, cluster) as agent:
        made = await ask(agent, cluster=cluster, add_on=harness.name, request=usual(cluster, harness.name))
    await running.caught_up(SIGNING_REQUESTS, made)
    assert await is_undecided(client, made.metadata.name)
    awaited = [record.getMessage() for record in caplog.records if made.metadata.name in record.getMessage()]
    assert len(awaited) == 1
    assert awaited[0].endswith(csr_approval.NOT_REGISTERED)


async def test_csr_for_another_cluster_or_missing_add_on_is_not_approved(
    hub: HubUnderTest,
    client: Client,
    harness: AddOnHarness,
    running: RunningController,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster, neighbour = await harness.cluster(), await harness.cluster()
    await harness.template()
    await harness.offer()
    for name in (cluster, neighbour):
        await harness.enable(name)
        await registered(harness, name)
    name = harness.name
    own = usual(cluster, name)
    agents = f"{user(cluster, name)}x"
    requests = [
        (neighbour, name, usual(neighbour, name)),
        (neighbour, name, own),
        (cluster, name, usual(neighbour, name)),
        (cluster, "no-such-add-on", usual(cluster, "no-such-add-on")),
        (cluster, name, asking(agents, cluster_group(cluster, name), common_group(name))),
        (cluster, name, asking(user(cluster, name), common_group(name))),
        (cluster, name, asking(klusterlet_group(neighbour) + ":a", klusterlet_group(neighbour))),
        (cluster, name, b"x" + own + usual(neighbour, name)),
        (cluster, name, b" " + own + asking("system:kube-controller-manager")),
    ]
    async with klusterlet(hub, client, cluster) as agent:
        made = [
            await ask(agent, cluster=labelled, add_on=add_on, request=content)
            for labelled, add_on, content in requests
        ]
    await running.caught_up(SIGNING_REQUESTS, made[-1])
    # Another reconcile changes and logs nothing.
    touched = await edit(
        client, MANAGED_CLUSTER_ADD_ONS, name, {"metadata": {"annotations": {"x": "y"}}}, namespace=cluster
    )
    await running.caught_up(MANAGED_CLUSTER_ADD_ONS, touched)
    lines = [record.getMessage() for record in caplog.records]
    for request in made:
        assert await is_undecided(client, request.metadata.name)
        assert sum(request.metadata.name in line for line in lines) == 1


async def test_csr_of_a_foreign_add_on_is_left_to_its_controller(
    hub: HubUnderTest, client: Client, harness: AddOnHarness, running: RunningController
) -> None:
    cluster = await harness.cluster()
    await harness.offer(annotations={LIFECYCLE: "self"})
    await harness.template()
    add_on = await harness.enable(cluster)
    subject = {"user": user(cluster, harness.name), "groups": [common_group(harness.name)]}
    registrations = [{"signerName": "kubernetes.io/kube-apiserver-client", "subject": subject}]
    written = await edit(
        client,
        MANAGED_CLUSTER_ADD_ONS,
        add_on.metadata.name,
        {"status": {"registrations": registrations}},
        namespace=cluster,
        subresource="status",
    )
    await running.caught_up(MANAGED_CLUSTER_ADD_ONS, written)
    async with klusterlet(hub, client, cluster) as agent:
        made = await ask(agent, cluster=cluster, add_on=harness.name, request=usual(cluster, harness.name))
    await running.caught_up(SIGNING_REQUESTS, made)
    assert await is_undecided(client, made.metadata.name)


async def test_csr_of_a_deleted_add_on_is_not_approved(
    hub: HubUnderTest, client: Client, harness: AddOnHarness, running: RunningController
) -> None:
    cluster = await harness.cluster()
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    await registered(harness, cluster)
    await client.delete(MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)
    await until_deleted(client, MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)
    await running.settled()  # the controller has observed that before the request
    async with klusterlet(hub, client, cluster) as agent:
        made = await ask(agent, cluster=cluster, add_on=harness.name, request=usual(cluster, harness.name))
    await running.caught_up(SIGNING_REQUESTS, made)
    assert await is_undecided(client, made.metadata.name)


@pytest.mark.both_hubs
async def test_replaced_csr_of_the_same_name_is_not_approved(
    hub: HubUnderTest, client: Client, harness: AddOnHarness
) -> None:
    """Once it is approved, not even an administrator changes what it asks for."""
    cluster, neighbour = await harness.cluster(), await harness.cluster()
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    async with klusterlet(hub, client, cluster) as agent:
        made = await ask(agent, cluster=cluster, add_on=harness.name, request=usual(cluster, harness.name))
    name = made.metadata.name
    await until(client, SIGNING_REQUESTS, name, lambda request: request.decided)
    other = {"spec": {"request": usual(neighbour, harness.name), "username": "system:admin"}}
    changed = await client.patch(SIGNING_REQUESTS, name, other, kind=Patch.MERGE)
    assert changed.spec == made.spec


# Where add-ons are installed


async def test_add_on_object_without_cluster_management_add_on_is_ignored(
    client: Client, harness: AddOnHarness, running: RunningController
) -> None:
    """The right to write ManagedClusterAddOns does not allow choosing a template."""
    cluster = await harness.cluster()
    await harness.template()
    config = {"group": GROUP, "resource": "addontemplates", "name": harness.name}
    made = await harness.enable(cluster, configs=[config])
    await running.caught_up(MANAGED_CLUSTER_ADD_ONS, made)
    await nothing_came_of_it(client, harness, cluster)


async def test_template_of_another_add_on_is_refused(client: Client, harness: AddOnHarness) -> None:
    cluster, other = await harness.cluster(), f"{harness.name}-other"
    await harness.template()
    await replace(harness, name=other).template()
    await harness.offer()
    await harness.enable(cluster, configs=[{"group": GROUP, "resource": "addontemplates", "name": other}])
    add_on = await harness.awaited(
        cluster, conditions.CONFIGURED, "False", conditions.CONFIGURATION_UNSUPPORTED
    )
    condition = found_in(add_on, conditions.CONFIGURED)
    assert condition is not None
    assert condition[2] == OTHER_ADD_ON.format(name=other, whose=other, add_on=harness.name)
    await nothing_came_of_it(client, harness, cluster)


@pytest.mark.parametrize("accepted", [None, False, True])
async def test_add_on_in_a_namespace_without_cluster_is_ignored(
    client: Client, harness: AddOnHarness, running: RunningController, accepted: bool | None
) -> None:
    """The cluster is missing, not accepted, or refused."""
    namespace = fresh("team")
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    if accepted is not None:
        body = {"metadata": {"name": namespace, "labels": MARK}, "spec": {"hubAcceptsClient": accepted}}
        await client.create(MANAGED_CLUSTERS, body)
        status = {"status": {"conditions": [condition(CONDITION_ACCEPTED, "False")]}}
        await edit(client, MANAGED_CLUSTERS, namespace, status, subresource="status")
    await harness.template()
    await harness.place("p", namespace)
    await harness.offer("p")
    made = await harness.enable(namespace)
    await running.caught_up(MANAGED_CLUSTER_ADD_ONS, made)
    await nothing_came_of_it(client, harness, namespace)


async def test_cluster_named_like_a_system_namespace_gets_no_add_on(
    client: Client, harness: AddOnHarness, running: RunningController
) -> None:
    body = {"metadata": {"name": "kube-system", "labels": MARK}, "spec": {"hubAcceptsClient": True}}
    made = await client.create(MANAGED_CLUSTERS, body)
    await harness.template()
    await harness.place("p", "kube-system")
    await harness.offer("p")
    await running.caught_up(MANAGED_CLUSTERS, made)
    with pytest.raises(NotFound):
        await client.get(MANAGED_CLUSTER_ADD_ONS, harness.name, namespace="kube-system")


# Rights on the hub


@pytest.mark.both_hubs
async def test_only_bindable_roles_are_bound(client: Client, harness: AddOnHarness) -> None:
    cluster = await harness.cluster()
    await harness.template(role="cluster-admin")
    await harness.offer()
    await harness.enable(cluster)
    await harness.awaited(cluster, conditions.REGISTRATION_APPLIED, "False", conditions.PERMISSION_FAILED)
    with pytest.raises(NotFound):
        await client.get(ROLE_BINDINGS, binding(harness.name), namespace=cluster)


async def test_rights_removed_from_a_template_are_revoked(client: Client, harness: AddOnHarness) -> None:
    cluster, second = await harness.cluster(), f"{binding(harness.name)}:{ROLE}-2"
    await client.create(CLUSTER_ROLES, {"metadata": {"name": f"{ROLE}-2"}, "rules": []})
    try:
        await harness.template(registration=grants(ROLE, f"{ROLE}-2"))
        await harness.offer()
        await harness.enable(cluster)
        # An empty role grants nothing, so that it may be bound without the verb bind.
        await until(client, ROLE_BINDINGS, second, lambda _: True, namespace=cluster)
        await edit(client, ADD_ON_TEMPLATES, harness.name, {"spec": {"registration": grants(ROLE)}})
        await until_deleted(client, ROLE_BINDINGS, second, namespace=cluster)
        await client.get(ROLE_BINDINGS, binding(harness.name), namespace=cluster)
        await edit(client, ADD_ON_TEMPLATES, harness.name, {"spec": {"registration": []}})
        await until_deleted(client, ROLE_BINDINGS, binding(harness.name), namespace=cluster)
    finally:
        await client.delete(CLUSTER_ROLES, f"{ROLE}-2")


@pytest.mark.both_hubs
async def test_add_on_agents_lose_rights_with_their_cluster(client: Client, harness: AddOnHarness) -> None:
    cluster = await harness.cluster()
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    await registered(harness, cluster)
    other = {
        "metadata": {"name": "somebodys"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
    }
    await client.create(ROLE_BINDINGS, other, namespace=cluster)
    await edit(client, MANAGED_CLUSTERS, cluster, {"spec": {"hubAcceptsClient": False}})
    await until_deleted(client, ROLE_BINDINGS, binding(harness.name), namespace=cluster)
    await edit(client, MANAGED_CLUSTERS, cluster, {"spec": {"hubAcceptsClient": True}})
    await until(client, ROLE_BINDINGS, binding(harness.name), lambda _: True, namespace=cluster)
    await client.delete(MANAGED_CLUSTERS, cluster)
    await until_deleted(client, ROLE_BINDINGS, binding(harness.name), namespace=cluster)
    await client.get(ROLE_BINDINGS, "somebodys", namespace=cluster)


@pytest.mark.both_hubs
async def test_foreign_binding_that_grants_more_is_replaced(client: Client, harness: AddOnHarness) -> None:
    cluster = await harness.cluster()
    planted = {
        "metadata": {"name": binding(harness.name)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "everybody"}],
    }
    await client.create(ROLE_BINDINGS, planted, namespace=cluster)
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    await registered(harness, cluster)
    granted = await client.get(ROLE_BINDINGS, binding(harness.name), namespace=cluster)
    assert granted.role_ref.name == ROLE
    assert [subject.name for subject in granted.subjects] == [cluster_group(cluster, harness.name)]


# Labels


@pytest.mark.both_hubs
async def test_names_invalid_as_labels_set_no_label(
    client: Client, harness: AddOnHarness, running: RunningController
) -> None:
    cluster = await harness.cluster()
    long, dotted = f"{harness.name}-{'x' * 80}", f"{harness.name}.dotted"
    for name in (long, dotted):
        made = await replace(harness, name=name).enable(cluster)
    await running.caught_up(MANAGED_CLUSTER_ADD_ONS, made)
    try:
        labelled = await until(
            client,
            MANAGED_CLUSTERS,
            cluster,
            lambda cluster: f"{FEATURE_PREFIX}{dotted}" in cluster.metadata.labels,
        )
        ours = [label for label in labelled.metadata.labels if label.startswith(FEATURE_PREFIX)]
        assert ours == [f"{FEATURE_PREFIX}{dotted}"]
        # A changed registration is repaired.
        lie = {"metadata": {"labels": {f"{FEATURE_PREFIX}secret-store": "available"}}}
        await edit(client, MANAGED_CLUSTERS, cluster, lie)
        await until(
            client,
            MANAGED_CLUSTERS,
            cluster,
            lambda cluster: f"{FEATURE_PREFIX}secret-store" not in cluster.metadata.labels,
        )
    finally:
        for name in (long, dotted):
            await client.delete(MANAGED_CLUSTER_ADD_ONS, name, namespace=cluster)
