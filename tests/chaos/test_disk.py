"""Full disks and torn files: the hub reports them and keeps acknowledged writes."""

import asyncio
import random
import resource
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.servers import EmbeddedServer, client_of, embedded_server
from chaos.token_objects import CONFIG_MAPS, TokenObject, body
from disks import small_disk
from forked import PATIENCE, POLL, Child
from kubehub.storage import archive
from kubewire.client.errors import ServerError
from kubewire.client.rest import Client
from rigs.processes import Port

NAMESPACE = "default"
WRITERS = 4
SIZE = 3_000


@dataclass(frozen=True, kw_only=True)
class Disk:
    """A limited disk, and how to free space on it."""

    folder: Path
    limits: dict[int, int]
    relieve: Callable[[EmbeddedServer], None]


def mounted(folder: Path) -> Iterator[Disk]:
    """A small file system, with a file that can be deleted."""
    mount = folder / "data"
    with small_disk(mount, size="2m"):
        ballast = mount / "ballast"
        ballast.write_bytes(bytes(700_000))
        yield Disk(folder=folder, limits={}, relieve=lambda _: ballast.unlink())


def limited(folder: Path) -> Iterator[Disk]:
    """Limit the size of files, which needs no privileges."""
    limits = {resource.RLIMIT_FSIZE: 600_000}
    yield Disk(folder=folder, limits=limits, relieve=EmbeddedServer.lift_limits)


@pytest.fixture(params=[mounted, limited], ids=lambda kind: kind.__name__)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    yield from request.param(tmp_path)


async def fill(client: Client, kept: dict[str, int], name: str) -> list[ServerError]:
    """Write until the hub rejects a write; ``kept`` gets the acknowledged objects by name."""

    async def write(writer: int) -> ServerError:
        number = 0
        while True:
            number += 1
            unique = f"{name}-{writer}-{number}"
            try:
                made = await client.create(
                    CONFIG_MAPS, body(CONFIG_MAPS, unique, unique, size=SIZE), namespace=NAMESPACE
                )
            except ServerError as error:
                return error
            kept[unique] = int(made.metadata.resourceVersion)

    return await asyncio.gather(*(write(writer) for writer in range(WRITERS)))


async def listed(client: Client) -> dict[str, int]:
    listing = await client.list(CONFIG_MAPS, namespace=NAMESPACE)
    return {
        item.metadata.name: int(item.metadata.resourceVersion)
        for item in listing.items
        if item.metadata.labels
    }


async def health(client: Client, path: str) -> tuple[int, str]:
    try:
        return 200, (await client.request("GET", path)).body.decode()
    except ServerError as error:
        return error.code, error.message


async def accepted(client: Client, name: str) -> TokenObject:
    """Wait until the hub accepts writes again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await client.create(CONFIG_MAPS, body(CONFIG_MAPS, name, name), namespace=NAMESPACE)
            except ServerError:
                await asyncio.sleep(POLL)


async def test_full_disk_is_reported_and_loses_no_acknowledged_write(disk: Disk) -> None:
    async with embedded_server(folder=disk.folder, limits=disk.limits) as server:
        kept: dict[str, int] = {}
        async with client_of(server) as client:
            began = await client.newest(CONFIG_MAPS)
            async with follow(client, since=began) as seen:
                refusals = await fill(client, kept, "first")
                await is_read_only(client, refusals, file=server.data / "hub.db")
                assert await listed(client) == kept
                await seen.until(kept)
            async with follow(client, since=began) as again:
                await again.until(kept)
        # Killed while there is no room, it comes back, and goes on serving what it has.
        await server.crash()
        server.launch()
        await server.ready("/livez")
        async with client_of(server) as client, follow(client, since=began) as seen:
            assert await listed(client) == kept
            refusals = await fill(client, kept, "second")
            await is_read_only(client, refusals, file=server.data / "hub.db")
            disk.relieve(server)
            more = await accepted(client, "more")
            kept["more"] = int(more.metadata.resourceVersion)
            assert await health(client, "/readyz") == (200, "ok")
            await seen.until(kept)
        assert "the store is read-only: " in server.log.read_text()
        await server.crash()
        await server.start()
        async with client_of(server) as client:
            assert await listed(client) == kept
        await server.stop()
    assert archive.check(server.data).problems == ()


async def is_read_only(client: Client, refusals: list[ServerError], *, file: Path) -> None:
    """Check that the hub is alive and reports that it is read-only."""
    for refusal in refusals:
        assert (refusal.code, refusal.reason) == (503, "ServiceUnavailable")
        assert refusal.message.startswith(f"the hub is read-only: {file}: ")
        assert "disk" in refusal.message
    why = refusals[0].message.partition(": ")[2]
    assert await health(client, "/readyz") == (503, f"[-]store failed: {why}")
    assert await health(client, "/livez") == (200, "ok")


class Seen:
    """Objects of a watch, by name."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self._news = asyncio.Event()

    def see(self, obj: TokenObject) -> None:
        version = int(obj.metadata.resourceVersion)
        assert version > max(self.versions.values(), default=0)
        self.versions[obj.metadata.name] = version
        self._news.set()

    async def until(self, wanted: dict[str, int]) -> None:
        """Wait until the hub has exactly these objects."""
        async with asyncio.timeout(PATIENCE):
            while not wanted.items() <= self.versions.items():
                self._news.clear()
                await self._news.wait()
        assert self.versions == wanted


@asynccontextmanager
async def follow(client: Client, *, since: str) -> AsyncIterator[Seen]:
    seen = Seen()

    async def watch() -> None:
        async for event in client.watch(CONFIG_MAPS, namespace=NAMESPACE, resource_version=since):
            if event.type == "ADDED" and event.object.metadata.labels:
                seen.see(event.object)

    task = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_hub_on_a_full_disk_does_not_start_and_reports_why(tmp_path: Path) -> None:
    with Port() as port:
        server = EmbeddedServer(folder=tmp_path, port=port, limits={resource.RLIMIT_FSIZE: 1_000})
        child = server.launch()
        assert await child.end() == 2
        words = child.tail()
        assert words.startswith(f"fairway: {server.data / 'hub.db'} can't be opened: ")
        assert "Traceback" not in words


# Torn files


@dataclass(frozen=True, kw_only=True)
class KilledHub:
    """The data of a hub that was killed after one restart, so that both of its files are in use."""

    data: Path
    acknowledged: list[tuple[int, str, int]]
    """In order: how long the write-ahead log was right after the answer, the name, and the version."""

    @property
    def main(self) -> Path:
        return self.data / "hub.db"

    @property
    def tail(self) -> Path:
        return self.data / "hub.db-wal"

    def expected(self, size: int) -> dict[str, int]:
        """Return the objects that must exist if only this part of the write-ahead log is left."""
        return {name: version for length, name, version in self.acknowledged if length <= size}


PAGE = 8192


@pytest.fixture
async def wreck(tmp_path: Path) -> KilledHub:
    made: list[tuple[int, str, int]] = []
    async with embedded_server(folder=tmp_path / "wreck") as server:
        tail = server.data / "hub.db-wal"

        async def create(client: Client, number: int) -> None:
            name = f"n{number:03}"
            document = body(CONFIG_MAPS, name, name, size=SIZE * (number % 3))
            written = await client.create(CONFIG_MAPS, document, namespace=NAMESPACE)
            made.append((tail.stat().st_size, name, int(written.metadata.resourceVersion)))

        async with client_of(server) as client:
            for number in range(60):
                await create(client, number)
        await server.stop()
        made = [(0, name, version) for _, name, version in made]
        await server.start()
        async with client_of(server) as client:
            for number in range(60, 100):
                await create(client, number)
        await server.crash()
    return KilledHub(data=server.data, acknowledged=made)


def pages_in(tail: bytes) -> set[int]:
    """Return the page numbers in a write-ahead log: after 32 bytes, frames of 24 bytes and a page."""
    return {int.from_bytes(tail[at : at + 4], "big") for at in range(32, len(tail) - PAGE, PAGE + 24)}


def garbled(data: bytes, pages: Iterable[int]) -> bytes:
    """Overwrite the second half of each page, as a power failure during its write could."""
    made = bytearray(data)
    for page in pages:
        end = page * PAGE
        made[end - PAGE // 2 : end] = b"\xa5" * (PAGE // 2)
    return bytes(made)


async def test_torn_log_tail_loses_only_unacknowledged_writes(
    wreck: KilledHub, tmp_path: Path, chance: random.Random
) -> None:
    whole = wreck.tail.read_bytes()
    first, last = wreck.acknowledged[60][0], wreck.acknowledged[-1][0]
    assert first < last <= len(whole)
    cuts = [chance.randrange(first, last) for _ in range(2)]
    tails = [
        *((whole[:cut], cut) for cut in cuts),
        (whole[: cuts[0]] + b"\xa5" * 2 * PAGE, cuts[0]),
        (whole[: cuts[1]] + bytes(512) + whole[cuts[1] + 512 :], cuts[1]),
        (b"", 0),
    ]
    names = [name for _, name, _ in wreck.acknowledged]
    for number, (tail, intact) in enumerate(tails):
        folder = tmp_path / f"torn-{number}"
        shutil.copytree(wreck.data, folder / "data")
        (folder / "data" / wreck.tail.name).write_bytes(tail)
        (folder / "data" / "hub.db-shm").unlink()
        async with embedded_server(folder=folder) as server, client_of(server) as client:
            there = await listed(client)
            assert wreck.expected(intact).items() <= there.items()
            # Other objects were written, too, and none is stored without the writes before it.
            assert sorted(there) == names[: len(there)]
            assert set(there.items()) <= {(name, version) for _, name, version in wreck.acknowledged}
            new = await accepted(client, "new")
            assert int(new.metadata.resourceVersion) > max(there.values())
            await server.stop()
        assert archive.check(server.data).problems == ()


async def test_pages_torn_while_the_log_still_has_them_cost_nothing(wreck: KilledHub, tmp_path: Path) -> None:
    """As after a power failure during a checkpoint."""
    main = wreck.main.read_bytes()
    covered = {page for page in pages_in(wreck.tail.read_bytes()) if page * PAGE <= len(main)}
    assert len(covered) > 1
    folder = tmp_path / "checkpoint"
    shutil.copytree(wreck.data, folder / "data")
    (folder / "data" / wreck.main.name).write_bytes(garbled(main, covered))
    async with embedded_server(folder=folder) as server, client_of(server) as client:
        assert await listed(client) == wreck.expected(wreck.tail.stat().st_size)
        await server.stop()
    assert archive.check(server.data).problems == ()


async def test_damaged_data_is_refused_with_a_remedy(wreck: KilledHub, tmp_path: Path) -> None:
    backup = tmp_path / "hub.backup"
    archive.backup(wreck.data, backup)
    main = wreck.main.read_bytes()
    tail = wreck.tail.read_bytes()
    covered = pages_in(tail)
    bare = [page for page in range(2, len(main) // PAGE + 1) if page not in covered]
    for number, page in enumerate((bare[0], bare[len(bare) // 2], bare[-1])):
        folder = tmp_path / f"damaged-{number}"
        shutil.copytree(wreck.data, folder / "data")
        damaged = garbled(main, [page])
        (folder / "data" / wreck.main.name).write_bytes(damaged)
        with Port() as port:
            server = EmbeddedServer(folder=folder, port=port)
            child = server.launch()
            assert await child.end() == 2
            words = child.tail()
            assert words.startswith(f"fairway: {server.data / 'hub.db'} is damaged: ")
            assert "`fairway hub restore --force` to restore a backup" in words
            assert "It was not changed." in words
            assert (server.data / wreck.main.name).read_bytes() == damaged
            assert (server.data / wreck.tail.name).read_bytes() == tail
            if number:
                continue
            command = ["hub", "restore", str(backup), "--data", str(server.data), "--force"]
            restoring = Child("fairway.cli.main", *command, log=tmp_path / "restore.log")
            assert await restoring.end() == 0, restoring.tail()
            await server.start()
            async with client_of(server) as client:
                assert (await listed(client)).keys() == {name for _, name, _ in wreck.acknowledged}
            await server.crash()
