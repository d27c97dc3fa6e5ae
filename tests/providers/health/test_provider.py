"""Health of a cluster that is served by an embedded API server, nodes and pods and all."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES
from fairway.api.score import AddOnPlacementScore
from fairway.providers.health import RULES, Health, HealthOptions
from fairway.providers.health.parts import ADD_ONS, API, HEALTH, NODES, RESTARTS
from fairway.providers.provider import ProviderError, Reading
from fairway.providers.runner import running
from fairway.testing.hub import hub_in_thread
from kubewire.api.meta import find_condition
from kubewire.client import Client, Connection, Informer, Patch, load
from kubewire.client.rbac import Rule
from providers.tools.readings import StoppedClock
from rights import grant

DEADLINE = 120.0


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """Of an API server that is both the cluster and the hub."""
    with hub_in_thread(folder=tmp_path) as hub:
        yield load(hub.kubeconfig).context()


@pytest.fixture
async def client(connection: Connection) -> AsyncIterator[Client]:
    async with Client(connection) as opened:
        yield opened


async def node(client: Client, name: str, *, ready: bool = True) -> None:
    path = f"/api/v1/nodes/{name}"
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    await client.request(
        "PATCH", f"{path}?fieldManager=t&force=true", body=body, content_type=Patch.APPLY.value
    )
    status = {"status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}}
    await client.request("PATCH", f"{path}/status", body=status, content_type=Patch.MERGE.value)


async def pod(
    client: Client, name: str, *, namespace: str = "kube-system", ready: bool = True, restarts: int = 0
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await client.request(
        "PATCH", f"{path}/{name}?fieldManager=t&force=true", body=body, content_type=Patch.APPLY.value
    )
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        "containerStatuses": [
            {"name": "c", "image": "i", "imageID": "", "ready": ready, "restartCount": restarts}
        ],
    }
    await client.request(
        "PATCH", f"{path}/{name}/status", body={"status": status}, content_type=Patch.MERGE.value
    )


@asynccontextmanager
async def reading(provider: Health) -> AsyncIterator[asyncio.Event]:
    woken = asyncio.Event()
    async with provider.running(woken.set):
        yield woken


async def eventually(provider: Health, woken: asyncio.Event, **wanted: float) -> Reading:
    """Wait until the values are these; every wake means a change."""
    async with asyncio.timeout(DEADLINE):
        while True:
            woken.clear()
            measured = await provider.read()
            if all(measured.values.get(name) == pytest.approx(value) for name, value in wanted.items()):
                return measured
            await woken.wait()


async def test_health_reads_all_parts_with_declared_rights(client: Client) -> None:
    for name in ("n1", "n2", "n3", "n4"):
        await node(client, name)
    for name in ("dns", "proxy"):
        await pod(client, name)
    agent = await grant(client, "agent", RULES)
    async with Client(agent) as mine:
        provider = Health(
            mine, clock=StoppedClock()
        )  # how long requests take here must not be the worst part
        async with reading(provider) as woken:
            measured = await eventually(provider, woken, **{NODES: 100, ADD_ONS: 100, RESTARTS: 0})
            assert measured.problem == ""
            assert set(measured.values) == {HEALTH, NODES, API, ADD_ONS, RESTARTS}
            await node(client, "n1", ready=False)
            measured = await eventually(provider, woken, **{NODES: 75})
            assert measured.note == "the worst part is healthNodes: 75 % of the nodes are ready"
            await pod(client, "dns", ready=False, restarts=3)
            measured = await eventually(provider, woken, **{ADD_ONS: 50})
            assert measured.values[RESTARTS] == pytest.approx(100 * 3 / 2 * 6)
            assert measured.note.startswith("the worst part is healthAddOns: 50 %")
            assert measured.values[HEALTH] < 40


async def test_absent_health_parts_are_noted(client: Client) -> None:
    provider = Health(client)
    async with reading(provider) as woken:
        measured = await eventually(provider, woken)
    assert set(measured.values) == {HEALTH, API}
    assert measured.problem == ""
    assert "healthNodes is unknown and left out: the cluster has no nodes" in measured.note
    assert (
        "healthAddOns is unknown and left out: there are no pods in kube-system, openshift-*" in measured.note
    )
    assert "healthRestarts is unknown and left out: no container runs" in measured.note


async def test_forbidden_health_parts_are_problems(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairway.providers.health.provider.SYNC_SECONDS", 0.5)
    await node(client, "n1")
    nodes = Rule(groups=("",), resources=("nodes",), verbs=("list", "watch"))
    agent = await grant(client, "agent", (nodes,))
    async with Client(agent) as mine:
        provider = Health(mine)
        async with asyncio.timeout(DEADLINE), reading(provider) as woken:
            await provider._probed.wait()
            measured = await eventually(provider, woken, **{NODES: 100})
    assert set(measured.values) == {HEALTH, NODES, API}  # a refusal is an answer, and took its time
    assert measured.reason == "PartUnknown"
    assert measured.problem == (
        "healthAddOns is unknown and left out: Pods cannot be listed; "
        "healthRestarts is unknown and left out: Pods cannot be listed"
    )


async def test_unresponsive_api_server_counts_as_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairway.providers.health.provider.SYNC_SECONDS", 0.1)
    nowhere = Connection(server="http://127.0.0.1:9")
    async with Client(nowhere) as client:
        provider = Health(client, HealthOptions(probe_timeout=7.0))
        async with asyncio.timeout(DEADLINE), reading(provider):
            await provider._probed.wait()
            measured = await provider.read()
    assert measured.values == {API: 7000.0, HEALTH: 0.0}


async def test_health_without_known_parts_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairway.providers.health.provider.SYNC_SECONDS", 0.1)
    async with Client(Connection(server="http://127.0.0.1:9")) as client:
        provider = Health(client)
        with pytest.raises(ProviderError, match="the state of the cluster is unknown") as refused:
            await provider.read()  # it does not run
    assert refused.value.reason == "NothingKnown"


async def test_health_condition_names_worst_part(client: Client) -> None:
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "cluster1"}})
    await node(client, "n1")
    await node(client, "n2", ready=False)
    await pod(client, "dns")
    provider = Health(client, clock=StoppedClock())
    async with (
        asyncio.timeout(DEADLINE),
        running([provider], hub=client, cluster="cluster1"),
        Informer(client, ADD_ON_PLACEMENT_SCORES, namespace="cluster1") as scores,
    ):
        async for _ in scores.changes():
            score = scores.get("health-score", namespace="cluster1")
            if score is not None and score.status.scores:
                break
    assert isinstance(score, AddOnPlacementScore)
    published = {entry.name: entry.value for entry in score.status.scores}
    assert (published[NODES], published[ADD_ONS], published[RESTARTS]) == (0, 100, 100)
    assert score.status.validUntil is not None
    condition = find_condition(score.status.conditions, "AddOnPlacementScoreUpdated")
    assert condition is not None
    assert condition.status == "True"
    assert condition.message.endswith("; the worst part is healthNodes: 50 % of the nodes are ready")
