"""`fairway agent run` as a process, with credentials that change."""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.live_hub import act
from cli.up_process import fairway, logging, until
from fairway.api import crds
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, CLUSTER_CLAIMS
from fairway.cli.agent.process import CHANGED, NO_HUB, WHICH_CLUSTER
from fairway.cli.main import run
from fairway.cli.provider.config import duration
from fairway.providers import health, hosted, usage
from fairway.providers.agent_lease import AgentLease
from fairway.providers.hosted.claims import ROLES
from fairway.providers.rbac import LEASE_RULES
from fairway.testing.hub import HubAddress, hub_in_thread
from kubewire.api.meta import find_condition
from kubewire.client import Client, NotFound
from kubewire.client.lease import LEASES
from providers.hosted.hosting import DEFINITIONS, HOSTED_CLUSTER
from rights import grant

CLUSTER = "cluster1"
SCORE = "resource-usage-score"
AGENT = "agent-of-three"
ROLE = "resource-usage-collect-agent"
HOME = "open-cluster-management-agent-addon"


@dataclass(frozen=True)
class Hubs:
    """A hub, and the scored cluster."""

    hub: HubAddress
    cluster: HubAddress

    @property
    def given(self) -> tuple[str, ...]:
        """The options that select both."""
        return (
            *("--hub-kubeconfig", str(self.hub.kubeconfig), "--cluster-name", CLUSTER),
            *("--kubeconfig", str(self.cluster.kubeconfig), "--addon-namespace", HOME),
        )


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hubs]:
    with (
        hub_in_thread(folder=tmp_path_factory.mktemp("hub")) as hub,
        hub_in_thread(folder=tmp_path_factory.mktemp("cluster"), definitions=()) as cluster,
    ):
        act(hub.kubeconfig, lambda client: _namespace(client, CLUSTER))
        act(cluster.kubeconfig, _populate)
        yield Hubs(hub, cluster)


async def _namespace(client: Client, name: str) -> None:
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})


async def _populate(client: Client) -> None:
    await _namespace(client, HOME)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    await client.request("POST", "/api/v1/nodes", body=node)
    amounts = {"cpu": "50", "memory": "100Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
    await client.request(
        "PATCH",
        "/api/v1/nodes/n1/status",
        body={"status": status},
        content_type="application/merge-patch+json",
    )


async def _published(client: Client) -> dict[str, int]:
    """Wait for the scores and return them."""
    published: dict[str, int] = {}

    def there(store: Any) -> bool:
        score = store.get((CLUSTER, SCORE))
        if score is None or not score.status.scores:
            return False
        updated = find_condition(score.status.conditions, "AddOnPlacementScoreUpdated")
        assert updated is not None
        assert score.status.validUntil > datetime.now(UTC)
        published.update({item.name: item.value for item in score.status.scores})
        return True

    await until(client, ADD_ON_PLACEMENT_SCORES, there)
    return published


async def _forget(client: Client) -> None:
    try:
        await client.delete(ADD_ON_PLACEMENT_SCORES, SCORE, namespace=CLUSTER)
    except NotFound:
        return


async def _renewed(client: Client) -> None:
    await until(client, LEASES, lambda store: (HOME, "resource-usage-collect") in store)


def test_agent_publishes_scores_and_is_ready(hubs: Hubs) -> None:
    act(hubs.hub.kubeconfig, _forget)
    with logging("agent", "run", *hubs.given, "--health-address", "127.0.0.1:0", MAXCPUCOUNT="100") as agent:
        scores = act(hubs.hub.kubeconfig, _published)
        assert scores["cpuAvailable"] == 50  # half of what scores 100
        act(hubs.cluster.kubeconfig, _renewed)
        assert agent.stop() == 0
        assert agent.lines[-1]["msg"] == "stopped"


async def _hosting(client: Client) -> None:
    """HyperShift's CRDs, and a user with the declared rules of the three providers and of the lease."""
    for definition in (*crds(), HOSTED_CLUSTER):
        await client.request("POST", DEFINITIONS, body=definition)
    await client.create(ROLES, {"metadata": {"name": ROLE}})
    needed = (*usage.RULES, *hosted.RULES, *hosted.owned_rules(ROLE), *health.RULES, *LEASE_RULES)
    await grant(client, AGENT, needed)


async def _owners_of_claims(client: Client) -> set[str]:
    claims = (await client.list(CLUSTER_CLAIMS)).items
    return {owner.name for claim in claims for owner in claim.metadata.ownerReferences or ()}


async def _all_three(client: Client) -> dict[str, dict[str, int]]:
    by_provider: dict[str, dict[str, int]] = {}

    def there(store: Any) -> bool:
        for (namespace, name), stored in store.items():
            updated = find_condition(stored.status.conditions, "AddOnPlacementScoreUpdated")
            if namespace == CLUSTER and updated is not None and updated.status == "True":
                by_provider[name] = {score.name: score.value for score in stored.status.scores}
        return by_provider.keys() >= {SCORE, "hosted-clusters-score", "health-score"}

    await until(client, ADD_ON_PLACEMENT_SCORES, there)
    return by_provider


def test_agent_runs_three_providers_with_their_declared_rights(hubs: Hubs, tmp_path: Path) -> None:
    act(hubs.hub.kubeconfig, _forget)
    act(hubs.cluster.kubeconfig, _hosting)
    content = yaml.safe_load(hubs.cluster.kubeconfig.read_text())
    content["users"][0]["user"]["as"] = AGENT
    restricted = tmp_path / "kubeconfig"
    restricted.write_text(yaml.safe_dump(content))
    options = tmp_path / "options.yaml"
    options.write_text("hosted-clusters: {maximum: 10, threshold: 5}\n")
    names = "resource-usage,hosted-clusters,health"
    given = (*hubs.given, "--kubeconfig", restricted, "--providers", names, "--config", options)
    with logging("agent", "run", *given) as agent:
        scores = act(hubs.hub.kubeconfig, _all_three)
        assert agent.stop() == 0
    assert scores[SCORE]["cpuAvailable"] == 50
    assert scores["hosted-clusters-score"]["hcpSlotsSmall"] == 10  # one of ten, by its pods
    assert scores["health-score"]["healthNodes"] == 100
    assert act(hubs.cluster.kubeconfig, _owners_of_claims) == {ROLE}
    assert [line["msg"] for line in agent.lines if line["level"] not in ("info", "INFO")] == []


def test_agent_resumes_after_it_was_killed(hubs: Hubs) -> None:
    act(hubs.hub.kubeconfig, _forget)
    with logging("agent", "run", *hubs.given) as first:
        act(hubs.hub.kubeconfig, _published)
        first.process.kill()
        first.process.wait()
    before = act(
        hubs.hub.kubeconfig, lambda client: client.get(ADD_ON_PLACEMENT_SCORES, SCORE, namespace=CLUSTER)
    )
    with logging("agent", "run", *hubs.given) as second:
        second.read_until(lambda line: f"for cluster {CLUSTER} on hub" in line["msg"])
        act(hubs.hub.kubeconfig, _published)
        assert second.stop() == 0
    after = act(
        hubs.hub.kubeconfig, lambda client: client.get(ADD_ON_PLACEMENT_SCORES, SCORE, namespace=CLUSTER)
    )
    assert after.metadata.uid == before.metadata.uid


def test_agent_reloads_a_changed_hub_kubeconfig(
    hubs: Hubs, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The new one is of another hub."""
    kubeconfig = tmp_path / "kubeconfig"
    shutil.copy(hubs.hub.kubeconfig, kubeconfig)
    given = ["--hub-kubeconfig", kubeconfig, *hubs.given[2:]]
    with (
        hub_in_thread(folder=tmp_path_factory.mktemp("other")) as other,
        logging("agent", "run", *given) as agent,
    ):
        act(other.kubeconfig, lambda client: _namespace(client, CLUSTER))
        agent.read_until(lambda line: hubs.hub.url in line["msg"])
        kubeconfig.write_text("no: kubeconfig")
        agent.read_until(lambda line: "cannot be used" in line["msg"])
        shutil.copy(other.kubeconfig, kubeconfig)
        agent.read_until(lambda line: line["msg"] == CHANGED % kubeconfig)
        act(other.kubeconfig, _published)
        assert agent.stop() == 0


def test_agent_does_not_take_the_cluster_from_the_kubeconfig_namespace(hubs: Hubs, tmp_path: Path) -> None:
    """In the Secret of an add-on the namespace is constant."""
    content = yaml.safe_load(hubs.hub.kubeconfig.read_text())
    content["contexts"][0]["context"]["namespace"] = "configuration"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(content))
    (tmp_path / "cluster-name").write_text(f"{CLUSTER}\n")
    act(hubs.hub.kubeconfig, _forget)
    with logging("agent", "run", "--hub-kubeconfig", kubeconfig, *hubs.given[2:], "--no-lease") as agent:
        act(hubs.hub.kubeconfig, _published)
        assert agent.stop() == 0


def ended(*arguments: object, **variables: str) -> str:
    """Return the error of an agent that does not start."""
    ran = fairway("agent", "run", *arguments, **variables)
    assert ran.returncode == 2, ran.stderr
    return " ".join(ran.stderr.split())


def test_agent_with_a_missing_or_invalid_hub_kubeconfig_exits_2(hubs: Hubs, tmp_path: Path) -> None:
    others = hubs.given[2:]
    missing = tmp_path / "missing"
    assert f"{missing}" in ended("--hub-kubeconfig", missing, *others)
    wrong = tmp_path / "wrong"
    wrong.write_text("{")
    assert NO_HUB.format(error=f"{wrong}") in ended("--hub-kubeconfig", wrong, *others)
    content = yaml.safe_load(hubs.hub.kubeconfig.read_text())
    content["users"][0]["user"] = {"tokenFile": "token"}
    stale = tmp_path / "stale"
    stale.write_text(yaml.safe_dump(content))
    assert "token file" in ended("--hub-kubeconfig", stale, *others)
    (tmp_path / "token").write_text("nobody's")
    assert "(401): expired, or for another hub" in ended("--hub-kubeconfig", stale, *others)


def test_agent_rejects_the_hub_kubeconfig_of_another_cluster(hubs: Hubs, tmp_path: Path) -> None:
    shutil.copy(hubs.hub.kubeconfig, tmp_path / "kubeconfig")
    (tmp_path / "cluster-name").write_text("cluster2")
    said = ended("--hub-kubeconfig", tmp_path / "kubeconfig", *hubs.given[2:])
    assert f"belongs to cluster cluster2, but --cluster-name is {CLUSTER}" in said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing option '--cluster-name'"),
        (["--cluster-name", "Cluster_1"], "is not a valid cluster name"),
        (["--cluster-name", "c", "--providers", ","], "no provider named"),
        (["--cluster-name", "c", "--interval", "soon"], "got 'soon'"),
        (["--cluster-name", "c", "--config", "nowhere.yaml"], "nowhere.yaml"),
        (["--cluster-name", "c", "--health-address", "here"], "is not an address"),
    ],
)
def test_wrong_agent_options_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert run(["agent", "run", "--hub-kubeconfig", "x", *arguments]) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())


def test_wrong_agent_input_exits_2(hubs: Hubs, tmp_path: Path) -> None:
    hub = ("--hub-kubeconfig", hubs.hub.kubeconfig)
    assert WHICH_CLUSTER in ended(*hub, "--cluster-name", CLUSTER)
    assert "did you mean 'resource-usage'?" in ended(*hubs.given, "--providers", "resource-usge")
    options = tmp_path / "options.yaml"
    options.write_text("resource-usage:\n  basis: both\n  shapes: 7\n")
    assert f"{options}:3: resource-usage.shapes: expected" in ended(*hubs.given, "--config", options)
    options.write_text("health: {}")
    assert "options for health, which --providers does not name" in ended(*hubs.given, "--config", options)
    options.write_text("- resource-usage")
    assert "the options of a provider must be a mapping" in ended(*hubs.given, "--config", options)
    options.write_text("resource-usage: 7")
    assert "must map providers to their options" in ended(*hubs.given, "--config", options)
    assert "provider static" in ended(*hubs.given, "--providers", "static")


def test_empty_duration_is_none() -> None:
    assert duration("") is None
    assert duration("90") == duration("90s") == 90


def test_agent_lease_is_renewed_only_while_scores_are_published(hubs: Hubs) -> None:
    asked, told = asyncio.Event(), False
    times = 0

    def well() -> bool:
        nonlocal times
        times += 1
        if times > 3:
            asked.set()
        return told

    async def work(client: Client) -> None:
        nonlocal told
        async with AgentLease(client, name="a", namespace=HOME, is_healthy=well, every=0.02):
            await asked.wait()
            with pytest.raises(NotFound):
                await client.get(LEASES, "a", namespace=HOME)
            told = True
            await until(client, LEASES, lambda store: (HOME, "a") in store)
            first = await client.get(LEASES, "a", namespace=HOME)
            assert first.spec.leaseDurationSeconds == 60
            assert first.spec.holderIdentity
            await until(client, LEASES, lambda store: store[HOME, "a"].spec.renewTime != first.spec.renewTime)

    act(hubs.cluster.kubeconfig, work)


def test_agent_publishes_although_the_cluster_rejects_its_lease(
    hubs: Hubs, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(client: Client) -> None:
        await AgentLease(client, name="a", namespace="nowhere", is_healthy=lambda: True).renew()

    act(hubs.cluster.kubeconfig, work)
    assert "cannot renew Lease nowhere/a" in caplog.text
