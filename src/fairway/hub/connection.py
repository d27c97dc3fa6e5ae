"""One client's connection, with the limits that keep slow or greedy clients from harming the others."""

import asyncio
from asyncio import sslproto
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

HEADER_SECONDS: Final = 10.0
"""How long a client may take over the head of a request."""
HANDSHAKE_SECONDS: Final = 10.0
BODY_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 120.0
CONNECTIONS: Final = 20_000
TLS_BUFFER: Final = 16 * 1024
"""Bytes that each TLS connection reads into. asyncio sets aside 256 KiB: ten thousand idle watches, 2.5 GiB."""


class Connections:
    def __init__(self, *, limit: int = CONNECTIONS) -> None:
        self.limit = limit
        self.open: set[Connection] = set()

    async def end(self) -> None:
        """Also those whose clients have yet to say farewell, as TLS wants it."""
        for connection in tuple(self.open):
            connection.abort()
        while self.open:
            await asyncio.sleep(0)


class Connection(RequestHandler):
    """Closes itself when a request's head doesn't arrive in time, whether it is the first or a later one."""

    __slots__ = ("_book", "_clock", "_deadline", "_link")

    def __init__(self, manager: web.Server, *, book: Connections, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._book = book
        self._clock = asyncio.get_running_loop()
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._link = transport
        if len(self._book.open) >= self._book.limit:
            self.force_close()
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
            return
        self._book.open.add(self)
        self._expect_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._book.open.discard(self)
        self.head_arrived()
        super().connection_lost(exc)

    def abort(self) -> None:
        if isinstance(self._link, asyncio.WriteTransport):
            self._link.abort()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and self._current_request is None:
            self._expect_head()
        super().data_received(data)

    def _expect_head(self) -> None:
        self._deadline = self._clock.call_later(HEADER_SECONDS, self._too_slow)

    def head_arrived(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self.transport is not None:
            self.transport.abort()


class Listener(web.Server):
    """Makes connections of ours, and requests that refuse bodies beyond the limit."""

    def __init__(self, handler: Any, *, book: Connections, body_limit: int) -> None:
        loop = asyncio.get_running_loop()

        def request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=body_limit)

        super().__init__(handler, request_factory=request, handler_cancellation=True)
        # There is no other way to say it; it only ever makes buffers of this process smaller.
        sslproto.SSLProtocol.max_size = min(sslproto.SSLProtocol.max_size, TLS_BUFFER)
        self._book = book

    def __call__(self) -> RequestHandler:
        return Connection(
            self,
            book=self._book,
            loop=self._loop,
            access_log=None,
            keepalive_timeout=IDLE_SECONDS,
            max_line_size=16_384,
            max_field_size=32_768,
            max_headers=128,
            lingering_time=2.0,
            read_bufsize=65_536,
        )
