"""`--managed-cluster-scores` of `fairway agent run` and of `fairway addon install`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.addon.test_addon import NAME, addon
from cli.agent.test_agent import CLUSTER, SCORE, Hubs, hubs
from cli.live_hub import act
from cli.up_process import logging, until
from fairway.api import crds
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES
from fairway.cli.addon.writer import NO_RAW
from fairway.cli.main import run
from fairway.providers.addon import ENVIRONMENT, Plan, documents
from fairway.providers.rbac import RAW_RULES
from fairway.testing.hub import HubAddress, hub_in_thread
from kubewire.client import Client, Resource
from rigs.cleanup import delete_all

Capture = pytest.CaptureFixture[str]

RBAC = "rbac.authorization.k8s.io"
OPTION = "--managed-cluster-scores"

__all__ = ["hubs"]


def role(*, raw: bool) -> dict[str, Any]:
    """The role of agents in an installation."""
    plan = Plan(provider="resource-usage", managed_cluster_scores=raw)
    return next(document for document in documents(plan) if document["kind"] == "ClusterRole")


def agent_arguments(*, raw: bool) -> list[str]:
    plan = Plan(provider="resource-usage", managed_cluster_scores=raw)
    template = next(document for document in documents(plan) if document["kind"] == "AddOnTemplate")
    deployment = template["spec"]["agentSpec"]["workload"]["manifests"][-1]
    arguments: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    return arguments


def test_agent_publishes_no_managed_cluster_scores_by_default() -> None:
    assert OPTION not in agent_arguments(raw=False)
    assert "managedclusterscores" not in json.dumps(list(documents(Plan(provider="resource-usage"))))
    assert OPTION in agent_arguments(raw=True)
    assert role(raw=True)["rules"] == [*role(raw=False)["rules"], *(rule.document() for rule in RAW_RULES)]


@pytest.fixture(params=[True, False], ids=["granted", "not granted"])
def granted(request: pytest.FixtureRequest, hubs: Hubs, tmp_path: Path) -> Iterator[tuple[bool, Path]]:
    """Whether an agent has the rights for it, and the hub as such an agent."""
    raw: bool = request.param
    name = f"agent-{raw}".lower()

    async def grant(client: Client) -> None:
        rules = role(raw=raw)["rules"]
        path = f"/apis/{RBAC}/v1"
        await client.request(
            "POST", f"{path}/clusterroles", body={"metadata": {"name": name}, "rules": rules}
        )
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": name}],
        }
        await client.request("POST", f"{path}/namespaces/{CLUSTER}/rolebindings", body=binding)

    async def forget(client: Client) -> None:
        resources: tuple[Resource[Any], ...] = (ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES)
        for resource in resources:
            await delete_all(client, resource, namespace=CLUSTER)

    act(hubs.hub.kubeconfig, grant)
    content = yaml.safe_load(hubs.hub.kubeconfig.read_text())
    content["users"][0]["user"]["as"] = name
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(content))
    yield raw, kubeconfig
    act(hubs.hub.kubeconfig, forget)


def test_agent_publishes_managed_cluster_scores_with_installed_rights(
    hubs: Hubs, granted: tuple[bool, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With settings that an installation with the option, and with ``--set SCORE_NAME``, hands to the agent."""
    raw, kubeconfig = granted
    plan = Plan(
        provider="resource-usage", managed_cluster_scores=True, variables={"SCORE_NAME": "test-score1"}
    )
    config = next(document for document in documents(plan) if document["kind"] == "AddOnDeploymentConfig")
    values = {variable["name"]: variable["value"] for variable in config["spec"]["customizedVariables"]}
    for name in ENVIRONMENT:
        monkeypatch.setenv(name, values[name])

    def scored(store: Any) -> bool:
        wanted = {"cpuavailable": 50, "resourceratiocpu": 100}  # 50 cores, of which nothing is used
        raw_scores = {name: store.get((CLUSTER, f"{CLUSTER}-{name}")) for name in wanted}
        return all(
            raw_score is not None and raw_score.status.score == wanted[name]
            for name, raw_score in raw_scores.items()
        )

    def published(store: Any) -> bool:
        assert (CLUSTER, SCORE) not in store
        raw_score = store.get((CLUSTER, "test-score1"))
        return raw_score is not None and bool(raw_score.status.scores)

    with logging("agent", "run", "--hub-kubeconfig", kubeconfig, *hubs.given[2:], OPTION) as agent:
        act(hubs.hub.kubeconfig, lambda client: until(client, ADD_ON_PLACEMENT_SCORES, published))
        if raw:
            act(hubs.hub.kubeconfig, lambda client: until(client, MANAGED_CLUSTER_SCORES, scored))
        else:
            agent.read_until(lambda line: "but failed to publish them as ManagedClusterScore" in line["msg"])
        assert agent.stop() == 0
    complaints = [line["msg"] for line in agent.lines if line["level"] not in ("info", "INFO")]
    assert bool(complaints) is not raw, complaints


async def _raw(client: Client, *, name: str, provider: str) -> None:
    labels = {"app.kubernetes.io/managed-by": "fairway", "fairway.dev/provider": provider}
    body = {"metadata": {"name": name, "labels": labels}}
    await client.create(MANAGED_CLUSTER_SCORES, body, namespace="c1")


def test_uninstall_deletes_managed_cluster_scores_of_the_agent(
    fairway_hub: HubAddress, capsys: Capture
) -> None:
    async def publish(client: Client) -> None:
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "c1"}})
        await _raw(client, name="c1-cpuavailable", provider="resource-usage")
        await _raw(client, name="c1-health", provider="health")

    async def left(client: Client) -> list[str]:
        return [score.metadata.name for score in (await client.list(MANAGED_CLUSTER_SCORES)).items]

    assert addon(fairway_hub, "install", OPTION) == 0
    act(fairway_hub.kubeconfig, publish)
    capsys.readouterr()
    assert addon(fairway_hub, "uninstall", "-o", "json") == 0
    removed = json.loads(capsys.readouterr().out)["removed"]
    assert removed[-1]["kind"] == "ManagedClusterScore"
    assert act(fairway_hub.kubeconfig, left) == ["c1-health"]


def test_agent_reports_a_hub_without_managed_cluster_scores(tmp_path: Path, capsys: Capture) -> None:
    kinds = [crd for crd in crds() if not crd["metadata"]["name"].startswith("managedclusterscores.")]
    with hub_in_thread(folder=tmp_path, definitions=kinds) as hub:
        assert addon(hub, "install", OPTION) == 2
        assert NO_RAW in " ".join(capsys.readouterr().err.split())
        assert addon(hub, "install") == 0
        assert addon(hub, "uninstall") == 0


def test_printed_addon_manifests_grant_managed_cluster_scores(capsys: Capture) -> None:
    assert run(["addon", "install", "resource-usage", OPTION, "--dry-run", "-o", "json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    rules = next(item for item in items if item["kind"] == "ClusterRole")["rules"]
    assert {"managedclusterscores", "managedclusterscores/status"} <= {
        resource for rule in rules for resource in rule["resources"]
    }
    assert items[-1]["metadata"]["name"] == NAME
