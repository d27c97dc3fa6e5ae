"""Joining with two real kube-apiservers and the signer of kube-controller-manager."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from controllers.hubs import define
from fairway.api.cluster import CONDITION_AVAILABLE, ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS, MANIFEST_WORKS, NODES
from fairway.cli.main import run
from fairway.klusterlet import names
from fairway.klusterlet.bootstrap import KINDS
from fairway.klusterlet.kinds import DEFINITIONS
from fairway.klusterlet.state import State
from klusterlet.fleet import Fleet, controllers, join
from kubewire.api.meta import find_condition
from kubewire.client import Client, NotFound, Patch
from kubewire.client.csr import SIGNING_REQUESTS
from kubewire.client.lease import LEASES
from rigs.kubernetes import CONTROLLERS, Tools, background, controller_manager, real_hub
from rigs.waiting import until, until_deleted

pytestmark = pytest.mark.kube
NAME = "cluster1"


@pytest.fixture
def real_fleet(kube_tools: Tools, tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        hub = stack.enter_context(background(real_hub(kube_tools, folder=tmp_path / "hub")))
        cluster = stack.enter_context(background(real_hub(kube_tools, folder=tmp_path / "cluster")))
        asyncio.run(define(hub.kubeconfig))
        signing = controller_manager(
            kube_tools,
            kubeconfig=hub.kubeconfig,
            folder=tmp_path / "hub",
            controllers=CONTROLLERS,
            leader_elect=False,
            signer=hub.authority.pair,
            service_account_key=hub.service_account_key,
        )
        stack.enter_context(background(signing))
        collecting = controller_manager(
            kube_tools, kubeconfig=cluster.kubeconfig, folder=tmp_path / "cluster", leader_elect=False
        )
        stack.enter_context(background(collecting))
        stack.enter_context(background(controllers(hub.kubeconfig)))
        yield Fleet(hub=hub.kubeconfig, cluster=cluster.kubeconfig)


def status_of(cluster: ManagedCluster, kind: str) -> str:
    condition = find_condition(cluster.status.conditions or (), kind)
    return "" if condition is None else condition.status


async def check_joined(fleet: Fleet) -> None:
    async with Client.from_kubeconfig(fleet.hub) as hub, Client.from_kubeconfig(fleet.cluster) as cluster:
        await until(
            hub, MANAGED_CLUSTERS, NAME, lambda current: status_of(current, CONDITION_AVAILABLE) == "True"
        )
        await cluster.create(NODES, {"metadata": {"name": "node1"}})
        amounts = {"cpu": "4", "memory": "8Gi"}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        await cluster.patch(NODES, "node1", status, kind=Patch.MERGE, subresource="status")
        reported = await until(hub, MANAGED_CLUSTERS, NAME, lambda current: bool(current.status.capacity))
        assert reported.status.capacity == amounts
        await cluster.patch(NODES, "node1", {"spec": {"unschedulable": True}}, kind=Patch.MERGE)
        zero = {"cpu": "0", "memory": "0"}
        await until(hub, MANAGED_CLUSTERS, NAME, lambda current: current.status.allocatable == zero)
        lease = await hub.get(LEASES, names.LEASE, namespace=NAME)
        await until(
            hub,
            LEASES,
            names.LEASE,
            lambda current: current.spec.renewTime != lease.spec.renewTime,
            namespace=NAME,
        )
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "greeting", "namespace": "default"},
        }
        work = {"metadata": {"name": "w"}, "spec": {"workload": {"manifests": [manifest]}}}
        await hub.create(MANIFEST_WORKS, work, namespace=NAME)
        await cluster_has(cluster, hub)


async def cluster_has(cluster: Client, hub: Client) -> None:
    await until(
        hub,
        MANIFEST_WORKS,
        "w",
        lambda work: any(
            condition.type == "Available" and condition.status == "True"
            for condition in work.status.conditions
        ),
        namespace=NAME,
    )
    await cluster.request("GET", "/api/v1/namespaces/default/configmaps/greeting")


async def renewed(fleet: Fleet) -> None:
    async with Client.from_kubeconfig(fleet.hub) as hub:
        await until(hub, MANAGED_CLUSTERS, NAME, lambda cluster: status_of(cluster, names.ROTATED) == "True")
        requests = (await hub.list(SIGNING_REQUESTS, labels=f"{names.CLUSTER_LABEL}={NAME}")).items
        assert len(requests) == 2


async def left(fleet: Fleet) -> None:
    async with Client.from_kubeconfig(fleet.cluster) as cluster:
        with pytest.raises(NotFound):
            await cluster.request("GET", "/api/v1/namespaces/default/configmaps/greeting")
        for kind in KINDS:
            await until_deleted(cluster, DEFINITIONS, f"{kind.plural}.{kind.group}")


def test_cluster_joins_renews_and_leaves(real_fleet: Fleet, tmp_path: Path) -> None:
    fleet = real_fleet
    own = ("--name", NAME, "--kubeconfig", fleet.cluster, "--state", tmp_path / "state")
    first = ("--hub-bootstrap-kubeconfig", fleet.bootstrap_file(tmp_path), "--lease-seconds", 2)
    with join(tmp_path, *own, *first, "--certificate-seconds", 600) as process:
        process.until("is waiting for approval")
        fleet.accept(NAME)
        process.until("has joined hub")
        asyncio.run(check_joined(fleet))
        process.kill()
    with State.locked(tmp_path / "state", cluster=NAME) as state:
        before = state.certificate()
    with join(tmp_path, *own, "--certificate-seconds", 600, "--renew-left", 80) as process:
        process.until("has joined hub")
        asyncio.run(renewed(fleet))
        assert process.stop() == 0
    with State.locked(tmp_path / "state", cluster=NAME) as state:
        after = state.certificate()
    assert before is not None
    assert after is not None
    assert after.subject.user == before.subject.user
    assert after.ends > before.ends
    assert run(["join", "leave", *map(str, own)]) == 0
    asyncio.run(left(fleet))
