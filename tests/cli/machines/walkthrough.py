"""Run the commands of a page against a hub with synthetic nodes, and compare what they print with the page."""

import asyncio
import contextlib
import io
import re
import shlex
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairway.api import crds
from fairway.api.crd import machine_crds
from fairway.cli.main import run
from fairway.controllers.machines.permit_server import PermitServer, serving_permits
from fairway.controllers.manager import running
from fairway.controllers.serving.address import Address
from fairway.controllers.settings import MACHINES, Settings
from fairway.simulation.machines.agents import ScalingAgents
from fairway.simulation.machines.creation import MachineOptions, create_machines
from fairway.simulation.machines.kubelet import Kubelets
from fairway.simulation.machines.neonvm import NeonVM
from fairway.simulation.machines.permit_client import agent_user, permit_client
from fairway.testing.hub import embedded_hub
from kubewire.client import Client, Informer, Resource
from kubewire.client.kubeconfig import load

ROOT = Path(__file__).parents[3]
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def console_blocks(page: str) -> list[tuple[str, str]]:
    """Return the commands of a page with their output, in order."""
    blocks = []
    for block in CONSOLE.findall((ROOT / page).read_text(encoding="utf-8")):
        command, _, output = block.partition("\n")
        blocks.append((command.removeprefix("$ "), output))
    return blocks


def normalized(text: str) -> list[str]:
    """Replace what differs from run to run: names, times and durations; and widths that follow from them."""
    for pattern, word in (
        (r"vm-([abx])-[0-9a-f]{8}-", r"vm-\1-ID-"),
        (r"vm-([abx])-[0-9a-f]{5}\b", r"vm-\1-POD"),
        (r"\b\d\d:\d\d:\d\d\b", "TIME"),
        (r"\b\d+\.\d s", "SECONDS"),
        (r"\b[\d.]+ \w+ of 12 GiB", "PART of 12 GiB"),
        (r" +", " "),
    ):
        text = re.sub(pattern, word, text)
    return [line.rstrip() for line in text.rstrip().splitlines()]


@dataclass
class Walkthrough:
    client: Client
    neonvm: NeonVM

    async def type(self, command: str) -> str:
        """Run a command, and return what it prints."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.chdir(ROOT):
            await asyncio.to_thread(run, shlex.split(command)[1:])
        return out.getvalue()

    async def until(self, resource: Resource[Any], condition: Callable[[dict[str, Any]], object]) -> None:
        """Wait until a condition holds for the objects of a kind, by name."""
        async with asyncio.timeout(30), Informer(self.client, resource) as informer:
            async for _ in informer.changes():
                with contextlib.suppress(KeyError):
                    if condition({name: thing for (_, name), thing in informer.store.items()}):
                        return


@asynccontextmanager
async def walkthrough(folder: Path, *, nodes: int) -> AsyncIterator[Walkthrough]:
    async with embedded_hub(definitions=(*crds(), *machine_crds())) as hub:
        kubeconfig = folder / "kubeconfig"
        hub.certificates.write_kubeconfig(kubeconfig, server=hub.url)
        connection = load(kubeconfig).context()
        settings = Settings(controllers=frozenset({MACHINES}), election=None)
        async with Client(connection, field_manager="test") as client:
            await create_machines(client, MachineOptions(nodes=nodes, machines=0))
            neonvm = NeonVM(client, bandwidth=1 << 50)
            async with (
                running(connection, settings) as manager,
                Kubelets(client).running(),
                neonvm.running(),
            ):
                machines = manager.machines
                assert machines is not None
                await manager.synced()
                server = PermitServer(
                    address=Address(host="127.0.0.1"),
                    client=client,
                    cluster_wide=frozenset({agent_user("default")}),
                )
                async with (
                    serving_permits(server, machines.ask) as address,
                    permit_client(client, address, namespace="default") as permits,
                    ScalingAgents(client, permits.ask).running(),
                ):
                    yield Walkthrough(client, neonvm)
