"""Send raw requests over TLS that no client library would send, and parse the responses."""

import asyncio
import json
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADMIN, ALICE, MALLORY = "admin", "alice", "mallory"
"""An administrator, and two users without rights except those that a test grants."""
USERS = {ADMIN: ("system:masters",), ALICE: (), MALLORY: ()}
JSON = "application/json"


@dataclass(frozen=True, kw_only=True)
class Hub:
    """A hub under test. ``kind`` is ``embedded`` or ``real``."""

    kind: str
    host: str
    port: int
    authority: Path
    tokens: Mapping[str, str]
    folder: Path
    """Folder of its keys."""
    account_key: Path
    """Signing key of service account tokens."""

    def tls(self, certificate: Path | None = None) -> ssl.SSLContext:
        """``certificate`` is a PEM file with its key."""
        context = ssl.create_default_context(cafile=str(self.authority))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context


@dataclass(frozen=True, kw_only=True)
class Answer:
    code: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        document = json.loads(self.body)
        assert isinstance(document, dict)
        return document

    @property
    def message(self) -> str:
        return str(self.document["message"]) if self.body[:1] == b"{" else self.body.decode()


def request(
    method: str,
    target: str,
    *,
    token: str = "",
    body: object = None,
    type_: str = JSON,
    headers: Iterable[str] = (),
    last: bool = True,
) -> bytes:
    """``body``: bytes are sent unchanged, other values as JSON. ``last``: the hub closes the connection afterwards."""
    lines = [f"{method} {target} HTTP/1.1", "Host: hub"]
    if last:
        lines.append("Connection: close")
    if token:
        lines.append(f"Authorization: Bearer {token}")
    data = b""
    if body is not None:
        data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        lines += [f"Content-Type: {type_}", f"Content-Length: {len(data)}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + data


async def connect(
    hub: Hub, *, certificate: Path | None = None, limit: int = 2**16
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        hub.host, hub.port, ssl=hub.tls(certificate), server_hostname=hub.host, limit=limit
    )


async def send(hub: Hub, data: bytes, *, certificate: Path | None = None) -> list[Answer]:
    return parsed(await received(hub, data, certificate=certificate))


async def received(hub: Hub, data: bytes, *, certificate: Path | None = None) -> bytes:
    """Return all bytes until the hub closes the connection, which may happen before all data is sent."""
    reader, writer = await connect(hub, certificate=certificate)
    try:
        writer.write(data)
        sending = asyncio.ensure_future(writer.drain())
        pieces = await read_to_end(reader)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return pieces
    finally:
        writer.transport.abort()


async def ask(hub: Hub, method: str, target: str, *, user: str = ADMIN, **parts: Any) -> Answer:
    """Send one request as the user; an empty user is anonymous."""
    token = hub.tokens[user] if user else ""
    answers = await send(hub, request(method, target, token=token, **parts))
    assert len(answers) == 1, answers
    return answers[0]


def parsed(pieces: bytes) -> list[Answer]:
    answers = []
    while pieces:
        head, _, rest = pieces.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        code = int(first.split()[1])
        if headers.get("transfer-encoding") == "chunked":
            body, pieces = _unchunked(rest)
        else:
            size = int(headers["content-length"]) if "content-length" in headers else len(rest)
            body, pieces = rest[:size], rest[size:]
        if code >= 200:
            answers.append(Answer(code=code, headers=headers, body=body))
    return answers


def _unchunked(rest: bytes) -> tuple[bytes, bytes]:
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body, rest = body + rest[:length], rest[length + 2 :]
        if not length:
            break
    return body, rest


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """Read until the peer closes or resets the connection."""
    pieces = bytearray()
    try:
        while piece := await reader.read(2**16):
            pieces += piece
    except (ConnectionError, ssl.SSLError):
        pass
    return bytes(pieces)
