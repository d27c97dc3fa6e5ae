"""The provider on a cluster with changing nodes and pods."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairway.api.resources import NODES, PODS
from fairway.providers.provider import ProviderError
from fairway.providers.usage import RULES, ResourceUsage, UsageOptions
from fairway.providers.usage.accounting import Totals
from fairway.testing.hub import hub_in_thread
from kubewire.client import Client, Connection, Informer
from kubewire.client.credentials import Impersonation
from providers.usage.conftest import PATIENCE, Cluster, watched
from providers.usage.document_server import document_server
from providers.usage.objects import Document, node, pod, recount
from rights import grant
from rigs.kubernetes import Tools, real_hub

ROOMY: Document = {"cpu": "16", "memory": "64Gi", "pods": "110"}
NO_METRICS: dict[str, Any] = {"basis": "requests"}


@pytest.mark.embedded
async def test_counted_changes_wake_usage_provider(cluster: Cluster) -> None:
    async with watched(cluster.client) as seen:
        await seen.until(cpuAvailable=0.0)
        await cluster.node(node("n1", ROOMY))
        await seen.until(cpuAvailable=16.0, memAvailable=64.0, podsAvailable=110.0)
        await cluster.pod(pod("a", "n1", {"cpu": "4", "memory": "16Gi"}, init={"cpu": "6"}))
        await seen.until(cpuAvailable=10.0, memAvailable=48.0, podsAvailable=109.0, cpuNodeAvailable=10.0)
        await cluster.pod(pod("b", requests={"cpu": "100"}, phase="Pending"))
        await seen.until(cpuAvailable=10.0, podsPending=1.0)
        await cluster.phase("a", "Succeeded")
        await seen.until(cpuAvailable=16.0, podsAvailable=110.0)
        await cluster.node(node("n1", ROOMY, cordoned=True))
        await seen.until(cpuAvailable=0.0, podsAvailable=0.0)
        await cluster.node(node("n1", ROOMY, ready=False))
        await cluster.no_pod("b")
        await seen.until(cpuAvailable=0.0, podsPending=0.0)
        await cluster.node(node("n1", {**ROOMY, "nvidia.com/gpu": "4"}))
        await seen.until(cpuAvailable=16.0, gpuNodeAvailable=4.0)


@pytest.mark.embedded
async def test_pods_count_on_recreated_node(cluster: Cluster) -> None:
    await cluster.node(node("n1", ROOMY))
    await cluster.pod(pod("a", "n1", {"cpu": "4"}))
    async with watched(cluster.client, **NO_METRICS) as seen:
        await seen.until(cpuAvailable=12.0)
        await cluster.no_node("n1")
        await seen.until(cpuAvailable=0.0)
        await cluster.node(node("n1", {**ROOMY, "cpu": "8"}))
        await seen.until(cpuAvailable=4.0)


async def test_incremental_usage_equals_full_count(cluster: Cluster) -> None:
    chance = random.Random(7)
    nodes = [node(f"n{number}", {**ROOMY, "cpu": str(8 + number)}) for number in range(4)]
    nodes[3]["spec"]["unschedulable"] = True
    for document in nodes:
        await cluster.node(document)
    pods: dict[str, Document] = {}
    async with watched(cluster.client, **NO_METRICS) as seen:
        for number in range(30):
            requests = {
                "cpu": chance.choice(["100m", "1", "250m"]),
                "memory": chance.choice(["1Gi", "300Mi"]),
            }
            phase = chance.choice(["Running", "Running", "Pending", "Failed"])
            where = "" if phase == "Pending" else f"n{chance.randrange(5)}"
            pods[f"p{number}"] = pod(f"p{number}", where, requests, phase=phase)
            await cluster.pod(pods[f"p{number}"])
            if chance.random() < 0.3:
                removed = chance.choice(sorted(pods))
                del pods[removed]
                await cluster.no_pod(removed)
        expected = recount(nodes, pods.values())
        reading = await seen.until(
            cpuAvailable=expected.free["cpu"] / 1000,
            memAvailable=expected.free["memory"] / 2**30,
            podsAvailable=float(expected.free["pods"]),
            podsPending=float(expected.waiting),
            cpuNodeAvailable=expected.largest["cpu"] / 1000,
        )
        assert reading.problem == ""
        async with asyncio.timeout(PATIENCE):  #  for changes that none of these values show
            while seen.provider.accounting.totals() != expected:
                await seen.woken.wait()
                seen.woken.clear()


async def test_node_selector_limits_usage(cluster: Cluster) -> None:
    await cluster.node(node("n1", ROOMY, labels={"pool": "a"}))
    await cluster.node(node("n2", ROOMY, labels={"pool": "b"}))
    async with watched(cluster.client, nodeSelector="pool=b", **NO_METRICS) as seen:
        await seen.until(cpuAvailable=16.0)


METRICS: Document = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "nodes.metrics.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": "metrics.k8s.io",
        "scope": "Cluster",
        "names": {"plural": "nodes", "kind": "NodeMetrics", "listKind": "NodeMetricsList"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "usage": {"type": "object", "additionalProperties": {"type": "string"}}
                        },
                    }
                },
            }
        ],
    },
}


async def test_node_metrics_count_where_known(tmp_path: Path) -> None:
    with hub_in_thread(folder=tmp_path, definitions=[METRICS]) as hub:
        async with Client.from_kubeconfig(hub.kubeconfig) as client:
            cluster = Cluster(client)
            await cluster.node(node("n1", ROOMY))
            await cluster.node(node("n2", ROOMY))
            await cluster.pod(pod("a", "n1", {"cpu": "2", "memory": "1Gi"}))
            used = {
                "apiVersion": "metrics.k8s.io/v1beta1",
                "kind": "NodeMetrics",
                "metadata": {"name": "n1"},
                "usage": {"cpu": "5500000001n", "memory": "512Mi"},
            }
            await client.request("POST", "/apis/metrics.k8s.io/v1beta1/nodes", body=used)
            async with watched(client) as seen:
                await seen.until(cpuAvailable=26.499, memAvailable=64 + 63.0)
            async with watched(client, basis="usage") as seen:
                await seen.until(cpuAvailable=26.499, memAvailable=64 + 63.5)
            async with watched(client, basis="requests") as seen:
                await seen.until(cpuAvailable=16 + 14.0, memAvailable=64 + 63.0)


async def test_unreadable_object_is_named_and_others_counted() -> None:
    nodes = [node("n1", ROOMY), node("n2", {"cpu": "garbage", "memory": "8Gi", "pods": "5"}), node("n3")]
    nodes[2]["status"]["conditions"] = "none"
    pods = [pod("a", "n1", {"cpu": "4", "memory": "much"}, namespace="shop")]
    content = {"/api/v1/nodes": nodes, "/api/v1/pods": pods}
    async with document_server(content) as client, watched(client, **NO_METRICS) as seen:
        reading = await seen.until(cpuAvailable=12.0, memAvailable=72.0, podsAvailable=114.0)
    problems = reading.problem.split("; ")
    assert 'Node n2: allocatable cpu: quantity "garbage" does not start with a number' in problems
    assert 'Pod shop/a: memory: quantity "much" does not start with a number' in problems
    assert "Node n3: status.conditions: Expected `array`, got `str`" in reading.problem
    assert reading.reason == "Unreadable"


async def test_number_of_named_problems_is_limited() -> None:
    nodes = [node(f"n{number}", {"cpu": "garbage"}) for number in range(9)]
    content: dict[str, list[Document]] = {"/api/v1/nodes": nodes, "/api/v1/pods": []}
    async with document_server(content) as client, watched(client, **NO_METRICS) as seen:
        reading = await seen.until(cpuAvailable=0.0)
    assert reading.problem.endswith("; and 4 more")


async def test_usage_provider_runs_with_declared_rights(cluster: Cluster) -> None:
    await cluster.node(node("n1", ROOMY))
    reader = await grant(cluster.client, "usage-reader", RULES)
    async with Client(reader) as client, watched(client) as seen:
        reading = await seen.until(cpuAvailable=16.0)
    assert reading.problem == ""


async def test_usage_provider_reports_missing_rights(
    administrator: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway.providers.informer_readiness.SYNC_SECONDS", 0.5)
    monkeypatch.setattr("fairway.providers.informer_readiness.ANSWER_SECONDS", PATIENCE)
    stranger = replace(administrator, impersonation=Impersonation(user="stranger"))
    async with Client(stranger) as client, watched(client) as seen:
        with pytest.raises(ProviderError, match=r"^cannot list Nodes of the cluster: .*forbidden") as refused:
            await seen.provider.read()
    assert refused.value.reason == "NotListed"


@pytest.mark.embedded
async def test_stale_watch_fails_usage_reading(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(cluster.client, **NO_METRICS, interval="1h") as seen:
        await seen.until(cpuAvailable=0.0)
        monkeypatch.setattr(Informer, "lag", 61.0)
        with pytest.raises(
            ProviderError, match=r"^Nodes of the cluster have not been watched for 61 s$"
        ) as refused:
            await seen.provider.read()
        assert refused.value.reason == "WatchLost"


@pytest.mark.embedded
async def test_usage_provider_restart_counts_nothing_twice(cluster: Cluster) -> None:
    """The runner starts it again after an unexpected error."""
    await cluster.node(node("n1", ROOMY))
    await cluster.pod(pod("p1", "n1", {"cpu": "2"}))
    provider = ResourceUsage(cluster.client, UsageOptions.read(NO_METRICS, environment={}))
    for _ in range(2):
        async with provider.running(lambda: None):
            assert (await provider.read()).values["cpuAvailable"] == 14.0


@pytest.mark.kube
async def test_usage_with_simulated_kubelets(tmp_path: Path, kube_tools: Tools) -> None:
    async with (
        real_hub(kube_tools, folder=tmp_path, with_kwok=True) as hub,
        Client.from_kubeconfig(hub.kubeconfig) as client,
        watched(client) as seen,
    ):
        for number in range(3):
            await client.create(NODES, {"metadata": {"name": f"n{number}"}})
        for number in range(12):
            body = pod(f"p{number}", f"n{number % 4}" if number < 9 else "", {"cpu": "750m", "memory": "1Gi"})
            document = {"metadata": {"name": f"p{number}"}, "spec": body["spec"]}
            await client.create(PODS, document, namespace="default")
        for number in range(0, 12, 5):
            await client.delete(PODS, f"p{number}", namespace="default")
        async with asyncio.timeout(PATIENCE):
            while True:
                seen.woken.clear()
                # Kubelets are still at it, so both are asked until they agree; the pods on n3 have no kubelet.
                served = [
                    msgspec.json.decode((await client.request("GET", path)).body)["items"]
                    for path in ("/api/v1/nodes", "/api/v1/pods")
                ]
                ready = all(node["status"].get("conditions") for node in served[0])
                if ready and len(served[1]) == 9:
                    reading = await seen.provider.read()
                    expected = _recounted(*served)
                    if seen.provider.accounting.totals() == expected and expected.waiting == 2:
                        break
                await seen.woken.wait()
        assert reading.values["cpuClusterAvailable"] == expected.free["cpu"] / 1000 > 0


def _recounted(nodes: list[Document], pods: list[Document]) -> Totals:
    """As the API server returns it, without empty fields."""
    for document in nodes:
        conditions = [
            condition for condition in document["status"]["conditions"] if condition["type"] == "Ready"
        ]
        document["status"]["conditions"] = conditions
        # No controller removes the taint here, and the node reports Ready.
        taints = [taint for taint in document["spec"].get("taints", []) if "not-ready" not in taint["key"]]
        document["spec"] = {"unschedulable": False, "taints": taints}
    return recount(nodes, pods)
