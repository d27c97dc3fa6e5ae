"""The connections of one client's watches, lists and proxied requests; none outlives the client.

Closing a TLS connection properly waits for the peer, up to 30 seconds if the peer is dead. Connections are aborted
instead: no data can be lost by that.
"""

import asyncio
import socket
from functools import partial
from typing import Any
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler


class Connector(aiohttp.TCPConnector):
    """A connector without a limit; its users limit the number of requests."""

    def __init__(self) -> None:
        super().__init__(limit=0, socket_factory=make_socket)
        self._made: WeakSet[asyncio.WriteTransport] = WeakSet()
        self._factory = partial(_make_protocol, self._made, self._loop)

    def _release(self, key: Any, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        # A request that was cancelled before its response began has nothing to ``abandon`` yet.
        if (should_close or protocol.should_close) and protocol.transport is not None:
            protocol.transport.abort()
        super()._release(key, protocol, should_close=should_close)

    async def end(self) -> None:
        """Abort what is left after the session has closed: connections cancelled while they were being made."""
        for transport in tuple(self._made):
            transport.abort()
        await asyncio.sleep(0)  # in which they are closed


def _make_protocol(
    made: "WeakSet[asyncio.WriteTransport]", loop: asyncio.AbstractEventLoop
) -> ResponseHandler:
    return _TrackedProtocol(made, loop)


class _TrackedProtocol(ResponseHandler):
    def __init__(self, made: "WeakSet[asyncio.WriteTransport]", loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if isinstance(transport, asyncio.WriteTransport):
            self._made.add(transport)


def make_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Make a socket that detects a dead peer within a minute instead of hours."""
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        option = getattr(socket, name, None)
        if option is not None:
            opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened
