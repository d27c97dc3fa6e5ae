"""Executes the commands of a page on a real hub, whose pods are processes."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from deploy import stand_in
from deploy.documents import Shell
from deploy.kubelet import Kubelet, kubelet
from fairway.simulation import agents, creation
from kube.definitions import known
from kubewire.client import Client, Connection
from kubewire.client.kubeconfig import load
from rigs.kubernetes import CONTROLLERS, HELM, KUBECTL, Tools, real_hub
from rigs.processes import POLL

MACHINERY = (
    *CONTROLLERS,
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "disruption-controller",
    "replicaset-controller",
)
FLEET = creation.SimulationOptions(clusters=6, seed=1, period=36_000)
"""Its scores do not change during a test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    shell: Shell
    node: Kubelet
    connection: Connection
    """The administrator's."""
    kubeconfig: Path
    tools: Tools

    async def kubectl(self, arguments: str) -> str:
        return await self.shell.run(f"kubectl {arguments}")

    async def served(self) -> None:
        """Wait until every CRD is served."""
        definitions = json.loads(await self.kubectl("get crds -o json"))["items"]
        await known(self.tools, definitions, kubeconfig=self.kubeconfig)

    async def shows(self, commands: str, *patterns: str, first: str = "") -> str:
        """Repeat the commands until the output matches the patterns, because events follow their cause."""
        printed = first or await self.shell.run(commands)
        while not all(re.search(pattern, printed, re.MULTILINE) for pattern in patterns):
            printed = await self.shell.run(commands)
        return printed

    @asynccontextmanager
    async def fleet(self, options: creation.SimulationOptions = FLEET) -> AsyncIterator[None]:
        """Clusters with running agents."""
        async with Client(self.connection) as client:
            await creation.create(client, options)
            async with agents.running_agents(client, options):
                yield


@asynccontextmanager
async def reader(
    tools: Tools,
    folder: Path,
    *,
    programs: Path = Path(sys.executable).parent,
    links: tuple[str, ...] = ("deploy", "examples"),
) -> AsyncIterator[Reader]:
    """Run a hub, its node, and a shell. Both run fairway from the folder ``programs``."""
    async with real_hub(tools, folder=folder / "hub", controllers=MACHINERY) as hub:
        connection = load(hub.kubeconfig).context()
        shell = Shell.create(
            folder / "shell",
            tools=(tools.path(KUBECTL), tools.path(HELM)),
            kubeconfig=hub.kubeconfig,
            fairway=programs,
            links=links,
        )
        async with kubelet(
            connection,
            folder=folder / "node",
            authority=hub.authority,
            elsewhere=stand_in.is_ocm,
            programs=programs,
        ) as node:
            yield Reader(
                shell=shell, node=node, connection=connection, kubeconfig=hub.kubeconfig, tools=tools
            )


async def until_metric(url: str, line: str) -> None:
    """Wait until the metrics have that line."""
    async with aiohttp.ClientSession(trust_env=False) as session:
        while True:
            async with session.get(url) as response:
                if line in (await response.text()).splitlines():
                    return
            await asyncio.sleep(POLL)
