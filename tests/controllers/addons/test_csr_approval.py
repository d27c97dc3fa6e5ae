"""Certificate requests of agents of add-ons: which are approved, and which are not."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from controllers.addons.harness import AddOnHarness
from controllers.hubs import HubUnderTest
from controllers.running import RunningController, once_allowed
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.addons import conditions
from fairway.controllers.addons.names import (
    ADD_ON_LABEL,
    CLUSTER_LABEL,
    cluster_group,
    common_group,
    klusterlet_group,
    user,
)
from fairway.controllers.addons.registration import refusal
from fairway.controllers.csr_approval import REASON
from fairway.klusterlet.certificates import Subject, new_key, request_for
from kubewire.api.meta import ObjectMeta
from kubewire.client import Client
from kubewire.client.credentials import Impersonation
from kubewire.client.csr import (
    APPROVED,
    CLIENT_SIGNER,
    SIGNING_REQUESTS,
    CertificateSigningRequest,
    CsrSpec,
)
from rigs.waiting import edit, fresh, until

USAGES = ("digital signature", "key encipherment", "client auth")


def asking(name: str, *groups: str, hosts: tuple[str, ...] = ()) -> bytes:
    return request_for(new_key(), Subject(user=name, groups=groups), hosts=hosts)


def usual(cluster: str = "c1", add_on: str = "a") -> bytes:
    return asking(user(cluster, add_on), cluster_group(cluster, add_on), common_group(add_on))


GOOD: dict[str, Any] = {
    "request": usual(),
    "signer_name": CLIENT_SIGNER,
    "usages": USAGES,
    "username": f"{klusterlet_group('c1')}:agent-x",
    "groups": (klusterlet_group("c1"), "system:authenticated"),
}


def judged(**changes: Any) -> str:
    request = CertificateSigningRequest(metadata=ObjectMeta(name="r"), spec=CsrSpec(**{**GOOD, **changes}))
    return refusal(request, cluster="c1", add_on="a")


def test_csr_of_the_clusters_own_add_on_agent_is_approved() -> None:
    assert judged() == ""
    old = asking(user("c1", "a"), cluster_group("c1", "a"), common_group("a"), "system:authenticated")
    assert judged(request=old) == ""
    named = asking(
        user("c1", "a"),
        cluster_group("c1", "a"),
        common_group("a"),
        hosts=("a.addon.open-cluster-management.io",),
    )
    assert judged(request=named) == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"username": "system:open-cluster-management:c2:agent-x"}, "not the agent of cluster c1"),
        ({"username": "system:open-cluster-management:c1"}, "not the agent of cluster c1"),
        ({"username": "system:open-cluster-management:c1:"}, "not the agent of cluster c1"),
        ({"username": "system:open-cluster-management:c1:a:b"}, "not the agent of cluster c1"),
        ({"username": user("c1", "a"), "groups": (cluster_group("c1", "a"),)}, "not the agent of cluster c1"),
        ({"groups": ("system:open-cluster-management:c2",)}, "not the agent of cluster c1"),
        ({"groups": ("system:open-cluster-management:c10",)}, "not the agent of cluster c1"),
        ({"username": "kubernetes-admin", "groups": ("system:masters",)}, "not the agent of cluster c1"),
        ({"signer_name": "kubernetes.io/kubelet-serving"}, "its signer is"),
        ({"usages": (*USAGES, "server auth")}, "its usages are digital signature"),
        ({"usages": ("digital signature",)}, "its usages are digital signature"),
        ({"usages": ()}, "its usages are"),
        ({"username": "system:open-cluster-management:c1:agent-\u0445"}, "not the agent of cluster c1"),
        ({"request": b"nothing"}, "must contain exactly one PEM certificate request"),
        ({"request": b"x" + usual() + usual("c2")}, "must contain exactly one PEM certificate request"),
        ({"request": usual() + usual("c2")}, "must contain exactly one PEM certificate request"),
        (
            {"request": asking(user("c1", "a"), cluster_group("c1", "a"), common_group("a"), hosts=("hub",))},
            "its subject is",
        ),
        ({"request": usual("c2")}, "its subject is"),
        ({"request": usual(add_on="b")}, "its subject is"),
        ({"request": asking("kubernetes-admin", "system:masters")}, "its subject is"),
        ({"request": asking(user("c1", "a"), "system:masters")}, "its subject is"),
        ({"request": asking(user("c1", "a"), cluster_group("c1", "a"))}, "its subject is"),
        (
            {"request": asking(user("c1", "a"), cluster_group("c1", "a"), common_group("a"), "system:masters")},
            "its subject is",
        ),
    ],
)  # fmt: skip
def test_other_csr_of_an_add_on_agent_is_not_approved(changes: dict[str, Any], reason: str) -> None:
    assert reason in judged(**changes)


@asynccontextmanager
async def klusterlet(hub: HubUnderTest, administrator: Client, cluster: str) -> AsyncIterator[Client]:
    """With the right every cluster has: to ask."""
    role, group = fresh("asks"), klusterlet_group(cluster)
    rules = [
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["certificatesigningrequests"],
            "verbs": ["create"],
        }
    ]
    path = "/apis/rbac.authorization.k8s.io/v1"
    await administrator.request(
        "POST", f"{path}/clusterroles", body={"metadata": {"name": role}, "rules": rules}
    )
    binding = {
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
    }
    await administrator.request("POST", f"{path}/clusterrolebindings", body=binding)
    who = Impersonation(user=f"{group}:agent-x", groups=(group, "system:authenticated"))
    async with Client(replace(hub.administrator, impersonation=who)) as client:
        yield client


async def ask(client: Client, *, cluster: str, add_on: str, request: bytes) -> CertificateSigningRequest:
    body = {
        "metadata": {"name": fresh("csr"), "labels": {CLUSTER_LABEL: cluster, ADD_ON_LABEL: add_on}},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": CLIENT_SIGNER,
            "usages": list(USAGES),
        },
    }
    return await once_allowed(lambda: client.create(SIGNING_REQUESTS, body))


async def test_add_on_agent_gets_its_certificate(
    hub: HubUnderTest, client: Client, harness: AddOnHarness, running: RunningController
) -> None:
    cluster, neighbour = await harness.cluster(), await harness.cluster()
    async with klusterlet(hub, client, cluster) as agent:
        # The request precedes the add-on, which triggers another check.
        early = await ask(agent, cluster=cluster, add_on=harness.name, request=usual(cluster, harness.name))
        await running.caught_up(SIGNING_REQUESTS, early)
        await harness.template()
        await harness.offer()
        for name in (cluster, neighbour):
            await harness.enable(name)
            await harness.awaited(
                name, conditions.REGISTRATION_APPLIED, "True", conditions.PERMISSION_APPLIED
            )
        decided = await until(client, SIGNING_REQUESTS, early.metadata.name, lambda request: request.decided)
        approved = decided.condition(APPROVED)
        assert approved is not None
        assert approved.reason == REASON
        other = await ask(
            agent, cluster=neighbour, add_on=harness.name, request=usual(neighbour, harness.name)
        )
        more = await ask(
            agent,
            cluster=cluster,
            add_on=harness.name,
            request=asking("kubernetes-admin", "kubeadm:cluster-admins"),
        )
        await running.caught_up(SIGNING_REQUESTS, more)
        for request in (other, more):
            assert not (await client.get(SIGNING_REQUESTS, request.metadata.name)).decided


async def test_add_on_csr_of_an_unaccepted_cluster_is_not_approved(
    hub: HubUnderTest, client: Client, harness: AddOnHarness, running: RunningController
) -> None:
    cluster = await harness.cluster()
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    await harness.awaited(cluster, conditions.REGISTRATION_APPLIED, "True", conditions.PERMISSION_APPLIED)
    denied = await edit(client, MANAGED_CLUSTERS, cluster, {"spec": {"hubAcceptsClient": False}})
    await running.caught_up(MANAGED_CLUSTERS, denied)
    async with klusterlet(hub, client, cluster) as agent:
        made = await ask(agent, cluster=cluster, add_on=harness.name, request=usual(cluster, harness.name))
    await running.caught_up(SIGNING_REQUESTS, made)
    assert not (await client.get(SIGNING_REQUESTS, made.metadata.name)).decided
    await edit(client, MANAGED_CLUSTERS, cluster, {"spec": {"hubAcceptsClient": True}})
    await until(
        client, SIGNING_REQUESTS, made.metadata.name, lambda request: request.condition(APPROVED) is not None
    )
