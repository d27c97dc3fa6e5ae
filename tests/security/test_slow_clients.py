"""Slow, silent and greedy clients are disconnected, and do not delay others.

The tests shorten only the limit under test, and only while no other client could exceed it on a slow machine; they
raise limits that would end a connection that a test needs.
"""

import asyncio
import gc
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from types import ModuleType

import pytest

from kubehub.serving import connection, server, traffic
from security.hubs import started
from security.wire import ADMIN, ALICE, Hub, ask, connect, parsed, read_to_end, request

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
MAPS = "/api/v1/namespaces/default/configmaps"
SLIM = "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Header that requests a small response."""
SHORT, LONG = 0.3, 3600.0
HANDSHAKE = (server, "HANDSHAKE_SECONDS")
HEADER = (connection, "HEADER_SECONDS")
IDLE = (connection, "IDLE_SECONDS")
STALLED = (connection, "STALLED_SECONDS")
BODY = (traffic, "BODY_SECONDS")
ANSWER = (traffic, "ANSWER_SECONDS")


@contextmanager
def limited(seconds: float, *limits: tuple[ModuleType, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, name in limits:
            patch.setattr(module, name, seconds)
        yield


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """An embedded hub for one test."""
    with started(tmp_path) as made:
        yield made


async def metric(hub: Hub, name: str) -> float:
    text = (await ask(hub, "GET", "/metrics")).body.decode()
    return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(f"{name} ")))


async def wait_for_no_connections(hub: Hub) -> None:
    """Wait until the hub has no other connection than the one that reads the metric."""
    while await metric(hub, "fairway_hub_connections") > 1:
        await asyncio.sleep(0.02)


async def drip(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send single bytes until the hub closes the connection."""
    try:
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.005)
    except ConnectionError:
        pass


@asynccontextmanager
async def unread(hub: Hub, sent: bytes) -> AsyncIterator[socket.socket]:
    """A client that sends requests and reads no response, with the smallest receive buffer."""
    raw = socket.create_connection((hub.host, hub.port))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    secure = await asyncio.to_thread(hub.tls().wrap_socket, raw, server_hostname=hub.host)
    try:
        secure.sendall(sent)
        yield secure
    finally:
        secure.close()


async def filled(hub: Hub, *, objects: int, size: int) -> None:
    body = {"a": "x" * size}
    for number in range(objects):
        made = await ask(hub, "POST", MAPS, body={"metadata": {"name": f"c{number}"}, "data": body})
        assert made.code == 201


# Slow to send


async def test_unfinished_tls_handshake_is_ended(tmp_path: Path) -> None:
    with limited(SHORT, HANDSHAKE), started(tmp_path) as hub:
        for sent in (b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01" + b"\x00" * 20):
            reader, writer = await asyncio.open_connection(hub.host, hub.port)
            writer.write(sent)
            assert await read_to_end(reader) == b""
            writer.close()


async def test_slow_request_head_is_cut_off(hub: Hub) -> None:
    with limited(SHORT, HEADER):
        reader, writer = await connect(hub)
        dripping = asyncio.create_task(drip(writer, b"GET /version HTTP/1.1\r\nX: " + b"a" * 10_000))
        assert await read_to_end(reader) == b""
        await dripping
        writer.transport.abort()


async def test_connection_without_a_request_is_cut_off(hub: Hub) -> None:
    with limited(SHORT, HEADER):
        reader, writer = await connect(hub)
        assert await read_to_end(reader) == b""
        writer.transport.abort()


async def test_slow_second_request_head_is_cut_off(hub: Hub) -> None:
    reader, writer = await connect(hub)
    writer.write(request("HEAD", "/version", token=hub.tokens[ADMIN], last=False))
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
    with limited(SHORT, HEADER):
        writer.write(b"GET /vers")
        assert await read_to_end(reader) == b""
    writer.transport.abort()


async def test_slow_body_is_answered_with_408(hub: Hub) -> None:
    reader, writer = await connect(hub)
    head = request(
        "POST",
        REVIEWS,
        token=hub.tokens[ALICE],
        headers=["Content-Type: application/json", "Content-Length: 60000"],
    )
    with limited(SHORT, BODY):
        writer.write(head)
        dripping = asyncio.create_task(drip(writer, b"{" + b" " * 10_000))
        (answer,) = parsed(await read_to_end(reader))
    assert (answer.code, answer.document["reason"]) == (408, "Timeout")
    dripping.cancel()
    writer.transport.abort()


async def test_incomplete_bodies_delay_no_other_write(tmp_path: Path) -> None:
    with limited(LONG, BODY), started(tmp_path) as hub:
        head = request(
            "POST",
            REVIEWS,
            token=hub.tokens[ALICE],
            headers=["Content-Type: application/json", "Content-Length: 1000"],
        )
        slow = []
        for _ in range(50):
            _, writer = await connect(hub)
            writer.write(head + b"{")
            slow.append(writer)
        while await metric(hub, "apiserver_current_inflight_requests") < len(slow):
            await asyncio.sleep(0.01)
        made = await ask(hub, "POST", MAPS, body={"metadata": {"generateName": "x"}})
        assert made.code == 201
        for writer in slow:
            writer.transport.abort()


async def test_sum_of_held_bodies_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = traffic.Traffic(bodies=300_000)
    monkeypatch.setattr(server, "Traffic", lambda: made)
    with limited(LONG, BODY), started(tmp_path) as hub:
        head = request(
            "POST",
            MAPS,
            token=hub.tokens[ADMIN],
            headers=["Content-Type: application/json", "Content-Length: 1000000"],
        )
        reader, writer = await connect(hub)
        writer.write(head + b" " * 200_000)
        await writer.drain()
        while made.bodies.bytes < 200_000:
            # The last one is rejected, so the second starts after the first arrived.
            await asyncio.sleep(0.01)
        refused = await ask(hub, "POST", MAPS, body=b" " * 200_000)
        assert refused.code == 429
        small = await ask(hub, "POST", MAPS, body={"metadata": {"name": "small"}})
        assert small.code == 201
        writer.transport.abort()
        await read_to_end(reader)
        while made.bodies.bytes:
            await asyncio.sleep(0.01)
        assert (await ask(hub, "POST", MAPS, body=b"{}" + b" " * 200_000)).code != 429


# Slow to read


async def test_unread_list_is_dropped(hub: Hub) -> None:
    await filled(hub, objects=40, size=200_000)
    with limited(SHORT, STALLED):
        async with unread(hub, request("GET", MAPS, token=hub.tokens[ADMIN])):
            await wait_for_no_connections(hub)
    answer = await ask(hub, "GET", f"{MAPS}/c1")
    assert answer.code == 200


async def test_unread_watch_is_dropped(hub: Hub) -> None:
    await filled(hub, objects=1, size=10)
    with limited(SHORT, STALLED):
        async with unread(hub, request("GET", f"{MAPS}?watch=1", token=hub.tokens[ADMIN])):
            while await metric(hub, "apiserver_longrunning_requests") < 1:
                await asyncio.sleep(0.01)
            number = 0
            while await metric(hub, "apiserver_longrunning_requests") > 0:
                number += 1
                changed = await ask(
                    hub,
                    "PATCH",
                    f"{MAPS}/c0",
                    body={"data": {"a": "x" * 200_000, "b": str(number)}},
                    type_="application/merge-patch+json",
                    headers=[SLIM],
                )
                assert changed.code == 200
            await wait_for_no_connections(hub)


async def test_connection_with_unread_responses_is_dropped(hub: Hub) -> None:
    await filled(hub, objects=2, size=200_000)
    one = request("GET", f"{MAPS}/c1", token=hub.tokens[ADMIN], last=False)
    with limited(SHORT, STALLED):
        async with unread(hub, one * 60):
            await wait_for_no_connections(hub)


async def test_sum_of_unread_responses_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = traffic.Traffic(answers=10_000_000)
    monkeypatch.setattr(server, "Traffic", lambda: made)
    with limited(LONG, STALLED, ANSWER), started(tmp_path) as hub:
        await filled(hub, objects=30, size=200_000)
        sent = request("GET", MAPS, token=hub.tokens[ADMIN])
        async with unread(hub, sent):
            while not made.answers.bytes:
                # The last one is rejected.
                await asyncio.sleep(0.01)
            assert (await ask(hub, "GET", MAPS)).code == 429
            assert (await ask(hub, "GET", f"{MAPS}/c1")).code == 200
            assert (await ask(hub, "GET", f"{MAPS}?limit=3")).code == 200
        while made.answers.bytes:
            await asyncio.sleep(0.01)
        assert (await ask(hub, "GET", MAPS)).code == 200


async def test_initial_events_of_a_watch_are_sent_in_pieces(embedded: Hub, embedded_ns: str) -> None:
    """Each event is sent exactly once."""
    maps = f"/api/v1/namespaces/{embedded_ns}/configmaps"
    names = [f"c{number:03}" for number in range(60)]
    for name in names:
        body = {"metadata": {"name": name}, "data": {"a": "x" * 10_000}}
        assert (await ask(embedded, "POST", maps, body=body)).code == 201
    reader, writer = await connect(embedded)
    writer.write(request("GET", f"{maps}?watch=1", token=embedded.tokens[ADMIN]))
    pieces = await reader.readuntil(b"\r\n\r\n")
    last = await ask(embedded, "POST", maps, body={"metadata": {"name": "last"}})
    assert last.code == 201
    while not (b'"name":"last"' in pieces and pieces.endswith(b"}\n\r\n")):
        piece = await reader.read(2**16)
        assert piece
        pieces += piece
    writer.transport.abort()
    (answer,) = parsed(pieces)
    events = [json.loads(line) for line in answer.body.splitlines()]
    seen = [event["object"]["metadata"]["name"] for event in events]
    assert [name for name in seen if name.startswith("c")] == names


# Many connections


async def test_idle_connection_is_closed(hub: Hub) -> None:
    for more in (b"", b"GET /vers"):
        answer = b""
        while not answer:
            # On a slow machine the connection may count as idle before its first request: then retry.
            with limited(SHORT, IDLE):
                reader, writer = await connect(hub)
                writer.write(request("GET", "/version", token=hub.tokens[ADMIN], last=False) + more)
                answer = await read_to_end(reader)
                writer.transport.abort()
        (version,) = parsed(answer)
        assert version.code == 200
    with limited(SHORT, HEADER, IDLE):
        idle = [await connect(hub) for _ in range(200)]
    assert (await ask(hub, "GET", MAPS)).code == 200
    for reader, writer in idle:
        assert await read_to_end(reader) == b""
        writer.transport.abort()
    await wait_for_no_connections(hub)


async def test_authenticated_connections_beyond_the_limit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECTIONS", 30)
    with started(tmp_path) as hub:
        kept = []
        for _ in range(30):
            reader, writer = await connect(hub)
            writer.write(request("GET", "/version", token=hub.tokens[ADMIN], last=False))
            assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
            kept.append(writer)
        with suppress(ConnectionError, ssl.SSLError):
            late, other = await connect(hub)
            other.write(request("GET", "/version"))
            assert await read_to_end(late) == b""
            other.transport.abort()
        for writer in kept:
            writer.transport.abort()
    gc.collect()  # the test fails if the refused connection has left a transport that nothing closed


async def test_clients_are_served_beside_more_silent_connections_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECTIONS", 30)
    with started(tmp_path) as hub:
        held = []
        for number in range(60):
            if number % 2:  # neither a TLS handshake nor a request without credentials keeps others out
                _, writer = await asyncio.open_connection(hub.host, hub.port)
            else:
                _, writer = await connect(hub)
                writer.write(request("GET", "/version", last=False))
            held.append(writer)
            assert (await ask(hub, "GET", MAPS)).code == 200
        for writer in held:
            writer.transport.abort()


async def test_a_client_that_leaves_unanswered_requests_does_not_fill_the_log(
    hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    for leave in (asyncio.StreamWriter.close, lambda writer: writer.transport.abort()):
        reader, writer = await connect(hub)
        writer.write(request("GET", "/version", last=False) * 500)
        await reader.readline()
        leave(writer)
        await wait_for_no_connections(hub)
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []
