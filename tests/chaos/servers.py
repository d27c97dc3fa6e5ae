"""Hubs that can be killed and restarted: the embedded one as a process, and the real one."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from forked import PATIENCE, POLL, Child
from kubehub.storage import lock
from kubewire.client.errors import ApiError, KubeError
from kubewire.client.rest import Client
from kubewire.client.transport import Retry
from rigs.kubernetes import API_SERVER, RealHub
from rigs.processes import Port

ONCE = Retry(asked=0, failed=0, unsent=0)
"""Every request is sent once: what becomes of it is what the test is about."""

ENDED = "the hub ended with status {status}:\n{tail}"


class Server(Protocol):
    @property
    def kubeconfig(self) -> Path:
        """Path of the administrator's kubeconfig."""

    async def crash(self) -> None:
        """Kill the process, and wait for its end."""

    async def start(self) -> None:
        """Restart it at the same address with the same data, and wait until it is ready."""


def client_of(server: Server) -> Client:
    return Client.from_kubeconfig(server.kubeconfig, retry=ONCE, timeout=PATIENCE)


class EmbeddedServer:
    """``fairway hub`` as a process, on a fixed port."""

    def __init__(self, *, folder: Path, port: Port, limits: dict[int, int] | None = None) -> None:
        """``folder`` gets the log and the kubeconfig, and the data in ``data``, which may be a mount."""
        self.folder, self.data = folder, folder / "data"
        self.kubeconfig = folder / "kubeconfig"
        self.log = folder / "hub.log"
        self._port, self._limits = port, limits
        self.child: Child | None = None

    def launch(self, *options: str) -> Child:
        """Start the process without waiting."""
        arguments = ["hub", "--data", str(self.data), "--port", str(self._port), "--no-crds"]
        arguments += ["--kubeconfig-out", str(self.kubeconfig), *options]
        self.child = Child("fairway.cli.main", *arguments, log=self.log, limits=self._limits)
        return self.child

    def lift_limits(self) -> None:
        """Remove the limits of the running process and of later ones."""
        assert self.child is not None
        for limit in self._limits or {}:
            resource.prlimit(self.child.pid, limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self._limits = None

    async def start(self) -> None:
        self.launch()
        await self.ready()

    async def ready(self, path: str = "/readyz") -> None:
        while not self.kubeconfig.exists():  # only ever the first time
            await self._moment()
        async with client_of(self) as client:
            while True:
                try:
                    await client.request("GET", path)
                    return
                except KubeError as error:
                    if isinstance(error, ApiError) and error.code != 503:
                        raise
                await self._moment()

    async def owned(self) -> None:
        """Wait until the process has locked its data, which it reads from then on."""
        assert self.child is not None
        held = self.data / lock.FILE
        while not (held.exists() and held.read_text(encoding="ascii").strip() == str(self.child.pid)):
            await self._moment()

    async def _moment(self) -> None:
        assert self.child is not None
        if self.child.status is not None:
            raise AssertionError(ENDED.format(status=self.child.status, tail=self.child.tail()))
        await asyncio.sleep(POLL)

    async def crash(self) -> None:
        assert self.child is not None
        self.child.kill()

    async def stop(self) -> None:
        """Stop the process with SIGTERM."""
        assert self.child is not None
        self.child.signal(15)
        await self.child.end()


@asynccontextmanager
async def embedded_server(
    *, folder: Path, limits: dict[int, int] | None = None
) -> AsyncIterator[EmbeddedServer]:
    folder.mkdir(parents=True, exist_ok=True)
    with Port() as port:
        server = EmbeddedServer(folder=folder, port=port, limits=limits)
        async with asyncio.timeout(PATIENCE):
            await server.start()
        try:
            yield server
        finally:
            await server.crash()


class RealServer:
    """kube-apiserver; etcd keeps running."""

    def __init__(self, hub: RealHub) -> None:
        self.hub = hub

    @property
    def kubeconfig(self) -> Path:
        return self.hub.kubeconfig

    async def crash(self) -> None:
        await self.hub.processes[API_SERVER].stop(grace=0)

    async def start(self) -> None:
        await self.hub.restart(grace=0)
