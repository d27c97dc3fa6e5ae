"""A faulty proxy between controllers and a hub, which records the writes.

``fate`` decides each request: wrong, late or missing responses, requests that are carried out without a response or
twice, and watches that break or fall behind.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import aiohttp
from aiohttp import web
from aiohttp.client_proto import ResponseHandler
from clients.talk import context
from yarl import URL

from rigs.fake_server import status

Kind = Literal["watch", "read", "write", "other"]
"""``write`` is a write of placements or decisions; ``other`` of leases or events."""

DROPPED: Final = ("content-length", "transfer-encoding", "connection", "content-encoding", "host")
CHUNK: Final = 2**16

_OURS: Final = re.compile(
    r"/namespaces/(?P<namespace>[^/]+)/(?P<plural>placements|placementdecisions)(?:/|$)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxiedRequest:
    kind: Kind
    method: str
    path: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """The fate of one request; by default it succeeds."""

    code: int = 0
    """The response of the proxy; the hub does not get the request."""
    reason: str = ""
    retry_after: str = ""
    lost: bool = False
    """The connection breaks before the hub sees it."""
    unheard: bool = False
    """The hub carries it out, and the connection breaks."""
    twice: bool = False
    """The hub gets it twice; the first response is returned."""
    held: float = 0.0
    """Seconds before the hub gets it. The events of a watch are delayed as long."""
    late: float = 0.0
    """Delay of the response in seconds."""


WELL: Final = Fate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write that the hub carried out."""

    method: str
    namespace: str
    plural: str
    document: dict[str, Any]
    """The object in the response."""


@dataclass(slots=True)
class Counted:
    """Number of faults by kind."""

    by_fate: dict[str, int] = field(default_factory=dict)

    def add(self, name: str) -> None:
        self.by_fate[name] = self.by_fate.get(name, 0) + 1


class Abrupt(aiohttp.TCPConnector):
    """Close connections without waiting for the peer, because the loop may end earlier."""

    def _release(self, key: Any, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        if (should_close or protocol.should_close) and protocol.transport is not None:
            protocol.transport.abort()
        super()._release(key, protocol, should_close=should_close)


class Proxy:
    """Open with ``proxied``."""

    def __init__(self, session: aiohttp.ClientSession, *, server: str) -> None:
        self.fate: Callable[[ProxiedRequest], Fate] = lambda _: WELL
        self.writes: list[Write] = []
        self.counted = Counted()
        self.url = ""
        self._session, self._server = session, server
        self._watches: set[asyncio.Event] = set()

    def cut_watches(self) -> None:
        for watch in self._watches:
            watch.set()
        self.counted.add("watches cut")

    async def serve(self, request: web.Request) -> web.StreamResponse:
        asked = ProxiedRequest(
            kind=_kind_of(request),
            method=request.method,
            path=request.rel_url.raw_path,
            body=await request.read(),
        )
        fate = self.fate(asked)
        for name in ("code", "lost", "unheard", "twice", "held", "late"):
            if getattr(fate, name):
                self.counted.add(f"{asked.kind} {fate.code if name == 'code' else name}")
        try:
            if fate.lost:
                raise ConnectionResetError
            if fate.code:
                headers = {"Retry-After": fate.retry_after} if fate.retry_after else {}
                body = status(fate.code, fate.reason, "a fault")
                return web.json_response(body, status=fate.code, headers=headers)
            if asked.kind == "watch":
                return await self._watch(request, fate)
            await asyncio.sleep(fate.held)
            return await self._pass_on(request, asked, fate)
        except (aiohttp.ClientError, ConnectionError):
            # Break the connection, as without a proxy.
            if request.transport is not None:
                request.transport.close()
            return web.Response()

    async def _pass_on(self, request: web.Request, asked: ProxiedRequest, fate: Fate) -> web.Response:
        async with self._send(request, asked.body) as answer:
            body = await answer.read()
            self._remember(asked, answer.status, body)
            headers = {key: value for key, value in answer.headers.items() if key.lower() not in DROPPED}
        if fate.twice:
            async with self._send(request, asked.body) as again:
                self._remember(asked, again.status, await again.read())
        await asyncio.sleep(fate.late)
        if fate.unheard:
            raise ConnectionResetError
        return web.Response(status=answer.status, body=body, headers=headers)

    async def _watch(self, request: web.Request, fate: Fate) -> web.StreamResponse:
        cut = asyncio.Event()
        self._watches.add(cut)
        try:
            async with self._send(request, b"") as answer:
                if answer.status != 200:
                    return web.Response(
                        status=answer.status, body=await answer.read(), content_type="application/json"
                    )
                response = web.StreamResponse(headers={"Content-Type": "application/json"})
                response.enable_chunked_encoding()
                await response.prepare(request)
                await asyncio.sleep(fate.held)
                await self._follow(answer, response, cut)
            return response
        finally:
            self._watches.discard(cut)

    async def _follow(
        self, answer: aiohttp.ClientResponse, response: web.StreamResponse, cut: asyncio.Event
    ) -> None:
        async def pump() -> None:
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()

        pumping = asyncio.create_task(pump())
        cutting = asyncio.create_task(cut.wait())
        try:
            await asyncio.wait({pumping, cutting}, return_when=asyncio.FIRST_COMPLETED)
            if not pumping.done():
                raise ConnectionResetError
            await pumping
        finally:
            for task in (pumping, cutting):
                task.cancel()
                with suppress(asyncio.CancelledError, aiohttp.ClientError, ConnectionError):
                    await task

    def _send(self, request: web.Request, body: bytes) -> Any:
        headers = {key: value for key, value in request.headers.items() if key.lower() not in DROPPED}
        headers.pop("Accept-Encoding", None)
        return self._session.request(
            request.method,
            URL(self._server + request.rel_url.raw_path_qs, encoded=True),
            headers=headers,
            data=body or None,
        )

    def _remember(self, asked: ProxiedRequest, code: int, body: bytes) -> None:
        match = _OURS.search(asked.path)
        if asked.kind == "write" and code < 300 and match is not None:
            self.writes.append(
                Write(
                    method=asked.method,
                    namespace=match["namespace"],
                    plural=match["plural"],
                    document=json.loads(body),
                )
            )


def _kind_of(request: web.Request) -> Kind:
    if request.method != "GET":
        return "write" if _OURS.search(request.path) else "other"
    if request.query.get("watch") == "true":
        return "watch"
    return "other" if "/leases" in request.path else "read"


@asynccontextmanager
async def proxied(kubeconfig: Path) -> AsyncIterator[Proxy]:
    """Run a proxy to the hub of the kubeconfig, with its credentials."""
    server, tls, token = context(kubeconfig)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connector = Abrupt(ssl=tls, limit=0)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=60)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:
        proxy = Proxy(session, server=server)
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", proxy.serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01, handler_cancellation=True)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield proxy
        finally:
            proxy.cut_watches()
            await runner.cleanup()
