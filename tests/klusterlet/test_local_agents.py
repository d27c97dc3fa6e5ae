"""Local agents as processes: start, restart, change and stop."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from fairway.api.resources import APPLIED_MANIFEST_WORKS
from fairway.klusterlet.bootstrap import install
from fairway.klusterlet.kinds import SECRETS
from fairway.klusterlet.local_agents import MANAGED, NO_SECRET, NOT_READY, RUNS, TOO_MANY, LocalAgents, _Agent
from fairway.klusterlet.local_launch import DEPLOYMENTS, REVISION, Deployment
from klusterlet.fleet import Fleet, at_work
from kubewire.client import SYSTEM_CLOCK, Client, Patch
from rigs.waiting import DEADLINE, fresh, until

MOUNT = "/managed/hub-kubeconfig"
NOT_READY_STATUS = {
    "observedGeneration": 1,
    "replicas": 1,
    "readyReplicas": 0,
    "conditions": [{"type": "Available", "status": "False", "reason": RUNS, "message": NOT_READY}],
}


@pytest.fixture
async def cluster(fleet: Fleet) -> AsyncIterator[Client]:
    async with Client.from_kubeconfig(fleet.cluster) as client:
        await install(client, name="local")
        yield client
        for deployment in (await client.list(DEPLOYMENTS)).items:  # the next test would run them, too
            await client.delete(
                DEPLOYMENTS, deployment.metadata.name, namespace=deployment.metadata.namespace
            )


def container(**more: Any) -> dict[str, Any]:
    """The agent, as `fairway addon install` describes it. It does not get far: there is no hub at that address."""
    return {
        "name": "agent",
        "image": "fairway",
        "command": ["fairway", "agent", "run"],
        "args": [
            f"--hub-kubeconfig={MOUNT}/kubeconfig",
            "--cluster-name=c1",
            "--no-lease",
            "--health-address=:8081",
        ],
        "ports": [{"name": "health", "containerPort": 8081}],
        # A second, which is all it would be given otherwise, is not always enough on a busy machine.
        "readinessProbe": {
            "httpGet": {"path": "/livez", "port": "health"},
            "periodSeconds": 1,
            "timeoutSeconds": int(DEADLINE),
        },
        "volumeMounts": [{"name": "hub", "mountPath": MOUNT}, {"name": "tmp", "mountPath": "/scratch"}],
        **more,
    }


async def deploy(cluster: Client, fleet: Fleet, *, secret: bool = True, **more: Any) -> Deployment:
    """In a namespace of its own, with the Secret of an identity on the hub."""
    namespace = fresh("agents")
    await cluster.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    account = {"metadata": {"name": "agent-sa"}}
    await cluster.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", body=account)
    record = await cluster.create(
        APPLIED_MANIFEST_WORKS,
        {"metadata": {"name": namespace}, "spec": {"hubHash": "h", "agentID": "a", "manifestWorkName": "w"}},
    )
    if secret:
        await give_secret(cluster, namespace, fleet.hub.read_bytes())
    labels = {"app": "agent"}
    owner = {
        "apiVersion": APPLIED_MANIFEST_WORKS.api_version,
        "kind": APPLIED_MANIFEST_WORKS.kind,
        "name": record.metadata.name,
        "uid": record.metadata.uid,
    }
    body = {
        "metadata": {"name": "agent", "ownerReferences": [owner], **more.pop("metadata", {})},
        "spec": {
            "replicas": more.pop("replicas", 1),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": "agent-sa",
                    "containers": [container(**more)],
                    "volumes": [
                        {"name": "hub", "secret": {"secretName": "identity"}},
                        {"name": "tmp", "emptyDir": {}},
                    ],
                },
            },
        },
    }
    return await cluster.create(DEPLOYMENTS, body, namespace=namespace)


async def give_secret(cluster: Client, namespace: str, kubeconfig: bytes) -> None:
    body = {"metadata": {"name": "identity"}, "data": {"kubeconfig": kubeconfig}}
    await cluster.create(SECRETS, body, namespace=namespace)


@asynccontextmanager
async def local(cluster: Client, folder: Path) -> AsyncIterator[None]:
    async with at_work(LocalAgents(cluster, folder).run()):
        yield


async def ready(cluster: Client, deployment: Deployment, *, replicas: int = 1) -> Deployment:
    return await until(
        cluster,
        DEPLOYMENTS,
        "agent",
        lambda current: (
            (current.status.replicas, current.status.ready_replicas) == (replicas, replicas)
            and bool(current.status.conditions)
        ),
        namespace=deployment.metadata.namespace,
    )


def place(folder: Path, deployment: Deployment) -> Path:
    return folder / f"{deployment.metadata.namespace}.agent"


def pid_of(folder: Path, deployment: Deployment) -> int:
    return int((place(folder, deployment) / "pid").read_text())


def alive(pid: int) -> bool:
    """A zombie is listed but dead."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the latter if it goes while it is read
        return False


class Deaf:
    """Replaces API and informer: stores writes, and delivers no events."""

    def __init__(self, known: Deployment) -> None:
        self.known = known
        self.written: list[int] = []

    def get(self, _: str, *, namespace: str) -> Deployment:
        assert namespace == self.known.metadata.namespace
        return self.known

    async def patch(self, *given: Any, **_: Any) -> None:
        self.written.append(given[2]["status"]["readyReplicas"])

    def agent(self, folder: Path) -> _Agent:
        there: Any = self
        return _Agent(there, there, self.known, folder=folder, session=there, rejected="", clock=SYSTEM_CLOCK)


def given(*, generation: int = 1, **spec: Any) -> Deployment:
    meta = {"name": "agent", "namespace": "n", "uid": "u", "generation": generation}
    return msgspec.convert({"metadata": meta, "spec": spec}, Deployment)


async def test_reported_status_counts_before_it_is_observed(tmp_path: Path) -> None:
    api = Deaf(given())
    agent = api.agent(tmp_path)
    await agent._report(ready=False)
    api.known = structs.replace(api.known, status=msgspec.convert(NOT_READY_STATUS, type(api.known.status)))
    await agent._report(ready=False)
    await agent._report(ready=True)
    await agent._report(ready=False)
    assert api.written == [0, 1, 0]


async def test_agent_of_changed_deployment_reports_nothing(tmp_path: Path) -> None:
    api = Deaf(given())
    agent = api.agent(tmp_path)
    api.known = given(generation=2, replicas=2)
    await agent._report(ready=True)
    assert api.written == []
    api.known = given(generation=2)  # in something that is of no consequence here
    await agent._report(ready=True)
    assert api.written == [1]


async def test_local_agent_runs_and_stops_with_klusterlet(
    cluster: Client, fleet: Fleet, tmp_path: Path
) -> None:
    deployment = await deploy(cluster, fleet)
    async with local(cluster, tmp_path):
        started = await ready(cluster, deployment)
        assert started.status.observed_generation == started.metadata.generation
        assert [(condition.type, condition.status) for condition in started.status.conditions] == [
            ("Available", "True")
        ]
        pid = pid_of(tmp_path, deployment)
        assert alive(pid)
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        assert b"--cluster-name=c1" in command
        files = place(tmp_path, deployment)
        assert (files / "volumes/hub/kubeconfig").read_bytes() == fleet.hub.read_bytes()
        assert oct((files / "cluster/token").stat().st_mode & 0o777) == "0o600"
        assert oct((files / "volumes/tmp").stat().st_mode & 0o777) == "0o700"
    assert not alive(pid)
    # Of what it was given nothing stays but its log.
    assert [path.name for path in files.iterdir()] == ["log"]
    assert (files / "log").stat().st_mode & 0o777 == 0o600


async def test_killed_local_agent_is_restarted(cluster: Client, fleet: Fleet, tmp_path: Path) -> None:
    deployment = await deploy(cluster, fleet)
    async with local(cluster, tmp_path):
        before = await ready(cluster, deployment)
        first = pid_of(tmp_path, deployment)
        os.kill(first, signal.SIGKILL)
        events = cluster.watch(
            DEPLOYMENTS,
            namespace=deployment.metadata.namespace,
            resource_version=before.metadata.resourceVersion,
            bookmarks=False,
        )
        fell = False
        # In sequence, because polling may miss that it was not ready.
        async with asyncio.timeout(DEADLINE), aclosing(events):
            async for event in events:
                assert event.object.status.replicas == 1
                fell |= event.object.status.ready_replicas == 0
                if fell and event.object.status.ready_replicas == 1:
                    break
        assert pid_of(tmp_path, deployment) != first


async def test_local_agent_waits_for_its_secret(cluster: Client, fleet: Fleet, tmp_path: Path) -> None:
    deployment = await deploy(cluster, fleet, secret=False)
    namespace = deployment.metadata.namespace
    async with local(cluster, tmp_path):
        waiting = await until(
            cluster,
            DEPLOYMENTS,
            "agent",
            lambda current: bool(current.status.conditions),
            namespace=namespace,
        )
        assert waiting.status.conditions[0].message == NO_SECRET.format(name="identity")
        await give_secret(cluster, namespace, fleet.hub.read_bytes())
        await ready(cluster, deployment)


async def test_changed_deployment_restarts_and_zero_replicas_stop(
    cluster: Client, fleet: Fleet, tmp_path: Path
) -> None:
    deployment = await deploy(cluster, fleet)
    namespace = deployment.metadata.namespace
    async with local(cluster, tmp_path):
        await ready(cluster, deployment)
        first = pid_of(tmp_path, deployment)
        template = {"spec": {"containers": [container(env=[{"name": "MAXCPUCOUNT", "value": "8"}])]}}
        body = {"spec": {"template": template}}
        await cluster.patch(DEPLOYMENTS, "agent", body, kind=Patch.STRATEGIC, namespace=namespace)
        await until(
            cluster,
            DEPLOYMENTS,
            "agent",
            lambda current: (
                current.status.observed_generation == current.metadata.generation == 2
                and current.status.ready_replicas == 1
            ),
            namespace=namespace,
        )
        second = pid_of(tmp_path, deployment)
        assert second != first
        assert not alive(first)
        assert b"MAXCPUCOUNT=8" in Path(f"/proc/{second}/environ").read_bytes().split(b"\0")
        none = {"spec": {"replicas": 0}}
        await cluster.patch(DEPLOYMENTS, "agent", none, kind=Patch.MERGE, namespace=namespace)
        await ready(cluster, deployment, replicas=0)
        assert not alive(second)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"args": [f"--hub-kubeconfig={MOUNT}/kubeconfig", f"--providers={MOUNT}/evil.py"]},
            "is not the name of",
        ),
        ({"args": ["--hub-kubeconfig=/home/somebody/.kube/config"]}, "is not a file of a mounted Secret"),
        (
            {"args": [f"--hub-kubeconfig={MOUNT}/../../cluster/kubeconfig"]},
            "is not a file of a mounted Secret",
        ),
        ({"args": ["--kubeconfig=/home/somebody/.kube/config"]}, "is not allowed for local agents"),
        ({"env": [{"name": "FAIRWAY_AGENT_KUBECONFIG", "value": "/x"}]}, "sets an option of the agent"),
    ],
)
async def test_unsafe_deployment_is_not_started_and_reports_why(
    cluster: Client, fleet: Fleet, tmp_path: Path, more: dict[str, Any], why: str
) -> None:
    deployment = await deploy(cluster, fleet, **more)
    async with local(cluster, tmp_path):
        live = await until(
            cluster,
            DEPLOYMENTS,
            "agent",
            lambda current: bool(current.status.conditions),
            namespace=deployment.metadata.namespace,
        )
    assert why in live.status.conditions[0].message
    assert not place(tmp_path, deployment).exists()


async def test_number_of_local_agents_is_limited(
    cluster: Client, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway.klusterlet.local_agents.MOST_AGENTS", 1)
    first, second = await deploy(cluster, fleet), await deploy(cluster, fleet)
    ordered = sorted(
        (first, second),
        key=lambda deployment: (deployment.metadata.creationTimestamp, deployment.metadata.namespace),
    )
    async with local(cluster, tmp_path):
        await ready(cluster, ordered[0])
        refused = await until(
            cluster,
            DEPLOYMENTS,
            "agent",
            lambda deployment: bool(deployment.status.conditions),
            namespace=ordered[1].metadata.namespace,
        )
        assert refused.status.conditions[0].message == TOO_MANY
        await cluster.delete(DEPLOYMENTS, "agent", namespace=ordered[0].metadata.namespace)
        await ready(cluster, ordered[1])


async def test_deleted_deployment_stops_its_process(cluster: Client, fleet: Fleet, tmp_path: Path) -> None:
    deployment = await deploy(cluster, fleet)
    async with local(cluster, tmp_path):
        await ready(cluster, deployment)
        pid = pid_of(tmp_path, deployment)
        watched = os.pidfd_open(pid)
        try:
            over = asyncio.Event()
            asyncio.get_running_loop().add_reader(watched, over.set)
            await cluster.delete(DEPLOYMENTS, "agent", namespace=deployment.metadata.namespace)
            async with asyncio.timeout(DEADLINE):
                await over.wait()
        finally:
            asyncio.get_running_loop().remove_reader(watched)
            os.close(watched)
        assert not alive(pid)


async def test_deployment_of_a_controller_is_skipped(
    cluster: Client, fleet: Fleet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = await deploy(cluster, fleet, metadata={"annotations": {REVISION: "1"}})
    ours = await deploy(cluster, fleet)
    async with local(cluster, tmp_path):
        await ready(cluster, ours)
    assert not place(tmp_path, theirs).exists()
    namespace = theirs.metadata.namespace
    assert MANAGED % (namespace, "agent") in [record.getMessage() for record in caplog.records]
    deployment = await cluster.get(DEPLOYMENTS, "agent", namespace=namespace)
    assert deployment.status.conditions == ()
