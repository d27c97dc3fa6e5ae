"""Three replicas with one lease are stopped and killed; one leads at a time, and only the leader writes."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from chaos.candidate import CONFIG_MAPS, HOLDER, LEDGER, NUMBER, TOKEN
from chaos.control import ControlServer, Message, Program, control_server
from chaos.leadership import Entry, Guarded, Held, problems
from chaos.servers import RealServer, Server, client_of, embedded_server
from forked import PATIENCE, POLL, Child
from kubewire.client.lease import LEASES
from kubewire.client.rest import Client

STOPPED: Final = "T"


class Election:
    """The replicas, and the history of their leases and writes from two watches."""

    def __init__(self, client: Client, *, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.lease: list[Held] = []
        self.ledger: list[Entry] = []
        self.replicas: dict[str, tuple[Child, Program]] = {}
        self._news = asyncio.Event()

    async def follow_lease(self, since: str) -> None:
        async for event in self.client.watch(LEASES, namespace=self.namespace, resource_version=since):
            if event.type != "BOOKMARK":
                self.lease.append(Held.of(event.object))
                self._news.set()

    async def follow_ledger(self, since: str) -> None:
        async for event in self.client.watch(CONFIG_MAPS, namespace=self.namespace, resource_version=since):
            meta = event.object.metadata
            if event.type == "MODIFIED" and meta.name == LEDGER:
                entry = Entry(
                    version=int(meta.resourceVersion),
                    holder=meta.annotations[HOLDER],
                    token=int(meta.annotations[TOKEN]),
                    number=int(meta.annotations[NUMBER]),
                )
                self.ledger.append(entry)
                self._news.set()

    async def written(self, *, above: int) -> Entry:
        """Wait for the first entry of a later term."""
        await self._until(lambda: self.last_token > above)
        return next(entry for entry in self.ledger if entry.token > above)

    async def given_back(self, *, since: int) -> Held:
        """Wait until the lease is released, in this term or a later one."""

        def released() -> list[Held]:
            return [term for term in self.lease if term.token >= since and not term.holder]

        await self._until(lambda: bool(released()))
        return released()[0]

    async def lease_observed(self, *, until: int) -> None:
        """Wait until the lease's watch is at this version, as the ledger's watch may be ahead."""
        await self._until(lambda: self.lease[-1].version > until)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._news.clear()
                await self._news.wait()

    @property
    def last_token(self) -> int:
        return self.ledger[-1].token if self.ledger else -1

    def guards(self) -> list[Guarded]:
        return [
            Guarded(holder=name, token=line["token"], begun=line["begun"], ended=line["ended"])
            for name, (_, program) in self.replicas.items()
            for line in program.messages
            if "wrote" in line
        ]

    @property
    def last(self) -> Entry:
        return self.ledger[-1]


async def frozen(child: Child) -> None:
    async with asyncio.timeout(PATIENCE):
        while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != STOPPED:
            await asyncio.sleep(POLL)


@asynccontextmanager
async def election(server: Server, control: ControlServer, folder: Path) -> AsyncIterator[Election]:
    async with client_of(server) as client:
        namespace = f"chaos-{uuid4().hex[:8]}"
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
        began = await client.create(CONFIG_MAPS, {"metadata": {"name": LEDGER}}, namespace=namespace)
        held = Election(client, namespace=namespace)
        since = began.metadata.resourceVersion
        watches = [
            asyncio.create_task(held.follow_lease(since)),
            asyncio.create_task(held.follow_ledger(since)),
        ]
        for name in ("ann", "ben", "cleo"):
            child = Child(
                "chaos.candidate",
                str(server.kubeconfig),
                str(control.path),
                namespace,
                name,
                log=folder / f"{name}.log",
            )
            held.replicas[name] = (child, await control.program(name))
        try:
            yield held
        finally:
            for child, _ in held.replicas.values():
                child.kill()
            for watch in watches:
                watch.cancel()
                with suppress(asyncio.CancelledError):
                    await watch


async def stopped_inside(held: Election, how: str) -> Message:
    """Stop the leader between its check and its write until another replica has written; return its report."""
    child, program = held.replicas[held.last.holder]
    before = len(program.messages)
    program.send(stop=how)
    inside = await program.wait_for(lambda line: "inside" in line, after=before)
    await frozen(child)
    successor = await held.written(above=inside["inside"])
    assert successor.holder != program.name
    child.signal(signal.SIGCONT)
    if how == "late":
        late = await program.wait_for(lambda line: "late" in line, after=before)
        assert late == {"late": "refused", "token": inside["inside"]}
    await program.wait_for(lambda line: "stopped" in line, after=before)
    lost = await program.wait_for(lambda line: "lost" in line, after=before)
    assert lost["token"] == inside["inside"]
    assert not any(
        "wrote" in line
        for line in program.messages[program.messages.index(inside) : program.messages.index(lost)]
    )
    return lost


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    if request.param == "real":
        yield RealServer(request.getfixturevalue("real_hub"))
        return
    async with embedded_server(folder=tmp_path) as embedded:
        yield embedded


async def test_at_most_one_replica_leads_through_stops_and_kills(server: Server, tmp_path: Path) -> None:
    async with control_server() as control, election(server, control, tmp_path) as held:
        await held.written(above=-1)

        assert "is not leading" in (await stopped_inside(held, "careful"))["lost"]
        await stopped_inside(held, "late")

        # Stopped anywhere, for good.
        last = held.last
        child, _ = held.replicas[last.holder]
        child.signal(signal.SIGSTOP)
        await held.written(above=last.token)
        child.kill()

        # Asked to go, a leader gives the lease back, and the next one need not wait for its end.
        last = held.last
        child, program = held.replicas[last.holder]
        before = len(program.messages)
        child.signal(signal.SIGTERM)
        assert await child.end() == 0, child.tail()
        await program.wait_for(
            lambda line: "stopped" in line, after=before
        )  # which may be read after its end
        await held.written(above=(await held.given_back(since=last.token)).token)

        ledger = tuple(held.ledger)
        await held.lease_observed(until=ledger[-1].version)
        reported = problems(held.lease, ledger, held.guards())
        assert not reported, "\n".join(map(str, reported[:10]))
        assert len({entry.token for entry in held.ledger}) >= 5
