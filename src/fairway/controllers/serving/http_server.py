"""Small HTTP servers that clients cannot use to slow down the controllers.

A connection carries one request. The TLS handshake, the head and the body of the request have a deadline each, and the
connection has one from its opening to the last byte of the response. The number of connections is limited, for each
peer and in total; unauthenticated ones are closed for newer ones (``kubewire.inbound``).
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.web_protocol import RequestHandler

from fairway.controllers.serving.address import Address, CannotListen
from kubewire.inbound import Gate, GuardedTls, Place, peer_of

log: Final = logging.getLogger(__name__)

CONNECTION_SECONDS: Final = 60.0
HANDSHAKE_SECONDS: Final = 5.0
HEAD_SECONDS: Final = 5.0
BODY_SECONDS: Final = 5.0
FAREWELL_SECONDS: Final = 5.0
CONNECTIONS: Final = 512
"""Connections of each server."""
PEER_CONNECTIONS: Final = 64
"""Connections of one peer."""
LINE_BYTES: Final = 16 * 1024
FIELD_BYTES: Final = 32 * 1024
"""Bytes; tokens with many claims are long."""
HEADERS: Final = 64

TEXT: Final = "text/plain; charset=utf-8"
NOT_HTTP: Final = "bad request\n"
BROKEN: Final = "internal error; see the log of fairway\n"
FAILED: Final = "%s of %s failed"

Handler = Callable[[web.BaseRequest], Awaitable[web.Response]]


class BodyTooLarge(Exception):
    """The body of a request has more bytes than the limit."""


def trust(request: web.BaseRequest) -> None:
    """Note that the sender of a request is authenticated: its connection is not closed for newer ones."""
    if isinstance(request.protocol, _Connection):
        request.protocol.trust()


def peer_address(request: web.BaseRequest) -> str:
    return "" if request.transport is None else peer_of(request.transport)


async def read_body(request: web.BaseRequest, *, limit: int) -> bytes:
    """Raise BodyTooLarge as soon as that is certain, and TimeoutError after ``BODY_SECONDS``."""
    async with asyncio.timeout(BODY_SECONDS):
        return await _read_body(request, limit=limit)


async def _read_body(request: web.BaseRequest, *, limit: int) -> bytes:
    if (request.content_length or 0) > limit:
        raise BodyTooLarge
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the response has not begun
    pieces = bytearray()
    while piece := await request.content.readany():
        pieces += piece
        if len(pieces) > limit:
            raise BodyTooLarge
    return bytes(pieces)


class _Connection(RequestHandler):
    """Without a ``place``, as on plain TCP, the connection takes one at the gate itself."""

    __slots__ = ("_deadline", "_gate", "_head_deadline", "_link", "_own_place", "place")

    def __init__(self, manager: web.Server, *, gate: Gate, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._gate = gate
        self.place: Place | None = None
        self._own_place = False
        self._deadline: asyncio.TimerHandle | None = None
        self._head_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._link = transport
        if self.place is None:
            self.place = self._gate.admit(peer_of(transport), self.cut)
            self._own_place = True
            if self.place is None:
                self.cut()
                return
        # Absolute, whatever the client sends: one byte every few seconds would otherwise keep a place forever.
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(CONNECTION_SECONDS, self.cut)
        self._head_deadline = loop.call_later(HEAD_SECONDS, self.cut)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._own_place:
            self._gate.release(self.place)
        self.head_arrived()
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def head_arrived(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def trust(self) -> None:
        self._gate.trust(self.place)

    def force_close(self) -> None:
        # A second close before the TLS shutdown is complete would make abort impossible, and leak the connection.
        if self.transport is not None and self.transport.is_closing():
            self.cut()
        super().force_close()

    def cut(self) -> None:
        # Abort, not close: close waits until the client has read what is buffered.
        if isinstance(self._link, asyncio.WriteTransport):
            self._link.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to invalid HTTP, without its text, which may contain a token."""
        del message
        log.debug("cannot parse request  remote=%s error=%s", request.remote, type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("the response has already started")
        return _last(web.Response(status=status, text=NOT_HTTP if status < 500 else BROKEN))


class _Listener(web.Server):
    def __init__(self, handler: Handler) -> None:
        async def handled(request: web.BaseRequest) -> web.StreamResponse:
            if isinstance(request.protocol, _Connection):
                request.protocol.head_arrived()
            return _last(await _answered(handler, request))

        super().__init__(handled, handler_cancellation=True)
        self.gate = Gate(total=CONNECTIONS, per_peer=PEER_CONNECTIONS)

    def __call__(self) -> "_Connection":
        return _Connection(
            self,
            gate=self.gate,
            loop=self._loop,
            access_log=None,
            max_line_size=LINE_BYTES,
            max_field_size=FIELD_BYTES,
            max_headers=HEADERS,
            lingering_time=0.5,
            # Compressed bodies can expand without limit.
            auto_decompress=False,
        )

    def over_tls(self, context: ssl.SSLContext) -> asyncio.BaseProtocol:
        connection = self()

        def admitted(place: Place) -> None:
            connection.place = place

        return GuardedTls(
            connection,
            context,
            gate=self.gate,
            admitted=admitted,
            handshake_seconds=HANDSHAKE_SECONDS,
            shutdown_seconds=FAREWELL_SECONDS,
        )


async def _answered(handler: Handler, request: web.BaseRequest) -> web.Response:
    if request.version not in (HttpVersion10, HttpVersion11):
        return web.Response(status=505, text=NOT_HTTP)
    try:
        return await handler(request)
    except ConnectionError:
        raise
    except Exception:
        log.exception(FAILED, request.method, request.raw_path)
        return web.Response(status=500, text=BROKEN)


def _last(response: web.Response) -> web.Response:
    response.headers["Server"] = "fairway"  # instead of aiohttp's name and version
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-store"
    response.force_close()
    return response


@asynccontextmanager
async def listening(
    address: Address, handler: Handler, *, context: ssl.SSLContext | None = None
) -> AsyncIterator[Address]:
    """Listen, and return the actual address, as port 0 means any. Raise CannotListen if it is not available."""
    listener = _Listener(handler)
    try:
        server = await asyncio.get_running_loop().create_server(
            listener if context is None else partial(listener.over_tls, context),
            address.host or None,
            address.port,
        )
    except OSError as error:
        raise CannotListen(address, error) from error
    async with _closing(server, listener):
        yield Address(host=address.host, port=server.sockets[0].getsockname()[1])


@asynccontextmanager
async def listening_on_socket(bound: socket.socket, handler: Handler) -> AsyncIterator[None]:
    """Listen on a Unix socket that is bound to its path."""
    listener = _Listener(handler)
    server = await asyncio.get_running_loop().create_unix_server(listener, sock=bound)
    async with _closing(server, listener):
        yield


@asynccontextmanager
async def _closing(server: asyncio.Server, listener: _Listener) -> AsyncIterator[None]:
    try:
        yield
    finally:
        server.close()
        listener.pre_shutdown()
        await listener.shutdown(1.0)
        await listener.gate.close_all()
        await server.wait_closed()
