"""The rights of ``deploy/`` are sufficient for the controllers and allow nothing else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kubewire.client import Client, Connection, Forbidden
from kubewire.client.kubeconfig import load
from rigs import restricted as rights
from rigs.restricted import NoRights, restricted

SPEC: Mapping[str, Any] = {"holderIdentity": "me", "leaseDurationSeconds": 15}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/clusterroles"
OWN = "/apis/coordination.k8s.io/v1/namespaces/fairway-system/leases"
EVERYTHING = rights.known()

FORBIDDEN = (
    ("GET", "/api/v1/secrets"),
    ("GET", "/api/v1/namespaces/fairway-system/secrets"),
    ("GET", "/api/v1/configmaps"),
    ("POST", "/api/v1/namespaces/fairway-system/pods"),
    ("POST", "/api/v1/namespaces/fairway-system/serviceaccounts/default/token"),
    ("DELETE", f"{OWN}/anything"),
    ("DELETE", "/api/v1/namespaces/default"),
    ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
    ("GET", "/apis/apps/v1/deployments"),
    ("POST", "/apis/cluster.open-cluster-management.io/v1/managedclusters"),
    ("DELETE", "/apis/cluster.open-cluster-management.io/v1/managedclusters/any"),
    ("POST", "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/default/placements"),
    ("DELETE", "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/default/placements/any"),
    ("DELETE", "/apis/cluster.open-cluster-management.io/v1beta2/managedclustersets/any"),
)


async def test_deployed_manager_uses_its_service_account_and_leads(administrator: Connection) -> None:
    connection = await restricted(administrator, controllers=EVERYTHING)
    async with Client(connection) as client:
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": SPEC}
        await client.request("POST", OWN, body={**body, "metadata": {"generateName": "mine-"}})
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = await client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=asked)
    assert b"system:serviceaccount:fairway-system:fairway-" in answer.body


@pytest.mark.parametrize(("method", "path"), FORBIDDEN, ids=lambda text: text)
async def test_rights_of_all_controllers_do_not_allow(
    administrator: Connection, method: str, path: str
) -> None:
    connection = await restricted(administrator, controllers=EVERYTHING)
    async with Client(connection) as client:
        with pytest.raises(Forbidden):
            await client.request(
                method, path, body=None if method == "GET" else {"metadata": {"name": "any"}}
            )


async def test_pods_are_visible_to_the_controller_that_schedules_them_only(administrator: Connection) -> None:
    connection = await restricted(administrator, controllers=EVERYTHING - {"machines"})
    async with Client(connection) as client:
        with pytest.raises(Forbidden):
            await client.request("GET", "/api/v1/pods")


async def test_rights_of_agents_are_granted_for_acceptance_only(administrator: Connection) -> None:
    """Acceptance grants rights to agents, and a user can grant only rights that it has."""
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    connection = await restricted(administrator, controllers=EVERYTHING - {"acceptance", "availability"})
    async with Client(connection) as client:
        for method, path in (("POST", leases), ("PUT", f"{leases}/any"), ("POST", ROLES)):
            with pytest.raises(Forbidden):
                await client.request(method, path, body={"metadata": {"name": "any"}})


async def test_service_account_cannot_escalate(administrator: Connection) -> None:
    connection = await restricted(administrator, controllers=EVERYTHING)
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    account = connection.place.rpartition("/")[2]
    binding = {
        "metadata": {"name": "mighty"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "fairway-system"}],
    }
    async with Client(connection) as client:
        with pytest.raises(Forbidden):
            await client.request("POST", ROLES, body={"metadata": {"name": "mighty"}, "rules": rules})
        with pytest.raises(Forbidden):
            await client.request("POST", f"{RBAC}/clusterrolebindings", body=binding)


async def test_disabled_controller_needs_no_rights(administrator: Connection) -> None:
    clusters = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
    leases = "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Dmanaged-cluster-lease"
    placing = await restricted(administrator, controllers=["placement"])
    watching = await restricted(administrator, controllers=["availability"])
    async with Client(placing) as client:
        await client.request("GET", clusters)
        with pytest.raises(Forbidden):
            await client.request("GET", leases)
    async with Client(watching) as client:
        await client.request("GET", leases)
        with pytest.raises(Forbidden):
            await client.request("GET", "/apis/cluster.open-cluster-management.io/v1beta1/placements")


async def test_restricted_rights_allow_leases_in_the_given_namespace_only(administrator: Connection) -> None:
    elsewhere = "/apis/coordination.k8s.io/v1/namespaces/suite/leases"
    connection = await restricted(administrator, controllers=["placement"], namespace="suite")
    assert connection.namespace == "suite"
    async with Client(connection) as client:
        await client.request("POST", elsewhere, body={"metadata": {"generateName": "x-"}, "spec": SPEC})
        with pytest.raises(Forbidden):
            await client.request("POST", OWN, body={"metadata": {"generateName": "x-"}, "spec": SPEC})


async def test_service_account_works_as_a_kubeconfig(administrator: Connection, tmp_path: Path) -> None:
    connection = await restricted(administrator, controllers=["placement"])
    file = await rights.write_kubeconfig(connection, tmp_path / "kubeconfig")
    assert file.stat().st_mode & 0o077 == 0
    async with Client(load(file).context()) as client:
        with pytest.raises(Forbidden):
            await client.request("GET", "/api/v1/secrets")


async def test_restricted_rights_of_unknown_controllers_are_an_error(
    administrator: Connection, tmp_path: Path
) -> None:
    with pytest.raises(
        NoRights, match="no rights for 'plcement'; there are acceptance, addons, availability"
    ):
        await restricted(administrator, controllers=["plcement"])
    with pytest.raises(NoRights, match="has no manifests"):
        await restricted(administrator, controllers=[], folder=tmp_path)
