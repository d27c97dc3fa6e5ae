"""The overhead of the client over decoding: lists and watches of ManagedClusters, compared with plain msgspec.

    python -m benchmarks.client                     10,000 clusters, 20,000 events
    python -m benchmarks.client --json figures.json also as JSON

A server in another process sends prepared responses over HTTP on loopback: the clusters of ``fairway fleet generate``,
about 3.5 KB of JSON each. An event is one HTTP chunk, as from a kube-apiserver. Compared are:

- msgspec: the same bytes, in memory, decoded into the same types by msgspec alone
- read: the response, received by aiohttp and discarded
- list: ``Client.list``, in one page and by 500
- stream: ``Client.stream``, events in the groups they arrive in; watch: ``Client.watch``, one by one
- informer: events up to a handler that counts them, and the first sync by a watch that sends everything

CPU is that of the measured process, without the server; ratios are to msgspec's CPU for the same bytes. Medians of
interleaved rounds.
"""

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import ClientSession

from benchmarks.measure import percentile, table, write_json
from fairway.api.cluster import ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.simulation import synthetic
from kubewire.client.change import Batch
from kubewire.client.codec import WatchEvent
from kubewire.client.connection import Connection
from kubewire.client.informer import Informer
from kubewire.client.rest import Client

PAGE = 500


class Page(msgspec.Struct, frozen=True, gc=False):
    metadata: dict[str, str]
    items: tuple[ManagedCluster, ...]


def clusters(count: int) -> list[bytes]:
    """Return encoded clusters with ascending resource versions."""
    documents: list[bytes] = []
    for document in synthetic.generate(clusters=count, seed=1, placements=0):
        if document["kind"] == "ManagedCluster":
            document["metadata"] |= {
                "resourceVersion": str(len(documents) + 1),
                "uid": f"uid-{len(documents)}",
            }
            documents.append(msgspec.json.encode(document))
    return documents


def page(objects: list[bytes], *, version: int, token: str = "") -> bytes:
    metadata = b'{"resourceVersion":"%d"%s}' % (
        version,
        b',"continue":"%s"' % token.encode() if token else b"",
    )
    return b'{"kind":"ManagedClusterList","metadata":%s,"items":[%s]}' % (metadata, b",".join(objects))


def events(objects: list[bytes], count: int) -> list[bytes]:
    """Return events of objects that change in turn, with ascending resource versions."""
    lines = []
    for number in range(count):
        at = number % len(objects)
        old, new = (
            b'"resourceVersion":"%d"' % (at + 1),
            b'"resourceVersion":"%d"' % (len(objects) + number + 1),
        )
        lines.append(b'{"type":"MODIFIED","object":%s}\n' % objects[at].replace(old, new, 1))
    return lines


class Stopwatch:
    """Measures wall-clock seconds, and CPU seconds of this process, since its creation."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def stop(self) -> "Stopwatch":
        self.wall, self.cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        return self


class Prepared:
    """The server, with prepared responses."""

    def __init__(self, count: int, changes: int) -> None:
        objects = clusters(count)
        whole = page(objects, version=count)
        self.whole = _answer(whole)
        self.newest = _answer(page(objects[:1], version=count + changes))
        self.pages = []
        for at in range(0, count, PAGE):
            token = str(at + PAGE) if at + PAGE < count else ""
            self.pages.append(_answer(page(objects[at : at + PAGE], version=count, token=token)))
        added = [b'{"type":"ADDED","object":%s}\n' % document for document in objects]
        self.initial = _chunks([*added, _bookmark(count)])
        self.events = _chunks(events(objects, changes))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                target = head.split(b" ", 2)[1].decode()
                if "watch=true" in target:
                    await self._watch(target, writer, reader)
                    return
                writer.write(self._list(target))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _list(self, target: str) -> bytes:
        if "limit=1&" in f"{target}&":
            return self.newest
        if "limit=" not in target:
            return self.whole
        token = target.partition("continue=")[2].partition("&")[0]
        return self.pages[int(token or 0) // PAGE]

    async def _watch(self, target: str, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        initial = "sendInitialEvents=true" in target
        for part in self.initial if initial else self.events:
            writer.write(part)
            await writer.drain()
        if initial:
            await reader.read()
        else:
            writer.write(b"0\r\n\r\n")


def _answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


def _bookmark(version: int) -> bytes:
    return (
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d",'
        b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n' % version
    )


def _chunks(lines: list[bytes]) -> list[bytes]:
    chunks = [b"%x\r\n%s\r\n" % (len(line), line) for line in lines]
    return [b"".join(chunks[at : at + 64]) for at in range(0, len(chunks), 64)]


async def serve(count: int, changes: int) -> None:
    server = await asyncio.start_server(Prepared(count, changes).serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


@asynccontextmanager
async def served(count: int, changes: int) -> AsyncIterator[str]:
    command = (sys.executable, "-m", "benchmarks.client", "--serve")
    sizes = ("--clusters", str(count), "--events", str(changes))
    process = await asyncio.create_subprocess_exec(*command, *sizes, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.kill()
        await process.communicate()


class Bench:
    def __init__(self, client: Client, session: ClientSession, *, count: int, changes: int) -> None:
        self.client, self.session = client, session
        self.count, self.changes = count, changes
        objects = clusters(count)
        self.list_body = page(objects, version=count)
        self.lines = events(objects, changes)
        self.initial = [b'{"type":"ADDED","object":%s}\n' % document for document in objects]
        event: Any = WatchEvent
        self.decode_page = msgspec.json.Decoder(Page).decode
        self.decode_event = msgspec.json.Decoder(event[ManagedCluster]).decode

    async def plain_list(self) -> int:
        return len(self.decode_page(self.list_body).items)

    async def plain_events(self) -> int:
        # As in a usual watch, events are not kept.
        for line in self.lines:
            self.decode_event(line)
        return len(self.lines)

    async def plain_initial(self) -> int:
        return len([self.decode_event(line) for line in self.initial])

    async def read_list(self) -> int:
        return await self._read("")

    async def read_events(self) -> int:
        return await self._read("?watch=true")

    async def _read(self, query: str) -> int:
        size = 0
        async with self.session.get(
            f"{self.client.connection.server}{MANAGED_CLUSTERS.path()}{query}"
        ) as answer:
            while chunk := await answer.content.readany():
                size += len(chunk)
        return size

    async def list_whole(self) -> int:
        return len((await self.client.list(MANAGED_CLUSTERS, limit=0)).items)

    async def list_pages(self) -> int:
        return len((await self.client.list(MANAGED_CLUSTERS, limit=PAGE)).items)

    async def stream(self) -> int:
        seen = 0
        async with self.client.stream(MANAGED_CLUSTERS, resource_version="1") as stream:
            async for group in stream:
                seen += len(group)
        return seen

    async def watch(self) -> int:
        seen = 0
        async for _ in self.client.watch(MANAGED_CLUSTERS, resource_version="1"):
            seen += 1
        return seen

    async def sync(self) -> int:
        async with Informer(self.client, MANAGED_CLUSTERS) as informer:
            await informer.synced.wait()
            return len(informer.store)

    async def informer(self) -> tuple[Stopwatch, int]:
        """Measure the events after the first sync, and count their batches."""
        informer = Informer(self.client, MANAGED_CLUSTERS, streaming=False, page=0)
        clock = Stopwatch()
        seen, groups = 0, 0
        done = asyncio.Event()

        def count(batch: Batch[ManagedCluster]) -> None:
            nonlocal clock, seen, groups
            if batch.listed:
                clock = Stopwatch()
                return
            seen += len(batch.changes)
            groups += 1
            if seen == self.changes:
                done.set()

        informer.subscribe(count)
        async with informer:
            await done.wait()
            return clock.stop(), groups


async def clocked(work: Callable[[], Awaitable[int]], expected: int | None) -> Stopwatch:
    gc.collect()
    clock = Stopwatch()
    result = await work()
    clock.stop()
    assert expected is None or result == expected, (work, result)
    return clock


async def measure(count: int, changes: int, rounds: int) -> dict[str, float]:
    samples: dict[str, list[Stopwatch]] = {}
    groups: list[float] = []
    async with (
        served(count, changes) as url,
        ClientSession(read_bufsize=2**20) as session,
        Client(Connection(server=url)) as client,
    ):
        bench = Bench(client, session, count=count, changes=changes)
        works: dict[str, tuple[Callable[[], Awaitable[int]], int | None]] = {
            "list_msgspec": (bench.plain_list, count),
            "list_read": (bench.read_list, None),
            "list_whole": (bench.list_whole, count),
            "list_pages": (bench.list_pages, count),
            "initial_msgspec": (bench.plain_initial, count),
            "sync": (bench.sync, count),
            "events_msgspec": (bench.plain_events, changes),
            "events_read": (bench.read_events, None),
            "stream": (bench.stream, changes),
            "watch": (bench.watch, changes),
        }
        for number in range(rounds + 1):
            progress(f"round {number} of {rounds}")
            for name, (work, expected) in works.items():
                clock = await clocked(work, expected)
                if number:  # the first round warms up
                    samples.setdefault(name, []).append(clock)
            clock, made = await bench.informer()
            if number:
                samples.setdefault("informer", []).append(clock)
                groups.append(made)
        progress("")
        mean = sum(map(len, bench.lines)) / len(bench.lines)
    figures: dict[str, float] = {"clusters": count, "events": changes, "bytes_per_event": mean}
    for name, clocks in samples.items():
        figures[f"{name}_ms"] = percentile([clock.wall for clock in clocks], 0.5) * 1e3
        figures[f"{name}_cpu_ms"] = percentile([clock.cpu for clock in clocks], 0.5) * 1e3
    return figures | {"events_per_group": changes / percentile(groups, 0.5)}


ROWS = (
    ("list: msgspec", "list_msgspec", "list_msgspec", "clusters"),
    ("list: read", "list_read", "list_msgspec", "clusters"),
    ("list in one page", "list_whole", "list_msgspec", "clusters"),
    (f"list by {PAGE}", "list_pages", "list_msgspec", "clusters"),
    ("all as events: msgspec", "initial_msgspec", "initial_msgspec", "clusters"),
    ("first sync of an informer", "sync", "initial_msgspec", "clusters"),
    ("events: msgspec", "events_msgspec", "events_msgspec", "events"),
    ("events: read", "events_read", "events_msgspec", "events"),
    ("stream", "stream", "events_msgspec", "events"),
    ("watch", "watch", "events_msgspec", "events"),
    ("informer", "informer", "events_msgspec", "events"),
)


def progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.client",
        description=(__doc__ or "").split("\n\n")[0],
        epilog=(__doc__ or "").split("\n\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--clusters", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE as JSON")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.clusters, options.events))
        return
    figures = asyncio.run(measure(options.clusters, options.events, options.rounds))
    rows = [["", "ms", "CPU ms", "objects/s", "over msgspec"]]
    for label, key, base, amount in ROWS:
        wall, cpu = figures[f"{key}_ms"], figures[f"{key}_cpu_ms"]
        ratio = cpu / figures[f"{base}_cpu_ms"]
        rows.append(
            [label, f"{wall:,.0f}", f"{cpu:,.0f}", f"{figures[amount] / wall * 1e3:,.0f}", f"{ratio:.2f}"]
        )
    print(table(rows))
    print()
    print(
        f"{options.clusters:,} clusters, {options.events:,} events of {figures['bytes_per_event']:,.0f} bytes, "
        f"{figures['events_per_group']:.0f} events per call of a handler"
    )
    if options.json:
        write_json(options.json, {"benchmark": "client", "figures": figures})


if __name__ == "__main__":
    main()
