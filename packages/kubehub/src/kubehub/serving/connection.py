"""A client connection, with limits that keep slow or greedy clients from harming others."""

import asyncio
import logging
import ssl
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from kubewire.inbound import Gate, GuardedTls, Place, peer_of

log = logging.getLogger(__name__)

HEADER_SECONDS: Final = 10.0
"""Seconds that a client may take to send the head of a request."""
HEADER_BYTES: Final = 128 * 1024
"""Bytes of the head of a request. The client isn't authenticated yet."""
HANDSHAKE_SECONDS: Final = 10.0
TLS_SHUTDOWN_SECONDS: Final = 10.0
BODY_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 120.0
STALLED_SECONDS: Final = 30.0
"""Seconds after which a client that doesn't read its responses is disconnected."""
CONNECTIONS: Final = 20_000
SPARE_FILES: Final = 128
"""File descriptors that are reserved for the store and the logs."""

_WRITE_AFTER_CLOSE: Final = frozenset({"SSL connection is closed", "socket.send() raised exception."})


def drop_closed_connection_warnings(record: logging.LogRecord) -> bool:
    """Filter for asyncio's logger, which logs every response to a client that has disconnected.

    A client that sends thousands of requests at once and leaves would fill the log.
    """
    return record.msg not in _WRITE_AFTER_CLOSE


def open_gate() -> Gate:
    """Return the gate of a hub. One address may have many agents behind it, so only unauthenticated connections of a
    peer are limited, and to half of all."""
    most = _most_connections()
    return Gate(total=most, waiting_per_peer=max(1, most // 2), per_peer=most)


def _most_connections() -> int:
    try:
        import resource  # not available on every platform
    except ImportError:
        return CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS if files == resource.RLIM_INFINITY else max(1, min(CONNECTIONS, files - SPARE_FILES))


class Connection(RequestHandler):
    """Closes itself when the head of a request is too long or late, or the client doesn't read its responses."""

    __slots__ = (
        "_clock",
        "_gate",
        "_head_bytes",
        "_head_timer",
        "_own_place",
        "_stall_timer",
        "_transport",
        "place",
    )

    def __init__(self, manager: web.Server, *, gate: Gate, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._gate = gate
        self.place: Place | None = None
        """Over TLS it exists already; on plain TCP the connection takes one itself."""
        self._own_place = False
        self._clock = asyncio.get_running_loop()
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transport = transport
        if self.place is None:
            self.place = self._gate.admit(peer_of(transport), self.abort)
            self._own_place = True
            if self.place is None:
                self.force_close()
                self.abort()
                return
        self._start_head_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._own_place:
            self._gate.release(self.place)
        self.stop_head_timer()
        self._stop_stall_timer()
        super().connection_lost(exc)

    def abort(self) -> None:
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.abort()

    def trust(self) -> None:
        """Note that the client is authenticated."""
        self._gate.trust(self.place)

    def data_received(self, data: bytes) -> None:
        # From the first byte of a request to the last one of its headers, so idle connections between requests do not
        # count.
        if self._head_timer is None and self._current_request is None:
            self._start_head_timer()
        super().data_received(data)
        if self._messages or self._request_in_progress:
            self._head_bytes = 0
        else:
            self._head_bytes += len(data)
            # The parser limits a line and the number of headers, but not their sum.
            if self._head_bytes > HEADER_BYTES:
                self.abort()

    def _start_head_timer(self) -> None:
        self._head_timer = self._clock.call_later(HEADER_SECONDS, self._on_head_timeout)

    def stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def pause_writing(self) -> None:
        super().pause_writing()
        # A client that reads nothing keeps its response in memory; the transport calls this when its buffer is full.
        self._stall_timer = self._clock.call_later(STALLED_SECONDS, self.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_stall_timer()

    def _stop_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _on_head_timeout(self) -> None:
        self._head_timer = None
        if self.transport is not None:
            self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002  # the parser's message quotes what it read, tokens included
    ) -> web.StreamResponse:
        """Answer what isn't HTTP without logging it, because any client can send it."""
        if status < 500:
            log.debug("malformed request  remote=%s error=%s", request.remote, type(exc).__name__)
        else:
            log.error("request failed without a response  error=%s", type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("the response has already started")
        response = web.Response(
            status=status, text="Bad Request\n" if status < 500 else "Internal Server Error\n"
        )
        response.force_close()
        return response


class Listener(web.Server):
    """Creates our connections, and requests that reject bodies beyond the limit."""

    def __init__(self, handler: Any, *, gate: Gate, body_limit: int) -> None:
        loop = asyncio.get_running_loop()

        def request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
            if "Upgrade" in message.headers:
                # Upgrades are not supported, and the parser reads no further after such a request.
                message = message._replace(should_close=True)
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=body_limit)

        super().__init__(handler, request_factory=request, handler_cancellation=True)
        logging.getLogger("asyncio").addFilter(drop_closed_connection_warnings)
        self._gate = gate

    def __call__(self) -> Connection:
        return Connection(
            self,
            gate=self._gate,
            loop=self._loop,
            access_log=None,
            keepalive_timeout=IDLE_SECONDS,
            max_line_size=16_384,
            max_field_size=32_768,
            max_headers=128,
            lingering_time=2.0,
            read_bufsize=65_536,
            # Bodies are not decompressed, as in kube-apiserver: a small body could expand without limit.
            auto_decompress=False,
        )

    def over_tls(self, context: ssl.SSLContext, *, handshake_seconds: float) -> asyncio.BaseProtocol:
        connection = self()

        def admitted(place: Place) -> None:
            connection.place = place

        return GuardedTls(
            connection,
            context,
            gate=self._gate,
            admitted=admitted,
            handshake_seconds=handshake_seconds,
            shutdown_seconds=TLS_SHUTDOWN_SECONDS,
        )
