"""What a client leaves behind when it ends while its hub does not answer: no connection."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp.client_proto import ResponseHandler

from fairway.api.resources import NODES
from kubewire.client import Client, Connection
from rigs.certificates import Authority


@contextmanager
def speechless(authority: Authority) -> Iterator[int]:
    """A hub that accepts one client and then sends nothing, not even a close; yields its port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server = authority.issue("server", hosts=["127.0.0.1"])
    context.load_cert_chain(server.certificate, server.key)
    over = threading.Event()

    def greet() -> None:
        with listener, listener.accept()[0] as plain, context.wrap_socket(plain, server_side=True):
            over.wait(120)

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=greet)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        over.set()
        thread.join()


async def test_connection_cancelled_while_connecting_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[socket.socket] = []
    usual = ResponseHandler.connection_made

    def given_up(self: ResponseHandler, transport: asyncio.BaseTransport) -> None:
        usual(self, transport)
        made.append(transport.get_extra_info("socket"))
        asking.cancel()

    monkeypatch.setattr(ResponseHandler, "connection_made", given_up)
    with speechless(Authority.create(tmp_path)) as port:
        async with Client(Connection(server=f"https://127.0.0.1:{port}", insecure=True)) as client:
            asking = asyncio.create_task(client.newest(NODES))
            await asyncio.wait({asking})
        (connected,) = made
        assert asking.cancelled()
        assert connected.fileno() == -1
