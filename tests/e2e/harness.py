"""A hub and managed clusters on one machine: API servers and Fairway's programs, each in its own process."""

import asyncio
import base64
import json
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

import forked
from controllers.hubs import HubUnderTest, hub_of
from kubewire.client import Client, NotFound, Patch
from rigs.kubernetes import Tools, kubectl, kwok
from rigs.processes import POLL, Process

HUB = "hub"
CLUSTERS = ("cluster1", "cluster2")
SECONDS = 240.0
"""For what takes a moment. Machines are slow at times."""

SECRET = "resource-usage-collect-hub-kubeconfig"
AGENT_NAMESPACE = "open-cluster-management-agent-addon"
OPTIONS = """
resource-usage:
  limits: {cpuAvailable: 10, memAvailable: 20Gi}
"""
"""What scores 100."""

NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node1"},
    "status": {
        "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
        "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "KubeletReady",
                "message": "kubelet is posting ready status",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    },
}


def environment() -> dict[str, str]:
    """Return the environment without the variables of a developer's shell or a pod."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FAIRWAY_", "KUBERNETES_SERVICE_")) and name not in ("KUBECONFIG", "POD_NAME")
    } | {"COLUMNS": "160", "NO_COLOR": "1"}


class Forked(Process):
    """A command that starts at once (see ``forked``)."""

    def _start(self) -> "subprocess.Popen[bytes]":
        with self.log.open("a") as log:
            made = forked.Process(self.command[1:], stdout=log, stderr=log, env=self._env)
        return cast("subprocess.Popen[bytes]", made)


class LoopHarness:
    """``tools`` exist in the tier ``kube`` only: then kubectl creates objects, otherwise a client."""

    def __init__(self, folder: Path, servers: dict[str, HubUnderTest], tools: Tools | None) -> None:
        self.folder, self._servers, self.tools = folder, servers, tools
        self.processes: dict[str, Process] = {}

    def kubeconfig(self, server: str) -> Path:
        return self._servers[server].kubeconfig

    async def kubectl(self, *arguments: str, server: str = HUB, given: str = "") -> str:
        assert self.tools is not None
        ran = await kubectl(self.tools, *arguments, kubeconfig=self.kubeconfig(server), given=given)
        assert ran.status == 0, f"kubectl {' '.join(arguments)}\n{ran.output}{ran.errors}"
        return ran.output

    async def create(self, path: str, *documents: dict[str, Any], server: str = HUB) -> None:
        """``path`` is that of the list they belong in."""
        if self.tools is not None:
            body = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
            namespace = path.split("/namespaces/")[1].split("/")[0] if "/namespaces/" in path else "default"
            await self.kubectl("create", "-n", namespace, "-f", "-", server=server, given=json.dumps(body))
            return
        async with Client.from_kubeconfig(self.kubeconfig(server)) as client:
            for document in documents:
                await client.request("POST", path, body=document)

    async def delete(self, path: str, *, server: str = HUB) -> None:
        async with Client.from_kubeconfig(self.kubeconfig(server)) as client:
            await client.request("DELETE", path, body={"gracePeriodSeconds": 0})

    async def patch(self, path: str, document: dict[str, Any], *, server: str = HUB) -> None:
        """A merge patch."""
        async with Client.from_kubeconfig(self.kubeconfig(server)) as client:
            await client.request("PATCH", path, body=document, content_type=Patch.MERGE.value)

    async def get(self, path: str, *, server: str = HUB) -> dict[str, Any]:
        async with Client.from_kubeconfig(self.kubeconfig(server)) as client:
            document = await _get(client, path)
        assert document is not None, path
        return document

    async def fairway(self, *arguments: str, status: int = 0) -> str:
        """A command that ends, at the hub."""
        return await self.offline(*arguments, "--kubeconfig", str(self.kubeconfig(HUB)), status=status)

    async def offline(self, *arguments: str, status: int = 0) -> str:
        """Run a command that exits and needs no server."""
        ran = await asyncio.to_thread(forked.run, arguments, env=environment(), cwd=self.folder)
        assert ran.returncode == status, f"fairway {' '.join(arguments)}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def start(self, name: str, *arguments: str) -> Process:
        """Start a command that does not exit."""
        if (before := self.processes.get(name)) is not None:
            assert not before.alive, f"{name} runs already"
        command = ["fairway", *arguments]
        process = Forked(command, log=self.folder / f"{name}.log", env=environment())
        self.processes[name] = process
        return process

    async def until_printed(self, name: str, text: str) -> None:
        """Until the process has printed it."""
        async with asyncio.timeout(SECONDS):
            while text not in (self.folder / f"{name}.log").read_text(encoding="utf-8"):
                await asyncio.sleep(POLL)

    def join(self, cluster: str, *options: str) -> None:
        self.start(
            f"join-{cluster}",
            "join",
            f"--name={cluster}",
            f"--hub-bootstrap-kubeconfig={self.folder / 'bootstrap.kubeconfig'}",
            f"--kubeconfig={self.kubeconfig(cluster)}",
            f"--state={self.folder / f'state-{cluster}'}",
            *options,
        )

    async def agent(self, cluster: str) -> None:
        """As a kubelet would start it: with the files of the Secret in a folder."""
        secret = await self.until(
            f"the add-on of {cluster} has an identity",
            lambda document: "tls.crt" in document.get("data", {}),
            f"/api/v1/namespaces/{AGENT_NAMESPACE}/secrets/{SECRET}",
            server=cluster,
        )
        mounted = self.folder / f"hub-of-{cluster}"
        mounted.mkdir(exist_ok=True)
        for name, data in secret["data"].items():
            (mounted / name).write_bytes(base64.b64decode(data))
        (self.folder / "agent.yaml").write_text(OPTIONS, encoding="utf-8")
        self.start(
            f"agent-{cluster}",
            *("agent", "run", f"--hub-kubeconfig={mounted / 'kubeconfig'}", f"--cluster-name={cluster}"),
            *(f"--kubeconfig={self.kubeconfig(cluster)}", f"--addon-namespace={AGENT_NAMESPACE}"),
            *("--interval=2s", "--valid-for=12s", f"--config={self.folder / 'agent.yaml'}"),
        )

    async def until(
        self, what: str, holds: Callable[[dict[str, Any]], bool], path: str, *, server: str = HUB
    ) -> dict[str, Any]:
        """Check repeatedly."""
        document: dict[str, Any] | None = None
        try:
            async with asyncio.timeout(SECONDS), Client.from_kubeconfig(self.kubeconfig(server)) as client:
                while True:
                    document = await _get(client, path)
                    if document is not None and holds(document):
                        return document
                    await asyncio.sleep(POLL)
        except TimeoutError:
            logs = "\n".join(f"--- {name}\n{process.tail()}" for name, process in self.processes.items())
            raise AssertionError(f"{what}: not after {SECONDS:g} s\n{document}\n{logs}") from None

    async def stop(self) -> None:
        for process in reversed(self.processes.values()):
            await process.stop()


async def _get(client: Client, path: str) -> dict[str, Any] | None:
    try:
        decoded: dict[str, Any] = msgspec.json.decode((await client.request("GET", path)).body)
    except NotFound:
        return None
    return decoded


@contextmanager
def servers(kind: str, *, folder: Path, tools: Callable[[], Tools]) -> Iterator[dict[str, HubUnderTest]]:
    with ExitStack() as stack:
        hubs: dict[str, HubUnderTest] = {}
        for name in (HUB, *CLUSTERS):
            place = folder / name
            place.mkdir()
            hubs[name] = stack.enter_context(hub_of(kind, folder=place, tools=tools, bare=name != HUB))
        yield hubs


@asynccontextmanager
async def kubelets(harness: LoopHarness) -> AsyncIterator[None]:
    """Simulated kubelets, if the tools are available."""
    async with AsyncExitStack() as stack:
        if harness.tools is not None:
            for cluster in CLUSTERS:
                folder = harness.folder / f"kwok-{cluster}"
                await stack.enter_async_context(
                    kwok(harness.tools, kubeconfig=harness.kubeconfig(cluster), folder=folder)
                )
        yield
