"""Several processes of `fairway run` on one hub, with their reports and their Leases."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from chaos.control import ControlServer, Message, Program, control_server
from chaos.leadership import Held
from controllers.crash.consumer import Consumer
from controllers.hub_fleet import HubFleet
from controllers.hubs import HubUnderTest
from controllers.replicas.relay import Relay
from fairway.controllers.settings import PLACEMENT
from forked import PATIENCE, POLL, Child
from kubewire.client import Client, Connection
from kubewire.client.lease import LEASES
from rigs.restricted import restricted, write_kubeconfig

PROGRAM = "controllers.replicas.replica"
QUIET = ("--health-address", "off", "--metrics-address", "off", "--debug-address", "off")
LEASE = "fairway-placement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    version: int
    writer: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    name: str
    child: Child
    program: Program
    relay: Relay

    @property
    def writes(self) -> list[Write]:
        return [
            Write(version=line["wrote"], writer=self.name, path=line["path"])
            for line in self.program.messages
            if "wrote" in line
        ]

    def tries(self, *, after: int = 0) -> list[Message]:
        """Writes it wanted to do, ``after`` so many lines."""
        return [line for line in self.program.messages[after:] if "tries" in line]

    async def logs(self, text: str, *, after: int = 0) -> Message:
        return await self.program.wait_for(lambda line: text in line.get("log", ""), after=after)

    async def stops_within(self) -> None:
        """Stop the replica within its next write; returns when it has the order."""
        self.program.send(stop=True)
        await self.program.wait_for(lambda line: "received" in line)

    async def all_received(self) -> None:
        """Wait until all reports so far are received."""
        if self.child.status is not None:
            await self.program.closed()
            return
        before = len(self.program.messages)
        self.program.send(stop=False)
        await self.program.wait_for(lambda line: "received" in line, after=before)

    async def freeze(self) -> None:
        """Stopped when this returns, by the kernel's word."""
        self.child.signal(signal.SIGSTOP)
        await self.frozen()

    async def frozen(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                await asyncio.sleep(POLL)

    def thaw(self) -> None:
        self.child.signal(signal.SIGCONT)


class Replicas:
    def __init__(
        self,
        client: Client,
        *,
        control: ControlServer,
        connection: Connection,
        folder: Path,
        stack: AsyncExitStack,
    ) -> None:
        """``connection``: with the rights they have; its namespace is that of the Leases."""
        self.namespace = connection.namespace
        self.leases: dict[str, list[Held]] = {}
        self.all: dict[str, Replica] = {}
        self._client, self._control = client, control
        self._connection, self._folder, self._stack = connection, folder, stack
        self._news = asyncio.Event()

    async def follow(self, since: str) -> None:
        async for event in self._client.watch(
            LEASES, namespace=self.namespace, resource_version=since, bookmarks=False
        ):
            history = self.leases.setdefault(event.object.metadata.name, [])
            history.append(Held.of(event.object))
            self._news.set()

    async def start(self, name: str, *options: str) -> Replica:
        relay = await self._stack.enter_async_context(Relay(self._connection.server).running())
        kubeconfig = await write_kubeconfig(
            replace(self._connection, server=relay.url), self._folder / f"{name}.kubeconfig"
        )
        arguments = ("--kubeconfig", str(kubeconfig), "--lease-namespace", self.namespace)
        child = Child(
            PROGRAM,
            str(self._control.path),
            name,
            *arguments,
            "--controllers",
            PLACEMENT,
            *QUIET,
            *options,
            log=self._folder / f"{name}.log",
        )
        self._stack.callback(child.kill)
        made = Replica(name=name, child=child, program=await self._control.program(name), relay=relay)
        self.all[name] = made
        return made

    async def led(self, *, by: str = "", but: str = "", lease: str = LEASE) -> Replica:
        """Wait until ``by``, or any replica except ``but``, leads."""

        def holder() -> str:
            history = self.leases.get(lease, [])
            return history[-1].holder if history else ""

        def there() -> bool:
            return bool(holder()) and by in ("", holder()) and but != holder()

        await self.until(there)
        return self.all[holder()]

    def other(self, than: Replica) -> Replica:
        (other,) = (replica for replica in self.all.values() if replica is not than)
        return other

    async def until(self, holds: Callable[[], bool]) -> None:
        """Looks again whenever a Lease changes, which is all the time."""
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._news.clear()
                await self._news.wait()

    def given_back(self, lease: str = LEASE) -> bool:
        return any(not state.holder for state in self.leases[lease])

    def intruders(self, lease: str = LEASE) -> list[Write]:
        """Writes of replicas that did not hold the Lease at that version."""
        history = self.leases[lease]
        writes: list[Write] = []
        for replica in self.all.values():
            for write in replica.writes:
                holders = [held.holder for held in history if held.version < write.version]
                if not holders or holders[-1] != replica.name:
                    writes.append(write)
        return writes


@pytest.fixture
async def replicas(
    hub: HubUnderTest, client: Client, fleet: HubFleet, tmp_path: Path
) -> AsyncIterator[Replicas]:
    namespace = await fleet.create_namespace("leases")
    connection = await restricted(hub.administrator, controllers=frozenset({PLACEMENT}), namespace=namespace)
    since = (await client.list(LEASES, namespace=namespace)).resource_version
    async with control_server() as control, AsyncExitStack() as stack:
        made = Replicas(client, control=control, connection=connection, folder=tmp_path, stack=stack)
        watching = asyncio.create_task(made.follow(since))
        try:
            yield made
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


@pytest.fixture
async def consumer(client: Client) -> AsyncIterator[Consumer]:
    made = Consumer()
    async with made.following(client):
        yield made
