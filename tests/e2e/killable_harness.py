"""A harness whose parts are processes that can be killed, and the checks of its final state.

The hub and the clusters keep their objects in folders. Agents are processes of `fairway join --local-agents`, as where
no kubelet runs.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from controllers.hubs import HubUnderTest
from e2e.harness import AGENT_NAMESPACE, CLUSTERS, HUB, NODE, SECONDS, LoopHarness
from e2e.test_loop import (
    BINDING,
    BINDINGS,
    CLUSTER_OF,
    DECISION,
    PLACEMENT,
    PLACEMENTS,
    SCORE_OF,
    chosen,
    has_condition,
    is_valid,
)
from fairway.providers.dry_run import DryRunSink
from fairway.providers.runner import Runner, Settings
from fairway.providers.usage.options import UsageOptions
from fairway.providers.usage.provider import ResourceUsage
from kubewire.client import Client, KubeError
from rigs.processes import POLL, Port

VALID_SECONDS = 12
ROUNDS = 30
"""Of renewals, until nothing moves any more: on a machine that is too slow for the leases, something does at times."""
SETTINGS = (
    "--set=INTERVAL=2s",
    f"--set=VALID_FOR={VALID_SECONDS}s",
    "--set=MAXCPUCOUNT=10",
    "--set=MAXMEMCOUNT=20Gi",
)
ADD_ON = "resource-usage-collect"
ADD_ON_OF = (
    f"/apis/addon.open-cluster-management.io/v1alpha1/namespaces/{{cluster}}/managedclusteraddons/{ADD_ON}"
)
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
OPEN_CLUSTERS = "/apis/cluster.open-cluster-management.io"
QUIET = (
    f"{OPEN_CLUSTERS}/v1/managedclusters",
    f"{OPEN_CLUSTERS}/v1beta1/placements",
    f"{OPEN_CLUSTERS}/v1beta1/placementdecisions",
    "/apis/work.open-cluster-management.io/v1/manifestworks",
    "/apis/addon.open-cluster-management.io/v1alpha1/managedclusteraddons",
    "/apis/addon.open-cluster-management.io/v1alpha1/clustermanagementaddons",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    REQUESTS,
    "/api/v1/namespaces",
)
"""Kinds on the hub that are not written while nothing changes."""
QUIET_THERE = (
    "/apis/work.open-cluster-management.io/v1/appliedmanifestworks",
    "/apis/apps/v1/deployments",
    "/api/v1/secrets",
    "/api/v1/serviceaccounts",
)
"""On a managed cluster."""


class KillableHarness(LoopHarness):
    """Servers are processes, too, named ``server-hub`` and so on."""

    def __init__(self, folder: Path, ports: dict[str, Port]) -> None:
        servers = {
            name: HubUnderTest(kind="process", kubeconfig=folder / f"{name}.kubeconfig") for name in ports
        }
        super().__init__(folder, servers, None)
        self._ports = ports

    def data(self, server: str) -> Path:
        return self.folder / f"data-{server}"

    def serve(self, server: str) -> None:
        self.start(
            f"server-{server}",
            *("hub", f"--data={self.data(server)}", f"--port={self._ports[server]}"),
            *(f"--kubeconfig-out={self.kubeconfig(server)}", "--durability=normal"),
        )

    async def serving(self, server: str) -> None:
        """Until it answers."""
        async with asyncio.timeout(SECONDS):
            while True:
                assert self.processes[f"server-{server}"].alive, self.processes[f"server-{server}"].tail()
                if self.kubeconfig(server).exists():
                    try:
                        async with Client.from_kubeconfig(self.kubeconfig(server)) as client:
                            await client.request("GET", "/readyz")
                            return
                    except KubeError:
                        pass
                await asyncio.sleep(POLL)

    def control(self) -> None:
        self.start("controllers", "run", f"--kubeconfig={self.kubeconfig(HUB)}", "--no-leader-elect")

    def join(self, cluster: str, *options: str) -> None:
        super().join(cluster, "--lease-seconds=2", "--local-agents", *options)

    def state(self, cluster: str) -> Path:
        return self.folder / f"state-{cluster}"

    def agent_folder(self, cluster: str) -> Path:
        return self.state(cluster) / "agents" / f"{AGENT_NAMESPACE}.{ADD_ON}-agent"

    def agent_pid(self, cluster: str) -> int | None:
        """None while no agent runs: a killed one leaves its file, and the PID may be reused."""
        try:
            pid = int((self.agent_folder(cluster) / "pid").read_text(encoding="ascii"))
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return pid if f"--cluster-name={cluster}".encode() in command else None

    async def kill(self, name: str) -> None:
        """Send SIGKILL. The klusterlet restarts ``agent-CLUSTER``; other processes stay dead."""
        if not name.startswith("agent-"):
            await self.processes[name].stop(grace=0)
            return
        if (pid := self.agent_pid(name.removeprefix("agent-"))) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def revive(self, name: str) -> None:
        """In the way it was started before."""
        if not name.startswith("agent-"):
            await self.processes[name].restart(grace=0)

    def logs(self) -> str:
        logs = [f"--- {name}\n{process.tail()}" for name, process in self.processes.items()]
        for cluster in CLUSTERS:
            log = self.agent_folder(cluster) / "log"
            if log.exists():
                logs.append(f"--- agent-{cluster}\n" + "\n".join(log.read_text().splitlines()[-20:]))
        return "\n".join(logs)

    async def documents(self, paths: Iterable[str], *, server: str = HUB) -> dict[str, dict[str, Any]]:
        """All objects of these lists, by their path."""
        documents: dict[str, dict[str, Any]] = {}
        async with Client.from_kubeconfig(self.kubeconfig(server)) as client:
            for path in paths:
                listing = msgspec.json.decode((await client.request("GET", path)).body)
                for item in listing["items"]:
                    meta = item["metadata"]
                    documents[f"{server}:{path}/{meta.get('namespace', '')}/{meta['name']}"] = item
        return documents

    async def versions(self) -> dict[str, str]:
        """Of everything that should be quiet, on all servers."""
        documents = await self.documents(QUIET)
        for cluster in CLUSTERS:
            documents |= await self.documents(QUIET_THERE, server=cluster)
        return {name: document["metadata"]["resourceVersion"] for name, document in documents.items()}

    async def recounted(self, cluster: str) -> dict[str, int]:
        """Scores of a fresh provider."""
        async with Client.from_kubeconfig(self.kubeconfig(cluster)) as client:
            options = UsageOptions.read({}, environment={"MAXCPUCOUNT": "10", "MAXMEMCOUNT": "20Gi"})
            counted = DryRunSink()
            runner = Runner(
                [ResourceUsage(client, options)],
                client=None,
                settings=Settings(cluster=cluster),
                sink_of=lambda _: counted,
            )
            await runner.once()
        return dict(counted.written[cluster].scores)


@asynccontextmanager
async def killable_harness(folder: Path) -> AsyncIterator[KillableHarness]:
    """A hub with its controllers and two clusters, each with a node, that have not joined it."""
    with ExitStack() as stack:
        harness = KillableHarness(folder, {name: stack.enter_context(Port()) for name in (HUB, *CLUSTERS)})
        try:
            for server in (HUB, *CLUSTERS):
                harness.serve(server)
            for server in (HUB, *CLUSTERS):
                await harness.serving(server)
            harness.control()
            for cluster in CLUSTERS:
                await harness.create("/api/v1/nodes", NODE, server=cluster)
            yield harness
        finally:
            await harness.stop()


async def at_home(harness: KillableHarness) -> None:
    """From servers to a decision."""
    await harness.fairway("join", "token", "--out", "bootstrap.kubeconfig")
    for cluster in CLUSTERS:
        harness.join(cluster)
    await harness.fairway("addon", "install", "resource-usage", *SETTINGS)
    for cluster in CLUSTERS:
        await harness.until_printed(f"join-{cluster}", f"fairway accept {cluster}")
        await harness.fairway("accept", cluster)
    await harness.create(BINDINGS, BINDING)
    await harness.create(PLACEMENTS, PLACEMENT)


async def calm(harness: KillableHarness) -> None:
    """Everything is as true as it was before the first thing broke."""
    free: dict[str, int] = {}
    for cluster in CLUSTERS:
        wanted = await harness.recounted(cluster)
        free[cluster] = wanted["cpuAvailable"]
        await harness.until(
            f"the scores of {cluster} are {wanted}, and valid",
            partial(_scores, wanted),
            SCORE_OF.format(cluster=cluster),
        )
        await harness.until(
            f"the add-on of {cluster} is available",
            lambda add_on: has_condition(add_on, "Available"),
            ADD_ON_OF.format(cluster=cluster),
        )
        await harness.until(
            f"{cluster} is available",
            lambda managed: has_condition(managed, "ManagedClusterConditionAvailable"),
            CLUSTER_OF.format(cluster=cluster),
        )
    best = max(CLUSTERS, key=lambda cluster: free[cluster])
    await harness.until(f"{best} is chosen", lambda decision: chosen(decision) == [best], DECISION)


async def quiet(harness: KillableHarness) -> None:
    """Wait until only scores and leases are written while scores are renewed."""
    before = await harness.versions()
    for _ in range(ROUNDS):
        await renewed(harness)
        after = await harness.versions()
        if after == before:
            return
        moved = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        before = after
    raise AssertionError(f"still being written: {sorted(moved)}\n{harness.logs()}")


async def renewed(harness: KillableHarness) -> None:
    for cluster in CLUSTERS:
        path = SCORE_OF.format(cluster=cluster)
        last = (await harness.get(path))["status"]["validUntil"]
        await harness.until(f"the score of {cluster} is renewed", partial(_later, last), path)


def scores_of(score: dict[str, Any]) -> dict[str, int]:
    return {entry["name"]: entry["value"] for entry in score.get("status", {}).get("scores", [])}


def _scores(wanted: dict[str, int], score: dict[str, Any]) -> bool:
    return scores_of(score) == wanted and is_valid(score)


def _later(last: str, score: dict[str, Any]) -> bool:
    return bool(score["status"]["validUntil"] > last)
