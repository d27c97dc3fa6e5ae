"""What the lean connections send, which responses they accept, and which connections they use again."""

import asyncio
import gc
import gzip
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client.authority import Authority
from client.wire import Script, ScriptedServer, Wire

from kubewire.client import exchange as exchanges
from kubewire.client import session as sessions
from kubewire.client import transport as transports
from kubewire.client.call import CallEncoder
from kubewire.client.connection import Connection
from kubewire.client.credentials import Impersonation, StoredCredentials
from kubewire.client.errors import (
    DeadlineExceeded,
    NotFound,
    ResponseTooLong,
    ServerError,
    TransportError,
    UntrustedError,
)
from kubewire.client.exchange import Exchange
from kubewire.client.rest import Client
from kubewire.client.tls import Pem
from kubewire.client.transport import Response, Retry
from rigs.fake_server import PATH, FakeServer

ONCE = Retry(failed=0, unsent=0, asked=0)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ZIPPED = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
BOMB = gzip.compress(bytes(32 * 2**20))
QUERY = [("fieldManager", "a b/ü&c"), ("force", "true")]


@pytest.fixture(autouse=True)
def _no_error_of_the_loop(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if asyncio logs an error, such as an exception in a protocol."""
    yield
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


def answer(*responses: bytes) -> Script:
    """Send one of the responses to each request."""

    async def play(wire: Wire) -> None:
        for response in responses:
            assert await wire.receive()
            wire.send(response)

    return play


def answer_and_close(response: bytes) -> Script:
    async def play(wire: Wire) -> None:
        await wire.receive()
        wire.send(response)
        wire.close()

    return play


def client_of(server: ScriptedServer | FakeServer, **options: Any) -> Client:
    return Client(Connection(server=server.url), **{"retry": ONCE, **options})


async def ask(server: ScriptedServer, **options: Any) -> Response:
    async with client_of(server) as client:
        return await client.request("GET", "/x", **options)


class TestRequests:
    @pytest.mark.parametrize(
        ("method", "options"),
        [
            ("GET", {}),
            ("GET", {"query": QUERY}),
            ("GET", {"query": {"a": "ü"}}),
            ("POST", {"body": {"a": 1}}),
            ("PUT", {"body": b""}),
            ("PATCH", {"body": [], "content_type": "application/json-patch+json", "query": QUERY}),
            ("POST", {"body": b"x", "content_type": ""}),
            ("DELETE", {}),
            ("POST", {}),
            ("OPTIONS", {}),
            ("POST", {"body": {}, "headers": {"accept": "text/plain", "X-Other": "1"}}),
            ("GET", {"headers": {"Authorization": "Bearer other", "User-Agent": "me"}}),
            ("POST", {"body": b"abc", "headers": {"content-length": "3"}}),
            ("GET", {"headers": {"host": "other"}}),
        ],
    )
    async def test_exchange_sends_what_aiohttp_sends(
        self, hub: FakeServer, method: str, options: dict[str, Any]
    ) -> None:
        """A large request goes through aiohttp, and differs in nothing else on this machine."""
        connection = Connection(
            server=f"{hub.url}/base",
            credentials=StoredCredentials(token="secret"),
            impersonation=Impersonation(user="jane", groups=("a", "b"), extra={"x/y": ("1", "2")}),
        )
        seen = []
        async with Client(connection, retry=ONCE) as client:
            for large in (False, True):
                hub.fault(code=200)
                await client.request(method, "/x%20y", large=large, **options)
                request = hub.requests.pop()
                headers = sorted((name.lower(), value) for name, value in request.headers.items())
                seen.append((request.method, request.path, request.query, headers, request.body))
        assert seen[0] == seen[1]

    def test_host_header_has_brackets_and_port(self) -> None:
        assert CallEncoder("https://[::1]:6443", []).host == "[::1]:6443"
        assert CallEncoder("https://[2001:db8::1]", []).host == "[2001:db8::1]"

    def test_host_header_omits_the_usual_port(self) -> None:
        for server in ("https://hub.example", "https://hub.example:443/a", "http://hub.example:80"):
            assert CallEncoder(server, []).host == "hub.example"

    @pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/ü", "version"])
    async def test_unquoted_path_is_rejected(self, client: Client, path: str) -> None:
        with pytest.raises(ValueError, match="must start with '/' and be quoted"):
            await client.request("GET", path)

    @pytest.mark.parametrize(
        "options", [{"headers": {"X": "a\r\nY: b"}}, {"content_type": "a\nb", "body": b""}]
    )
    async def test_header_with_a_line_break_is_rejected(self, client: Client, options: Any) -> None:
        with pytest.raises(ValueError, match="must not contain line breaks"):
            await client.request("POST", "/x", **options)

    async def test_rotated_token_is_sent_at_once(self, hub: FakeServer, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("t", encoding="ascii")
        connection = Connection(server=hub.url, credentials=StoredCredentials(token_file=str(file)))
        async with Client(connection) as client:
            for length in range(1, 50):  # of different lengths: two may have the same timestamp
                file.write_text("t" * length, encoding="ascii")
                await client.request("GET", PATH)
        sent = [request.headers["Authorization"] for request in hub.requests]
        assert sent == [f"Bearer {'t' * length}" for length in range(1, 50)]


class TestResponses:
    @pytest.mark.parametrize(
        ("response", "body"),
        [
            (OK, b"{}"),
            (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
            (CHUNKED + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", b"abcde"),
            (CHUNKED + b"1\r\na\r\n0\r\nX-Trailer: 1\r\n\r\n", b"a"),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: a\r\n\r\n" + OK, b"{}"),
        ],
        ids=["length", "no content", "empty", "chunked", "trailer", "interim"],
    )
    async def test_response_is_read_however_it_is_cut(self, response: bytes, body: bytes) -> None:
        async def play_bytes(wire: Wire) -> None:
            for _ in range(2):
                await wire.receive()
                for byte in response:
                    wire.send(bytes((byte,)))
                    await asyncio.sleep(0)

        for script in (answer(response, response), play_bytes):
            async with ScriptedServer(script) as server, client_of(server) as client:
                for _ in range(2):
                    received = await client.request("GET", "/x")
                    assert received.body == body
                    assert "Link" not in received.headers
                    assert "X-Trailer" not in received.headers
                assert server.connections == 1

    async def test_long_chunked_response_is_read(self) -> None:
        chunks = [bytes((97 + number % 26,)) * 4096 for number in range(256)]
        response = CHUNKED + b"".join(b"1000\r\n" + chunk + b"\r\n" for chunk in chunks) + b"0\r\n\r\n"
        async with ScriptedServer(answer(response)) as server:
            assert (await ask(server)).body == b"".join(chunks)

    @pytest.mark.parametrize("large", [False, True])
    async def test_response_without_length_ends_with_the_connection(
        self, tmp_path: Path, large: bool
    ) -> None:
        authority = Authority()
        context = authority.serving(authority.server("127.0.0.1"), tmp_path)
        response = b"HTTP/1.1 200 OK\r\n\r\nabc"
        async with ScriptedServer(answer_and_close(response)) as server:
            assert (await ask(server, large=large)).body == b"abc"
        async with ScriptedServer(answer_and_close(response), context=context) as server:
            connection = Connection(server=server.url, authority=Pem(data=authority.certificate))
            async with Client(connection, retry=ONCE) as client:
                assert (await client.request("GET", "/x", large=large)).body == b"abc"

    async def test_headers_are_read_in_any_case(self) -> None:
        later = b"HTTP/1.1 503 No\r\nretry-AFTER: 7\r\nContent-Length: 0\r\n\r\n"
        response = OK.replace(b"\r\n\r\n", b"\r\nX-Twice: a\r\nX-Twice: b\r\nX-Empty:\r\n\r\n")
        async with ScriptedServer(answer(later, response)) as server, client_of(server) as client:
            with pytest.raises(ServerError) as caught:
                await client.request("GET", "/x")
            assert caught.value.retry_after == 7
            received = await client.request("GET", "/x")
        assert received.headers.get("CONTENT-length") == "2"
        assert dict(received.headers) == {"content-length": "2", "x-twice": "a", "x-empty": ""}
        assert received.headers.get("Retry-After") is None
        assert "{}" not in repr(received)

    async def test_error_status_raises_the_error_of_its_body(self) -> None:
        body = b'{"kind":"Status","reason":"NotFound","message":"none"}'
        response = b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        async with ScriptedServer(answer(response, OK)) as server, client_of(server) as client:
            with pytest.raises(NotFound, match="GET /x: 404 NotFound: none"):
                await client.request("GET", "/x")
            await client.request("GET", "/x")
            assert server.connections == 1

    async def test_each_warning_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        warnings = b'Warning: 299 - "one"\r\nWarning: 299 - "a \\"b\\"", 299 - "two"\r\n'
        response = OK.replace(b"\r\n\r\n", b"\r\n" + warnings + b"\r\n")
        async with ScriptedServer(answer(response, response)) as server, client_of(server) as client:
            await client.request("GET", "/x")
            await client.request("GET", "/x")
            expected = [f"{server.url}: {text}" for text in ("one", 'a "b"', "two")]
        assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == expected

    async def test_gzip_is_decoded_although_it_was_not_requested(self) -> None:
        body = gzip.compress(b"abc")
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
        async with ScriptedServer(answer(head % len(body) + body)) as server:
            assert (await ask(server)).body == b"abc"

    @pytest.mark.parametrize(
        "surplus", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n", OK]
    )
    async def test_surplus_response_changes_no_header(self, surplus: bytes) -> None:
        body = gzip.compress(b"abc")
        zipped = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
        later = b"HTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
        script = (answer(zipped + body + surplus), answer(later + surplus))
        async with ScriptedServer(*script) as server, client_of(server) as client:
            assert (await client.request("GET", "/x")).body == b"abc"
            with pytest.raises(ServerError) as caught:
                await client.request("GET", "/x")
            assert caught.value.retry_after == 7

    @pytest.mark.parametrize(
        "response",
        [
            b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + bytes(3_000_000),
            b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + bytes(2_500_000),
            CHUNKED + b"1;" + b"x" * 3_000_000,
            CHUNKED + b"1\r\na\r\n0\r\n" + b"X: y\r\n" * 500_000,
            b"HTTP/1.1 200 OK\r\n\r\n" + bytes(3_000_000),
            ZIPPED % len(BOMB) + BOMB,
        ],
        ids=["whole", "unfinished", "chunk extension", "trailers", "without length", "compressed"],
    )
    async def test_long_body_is_an_error(self, response: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(exchanges, "BODY_BYTES", 2**21)
        async with ScriptedServer(answer(response, OK)) as server, client_of(server, retry=Retry()) as client:
            with pytest.raises(ResponseTooLong, match=r"GET /x: .* longer than 2 MiB"):
                await client.request("GET", "/x")
            assert server.connections == 1  # it is not asked for again

    @pytest.mark.parametrize(
        "response", [ZIPPED % len(BOMB) + BOMB, b"HTTP/1.1 200 OK\r\n\r\n" + bytes(3_000_000)]
    )
    async def test_long_list_is_an_error(self, response: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "LIST_BYTES", 2**21)
        async with ScriptedServer(answer(response)) as server:
            with pytest.raises(ResponseTooLong, match=r"GET /x: .* longer than 2 MiB"):
                await ask(server, large=True)

    async def test_compressed_body_is_decoded_in_parts(self) -> None:
        """Between them, other callbacks run."""
        turns = 0
        async with ScriptedServer(answer(ZIPPED % len(BOMB) + BOMB)) as server, client_of(server) as client:
            request = asyncio.create_task(client.request("GET", "/x"))
            while server.connections == 0:
                await asyncio.sleep(0)
            exchange = client._transport._exchange
            assert exchange is not None
            while not exchange._idle:
                await asyncio.sleep(0)  # until the response has arrived
            while not request.done():
                turns += 1
                await asyncio.sleep(0)
            assert len((await request).body) == 32 * 2**20
        assert turns >= 32

    @pytest.mark.parametrize("large", [False, True])
    async def test_body_cut_off_below_tls_is_an_error(self, tmp_path: Path, large: bool) -> None:
        authority = Authority()
        context = authority.serving(authority.server("127.0.0.1"), tmp_path)

        async def play(wire: Wire) -> None:
            await wire.receive()
            wire.send(b'HTTP/1.1 200 OK\r\n\r\n{"items":[]}')
            await wire.sent()
            wire.cut()

        async with ScriptedServer(play, context=context) as server:
            connection = Connection(server=server.url, authority=Pem(data=authority.certificate))
            async with Client(connection, retry=ONCE) as client:
                with pytest.raises(TransportError, match=exchanges.ENDED_EARLY):
                    await client.request("GET", "/x", large=large)

    @pytest.mark.parametrize(
        ("response", "why"),
        [
            (b"<html>", "not valid HTTP: Expected HTTP/"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "not valid HTTP"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "not valid HTTP"),
            (CHUNKED + b"x\r\n", "not valid HTTP"),
            (b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", exchanges.SWITCHED),
            (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 2**20, exchanges.LONG_HEAD),
            (b"HTTP/1.1 100 Continue\r\n\r\n" * 2**16, exchanges.LONG_HEAD),
            (
                b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\na",
                "content encoding 'br'",
            ),
            (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd", "not valid HTTP"),
            (
                b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n"
                + gzip.compress(b"abc", mtime=0)[:9],
                exchanges.ENDED_EARLY,
            ),
        ],
        ids=[
            "no HTTP",
            "length",
            "two lengths",
            "chunk",
            "upgrade",
            "long header",
            "endless interim responses",
            "encoding",
            "gzip",
            "half of gzip",
        ],
    )
    async def test_malformed_response_is_an_error(self, response: bytes, why: str) -> None:
        async with ScriptedServer(answer(response)) as server:
            with pytest.raises(TransportError, match=f"GET /x: the connection closed .*: .*{why}") as caught:
                await ask(server)
            assert caught.value.sent

    @pytest.mark.parametrize(
        ("response", "why"),
        [
            (b"", exchanges.DISCONNECTED),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", exchanges.ENDED_EARLY),
            (CHUNKED + b"2\r\n{}\r\n", exchanges.ENDED_EARLY),
        ],
        ids=["nothing", "length", "chunked"],
    )
    @pytest.mark.parametrize("large", [False, True])
    async def test_response_that_ends_early_is_an_error(self, response: bytes, why: str, large: bool) -> None:
        """With the message that aiohttp causes."""
        async with ScriptedServer(answer_and_close(response)) as server:
            with pytest.raises(TransportError) as caught:
                await ask(server, large=large)
        assert caught.value.sent
        assert str(caught.value) == transports.INCOMPLETE.format(request="GET /x", why=why)

    async def test_headers_that_end_early_are_an_error(self) -> None:
        async with ScriptedServer(answer_and_close(b"HTTP/1.1 200 OK\r\nContent-")) as server:
            with pytest.raises(TransportError, match=exchanges.DISCONNECTED):
                await ask(server)

    async def test_reset_connection_is_an_error(self) -> None:
        async def play(wire: Wire) -> None:
            await wire.receive()
            wire.reset()

        async with ScriptedServer(play) as server:
            with pytest.raises(TransportError, match="before the response was complete"):
                await ask(server)


class TestReuse:
    async def test_connection_is_used_again(self) -> None:
        async with ScriptedServer(answer(OK, OK, OK)) as server, client_of(server) as client:
            for _ in range(3):
                await client.request("POST", "/x", body={})
            assert server.connections == 1

    async def test_most_recently_used_connection_is_used_first(self) -> None:
        received: list[int] = []
        release = asyncio.Event()

        def play(number: int) -> Script:
            async def script(wire: Wire) -> None:
                while await wire.receive():
                    received.append(number)
                    if number == 1 and received.count(1) == 1:
                        await release.wait()
                    wire.send(OK)

            return script

        async with ScriptedServer(play(1), play(2)) as server, client_of(server) as client:
            first = asyncio.create_task(client.request("GET", "/x"))
            while not received:
                await asyncio.sleep(0)
            await client.request("GET", "/x")
            release.set()
            await first
            for _ in range(3):
                await client.request("GET", "/x")
            assert received == [1, 2, 1, 1, 1]

    @pytest.mark.parametrize(
        "response",
        [
            OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
            OK.replace(b"HTTP/1.1", b"HTTP/1.0"),
            OK + b"surplus",
            OK + OK,
        ],
        ids=["close", "HTTP/1.0", "surplus bytes", "surplus response"],
    )
    async def test_connection_is_not_used_again(self, response: bytes) -> None:
        closed: list[bytes] = []

        async def play(wire: Wire) -> None:
            await wire.receive()
            wire.send(response)
            closed.append(await wire.receive())

        async with ScriptedServer(play, answer(OK)) as server, client_of(server) as client:
            for _ in range(2):
                assert (await client.request("GET", "/x")).body == b"{}"
            await server.ended()
        assert closed == [b""]
        assert server.connections == 2

    async def test_connection_that_sent_bytes_while_idle_is_dropped(self) -> None:
        send = asyncio.Event()

        async def play(wire: Wire) -> None:
            await wire.receive()
            wire.send(OK)
            await send.wait()
            wire.send(OK)
            assert await wire.receive() == b""

        async with ScriptedServer(play, answer(OK)) as server, client_of(server) as client:
            await client.request("GET", "/x")
            send.set()
            await server.ended()
            await client.request("GET", "/x")
            assert server.connections == 2

    @pytest.mark.parametrize("secure", [False, True])
    async def test_connection_that_the_hub_closed_is_not_used(self, tmp_path: Path, secure: bool) -> None:
        authority = Authority()
        context = authority.serving(authority.server("127.0.0.1"), tmp_path) if secure else None
        async with ScriptedServer(answer_and_close(OK), answer(OK), context=context) as server:
            async with Client(Connection(server=server.url, insecure=secure), retry=ONCE) as client:
                await client.request("POST", "/x", body={})
                exchange = client._transport._exchange
                assert exchange is not None
                while exchange._open:
                    await asyncio.sleep(0)
                await client.request("POST", "/x", body={})
            assert server.connections == 2

    async def test_idle_connection_is_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(exchanges, "IDLE_SECONDS", 0.0)

        async def play(wire: Wire) -> None:
            await wire.receive()
            wire.send(OK)
            assert await wire.receive() == b""

        async with ScriptedServer(play) as server, client_of(server) as client:
            await client.request("GET", "/x")
            await server.ended()

    async def test_connection_of_a_replaced_client_certificate_is_not_used(self, tmp_path: Path) -> None:
        authority = Authority()
        context = authority.serving(authority.server("127.0.0.1"), tmp_path, asks_clients=True)
        chain, key = authority.client("jane").write(tmp_path, "client")
        credentials = StoredCredentials(chain=Pem(path=str(chain)), key=Pem(path=str(key)))
        async with ScriptedServer(answer(OK, OK), answer(OK), context=context) as server:
            connection = Connection(
                server=server.url, authority=Pem(data=authority.certificate), credentials=credentials
            )
            async with Client(connection, retry=ONCE) as client:
                await client.request("GET", "/x")
                await client.request("GET", "/x")
                assert server.connections == 1
                authority.client("john").write(tmp_path, "client")
                await client.request("GET", "/x")
                assert server.connections == 2


class TestCancellation:
    @pytest.mark.parametrize("secure", [False, True])
    async def test_cancelled_request_aborts_its_connection(self, tmp_path: Path, secure: bool) -> None:
        authority = Authority()
        context = authority.serving(authority.server("127.0.0.1"), tmp_path) if secure else None
        begun = asyncio.Event()

        async def play(wire: Wire) -> None:
            await wire.receive()
            wire.send(OK[:-1])
            begun.set()
            assert await wire.receive() == b""

        async with ScriptedServer(play, answer(OK), context=context) as server:
            async with Client(Connection(server=server.url, insecure=secure), retry=ONCE) as client:
                asked = asyncio.create_task(client.request("GET", "/x"))
                await begun.wait()
                asked.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asked
                await server.ended()
                await client.request("GET", "/x")
            assert server.connections == 2

    async def test_request_that_times_out_aborts_its_connection(self) -> None:
        async def play(wire: Wire) -> None:
            await wire.receive()
            assert await wire.receive() == b""

        async with ScriptedServer(play, answer(OK)) as server, client_of(server) as client:
            with pytest.raises(DeadlineExceeded, match=r"GET /x: no response within 0\.05 s"):
                await client.request("GET", "/x", timeout=0.05)
            await server.ended()
            await client.request("GET", "/x")

    async def test_cancellation_after_the_response_keeps_the_connection_of_the_next_request(self) -> None:
        """The response completes and frees the connection before the cancelled task runs."""
        async with ScriptedServer(answer(OK, OK)) as server, client_of(server) as client:
            await client.request("GET", "/x")
            exchange = client._transport._exchange
            assert exchange is not None
            (connection,) = exchange._idle
            first = connection.send(b"GET /x HTTP/1.1\r\n\r\n")
            exchange._idle.clear()
            await first
            assert exchange._idle == [connection]
            connection.abandon(first)
            assert exchange._idle == [connection]
            assert not connection.closing

    async def test_cancelled_while_connecting_leaves_no_connection(self, tmp_path: Path) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        with listener:
            port = listener.getsockname()[1]
            async with Client(Connection(server=f"https://127.0.0.1:{port}", insecure=True)) as client:
                asked = asyncio.create_task(client.request("GET", "/x"))
                loop = asyncio.get_running_loop()
                listener.setblocking(False)
                accepted, _ = await loop.sock_accept(listener)
                with accepted:
                    assert await loop.sock_recv(accepted, 1)  # of the TLS handshake, which is not answered
                    asked.cancel()
                    await asyncio.wait({asked})
                    while await loop.sock_recv(accepted, 65536):
                        pass
                exchange = client._transport._exchange
                assert exchange is not None
                assert not exchange._open
                assert not exchange._connecting

    @pytest.mark.parametrize("hosts", [["127.0.0.1"], ["127.0.0.1", "127.0.0.1"], ["127.0.0.2", "127.0.0.1"]])
    @pytest.mark.parametrize("secure", [False, True])
    async def test_cancelled_at_any_step_leaves_no_socket(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: list[str], secure: bool
    ) -> None:
        """A socket that is not closed is an error of the test, once it is collected."""
        authority = Authority()
        context = authority.serving(authority.server("127.0.0.1"), tmp_path) if secure else None
        async with ScriptedServer(context=context) as server:
            port = int(server.address.rpartition(":")[2])

            async def resolve(*_: object, **__: object) -> list[Any]:
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in hosts]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
            url = server.url.replace("127.0.0.1", "hub.example")
            for steps in range(40):
                async with Client(Connection(server=url, insecure=secure), retry=ONCE) as client:
                    asked = asyncio.create_task(client.request("GET", "/x"))
                    for _ in range(steps):
                        await asyncio.sleep(0)
                    asked.cancel()
                    await asyncio.wait({asked})
        gc.collect()

    async def test_close_aborts_requests_and_connections_being_made(self, tmp_path: Path) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        loop = asyncio.get_running_loop()
        with listener:
            listener.setblocking(False)
            for scheme in ("http", "https"):
                server = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
                client = Client(Connection(server=server, insecure=scheme == "https"), retry=ONCE)
                async with client:
                    asked = asyncio.create_task(client.request("GET", "/x"))
                    accepted, _ = await loop.sock_accept(listener)
                    with accepted:
                        assert await loop.sock_recv(accepted, 1)
                        await client._transport.close()
                        with pytest.raises(TransportError, match=exchanges.CLIENT_CLOSED):
                            await asked
                        while await loop.sock_recv(accepted, 65536):
                            pass

    async def test_closed_client_sends_nothing(self, hub: FakeServer) -> None:
        async with client_of(hub) as client:
            pass
        for large in (False, True):
            with pytest.raises(RuntimeError, match="the client is not open"):
                await client.request("GET", PATH, large=large)


class TestConnecting:
    async def test_all_addresses_of_the_hub_are_tried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with ScriptedServer(answer(OK)) as server:
            port = int(server.address.rpartition(":")[2])
            hosts = ["127.0.0.2", "127.0.0.1"]
            addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in hosts]

            async def resolve(*_: object, **__: object) -> list[Any]:
                return addresses

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
            async with Client(Connection(server=f"http://hub.example:{port}"), retry=ONCE) as client:
                assert (await client.request("GET", "/x")).body == b"{}"

    @pytest.mark.parametrize("large", [False, True])
    async def test_slow_connection_is_not_waited_for(
        self, monkeypatch: pytest.MonkeyPatch, large: bool
    ) -> None:
        from kubewire.client import session

        monkeypatch.setattr(exchanges, "CONNECT_SECONDS", 0.05)
        monkeypatch.setattr(session, "CONNECT_SECONDS", 0.05)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = f"https://127.0.0.1:{listener.getsockname()[1]}"
            async with Client(Connection(server=server, insecure=True), retry=ONCE) as client:
                with pytest.raises(TransportError) as caught:
                    await client.request("GET", "/x", large=large)
        assert str(caught.value) == f"cannot reach {server}: no connection within 0.05 s"
        assert not caught.value.sent

    @pytest.mark.parametrize("large", [False, True])
    async def test_unreachable_hub_is_reported(self, large: bool) -> None:
        """With the message that aiohttp causes."""
        for server in ("http://127.0.0.1:1", "https://127.0.0.1:1", "http://hub.invalid"):
            async with Client(Connection(server=server), retry=ONCE) as client:
                with pytest.raises(
                    TransportError, match=rf"^cannot reach {server}: \[Errno -?\d+\]"
                ) as caught:
                    await client.request("GET", "/x", large=large)
            assert not caught.value.sent

    @pytest.mark.parametrize("large", [False, True])
    async def test_untrusted_certificate_is_reported(self, tmp_path: Path, large: bool) -> None:
        authority = Authority()
        context = authority.serving(authority.server("hub.example"), tmp_path)
        async with ScriptedServer(context=context) as server:
            trusted = Pem(data=authority.certificate)
            for pem, why in (
                (Pem(data=Authority().certificate), "unable to get local issuer"),
                (trusted, "IP address mismatch"),
            ):
                async with Client(Connection(server=server.url, authority=pem), retry=ONCE) as client:
                    with pytest.raises(
                        UntrustedError, match=f"{why}.*; check certificate-authority"
                    ) as caught:
                        await client.request("GET", "/x", large=large)
                assert not caught.value.sent

    async def test_replaced_certificate_authority_is_used(self, tmp_path: Path) -> None:
        authority, file = Authority(), tmp_path / "ca.crt"
        context = authority.serving(authority.server("127.0.0.1"), tmp_path)
        file.write_bytes(Authority().certificate)
        async with ScriptedServer(answer(OK), context=context) as server:
            connection = Connection(server=server.url, authority=Pem(path=str(file)))
            async with Client(connection, retry=ONCE) as client:
                with pytest.raises(UntrustedError):
                    await client.request("GET", "/x")
                aside = tmp_path / "aside"
                aside.write_bytes(authority.certificate)
                aside.replace(file)
                await client.request("GET", "/x")

    async def test_tls_server_name_replaces_the_host(self, tmp_path: Path) -> None:
        authority = Authority()
        context = authority.serving(authority.server("hub.example"), tmp_path)
        async with ScriptedServer(answer(OK), context=context) as server:
            connection = Connection(
                server=server.url, authority=Pem(data=authority.certificate), tls_server_name="hub.example."
            )
            async with Client(connection, retry=ONCE) as client:
                await client.request("GET", "/x")

    async def test_dead_peers_are_detected(self) -> None:
        async with ScriptedServer(answer(OK)) as server, client_of(server) as client:
            await client.request("GET", "/x")
            exchange = client._transport._exchange
            assert exchange is not None
            (connection,) = exchange._open
            assert connection._transport is not None
            made = connection._transport.get_extra_info("socket")
            assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


async def test_connection_that_ends_before_the_request_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub may close a new connection, such as for its client certificate, before the request is written."""
    async with ScriptedServer(answer(OK)) as server:
        exchange = Exchange(server.url)
        connect = exchange._connect

        async def connect_and_lose(context: ssl.SSLContext | None) -> Any:
            connection = await connect(context)
            connection.connection_lost(ConnectionResetError("the alert"))
            return connection

        monkeypatch.setattr(exchange, "_connect", connect_and_lose)
        with pytest.raises(exchanges.NotConnected, match="the alert"):
            await exchange.send(b"GET /x HTTP/1.1\r\n\r\n", None)
        await exchange.close()
