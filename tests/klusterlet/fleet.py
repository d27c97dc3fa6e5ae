"""A hub with its controllers, a cluster beside it, and a way to make the one known to the other."""

import asyncio
import contextlib
import os
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import forked
from fairway.api.cluster import CONDITION_ACCEPTED, ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.cli.join.token import bootstrap_token, grant
from fairway.cli.main import run
from fairway.controllers.acceptance import AcceptanceController
from fairway.controllers.availability import AvailabilityController
from fairway.controllers.clustersets import ClusterSetController
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE
from fairway.controllers.runtime.reconciler import Reconciler
from fairway.klusterlet.registration import ClusterRegistration, register
from fairway.klusterlet.state import State
from fairway.observe.meters import Meters
from kubewire.api.meta import TRUE, find_condition
from kubewire.client import Client, Connection
from kubewire.client.credentials import StoredCredentials
from rigs.waiting import DEADLINE, fresh, until


@asynccontextmanager
async def controllers(
    kubeconfig: Path, *, sets: bool = False, auto_approve_users: Iterable[str] = ()
) -> AsyncIterator[None]:
    """Run only the controllers that accept clusters; with ``sets``, also that of cluster sets."""
    async with Client.from_kubeconfig(kubeconfig) as client:
        sources = InformerFactory(client)
        made: list[Reconciler[Any]] = [
            AcceptanceController(client, meters=Meters(), auto_approve_users=auto_approve_users),
            AvailabilityController(client, meters=Meters()),
            *([ClusterSetController(client, meters=Meters())] if sets else []),
        ]
        for harness in made:
            harness.watch(sources)
        async with sources:
            await sources.synced()
            tasks = [asyncio.create_task(harness.run(ALONE)) for harness in made]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Kubeconfigs of the administrators of a hub and of a cluster."""

    hub: Path
    cluster: Path

    def accept(self, name: str) -> None:
        assert run(["accept", name, "--kubeconfig", str(self.hub)]) == 0

    async def bootstrap(self) -> Connection:
        """With a token that may introduce clusters."""
        async with Client.from_kubeconfig(self.hub) as admin:
            await grant(admin)
            token = (await bootstrap_token(admin, seconds=3600))["token"]
            known = admin.connection
        return Connection(
            server=known.server, authority=known.authority, credentials=StoredCredentials(token=token)
        )

    def bootstrap_file(self, folder: Path) -> Path:
        file = folder / "bootstrap.kubeconfig"
        if not file.exists():
            assert run(["join", "token", "--out", str(file), "--kubeconfig", str(self.hub)]) == 0
        return file


@dataclass(kw_only=True)
class Joined:
    """A registered and accepted cluster without a running agent."""

    name: str
    state: State
    hub: Client
    """As its agent."""
    cluster: Client
    """As the administrator of the cluster."""
    admin: Client
    """As the administrator of the hub."""


def is_accepted(cluster: ManagedCluster) -> bool:
    condition = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
    return condition is not None and condition.status == TRUE


@asynccontextmanager
async def joined(fleet: Fleet, folder: Path, *, seconds: int | None = None) -> AsyncIterator[Joined]:
    name = fresh()
    async with AsyncExitStack() as stack:
        state = stack.enter_context(State.locked(folder / name, cluster=name))
        admin = await stack.enter_async_context(Client.from_kubeconfig(fleet.hub))
        asked = asyncio.Event()
        async with Client(await fleet.bootstrap()) as bootstrap:
            registering = asyncio.create_task(
                register(
                    bootstrap,
                    ClusterRegistration(name=name, url="https://cluster"),
                    state,
                    notify=lambda line: asked.set() if "fairway accept" in line else None,
                    seconds=seconds,
                )
            )
            async with asyncio.timeout(DEADLINE):
                await asked.wait()
                await asyncio.to_thread(fleet.accept, name)
                await registering
        await until(admin, MANAGED_CLUSTERS, name, is_accepted)
        hub = await stack.enter_async_context(Client(state.connection()))
        cluster = await stack.enter_async_context(Client.from_kubeconfig(fleet.cluster))
        yield Joined(name=name, state=state, hub=hub, cluster=cluster, admin=admin)


@asynccontextmanager
async def at_work(*parts: Any) -> AsyncIterator[None]:
    """Coroutines that do not end by themselves."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class JoinProcess:
    """A process of `fairway join`."""

    process: forked.Process
    errors: Path
    lines: list[str] = field(default_factory=list)

    def until(self, text: str) -> str:
        """The first line it prints with this text in it."""
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            self.lines.append(line.rstrip("\n"))
            if text in line:
                return line.rstrip("\n")
        raise AssertionError(f"ended with {self.process.wait()}: {self.lines}\n{self.errors.read_text()}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FAIRWAY_") and name not in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")
    }
    return {**kept, "PYTHONWARNINGS": "error"}


@contextmanager
def join(folder: Path, *arguments: object) -> Iterator[JoinProcess]:
    errors = folder / f"join-{uuid.uuid4().hex[:6]}.stderr"
    with (
        errors.open("w") as stderr,
        forked.Process(
            ["join", "--log-level", "info", *arguments], stdout=forked.PIPE, stderr=stderr, env=environment()
        ) as process,
    ):
        try:
            yield JoinProcess(process=process, errors=errors)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


def ended(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """A `fairway join` that exits."""
    return forked.run(["join", *arguments], env=environment())
