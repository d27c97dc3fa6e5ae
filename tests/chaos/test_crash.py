"""kill -9 the hub in the middle of everything, again and again: nothing acknowledged is lost, nothing is told twice."""

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path

from chaos.durability import problems, told
from chaos.nursery import Nursery
from chaos.record import Record, Watching
from chaos.servers import EmbeddedServer, client_of, embedded_server
from chaos.things import RESOURCES, furnish
from chaos.traffic import LAST, NAMESPACES, Pulse, Watcher, Writer
from fairway.hub import archive

WRITES = 10_000
KILLS = 14
WRITERS = 16


async def strike(server: EmbeddedServer, pulse: Pulse, chance: random.Random) -> int:
    """Once, or while it is getting up from the strike before too. How often it was killed."""
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


async def test_everything_acknowledged_survives_and_is_told_once(
    nursery: Nursery, tmp_path: Path, chance: random.Random, length: int
) -> None:
    record, pulse = Record(), Pulse()
    over = False
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(embedded_server(nursery, folder=tmp_path))

        async def writer(name: str) -> Writer:
            client = await stack.enter_async_context(client_of(server))
            return Writer(
                name=name,
                client=client,
                record=record,
                pulse=pulse,
                chance=random.Random(chance.random()),
            )

        first = await writer("first")
        await furnish(first.client, *NAMESPACES)
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
                for each in writers:
                    traffic.create_task(each.run(until=lambda: over))
                kills = 0
                for _ in range(KILLS * length):
                    await pulse.sends(chance.randrange(2 * WRITES // KILLS))
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
    found = problems(record)
    assert not found, told(found)
    # Otherwise it would have shown nothing.
    assert {"done", "exists", "conflict", "absent", "unknown"} <= {write.outcome for write in record.writes}
    assert kills >= KILLS
    assert all(watcher.connections > KILLS / 2 for watcher in watchers)
    assert archive.check(server.data).problems == ()
