"""From two clusters that join a hub to a placement that follows their free resources."""

import os
import re
import signal
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.harness import CLUSTERS, NODE, LoopHarness

CLUSTER_API = "/apis/cluster.open-cluster-management.io"
CLUSTER_OF = f"{CLUSTER_API}/v1/managedclusters/{{cluster}}"
SCORE_OF = f"{CLUSTER_API}/v1alpha1/namespaces/{{cluster}}/addonplacementscores/resource-usage-score"
BINDINGS = f"{CLUSTER_API}/v1beta2/namespaces/default/managedclustersetbindings"
PLACEMENTS = f"{CLUSTER_API}/v1beta1/namespaces/default/placements"
DECISION = f"{CLUSTER_API}/v1beta1/namespaces/default/placementdecisions/placement1-decision-1"
PODS = "/api/v1/namespaces/default/pods"

BINDING: dict[str, Any] = {
    "apiVersion": "cluster.open-cluster-management.io/v1beta2",
    "kind": "ManagedClusterSetBinding",
    "metadata": {"name": "default"},
    "spec": {"clusterSet": "default"},
}
PLACEMENT: dict[str, Any] = {
    "apiVersion": "cluster.open-cluster-management.io/v1beta1",
    "kind": "Placement",
    "metadata": {"name": "placement1"},
    "spec": {
        "numberOfClusters": 1,
        "clusterSets": ["default"],
        "prioritizerPolicy": {
            "mode": "Exact",
            "configurations": [
                {
                    "scoreCoordinate": {
                        "type": "AddOn",
                        "addOn": {"resourceName": "resource-usage-score", "scoreName": "cpuAvailable"},
                    },
                    "weight": 1,
                }
            ],
        },
    },
}


def pod(name: str, *, cpu: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": "node1",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
        },
    }


def cpu_of(score: dict[str, Any]) -> int | None:
    values = {entry["name"]: entry["value"] for entry in score.get("status", {}).get("scores", [])}
    return values.get("cpuAvailable")


def is_valid(score: dict[str, Any]) -> bool:
    until = score.get("status", {}).get("validUntil")
    return until is not None and datetime.fromisoformat(until) > datetime.now(UTC)


def has_condition(document: dict[str, Any], kind: str) -> bool:
    conditions = document.get("status", {}).get("conditions", [])
    return any(condition["type"] == kind and condition["status"] == "True" for condition in conditions)


def chosen(decision: dict[str, Any]) -> list[str]:
    return [entry["clusterName"] for entry in decision.get("status", {}).get("decisions", [])]


async def joined(harness: LoopHarness) -> None:
    """Both clusters are on the hub, with a node each, and the add-on has an identity there."""
    await harness.fairway("join", "token", "--out", "bootstrap.kubeconfig")
    for cluster in CLUSTERS:
        await harness.create("/api/v1/nodes", NODE, server=cluster)
        harness.join(cluster)
    for cluster in CLUSTERS:
        await harness.until(f"{cluster} asks to join", lambda _: True, CLUSTER_OF.format(cluster=cluster))
        await harness.until_printed(f"join-{cluster}", f"fairway accept {cluster}")
        await harness.fairway("accept", cluster)
    for cluster in CLUSTERS:
        managed = await harness.until(
            f"{cluster} is available, and has told what it has",
            lambda current: (
                has_condition(current, "ManagedClusterConditionAvailable")
                and "cpu" in current["status"].get("allocatable", {})
            ),
            CLUSTER_OF.format(cluster=cluster),
        )
        assert managed["status"]["allocatable"]["cpu"] == "8"
        assert managed["metadata"]["labels"]["cluster.open-cluster-management.io/clusterset"] == "default"


async def scored(harness: LoopHarness, cluster: str, value: int) -> dict[str, Any]:
    """Validly."""
    return await harness.until(
        f"{cluster} scores {value}",
        lambda score: cpu_of(score) == value and is_valid(score),
        SCORE_OF.format(cluster=cluster),
    )


async def decided(harness: LoopHarness, cluster: str) -> None:
    await harness.until(f"{cluster} is chosen", lambda decision: chosen(decision) == [cluster], DECISION)


@pytest.mark.timeout(900)  # a minute or two, and a busy machine takes several times as long
@pytest.mark.embedded  # the walkthroughs close the same loop on real API servers
async def test_placement_follows_free_resources(harness: LoopHarness) -> None:
    await joined(harness)
    await harness.fairway("addon", "install", "resource-usage")
    for cluster in CLUSTERS:
        await harness.agent(cluster)
    for cluster in CLUSTERS:
        score = await scored(harness, cluster, 80)  # 8 of 10 cores are free
        assert has_condition(score, "AddOnPlacementScoreUpdated")
        assert score["metadata"]["labels"]["fairway.dev/provider"] == "resource-usage"

    await harness.create(BINDINGS, BINDING)
    await harness.create(PLACEMENTS, PLACEMENT)
    await decided(harness, "cluster1")  # equals: the first by name

    # Filling cluster1 moves the placement to cluster2.
    await harness.create(PODS, pod("one", cpu="1"), pod("two", cpu="1"), server="cluster1")
    await scored(harness, "cluster1", 60)
    await decided(harness, "cluster2")

    # Without its agent a score expires, which counts 0: less than what cluster1 has.
    lost = harness.processes["agent-cluster2"]
    os.kill(lost.pid, signal.SIGKILL)
    path = SCORE_OF.format(cluster="cluster2")
    await harness.until("the score of cluster2 runs out", lambda last: not is_valid(last), path)
    await decided(harness, "cluster1")
    assert cpu_of(await harness.get(path)) == 80  #  unchanged
    printed = await harness.fairway("get", "providers")
    assert re.search(r"cluster2: .*expired", printed), printed

    # With a new one everything is as before.
    await harness.agent("cluster2")
    await decided(harness, "cluster2")
    while "cluster2: " in await harness.fairway("get", "providers"):
        pass  # what a machine is too slow to renew in time is renewed a moment later

    # What was taken is given back.
    for name in ("one", "two"):
        await harness.delete(f"{PODS}/{name}", server="cluster1")
    await scored(harness, "cluster1", 80)
    await decided(harness, "cluster1")
