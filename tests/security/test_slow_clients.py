"""Clients that are slow, silent or greedy are cut off or waited for at their own expense; the others are served.

The limits are those of the hub, made short, so that the tests needn't wait. None of them measures how long it took.
"""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from fairway.hub.serving import connection, server, traffic
from security.hubs import started
from security.wire import ADMIN, ALICE, Place, ask, connect, parsed, request

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
MAPS = "/api/v1/namespaces/default/configmaps"
SHORT = 0.3


@pytest.fixture
def hurried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A hub with little patience."""
    for name in ("HEADER_SECONDS", "STALLED_SECONDS", "IDLE_SECONDS"):
        monkeypatch.setattr(connection, name, SHORT)
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", SHORT)
    monkeypatch.setattr(server, "FAREWELL_SECONDS", SHORT)
    monkeypatch.setattr(traffic, "BODY_SECONDS", SHORT)
    with started(tmp_path) as place:
        yield place


async def metric(place: Place, name: str) -> float:
    text = (await ask(place, "GET", "/metrics")).body.decode()
    return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(f"{name} ")))


async def left_alone(place: Place) -> None:
    """Returns once the hub has no connection but the one that asks."""
    while await metric(place, "fairway_hub_connections") > 1:
        await asyncio.sleep(0.02)


async def drip(writer: asyncio.StreamWriter, data: bytes) -> None:
    """One byte after another, until the other side has enough."""
    try:
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.005)
    except ConnectionError:
        pass


async def told(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(-1)
    except (ConnectionError, ssl.SSLError):
        return b""


@asynccontextmanager
async def unread(place: Place, sent: bytes) -> AsyncIterator[socket.socket]:
    """A client that asks and never reads, with as little room for answers as the system allows."""
    raw = socket.create_connection((place.host, place.port))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    secure = await asyncio.to_thread(place.tls().wrap_socket, raw, server_hostname=place.host)
    try:
        secure.sendall(sent)
        yield secure
    finally:
        secure.close()


async def filled(place: Place, *, objects: int, size: int) -> None:
    body = {"a": "x" * size}
    for number in range(objects):
        # One by one: all at once, a slow machine would be taken for slow clients.
        await ask(place, "POST", MAPS, body={"metadata": {"name": f"c{number}"}, "data": body})


# Slow to send


async def test_a_handshake_that_doesn_t_end_is_ended(hurried: Place) -> None:
    for sent in (b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01" + b"\x00" * 20):
        reader, writer = await asyncio.open_connection(hurried.host, hurried.port)
        writer.write(sent)
        assert await told(reader) == b""
        writer.close()


async def test_a_head_that_trickles_is_cut_off(hurried: Place) -> None:
    reader, writer = await connect(hurried)
    dripping = asyncio.create_task(drip(writer, b"GET /version HTTP/1.1\r\nX: " + b"a" * 10_000))
    assert await told(reader) == b""
    await dripping
    writer.transport.abort()


async def test_so_is_one_that_never_begins(hurried: Place) -> None:
    reader, writer = await connect(hurried)
    assert await told(reader) == b""
    writer.transport.abort()


async def test_so_is_a_second_one(hurried: Place) -> None:
    reader, writer = await connect(hurried)
    writer.write(request("GET", "/version", token=hurried.tokens[ADMIN], last=False) + b"GET /vers")
    (answer,) = parsed(await told(reader))
    assert answer.code == 200
    writer.transport.abort()


async def test_a_body_that_trickles_is_answered(hurried: Place) -> None:
    reader, writer = await connect(hurried)
    head = request(
        "POST",
        REVIEWS,
        token=hurried.tokens[ALICE],
        headers=["Content-Type: application/json", "Content-Length: 100000"],
    )
    writer.write(head)
    dripping = asyncio.create_task(drip(writer, b"{" + b" " * 10_000))
    (answer,) = parsed(await told(reader))
    assert (answer.code, answer.document["reason"]) == (408, "Timeout")
    dripping.cancel()
    writer.transport.abort()


async def test_bodies_that_don_t_come_hold_up_nobody(embedded: Place) -> None:
    """More than can be written at once; anybody may send these."""
    head = request(
        "POST",
        REVIEWS,
        token=embedded.tokens[ALICE],
        headers=["Content-Type: application/json", "Content-Length: 1000"],
    )
    slow = await asyncio.gather(*(connect(embedded) for _ in range(server.WRITERS + 20)))
    for _, writer in slow:
        writer.write(head + b"{")
    before = await metric(embedded, "apiserver_current_inflight_requests")
    while before < server.WRITERS:
        before = await metric(embedded, "apiserver_current_inflight_requests")
    made = await ask(embedded, "POST", MAPS, body={"metadata": {"generateName": "x"}})
    assert made.code == 201
    for _, writer in slow:
        writer.transport.abort()


async def test_bodies_held_at_once_have_a_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = traffic.Traffic(bodies=300_000)
    monkeypatch.setattr(server, "Traffic", lambda: made)
    with started(tmp_path) as place:
        head = request(
            "POST",
            MAPS,
            token=place.tokens[ADMIN],
            headers=["Content-Type: application/json", "Content-Length: 1000000"],
        )
        reader, writer = await connect(place)
        writer.write(head + b" " * 200_000)
        await writer.drain()
        while made.bodies.bytes < 200_000:
            # Whoever comes last is refused: the second may only begin when the first is there.
            await asyncio.sleep(0.01)
        refused = await ask(place, "POST", MAPS, body=b" " * 200_000)
        assert refused.code == 429
        small = await ask(place, "POST", MAPS, body={"metadata": {"name": "small"}})
        assert small.code == 201
        writer.transport.abort()
        await told(reader)
        while (await ask(place, "POST", MAPS, body=b"{}" + b" " * 200_000)).code == 429:
            pass


# Slow to read


async def test_a_list_nobody_reads_is_dropped(hurried: Place) -> None:
    await filled(hurried, objects=40, size=200_000)
    async with unread(hurried, request("GET", MAPS, token=hurried.tokens[ADMIN])):
        await left_alone(hurried)
    answer = await ask(hurried, "GET", f"{MAPS}/c1")
    assert answer.code == 200


async def test_a_watch_nobody_reads_is_dropped(hurried: Place) -> None:
    await filled(hurried, objects=1, size=10)
    async with unread(hurried, request("GET", f"{MAPS}?watch=1", token=hurried.tokens[ADMIN])):
        while await metric(hurried, "apiserver_longrunning_requests") < 1:
            pass
        number = 0
        while await metric(hurried, "apiserver_longrunning_requests") > 0:
            number += 1
            body = {"data": {"a": "x" * 200_000, "b": str(number)}}
            changed = await ask(
                hurried, "PATCH", f"{MAPS}/c0", body=body, type_="application/merge-patch+json"
            )
            assert changed.code == 200
        await left_alone(hurried)


async def test_many_requests_whose_answers_nobody_reads_are_dropped(hurried: Place) -> None:
    await filled(hurried, objects=2, size=200_000)
    one = request("GET", f"{MAPS}/c1", token=hurried.tokens[ADMIN], last=False)
    async with unread(hurried, one * 60):
        await left_alone(hurried)


async def test_unread_answers_have_a_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "Traffic", partial(traffic.Traffic, answers=10_000_000))
    with started(tmp_path) as place:
        await filled(place, objects=30, size=200_000)
        sent = request("GET", MAPS, token=place.tokens[ADMIN])
        async with unread(place, sent):
            while (await ask(place, "GET", MAPS)).code != 429:
                pass
            assert (await ask(place, "GET", f"{MAPS}/c1")).code == 200
            assert (await ask(place, "GET", f"{MAPS}?limit=3")).code == 200
        while (await ask(place, "GET", MAPS)).code == 429:
            pass


async def test_watches_get_what_there_is_in_pieces(embedded: Place, cell: str) -> None:
    """Nothing is lost between them, nor told twice."""
    maps = f"/api/v1/namespaces/{cell}/configmaps"
    names = [f"c{number:03}" for number in range(60)]
    for name in names:
        body = {"metadata": {"name": name}, "data": {"a": "x" * 10_000}}
        assert (await ask(embedded, "POST", maps, body=body)).code == 201
    answer = await ask(embedded, "GET", f"{maps}?watch=1&timeoutSeconds=1")
    events = [json.loads(line) for line in answer.body.splitlines()]
    seen = [event["object"]["metadata"]["name"] for event in events]
    assert [name for name in seen if name.startswith("c")] == names


# Many


async def test_idle_connections_come_to_an_end(hurried: Place) -> None:
    idle = []
    for _ in range(20):
        # All at once, a slow machine would need longer for its part of the handshakes than the hub waits.
        idle += await asyncio.gather(*(connect(hurried) for _ in range(10)))
    kept = [await connect(hurried) for _ in range(20)]
    for _, writer in kept:
        writer.write(request("GET", "/version", token=hurried.tokens[ADMIN], last=False))
    assert (await ask(hurried, "GET", MAPS)).code == 200
    for reader, writer in (*idle, *kept):
        await told(reader)
        writer.transport.abort()
    await left_alone(hurried)


async def test_connections_beyond_the_limit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECTIONS", 30)
    with started(tmp_path) as place:
        kept = []
        for _ in range(29):
            reader, writer = await connect(place)
            writer.write(request("GET", "/version", last=False))
            assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
            kept.append(writer)
        assert (await ask(place, "GET", "/version")).code == 200
        reader, writer = await connect(place)
        writer.write(request("GET", "/version", last=False))
        assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
        kept.append(writer)
        late, other = await connect(place)
        other.write(request("GET", "/version"))
        assert await told(late) == b""
        for each in (*kept, other):
            each.transport.abort()
