"""Requests to the ports under test: plain ones, and bytes that no client library would send."""

import asyncio
import json
import ssl
from collections.abc import Iterable
from typing import Any

from fairway.controllers.serving import Address
from security import wire

HOST = "127.0.0.1"
LOOPBACK = Address(host=HOST)


class Answer(wire.Answer):
    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def error(self) -> str:
        """Of an answer in the form that all refusals have."""
        assert self.headers["content-type"] == "application/json"
        assert list(self.document) == ["error"]
        return str(self.document["error"])


def unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def request(
    method: str,
    target: str,
    *,
    token: str = "",
    body: object = None,
    headers: Iterable[str] = (),
    version: str = "1.1",
) -> bytes:
    """``body``: bytes are sent as they are, anything else as JSON."""
    lines = [f"{method} {target} HTTP/{version}", "Host: fairway"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    data = b""
    if body is not None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines.append(f"Content-Length: {len(data)}")
    return "\r\n".join([*lines, *headers, "", ""]).encode() + data


async def connect(
    address: Address, *, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        HOST, address.port, ssl=tls, server_hostname="localhost" if tls else None
    )


async def send(address: Address, data: bytes, *, tls: ssl.SSLContext | None = None) -> bytes:
    """All bytes of the response."""
    reader, writer = await connect(address, tls=tls)
    try:
        writer.write(data)
        sending = asyncio.ensure_future(writer.drain())
        pieces = await wire.read_to_end(reader)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return pieces
    finally:
        writer.transport.abort()


def parsed(pieces: bytes) -> Answer:
    """The only response."""
    head, _, rest = pieces.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    if first == "HTTP/1.1 100 Continue":
        return parsed(rest)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    assert len(rest) in (int(headers["content-length"]), 0)
    return Answer(code=int(first.split()[1]), headers=headers, body=rest)


async def ask(
    address: Address, method: str, target: str, *, tls: ssl.SSLContext | None = None, **parts: Any
) -> Answer:
    return parsed(await send(address, request(method, target, **parts), tls=tls))
