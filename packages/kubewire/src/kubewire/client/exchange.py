"""Exchange requests and responses with one hub over lean HTTP/1.1 connections.

A session of aiohttp spends several times the CPU time of asyncio and TLS together on a small request, and in a burst of
decisions the CPU time of the controller delays them. An ``Exchange`` writes the bytes of a request to a connection and
parses the response with httptools, and does nothing else: no redirects, cookies, proxies or compression.

It never sends a request twice. Whether a request may be repeated is decided in ``transport``.
"""

import asyncio
import socket
import ssl
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from aiohappyeyeballs import AddrInfoType, start_connection
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from msgspec import Struct
from msgspec.structs import replace
from yarl import URL

from kubewire.client.connector import make_socket

CONNECT_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 15.0
"""An idle connection is closed after this time."""
HEAD_BYTES: Final = 65536
"""Limit of the bytes received before a response's headers are complete, so that no server exhausts memory."""
BODY_BYTES: Final = 64 * 2**20
"""Limit of a body as received and as decoded. An object has at most 3 MiB; lists do not come over an ``Exchange``."""

CLIENT_CLOSED: Final = "the client was closed"
NOT_IN_TIME: Final = "no connection within {seconds:g} s"
DISCONNECTED: Final = "Server disconnected"
ENDED_EARLY: Final = "the response ended early"
MALFORMED: Final = "the response is not valid HTTP: {why}"
LONG_HEAD: Final = "its headers are longer than 64 KiB"
SWITCHED: Final = "the server switched to another protocol"

_ATTEMPT_SECONDS: Final = 0.25
"""The next address of the hub is tried after this time, as RFC 8305 recommends."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_DECODED_AT_ONCE: Final = 2**20
"""Zeros compress a thousandfold, so a small body may decode for seconds. This much takes a few milliseconds."""


class NotConnected(Exception):
    """No connection was made, so the request was not sent."""

    def __init__(self, why: str, *, untrusted: bool = False) -> None:
        """``untrusted``: because of the server's certificate."""
        self.untrusted = untrusted
        super().__init__(why)


class Incomplete(Exception):
    """The request was sent, and no complete response arrived."""


class TooLong(Incomplete):
    """The body exceeds the limit, and would again."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"its body is longer than {limit / 2**20:g} MiB")


class Headers(Mapping[str, str]):
    """The headers of a response, by name in any case. Decoded when they are read, because few are."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[bytes, bytes]) -> None:
        """Names must be in lower case."""
        self._values = values

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower().encode()].decode("utf-8", errors="surrogateescape")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower().encode() in self._values

    def __iter__(self) -> Iterator[str]:
        return (name.decode("ascii") for name in self._values)

    def __len__(self) -> int:
        return len(self._values)


class Response(Struct, frozen=True, kw_only=True, gc=False):
    """A complete response. Its headers and body are not printed, because they may have secrets."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"Response(status={self.status})"


class Exchange:
    """The connections to one hub, one request at a time on each, most recently used first.

    Without a limit: its users limit the number of requests. ``server_name`` replaces the host in the check of the hub's
    certificate.
    """

    def __init__(self, server: str, *, server_name: str = "") -> None:
        url = URL(server, encoded=True)
        self._host, self._port = url.raw_host or "", url.port or 443
        self._server_name = (server_name or self._host).rstrip(".")
        self._loop = asyncio.get_running_loop()
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._connecting: set[asyncio.Timeout] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(self, data: bytes, context: ssl.SSLContext | None) -> Response:
        """Send the bytes of a request. Raise NotConnected or Incomplete.

        Connections of another TLS context are not used, because a context has the credentials of a client.
        """
        connection = self._take(context) or await self._connect(context)
        # The hub may close it between connecting and this point; nothing was sent yet, so the request may be repeated.
        if connection.ended:
            raise NotConnected(connection.ended)
        future = connection.send(data)
        try:
            response = await future
        except BaseException:
            # The connection may belong to another request since the response is complete.
            connection.abandon(future)
            raise
        if response.body and (encoding := response.headers.get("Content-Encoding")):
            response = replace(response, body=await _decode(response.body, encoding))
        return response

    async def close(self) -> None:
        """Abort all connections, also those being made. A TLS close would wait for the peer."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in tuple(self._open):
            connection.abort()
        for limit in self._connecting:
            if not limit.expired():
                limit.reschedule(self._loop.time())
        while self._connecting or self._open:
            await asyncio.sleep(0)  # in which they are closed

    def _take(self, context: ssl.SSLContext | None) -> "_Connection | None":
        idle = self._idle
        while idle:
            # The most recently used one: the others grow old together and are closed, so the pool shrinks after a
            # burst.
            connection = idle.pop()
            fresh = self._loop.time() - connection.idle_since < IDLE_SECONDS
            if fresh and connection.context is context and not connection.closing:
                return connection
            connection.abort()
        return None

    async def _connect(self, context: ssl.SSLContext | None) -> "_Connection":
        connection = _Connection(self, context, self._loop)
        limit = asyncio.timeout(CONNECT_SECONDS)
        sock: socket.socket | None = None
        try:
            async with limit:
                self._connecting.add(limit)
                # asyncio can do this in one step, but leaks the socket if it is cancelled in the wrong moment.
                sock = await start_connection(
                    await self._resolve(),
                    happy_eyeballs_delay=_ATTEMPT_SECONDS,
                    loop=self._loop,
                    socket_factory=make_socket,
                )
                await self._loop.create_connection(
                    lambda: connection,
                    sock=sock,
                    ssl=context,
                    server_hostname=self._server_name if context else None,
                )
        except BaseException as error:
            connection.abort()
            if sock is not None:
                sock.close()  # asyncio closes it in a later iteration, for which the loop may not live long enough
            if not isinstance(error, OSError):
                raise
            why = NOT_IN_TIME.format(seconds=CONNECT_SECONDS) if limit.expired() else _describe(error)
            if self._closed:
                why = CLIENT_CLOSED
            raise NotConnected(why, untrusted=isinstance(error, ssl.SSLCertVerificationError)) from error
        finally:
            self._connecting.discard(limit)
        if self._closed:
            connection.abort()
        return connection

    async def _resolve(self) -> Sequence[AddrInfoType]:
        try:
            # An address needs no resolver, which would be another thread.
            return socket.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        except socket.gaierror:
            return await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)

    def _release(self, connection: "_Connection") -> None:
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(IDLE_SECONDS, self._close_expired)

    def _retire(self, connection: "_Connection") -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    def _close_expired(self) -> None:
        """Close connections that were idle too long. Runs once in a while instead of one timer per request."""
        self._sweep = None
        expired = self._loop.time() - IDLE_SECONDS
        while self._idle and self._idle[0].idle_since <= expired:
            self._idle.pop(0).abort()
        if self._idle:
            self._sweep = self._loop.call_at(self._idle[0].idle_since + IDLE_SECONDS, self._close_expired)


class _Connection(asyncio.Protocol):
    """A connection, and the parser callbacks (``on_…``) of the response that it receives."""

    def __init__(
        self, exchange: Exchange, context: ssl.SSLContext | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.context = context
        self.idle_since = 0.0
        self.ended = ""
        """The reason why the connection was closed."""
        self._exchange, self._loop = exchange, loop
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[Response] | None = None
        self._status = 0
        """Of the final response, once its headers are complete."""
        self._headers: dict[bytes, bytes] = {}

    @property
    def closing(self) -> bool:
        return bool(self.ended) or self._transport is None or self._transport.is_closing()

    def send(self, data: bytes) -> "asyncio.Future[Response]":
        assert self._transport is not None
        # A parser per response: what is left of the previous one in a reused parser could become part of this one.
        self._parser = HttpResponseParser(self)
        self._status, self._headers = 0, {}
        self._body: list[bytes] = []
        self._received = 0
        self._complete = self._reusable = False
        self._response = response = self._loop.create_future()
        self._transport.write(data)
        return response

    def abandon(self, response: "asyncio.Future[Response]") -> None:
        """Abort the connection if it still waits for this response."""
        if self._response is response:
            self.abort()

    def abort(self, why: str | Incomplete = CLIENT_CLOSED) -> None:
        """Close the connection without waiting for the peer, and take it out of use."""
        self.ended = self.ended or str(why)
        self._exchange._retire(self)
        if self._transport is not None:
            self._transport.abort()
        response, self._response = self._response, None
        if response is not None and not response.done():
            response.set_exception(why if isinstance(why, Incomplete) else Incomplete(why))

    # Of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._exchange._open.add(self)

    def data_received(self, data: bytes) -> None:
        if self._response is None:
            self.abort()  # no request asked for these bytes
            return
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self._complete:
                why = SWITCHED if isinstance(error, HttpParserUpgrade) else str(error)
                self.abort(MALFORMED.format(why=why))
                return
            self._reusable = False
        # Bytes are counted as received: chunk extensions and trailers have no limit either, and are in no body.
        self._received += len(data)
        if self._received > HEAD_BYTES + BODY_BYTES:
            self.abort(TooLong(BODY_BYTES))
        elif self._complete:
            self._finish()
        elif not self._status and self._received > HEAD_BYTES:
            self.abort(MALFORMED.format(why=LONG_HEAD))

    def eof_received(self) -> None:
        measured = b"content-length" in self._headers or b"transfer-encoding" in self._headers
        if self._status and not measured and self._ended_by_peer():
            self._finish()
        else:
            self.abort(ENDED_EARLY if self._status else DISCONNECTED)

    def connection_lost(self, error: Exception | None) -> None:
        self._exchange._open.discard(self)
        self.abort(DISCONNECTED if error is None else _describe(error))

    # Of the parser

    def on_message_begin(self) -> None:
        if self._complete:
            self._reusable = False  # another response follows, which no request asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._status:
            return  # a trailer
        name = name.lower()
        if name not in self._headers:
            self._headers[name] = value
        elif name == b"warning":
            self._headers[name] += b", " + value

    def on_headers_complete(self) -> None:
        if self._status:
            return  # of surplus bytes after the response, which must not change it
        status = self._parser.get_status_code()
        if status < 200:
            self._headers.clear()  # an interim response, before the one to the request
        else:
            self._status, self._reusable = status, self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        if not self._complete:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._status:
            self._complete = True

    def _finish(self) -> None:
        """Deliver the response, and keep the connection for the next request if the hub does."""
        response, self._response = self._response, None
        if response is None or response.done():
            self.abort()
            return
        # Released before the result is set: the caller may send its next request at once, and should find this
        # connection.
        if self._reusable:
            self._exchange._release(self)
        else:
            self.abort()
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        response.set_result(Response(status=self._status, headers=Headers(self._headers), body=body))

    def _ended_by_peer(self) -> bool:
        """Return whether the peer ended the connection: without TLS's word for it, an attacker may have cut it."""
        assert self._transport is not None
        return is_closed_by_peer(self._transport.get_extra_info("ssl_object"))


def is_closed_by_peer(tls: ssl.SSLObject | None) -> bool:
    """Return whether a connection that has ended was closed by the peer's close_notify, or has no TLS.

    asyncio reports both ends alike. OpenSSL reads nothing after a close_notify, and wants more bytes without one.
    """
    if tls is None:
        return True
    try:
        return not tls.read(1)
    except ssl.SSLZeroReturnError:
        return True  # both sides have closed
    except ssl.SSLError:
        return False


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__


async def _decode(body: bytes, encoding: str) -> bytes:
    """Decompress a body that a proxy compressed although the request asked for none."""
    name = encoding.strip().lower()
    if name == "identity":
        return body
    if name not in ("gzip", "x-gzip"):
        raise Incomplete(f"the response has the content encoding {name!r}, which was not requested")
    decoder, parts, length = zlib.decompressobj(_GZIP), list[bytes](), 0
    while not decoder.eof:
        try:
            part = decoder.decompress(body, _DECODED_AT_ONCE)
        except zlib.error as error:
            raise Incomplete(MALFORMED.format(why=error)) from None
        body, length = decoder.unconsumed_tail, length + len(part)
        if length > BODY_BYTES:
            raise TooLong(BODY_BYTES)
        if not part and not decoder.eof:
            raise Incomplete(ENDED_EARLY)
        parts.append(part)
        if body:
            await asyncio.sleep(0)  # other callbacks run between the parts
    return b"".join(parts)
