"""What agents of one cluster cannot do on the hub, with the rights that being accepted gives, and add-ons have."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from controllers.acceptance.test_csr_approval import joined, of
from controllers.hubs import HubUnderTest
from controllers.running import MARK, RunningController, at_work, once_allowed
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS
from fairway.controllers.acceptance import RULES, AcceptanceController
from fairway.controllers.addons.names import cluster_group, common_group, user
from fairway.controllers.kinds import CLUSTER_ROLES, ROLE_BINDINGS
from fairway.observe.meters import Meters
from fairway.providers.addon import Plan, documents
from kubewire.client import Client, Forbidden, NotFound
from kubewire.client.credentials import Impersonation
from rigs.waiting import edit, fresh

pytestmark = pytest.mark.usefixtures("running")

PLAN = Plan(provider="resource-usage")
CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
SCORES = "/apis/cluster.open-cluster-management.io/v1alpha1/namespaces/{}/addonplacementscores"
ADD_ONS = "/apis/addon.open-cluster-management.io/v1alpha1/namespaces/{}/managedclusteraddons"
WORKS = "/apis/work.open-cluster-management.io/v1/namespaces/{}/manifestworks"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SET = "cluster.open-cluster-management.io/clusterset"
MERGE = "application/merge-patch+json"


@pytest.fixture
async def running(hub: HubUnderTest, client: Client) -> AsyncIterator[RunningController]:
    async with at_work(
        hub, lambda limited: AcceptanceController(limited, meters=Meters()), rules=RULES
    ) as begun:
        yield begun


def agent(hub: HubUnderTest, cluster: str) -> Client:
    own = of(cluster)
    who = Impersonation(user=own.user, groups=(*own.groups, "system:authenticated"))
    return Client(replace(hub.administrator, impersonation=who))


def attempts(own: str, other: str) -> Iterator[tuple[str, str, Any]]:
    yield from (
        # Its own ManagedCluster: neither accept itself, nor enter a set, nor be rid of a taint, nor go.
        ("PATCH", f"{CLUSTERS}/{own}", {"spec": {"hubAcceptsClient": True}}),
        ("PATCH", f"{CLUSTERS}/{own}", {"metadata": {"labels": {SET: "s"}}}),
        ("PATCH", f"{CLUSTERS}/{own}", {"spec": {"taints": []}}),
        ("PUT", f"{CLUSTERS}/{own}", {"metadata": {"name": own}, "spec": {"hubAcceptsClient": True}}),
        ("DELETE", f"{CLUSTERS}/{own}", None),
        ("POST", CLUSTERS, {"metadata": {"name": f"{own}-2"}}),
        # Another's.
        ("GET", f"{CLUSTERS}/{other}", None),
        ("GET", CLUSTERS, None),
        ("PATCH", f"{CLUSTERS}/{other}/status", {"status": {"conditions": []}}),
        ("GET", ADD_ONS.format(other), None),
        ("PATCH", f"{ADD_ONS.format(other)}/a/status", {"status": {}}),
        ("GET", WORKS.format(other), None),
        ("PATCH", f"{WORKS.format(other)}/w", {"spec": {}}),
        ("GET", f"/apis/coordination.k8s.io/v1/namespaces/{other}/leases/managed-cluster-lease", None),
        # Add-ons and works are not for it to make, and nor are leases.
        ("POST", ADD_ONS.format(own), {"metadata": {"name": "a"}, "spec": {}}),
        ("POST", WORKS.format(own), {"metadata": {"name": "w"}, "spec": {}}),
        ("POST", f"/apis/coordination.k8s.io/v1/namespaces/{own}/leases", {"metadata": {"name": "x"}}),
        # Add-ons publish scores with their own identities.
        ("POST", SCORES.format(own), {"metadata": {"name": "s"}}),
        ("POST", SCORES.format(other), {"metadata": {"name": "s"}}),
        # Rights and certificates.
        ("GET", f"{RIGHTS}/clusterroles", None),
        ("POST", f"{RIGHTS}/namespaces/{own}/rolebindings", {"metadata": {"name": "x"}, "roleRef": {}}),
        ("PATCH", f"{REQUESTS}/r/approval", {"status": {"conditions": []}}),
        ("PATCH", f"{REQUESTS}/r", {"metadata": {"labels": {"x": "y"}}}),
        ("DELETE", f"{REQUESTS}/r", None),
        ("GET", f"/api/v1/namespaces/{own}/secrets", None),
        ("GET", f"/api/v1/namespaces/{own}/configmaps", None),
        ("POST", f"/api/v1/namespaces/{own}/serviceaccounts/default/token", {"spec": {}}),
        ("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}}),
    )


async def test_agent_is_limited_to_objects_of_its_cluster(hub: HubUnderTest, client: Client) -> None:
    own, other = await joined(client), await joined(client)
    async with agent(hub, own) as limited:
        await once_allowed(lambda: limited.get(MANAGED_CLUSTERS, own))
        for method, path, body in attempts(own, other):
            kind = MERGE if method == "PATCH" else "application/json"
            with pytest.raises(Forbidden):
                await limited.request(method, path, body=body, content_type=kind)


async def test_agent_cannot_impersonate(hub: HubUnderTest, client: Client) -> None:
    own, other = await joined(client), await joined(client)
    async with agent(hub, own) as limited:
        await once_allowed(lambda: limited.get(MANAGED_CLUSTERS, own))
    connection = replace(hub.administrator, impersonation=Impersonation())
    async with Client(connection) as administrator:
        # An impersonated user cannot impersonate, so an access review decides.
        for resource, name in (("users", of(other).user), ("groups", of(other).groups[0])):
            review = {
                "spec": {
                    "user": of(own).user,
                    "groups": [*of(own).groups, "system:authenticated"],
                    "resourceAttributes": {"verb": "impersonate", "resource": resource, "name": name},
                }
            }
            answer = await administrator.request(
                "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=review
            )
            assert b'"allowed":true' not in answer.body.replace(b" ", b"")


async def test_add_on_agent_writes_only_its_own_scores(hub: HubUnderTest, client: Client) -> None:
    own, other = await joined(client), await joined(client)
    role = next(document for document in documents(PLAN) if document["metadata"]["name"] == PLAN.role)
    try:
        await client.get(CLUSTER_ROLES, PLAN.role)
        await edit(client, CLUSTER_ROLES, PLAN.role, {"rules": role["rules"]})
    except NotFound:
        await client.create(CLUSTER_ROLES, role)
    bound = {
        "metadata": {"name": fresh("b"), "labels": MARK},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": PLAN.role},
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": cluster_group(own, PLAN.name)}
        ],
    }
    await client.create(ROLE_BINDINGS, bound, namespace=own)
    who = Impersonation(
        user=user(own, PLAN.name),
        groups=(cluster_group(own, PLAN.name), common_group(PLAN.name), "system:authenticated"),
    )
    score = {"metadata": {"name": "s"}}
    status = {"status": {"scores": [{"name": "x", "value": 100}]}}
    theirs = SCORES.format(other)
    await client.create(ADD_ON_PLACEMENT_SCORES, score, namespace=other)
    async with Client(replace(hub.administrator, impersonation=who)) as limited:
        await once_allowed(lambda: limited.create(ADD_ON_PLACEMENT_SCORES, score, namespace=own))
        path = f"{SCORES.format(own)}/s"
        await limited.request("PATCH", f"{path}/status", body=status, content_type=MERGE)
        for method, path, body in (
            ("GET", theirs, None),
            ("POST", theirs, {"metadata": {"name": "t"}}),
            ("PATCH", f"{theirs}/s/status", status),
            ("PATCH", f"{theirs}/s", {"metadata": {"labels": {"x": "y"}}}),
            ("DELETE", f"{theirs}/s", None),
            ("GET", SCORES.format(own).replace(f"/namespaces/{own}", ""), None),
            ("GET", f"{CLUSTERS}/{own}", None),
            ("GET", ADD_ONS.format(own), None),
            ("GET", WORKS.format(own), None),
            ("POST", REQUESTS, {"metadata": {"name": "r"}, "spec": {}}),
            ("GET", REQUESTS, None),
        ):
            kind = MERGE if method == "PATCH" else "application/json"
            with pytest.raises(Forbidden):
                await limited.request(method, path, body=body, content_type=kind)
