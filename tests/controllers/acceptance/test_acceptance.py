"""Clusters that are accepted, denied, accepted again and deleted, on a hub."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controllers.hubs import HubUnderTest
from controllers.running import MARK, RunningController, at_work, once_allowed
from fairway.api import ManagedCluster
from fairway.api.cluster import CONDITION_ACCEPTED
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.acceptance import RULES, AcceptanceController
from fairway.controllers.acceptance.conditions import (
    ACCEPTED_MESSAGE,
    ADMIN_ACCEPTED,
    ADMIN_DENIED,
    DENIED_MESSAGE,
    ENDING_MESSAGE,
    FAILED,
    NAME_REFUSED,
    NAMESPACE_ENDING,
    NAMESPACE_TAKEN,
    TAKEN_MESSAGE,
)
from fairway.controllers.acceptance.controller import FINALIZERS
from fairway.controllers.acceptance.grants import COMMON, OF_WORK, of_denied
from fairway.controllers.cluster_names import PREFIX, refusal
from fairway.controllers.kinds import (
    CLUSTER_NAME_LABEL,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    ROLE_BINDINGS,
)
from fairway.observe.meters import Meters
from kubewire.api.lease import format_micro_time
from kubewire.api.meta import find_condition
from kubewire.client import SYSTEM_CLOCK, BadRequest, Client, Forbidden, Invalid, NotFound, Patch, Resource
from kubewire.client.credentials import Impersonation
from kubewire.client.lease import LEASES
from kubewire.client.rbac import Rule
from rigs.waiting import edit, fresh, until, until_deleted

pytestmark = pytest.mark.embedded

YES = ("True", ADMIN_ACCEPTED, ACCEPTED_MESSAGE)
NO = ("False", ADMIN_DENIED, DENIED_MESSAGE)


def usual(client: Client) -> AcceptanceController:
    return AcceptanceController(client, meters=Meters())


@pytest.fixture
async def running(hub: HubUnderTest, client: Client) -> AsyncIterator[RunningController]:
    async with at_work(hub, usual, rules=RULES) as begun:
        yield begun


async def join(client: Client, name: str, *, accepted: bool = True) -> ManagedCluster:
    body = {"metadata": {"name": name, "labels": MARK}, "spec": {"hubAcceptsClient": accepted}}
    return await client.create(MANAGED_CLUSTERS, body)


async def decide(client: Client, name: str, *, accepted: bool) -> None:
    await edit(client, MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": accepted}})


def acceptance(cluster: ManagedCluster) -> tuple[str, str, str] | None:
    condition = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
    return None if condition is None else (condition.status, condition.reason, condition.message)


async def until_acceptance(client: Client, name: str, wanted: tuple[str, str, str]) -> ManagedCluster:
    return await until(client, MANAGED_CLUSTERS, name, lambda cluster: acceptance(cluster) == wanted)


def objects(name: str) -> list[tuple[Resource[Any], str, str | None]]:
    """All that an accepted cluster has, besides its namespace."""
    return [
        (CLUSTER_ROLES, f"{PREFIX}{name}", None),
        (CLUSTER_ROLE_BINDINGS, f"{PREFIX}{name}", None),
        (ROLE_BINDINGS, f"{PREFIX}{name}:registration", name),
        (ROLE_BINDINGS, f"{PREFIX}{name}:work", name),
    ]


def agent_of(name: str) -> Impersonation:
    return Impersonation(
        user=f"system:open-cluster-management:{name}:agent",
        groups=(f"system:open-cluster-management:{name}", "system:authenticated"),
    )


@pytest.mark.usefixtures("running")
@pytest.mark.both_hubs
async def test_accepted_cluster_gets_a_namespace_and_rights(client: Client) -> None:
    name = fresh("c")
    cluster = await join(client, name)
    await until_acceptance(client, name, YES)
    namespace = await client.get(NAMESPACES, name)
    assert namespace.metadata.labels[CLUSTER_NAME_LABEL] == name
    assert (await client.get(MANAGED_CLUSTERS, name)).metadata.finalizers == FINALIZERS
    for resource, object_name, place in objects(name):
        obj = await client.get(resource, object_name, namespace=place)
        assert obj.metadata.labels == {CLUSTER_NAME_LABEL: name}
        owners = [(owner.kind, owner.name, owner.uid) for owner in obj.metadata.ownerReferences]
        assert owners == [("ManagedCluster", name, cluster.metadata.uid)]
        assert obj.metadata.finalizers == ()


@pytest.mark.usefixtures("running")
@pytest.mark.both_hubs
async def test_agent_of_an_accepted_cluster_has_only_its_rights(hub: HubUnderTest, client: Client) -> None:
    name, neighbour = fresh("c"), fresh("c")
    for cluster in (name, neighbour):
        await join(client, cluster)
        await until_acceptance(client, cluster, YES)
        lease = {"metadata": {"name": "managed-cluster-lease"}, "spec": {"holderIdentity": "agent"}}
        await client.create(LEASES, lease, namespace=cluster)
    renewal = {"spec": {"renewTime": format_micro_time(SYSTEM_CLOCK.wall())}}
    status = {"status": {"version": {"kubernetes": "v1.36.0"}}}

    async with Client(replace(hub.administrator, impersonation=agent_of(name))) as allowed:
        own = await once_allowed(lambda: allowed.get(MANAGED_CLUSTERS, name))
        lease = msgspec.to_builtins(
            await once_allowed(lambda: allowed.get(LEASES, "managed-cluster-lease", namespace=name))
        )
        await allowed.update(
            LEASES,
            "managed-cluster-lease",
            {**lease, "spec": {**lease["spec"], **renewal["spec"]}},
            namespace=name,
        )
        await allowed.patch(MANAGED_CLUSTERS, name, status, kind=Patch.MERGE, subresource="status")
        assert own.metadata.name == name
        with pytest.raises(Forbidden):
            await allowed.patch(MANAGED_CLUSTERS, neighbour, status, kind=Patch.MERGE, subresource="status")
        with pytest.raises(Forbidden):
            await allowed.get(LEASES, "managed-cluster-lease", namespace=neighbour)
        with pytest.raises(Forbidden):
            await allowed.get(MANAGED_CLUSTERS, neighbour)
        with pytest.raises(Forbidden):
            await allowed.list(NAMESPACES)
        with pytest.raises(Forbidden):
            await allowed.delete(MANAGED_CLUSTERS, name)


async def test_unaccepted_cluster_gets_no_namespace_and_no_rights(
    client: Client, running: RunningController
) -> None:
    name = fresh("c")
    await running.caught_up(MANAGED_CLUSTERS, await join(client, name, accepted=False))
    assert acceptance(await client.get(MANAGED_CLUSTERS, name)) is None
    with pytest.raises(NotFound):
        await client.get(NAMESPACES, name)
    await decide(client, name, accepted=True)
    await until_acceptance(client, name, YES)


@pytest.mark.both_hubs
async def test_denied_cluster_keeps_its_namespace_and_may_read_itself(
    hub: HubUnderTest, client: Client, running: RunningController
) -> None:
    name = fresh("c")
    await join(client, name)
    await until_acceptance(client, name, YES)
    await decide(client, name, accepted=False)
    await until_acceptance(client, name, NO)
    role, binding, *in_namespace = objects(name)
    for resource, object_name, place in in_namespace:
        await until_deleted(client, resource, object_name, namespace=place)
    assert (await client.get(CLUSTER_ROLES, role[1])).rules == of_denied(name)
    await client.get(CLUSTER_ROLE_BINDINGS, binding[1])
    async with Client(replace(hub.administrator, impersonation=agent_of(name))) as denied:
        cluster = await once_allowed(lambda: denied.get(MANAGED_CLUSTERS, name))
        assert acceptance(cluster) == NO
        for verb in ("update", "patch"):
            assert not await may(denied, verb, "managedclusters", "status")
        assert not await may(denied, "create", "certificatesigningrequests", group="certificates.k8s.io")
    namespace = await client.get(NAMESPACES, name)
    assert namespace.metadata.deletionTimestamp is None
    await running.settled()  # the controller has observed its own deletions
    await decide(client, name, accepted=True)
    await until_acceptance(client, name, YES)
    for resource, object_name, place in objects(name):
        await client.get(resource, object_name, namespace=place)


async def may(
    client: Client, verb: str, resource: str, subresource: str = "", *, group: str = MANAGED_CLUSTERS.group
) -> bool:
    asked = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
    answer = await client.request(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        body={"spec": {"resourceAttributes": asked}},
    )
    return bool(msgspec.json.decode(answer.body)["status"].get("allowed"))


@pytest.mark.parametrize("count", [1, 150])
async def test_denial_takes_effect_although_the_agent_made_its_status_unreadable(
    client: Client, running: RunningController, count: int
) -> None:
    name = fresh("c")
    await join(client, name)
    await until_acceptance(client, name, YES)
    odd = {
        "status": "True",
        "reason": "Odd",
        "message": "",
        "lastTransitionTime": "2026-11-16T05:00:00+25:00",
    }
    conditions = [{**odd, "type": f"Odd{number}"} for number in range(count)]
    await edit(client, MANAGED_CLUSTERS, name, {"status": {"conditions": conditions}}, subresource="status")
    await until_acceptance(client, name, YES)
    await decide(client, name, accepted=False)
    await until_acceptance(client, name, NO)
    for resource, object_name, place in objects(name)[2:]:
        await until_deleted(client, resource, object_name, namespace=place)
    assert (await client.get(CLUSTER_ROLES, f"{PREFIX}{name}")).rules == of_denied(name)
    await running.settled()


@pytest.mark.usefixtures("running")
async def test_deleted_cluster_leaves_only_its_namespace(client: Client) -> None:
    name = fresh("c")
    await join(client, name)
    await until_acceptance(client, name, YES)
    await client.delete(MANAGED_CLUSTERS, name)
    for resource, object_name, place in objects(name):
        await until_deleted(client, resource, object_name, namespace=place)
    namespace = await client.get(NAMESPACES, name)
    assert namespace.metadata.deletionTimestamp is None


async def test_next_leader_removes_rights_of_a_deleted_cluster(hub: HubUnderTest, client: Client) -> None:
    """Also where no garbage collector is: these have no owner."""
    name = fresh("c")
    labels = {CLUSTER_NAME_LABEL: name}
    body = {"metadata": {"name": f"{PREFIX}{name}", "labels": labels}, "rules": []}
    await client.create(CLUSTER_ROLES, body)
    stranger = fresh("c")
    body = {"metadata": {"name": f"{PREFIX}{stranger}"}, "rules": []}
    await client.create(CLUSTER_ROLES, body)
    async with at_work(hub, usual, rules=RULES):
        await until_deleted(client, CLUSTER_ROLES, f"{PREFIX}{name}")
    await client.get(CLUSTER_ROLES, f"{PREFIX}{stranger}")
    await client.delete(CLUSTER_ROLES, f"{PREFIX}{stranger}")


@pytest.mark.usefixtures("running")
async def test_objects_of_a_recreated_cluster_belong_to_the_new_one(client: Client) -> None:
    name = fresh("c")
    first = await join(client, name)
    await until_acceptance(client, name, YES)
    await client.delete(MANAGED_CLUSTERS, name)
    await until_deleted(client, MANAGED_CLUSTERS, name)
    second = await join(client, name)
    await until_acceptance(client, name, YES)
    for resource, object_name, place in objects(name):
        await until(
            client,
            resource,
            object_name,
            lambda obj: [one.uid for one in obj.metadata.ownerReferences] == [second.metadata.uid],
            namespace=place,
        )
    assert first.metadata.uid != second.metadata.uid


STRANGE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}


@pytest.mark.usefixtures("running")
async def test_edited_roles_of_a_cluster_are_repaired(client: Client) -> None:
    name = fresh("c")
    cluster = await join(client, name)
    done = await until_acceptance(client, name, YES)
    full = f"{PREFIX}{name}"
    role = await client.get(CLUSTER_ROLES, full)
    await edit(
        client, CLUSTER_ROLES, full, {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    )
    await until(client, CLUSTER_ROLES, full, lambda repaired: repaired.rules == role.rules)
    await edit(client, CLUSTER_ROLE_BINDINGS, full, {"subjects": [STRANGE]})
    await until(
        client,
        CLUSTER_ROLE_BINDINGS,
        full,
        lambda binding: [one.name for one in binding.subjects] == [f"system:open-cluster-management:{name}"],
    )
    for bare in ("labels", "ownerReferences"):
        await edit(client, ROLE_BINDINGS, f"{full}:work", {"metadata": {bare: None}}, namespace=name)
        await until(
            client,
            ROLE_BINDINGS,
            f"{full}:work",
            lambda binding: (
                binding.metadata.labels == {CLUSTER_NAME_LABEL: name}
                and [one.uid for one in binding.metadata.ownerReferences] == [cluster.metadata.uid]
            ),
            namespace=name,
        )
    for resource, object_name, place in objects(name):
        before = await client.get(resource, object_name, namespace=place)
        await client.delete(resource, object_name, namespace=place)
        await until(client, resource, object_name, _another_than(before.metadata.uid), namespace=place)
    assert (await client.get(MANAGED_CLUSTERS, name)).metadata == done.metadata, "it was accepted all along"


async def test_binding_to_another_role_is_replaced(client: Client, running: RunningController) -> None:
    name = fresh("c")
    await join(client, name)
    await until_acceptance(client, name, YES)
    full = f"{PREFIX}{name}:work"
    before = await client.get(ROLE_BINDINGS, full, namespace=name)
    await client.delete(ROLE_BINDINGS, full, namespace=name)
    await until(client, ROLE_BINDINGS, full, _another_than(before.metadata.uid), namespace=name)
    await decide(client, name, accepted=False)
    await until_acceptance(client, name, NO)
    await until_deleted(client, ROLE_BINDINGS, full, namespace=name)
    other = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    body = {"metadata": {"name": full}, "roleRef": other, "subjects": [STRANGE]}
    await running.caught_up(ROLE_BINDINGS, await client.create(ROLE_BINDINGS, body, namespace=name))
    await decide(client, name, accepted=True)
    await until_acceptance(client, name, YES)
    binding = await client.get(ROLE_BINDINGS, full, namespace=name)
    assert (binding.role_ref.name, [subject.name for subject in binding.subjects]) == (
        f"{PREFIX}work",
        [f"system:open-cluster-management:{name}"],
    )


def _another_than(uid: str) -> Callable[[Any], bool]:
    return lambda obj: obj.metadata.uid != uid


@pytest.mark.usefixtures("running")
@pytest.mark.both_hubs
@pytest.mark.parametrize("role", sorted(COMMON))
async def test_roles_shared_by_all_clusters_are_repaired(role: str, client: Client) -> None:
    name = fresh("c")
    await join(client, name)
    await until_acceptance(client, name, YES)
    before = await client.get(CLUSTER_ROLES, role)
    assert COMMON[role].met_by(before)
    await edit(client, CLUSTER_ROLES, role, {"rules": []})
    await until(client, CLUSTER_ROLES, role, lambda role: role.rules == before.rules)
    await client.delete(CLUSTER_ROLES, role)
    again = await until(client, CLUSTER_ROLES, role, _another_than(before.metadata.uid))
    assert again.rules == before.rules


async def test_acceptance_resumes_when_a_shared_role_exists(hub: HubUnderTest, client: Client) -> None:
    name = fresh("c")
    await join(client, name)
    async with at_work(hub, usual, rules=RULES):
        await until_acceptance(client, name, YES)
    for role in COMMON:
        await client.delete(CLUSTER_ROLES, role)
    for short in ("registration", "work"):
        await client.delete(ROLE_BINDINGS, f"{PREFIX}{name}:{short}", namespace=name)
    async with at_work(hub, usual, rules=RULES):
        for short in ("registration", "work"):
            await until(client, ROLE_BINDINGS, f"{PREFIX}{name}:{short}", _another_than(""), namespace=name)
    for role in COMMON:
        await client.get(CLUSTER_ROLES, role)


@pytest.mark.usefixtures("running")
async def test_edited_acceptance_condition_is_repaired(client: Client) -> None:
    name = fresh("c")
    await join(client, name)
    await until_acceptance(client, name, YES)
    painted = {
        "type": "Painted",
        "status": "True",
        "reason": "Red",
        "message": "",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    lie = {**painted, "type": CONDITION_ACCEPTED, "status": "False", "reason": "Told"}
    await edit(
        client, MANAGED_CLUSTERS, name, {"status": {"conditions": [painted, lie]}}, subresource="status"
    )
    repaired = await until_acceptance(client, name, YES)
    assert [condition.type for condition in repaired.status.conditions or ()] == [
        "Painted",
        CONDITION_ACCEPTED,
    ]


@pytest.mark.parametrize("name", ["kube-system", "default", "open-cluster-management-hub", "work", "eu.c1"])
async def test_invalid_cluster_name_is_refused(name: str, client: Client, running: RunningController) -> None:
    await join(client, name)
    reason = refusal(name)
    assert reason is not None
    await until_acceptance(client, name, ("False", NAME_REFUSED, reason))
    await running.settled()
    for resource, object_name, place in objects(name):
        if object_name not in COMMON and "." not in name:
            with pytest.raises(NotFound):
                await client.get(resource, object_name, namespace=place)
    namespaces = {namespace.metadata.name: namespace for namespace in (await client.list(NAMESPACES)).items}
    assert name not in namespaces or CLUSTER_NAME_LABEL not in namespaces[name].metadata.labels
    await client.delete(MANAGED_CLUSTERS, name)


@pytest.mark.both_hubs
async def test_cluster_name_like_a_path_is_rejected(client: Client) -> None:
    for name in ("..", "../secrets", "a/b"):
        with pytest.raises((Invalid, BadRequest)):
            await join(client, name)


async def test_namespace_of_another_owner_is_not_used(client: Client, running: RunningController) -> None:
    name = fresh("c")
    theirs = await client.create(NAMESPACES, {"metadata": {"name": name, "labels": {"team": "blue"}}})
    await join(client, name)
    message = TAKEN_MESSAGE.format(name=name, label=CLUSTER_NAME_LABEL)
    await until_acceptance(client, name, ("False", NAMESPACE_TAKEN, message))
    await running.settled()
    namespace = await client.get(NAMESPACES, name)
    assert namespace.metadata.labels.keys() == theirs.metadata.labels.keys()
    assert (await client.list(ROLE_BINDINGS, namespace=name)).items == ()

    await edit(client, NAMESPACES, name, {"metadata": {"labels": {CLUSTER_NAME_LABEL: name}}})
    await until_acceptance(client, name, YES)


@pytest.mark.usefixtures("running")
async def test_acceptance_waits_for_a_terminating_namespace(client: Client) -> None:
    name = fresh("c")
    held = {"name": name, "labels": {CLUSTER_NAME_LABEL: name}, "finalizers": ["fairway.dev/held"]}
    first = await client.create(NAMESPACES, {"metadata": held})
    await client.delete(NAMESPACES, name)
    await join(client, name)
    await until_acceptance(client, name, ("False", NAMESPACE_ENDING, ENDING_MESSAGE.format(name=name)))
    await edit(client, NAMESPACES, name, {"metadata": {"finalizers": None}})
    await until_acceptance(client, name, YES)
    assert (await client.get(NAMESPACES, name)).metadata.uid != first.metadata.uid


@pytest.mark.usefixtures("running")
@pytest.mark.both_hubs
async def test_deleted_cluster_namespace_is_created_again(client: Client) -> None:
    name = fresh("c")
    await join(client, name)
    await until_acceptance(client, name, YES)
    before = await client.get(NAMESPACES, name)
    await client.delete(NAMESPACES, name)
    await until(client, NAMESPACES, name, _another_than(before.metadata.uid))
    await until_acceptance(client, name, YES)


@pytest.mark.both_hubs
async def test_ungrantable_rights_are_reported(hub: HubUnderTest, client: Client) -> None:
    """Without a right that agents get, the hub rejects the role, and the condition reports it."""
    lacking = [rule for rule in RULES if rule.resources != ("managedclusters/clientcertificates",)]
    name = fresh("c")
    await join(client, name)

    def failed(cluster: ManagedCluster) -> bool:
        return (acceptance(cluster) or ("", "", ""))[:2] == ("False", FAILED)

    async with at_work(hub, usual, rules=lacking):
        cluster = await until(client, MANAGED_CLUSTERS, name, failed)
        assert "clientcertificates" in (acceptance(cluster) or ("", "", ""))[2]
    async with at_work(hub, usual, rules=RULES):
        await until_acceptance(client, name, YES)


@pytest.mark.both_hubs
async def test_acceptance_of_an_accepted_cluster_writes_nothing(hub: HubUnderTest, client: Client) -> None:
    name = fresh("c")
    await join(client, name)
    async with at_work(hub, usual, rules=RULES):
        done = await until_acceptance(client, name, YES)
    before = [
        await client.get(resource, object_name, namespace=place)
        for resource, object_name, place in objects(name)
    ]
    async with at_work(hub, usual, rules=RULES) as running:
        await running.settled()
    after = [
        await client.get(resource, object_name, namespace=place)
        for resource, object_name, place in objects(name)
    ]
    assert after == before
    assert (await client.get(MANAGED_CLUSTERS, name)).metadata == done.metadata


def test_acceptance_rules_cover_agent_rights_without_wildcards() -> None:
    assert all("*" not in (*rule.groups, *rule.resources, *rule.verbs) for rule in RULES)
    for granted in OF_WORK:
        assert Rule(groups=granted.api_groups, resources=granted.resources, verbs=granted.verbs) in RULES
