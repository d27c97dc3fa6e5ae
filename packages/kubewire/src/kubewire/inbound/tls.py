"""TLS on the server's side, for connections that the gate counts from their TCP accept on."""

import asyncio
import ssl
from asyncio import sslproto
from collections.abc import Callable
from typing import Any, Final

from kubewire.inbound.gate import Gate, Place, peer_of

READ_BUFFER: Final = 16 * 1024
"""Bytes. asyncio allocates 256 KiB for each connection: ten thousand idle ones would take 2.5 GiB."""


class GuardedTls(sslproto.SSLProtocol):
    """The protocol of one TCP connection, to be created by the factory of a server without ``ssl``.

    With ``ssl``, asyncio would call no code of ours before the handshake is complete. ``admitted`` gets the place
    before the handshake. The place is released when the TCP connection is closed, whatever the state of TLS.
    """

    max_size = READ_BUFFER

    def __init__(
        self,
        application: asyncio.Protocol,
        context: ssl.SSLContext,
        *,
        gate: Gate,
        admitted: Callable[[Place], None],
        handshake_seconds: float,
        shutdown_seconds: float,
    ) -> None:
        # No task waits for the handshake: without a waiter its errors only close the connection. The types of mypy know
        # neither that nor fractions of seconds.
        unwaited: Any = None
        seconds: Any = handshake_seconds
        super().__init__(
            asyncio.get_running_loop(),
            application,
            context,
            unwaited,
            server_side=True,
            ssl_handshake_timeout=seconds,
            ssl_shutdown_timeout=shutdown_seconds,
        )
        self._gate, self._admitted = gate, admitted
        self._place: Place | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._place = self._gate.admit(peer_of(transport), transport.abort)
        if self._place is None:
            # The base class has created the transport of the application already; unclosed, it warns when collected.
            self._app_transport.abort()
            transport.abort()
            return
        self._admitted(self._place)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._place is None:
            return  # refused: TLS never began
        self._gate.release(self._place)
        super().connection_lost(exc)
