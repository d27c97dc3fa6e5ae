"""Kill the hub repeatedly under load: no acknowledged write is lost, no event is repeated."""

import asyncio
import random
import time
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
from clients import boat_crd

from chaos.durability import format_problems, problems
from chaos.record import Key, Listing, Record, State, Watching
from chaos.servers import EmbeddedServer, client_of, embedded_server
from chaos.token_objects import (
    BOATS,
    CONFIG_MAPS,
    DEFINITIONS,
    RESOURCES,
    TokenObject,
    body,
    create_kinds,
    state_of,
)
from chaos.traffic import LAST, NAMESPACES, TrafficProgress, Watcher, Writer, ours
from forked import PATIENCE, POLL
from kubehub.storage import archive
from kubehub.storage.log import Log
from kubewire.api.resource import Resource
from kubewire.client.errors import NotFound
from kubewire.client.rest import Client
from rigs.processes import Port

WRITES = 1_500
KILLS = 6
WRITERS = 16


async def strike(server: EmbeddedServer, pulse: TrafficProgress, chance: random.Random) -> int:
    """Kill the hub once, or again during its restart; return the number of kills."""
    pulse.alive.clear()
    await server.crash()
    kills = 1
    while chance.random() < 0.2:
        server.launch()
        await server.owned()
        await server.crash()
        kills += 1
    await server.start()
    pulse.alive.set()
    return kills


def saved(source: Path, backup: Path) -> list[Listing]:
    """Back up a hub under load, and return the backup as a list of all objects at one version."""
    begun = time.monotonic()
    summary = archive.backup(source, backup)
    ended = time.monotonic()
    states: dict[Key, State] = {}
    with closing(Log.read(backup)) as log:
        for row in log.rows():
            plural = row.item.key[0].partition(".")[0]
            if plural not in RESOURCES:
                continue
            state = state_of(RESOURCES[plural], msgspec.json.decode(row.item.raw, type=TokenObject))
            states.pop(state.key, None)
            if row.change != "DELETED" and ours(state):
                states[state.key] = state
    return [
        Listing(
            resource=plural,
            namespace=None,
            version=summary.revision,
            states={key: state for key, state in states.items() if key[0] == plural},
            begun=begun,
            ended=ended,
        )
        for plural in RESOURCES
    ]


async def test_acknowledged_writes_survive_crashes_and_are_watched_once(
    tmp_path: Path, chance: random.Random, length: int
) -> None:
    record, pulse = Record(), TrafficProgress()
    over = False
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(embedded_server(folder=tmp_path))

        async def writer(name: str) -> Writer:
            client = await stack.enter_async_context(client_of(server))
            return Writer(
                name=name, client=client, record=record, pulse=pulse, chance=random.Random(chance.random())
            )

        first = await writer("first")
        await create_kinds(first.client, *NAMESPACES)
        watchers: list[Watcher] = []
        for resource in RESOURCES.values():
            await first.list(resource, None)
            for scope in (None, None, NAMESPACES[0]):
                watching = Watching(
                    name=f"watcher {len(watchers)} of {resource.plural} in {scope or 'all'}",
                    resource=resource.plural,
                    namespace=scope,
                    since=record.listings[-1].version,
                )
                client = await stack.enter_async_context(client_of(server))
                watchers.append(Watcher(client=client, resource=resource, watching=watching, pulse=pulse))
        record.watches = [watcher.watching for watcher in watchers]
        writers = [await writer(f"w{number}") for number in range(WRITERS)]
        async with asyncio.TaskGroup() as watches:
            for watcher in watchers:
                watches.create_task(watcher.run())
            async with asyncio.TaskGroup() as traffic:
                for started in writers:
                    traffic.create_task(started.run(until=lambda: over))
                kills = 0
                for strikes in range(KILLS * length):
                    await pulse.sends(chance.randrange(2 * WRITES // KILLS))
                    if not strikes % 5:
                        file = tmp_path / f"{strikes}.backup"
                        record.listings += await asyncio.to_thread(saved, server.data, file)
                    if chance.random() < 0.5:  # with a request just sent, or with an answer just received
                        await pulse.answer()
                    kills += await strike(server, pulse, chance)
                over = True
            for resource in RESOURCES.values():
                for namespace in NAMESPACES:
                    write = await first.write("create", resource, namespace, LAST)
                    assert write.outcome == "done", write
                await first.list(resource, None)
        await server.stop()
    reported = problems(record)
    assert not reported, format_problems(reported)
    # Otherwise it would have shown nothing.
    assert {"done", "exists", "conflict", "absent", "unknown"} <= {write.outcome for write in record.writes}
    assert kills >= KILLS
    assert all(watcher.connections > KILLS / 2 for watcher in watchers)
    assert archive.check(server.data).problems == ()


async def test_first_start_killed_anywhere_can_be_repeated(tmp_path: Path, chance: random.Random) -> None:
    with Port() as port:
        for number in range(6):
            folder = tmp_path / str(number)
            folder.mkdir()
            server = EmbeddedServer(folder=folder, port=port)
            server.launch()
            for _ in range(chance.randrange(15)):
                await asyncio.sleep(POLL)
            await server.crash()
            await server.start()
            async with client_of(server) as client:
                await create_kinds(client, *NAMESPACES)
            await server.stop()
            assert archive.check(server.data).problems == ()


OBJECTS = 300


async def test_deletions_in_progress_finish_after_a_crash(tmp_path: Path, chance: random.Random) -> None:
    """Of a namespace, the dependents of an object, and a CRD, with all their objects and no others."""
    doomed, kept = NAMESPACES
    async with embedded_server(folder=tmp_path) as server:
        async with client_of(server) as client:
            await create_kinds(client, doomed, kept)
            owner = await client.create(CONFIG_MAPS, {"metadata": {"name": "owner"}}, namespace=kept)
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
            for at in range(0, OBJECTS, 50):
                numbers = range(at, at + 50)
                owned: dict[str, Any] = {"ownerReferences": [reference]}
                await asyncio.gather(
                    *(create(client, CONFIG_MAPS, doomed, f"n{n}") for n in numbers),
                    *(create(client, CONFIG_MAPS, kept, f"owned{n}", **owned) for n in numbers),
                )
            await asyncio.gather(*(create(client, CONFIG_MAPS, kept, f"kept{n}") for n in range(50)))
            await asyncio.gather(*(create(client, BOATS, kept, f"n{n}") for n in range(50)))
            version = await client.newest(CONFIG_MAPS)
            await client.delete(CONFIG_MAPS, "owner", namespace=kept, propagation="Background")
            await client.request("DELETE", f"/api/v1/namespaces/{doomed}")
            await client.request("DELETE", f"{DEFINITIONS}/{boat_crd.DEFINITION_NAME}")
        deleted = 0
        for _ in range(3):
            pause = chance.randrange(1, OBJECTS // 2)
            seen, version = await deletions(server, pause, since=version)
            deleted += seen
            await server.crash()
            await server.start()
        async with client_of(server) as client:
            _, _ = await deletions(server, 2 * OBJECTS + 1 - deleted, since=version)
            left = await client.list(CONFIG_MAPS, namespace=kept)
            assert sorted(item.metadata.name for item in left.items if item.metadata.labels) == sorted(
                f"kept{n}" for n in range(50)
            )
            for path in (f"/api/v1/namespaces/{doomed}", f"{DEFINITIONS}/{boat_crd.DEFINITION_NAME}"):
                await vanished(client, path)
            await server.stop()
    assert archive.check(server.data).problems == ()
    left_over = list(archive.export(server.data))
    assert not [document for document in left_over if document["kind"] == boat_crd.KIND]
    assert not [document for document in left_over if document["metadata"].get("namespace") == doomed]


async def create(
    client: Client, resource: Resource[TokenObject], namespace: str, name: str, **metadata: Any
) -> None:
    document = body(resource, name, name)
    await client.create(
        resource, document | {"metadata": document["metadata"] | metadata}, namespace=namespace
    )


async def deletions(server: EmbeddedServer, count: int, *, since: str) -> tuple[int, str]:
    """Wait for at least this number of deleted config maps; return their number and the last version."""
    seen, version = 0, since
    async with client_of(server) as client, asyncio.timeout(PATIENCE):
        while seen < count:
            async with client.stream(CONFIG_MAPS, resource_version=version, timeout=10) as stream:
                async for events in stream:
                    for event in events:
                        version = event.object.metadata.resourceVersion
                        ours_ = event.object.metadata.name != "kube-root-ca.crt"
                        seen += event.type == "DELETED" and ours_
                    if seen >= count:
                        break
    return seen, version


async def vanished(client: Client, path: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.request("GET", path)
            except NotFound:
                return
            await asyncio.sleep(POLL)
