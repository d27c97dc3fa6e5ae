"""Three replicas, one lease: processes are stopped, killed and asked to go, and yet one leads, and only it writes."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from chaos.candidate import CONFIG_MAPS, HOLDER, LEDGER, NUMBER, TOKEN
from chaos.leadership import Entry, Guarded, Held, problems
from chaos.lines import Line, Party, Switchboard, switchboard
from chaos.servers import RealServer, Server, client_of, embedded_server
from fairway.kube.lease import LEASES
from fairway.kube.rest import Client
from forked import PATIENCE, POLL, Child

STOPPED: Final = "T"


class Election:
    """The replicas, and the history of what they did as two watches tell it."""

    def __init__(self, client: Client, *, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.lease: list[Held] = []
        self.ledger: list[Entry] = []
        self.replicas: dict[str, tuple[Child, Party]] = {}
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
        """The first entry of a later term than that."""
        await self._until(lambda: self.last_token > above)
        return next(entry for entry in self.ledger if entry.token > above)

    async def given_back(self, *, since: int) -> Held:
        """In that term or a later one."""

        def found() -> list[Held]:
            return [each for each in self.lease if each.token >= since and not each.holder]

        await self._until(lambda: bool(found()))
        return found()[0]

    async def lease_told(self, *, until: int) -> None:
        """That version: the ledger's watch may be ahead, and tell of a term before it began."""
        await self._until(lambda: self.lease[-1].version > until)

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Looks again whenever a watch tells something."""
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
            for name, (_, party) in self.replicas.items()
            for line in party.said
            if "wrote" in line
        ]

    @property
    def last(self) -> Entry:
        return self.ledger[-1]


async def frozen(child: Child) -> None:
    """Until the kernel says so."""
    async with asyncio.timeout(PATIENCE):
        while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != STOPPED:
            await asyncio.sleep(POLL)


@asynccontextmanager
async def election(server: Server, board: Switchboard, folder: Path) -> AsyncIterator[Election]:
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
                str(board.path),
                namespace,
                name,
                log=folder / f"{name}.log",
            )
            held.replicas[name] = (child, await board.party(name))
        try:
            yield held
        finally:
            for child, _ in held.replicas.values():
                child.kill()
            for watch in watches:
                watch.cancel()
                with suppress(asyncio.CancelledError):
                    await watch


async def stopped_inside(held: Election, how: str) -> Line:
    """The leader is stopped between its proof and its write, and wakes up when another leads and has written.

    What it says then about the write that it was about to make."""
    child, party = held.replicas[held.last.holder]
    said = len(party.said)
    party.tell(stop=how)
    inside = await party.says(lambda line: "inside" in line, after=said)
    await frozen(child)
    successor = await held.written(above=inside["inside"])
    assert successor.holder != party.name
    child.signal(signal.SIGCONT)
    if how == "late":
        late = await party.says(lambda line: "late" in line, after=said)
        assert late == {"late": "refused", "token": inside["inside"]}
    await party.says(lambda line: "stopped" in line, after=said)
    lost = await party.says(lambda line: "lost" in line, after=said)
    assert lost["token"] == inside["inside"]
    assert not any("wrote" in line for line in party.said[party.said.index(inside) : party.said.index(lost)])
    return lost


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    if request.param == "real":
        yield RealServer(request.getfixturevalue("real_hub"))
        return
    async with embedded_server(folder=tmp_path) as embedded:
        yield embedded


async def test_one_leads_at_any_time(server: Server, tmp_path: Path) -> None:
    async with switchboard() as board, election(server, board, tmp_path) as held:
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
        child, party = held.replicas[last.holder]
        said = len(party.said)
        child.signal(signal.SIGTERM)
        assert await child.end() == 0, child.tail()
        await party.says(lambda line: "stopped" in line, after=said)  # which may be read after its end
        await held.written(above=(await held.given_back(since=last.token)).token)

        ledger = tuple(held.ledger)
        await held.lease_told(until=ledger[-1].version)
        found = problems(held.lease, ledger, held.guards())
        assert not found, "\n".join(map(str, found[:10]))
        assert len({entry.token for entry in held.ledger}) >= 5
