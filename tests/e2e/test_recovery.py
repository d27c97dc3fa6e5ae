"""Placements leave a cluster that became unhealthy and return when it recovered, with the add-on as it is installed."""

from typing import Any

import pytest

from e2e.harness import CLUSTERS, HUB, NODE, LoopHarness
from e2e.test_loop import BINDING, BINDINGS, CLUSTER_API, CLUSTER_OF, PLACEMENTS, chosen, has_condition

UNHEALTHY = "fairway.dev/unhealthy"
ADD_ON_OF = (
    "/apis/addon.open-cluster-management.io/v1alpha1/namespaces/{cluster}"
    "/managedclusteraddons/resource-usage-collect"
)
DECISION = f"{CLUSTER_API}/v1beta1/namespaces/default/placementdecisions/everywhere-decision-1"
POLICY = "recovery: {dwell: 1s, recoveryDwell: 2s}\n"
EVERYWHERE: dict[str, Any] = {
    "apiVersion": "cluster.open-cluster-management.io/v1beta1",
    "kind": "Placement",
    "metadata": {"name": "everywhere"},
    "spec": {"clusterSets": ["default"]},
}


def taints(cluster: dict[str, Any]) -> list[str]:
    return [taint["key"] for taint in cluster["spec"].get("taints", [])]


def ready(status: str) -> dict[str, Any]:
    (condition,) = NODE["status"]["conditions"]
    return {"status": {"conditions": [{**condition, "status": status}]}}


async def install(harness: LoopHarness) -> None:
    """Two clusters that joined the hub, and the add-on on both, started from the work that brings it."""
    (harness.folder / "recovery.yaml").write_text(POLICY, encoding="utf-8")
    harness.start(
        "controllers",
        *("run", f"--kubeconfig={harness.kubeconfig(HUB)}", "--no-leader-elect"),
        *("--controllers=+recovery", f"--config={harness.folder / 'recovery.yaml'}"),
    )
    await harness.fairway("join", "token", "--out", "bootstrap.kubeconfig")
    for cluster in CLUSTERS:
        await harness.create("/api/v1/nodes", NODE, server=cluster)
        harness.join(cluster, "--local-agents")
    for cluster in CLUSTERS:
        await harness.until_printed(f"join-{cluster}", f"fairway accept {cluster}")
        await harness.fairway("accept", cluster)
    settings = ("PROVIDERS=resource-usage,health", "INTERVAL=2s", "VALID_FOR=30s")
    await harness.fairway("addon", "install", "resource-usage", *(f"--set={setting}" for setting in settings))


@pytest.mark.timeout(900)  # a minute or two, and a busy machine takes several times as long
async def test_placements_leave_unhealthy_cluster_and_return_after_recovery(bare_stage: LoopHarness) -> None:
    harness = bare_stage
    try:
        await install(harness)
        for cluster in CLUSTERS:
            await harness.until(
                f"the add-on of {cluster} is available",
                lambda add_on: has_condition(add_on, "Available"),
                ADD_ON_OF.format(cluster=cluster),
            )
        await harness.create(BINDINGS, BINDING)
        await harness.create(PLACEMENTS, EVERYWHERE)
        await harness.until("both are selected", lambda decision: chosen(decision) == [*CLUSTERS], DECISION)

        await harness.patch("/api/v1/nodes/node1/status", ready("False"), server="cluster1")
        await harness.until("placements leave", lambda decision: chosen(decision) == ["cluster2"], DECISION)
        assert UNHEALTHY in taints(await harness.get(CLUSTER_OF.format(cluster="cluster1")))

        await harness.patch("/api/v1/nodes/node1/status", ready("True"), server="cluster1")
        await harness.until("placements return", lambda decision: chosen(decision) == [*CLUSTERS], DECISION)
        assert UNHEALTHY not in taints(await harness.get(CLUSTER_OF.format(cluster="cluster1")))
    finally:
        await harness.stop()
