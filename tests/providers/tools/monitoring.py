"""A fleet that is monitored by a real Prometheus, and a real proxy in front of it that can be told to misbehave."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from fairway.testing.processes import background
from fairway.testing.prometheus import Exporter, PrometheusServer, prometheus_server, served
from providers.tools import prometheus as tool

PASSED_ON = frozenset({"Content-Type", "Authorization", "X-Scope-Orgid"})


@dataclass(frozen=True, slots=True)
class Monitoring:
    """Of the whole session: use metrics that nobody else uses."""

    server: PrometheusServer
    exporter: Exporter


def program() -> Path:
    """Where the server cannot be had, CI fails and everybody else's tests are skipped."""
    try:
        return tool.program()
    except tool.PrometheusMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@contextmanager
def monitored(folder: Path) -> Iterator[Monitoring]:
    with background(_monitored(program(), folder)) as found:
        yield found


@asynccontextmanager
async def _monitored(program: Path, folder: Path) -> AsyncIterator[Monitoring]:
    async with (
        Exporter().serving() as exporter,
        prometheus_server(program, folder=folder, targets=[exporter.address]) as server,
    ):
        yield Monitoring(server, exporter)


Behaviour = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
"""An answer of the proxy's own, or None to pass the request on."""


class Proxy:
    """Passes requests on to a server, unless its behaviour has an answer of its own; remembers what was asked."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.behaviour: Behaviour | None = None
        self.rewrite: Callable[[bytes], bytes] | None = None
        """What becomes of an answer of the server."""
        self.requests: list[web.Request] = []
        self.url = ""
        self.released = asyncio.Event()
        """Of those who hang."""

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        body = await request.read()
        if self.behaviour is not None:
            own = await self.behaviour(request)
            if own is not None:
                return own
        headers = {key: value for key, value in request.headers.items() if key.title() in PASSED_ON}
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.request(
                request.method, f"{self.upstream}{request.path_qs}", data=body, headers=headers
            ) as answer,
        ):
            content = await answer.read()
            if self.rewrite is not None:
                content = self.rewrite(content)
            return web.Response(status=answer.status, body=content, content_type=answer.content_type)

    @asynccontextmanager
    async def serving(self, *, ssl: object = None) -> AsyncIterator["Proxy"]:
        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", self._handle)
        async with served(application, ssl=ssl) as address:
            self.url = f"{'https' if ssl else 'http'}://{address}"
            try:
                yield self
            finally:
                self.released.set()

    async def hang(self, _: web.Request) -> web.StreamResponse | None:
        """No answer before the end of the test."""
        await self.released.wait()
        return None


def answering(status: int, text: str = "", **headers: str) -> Behaviour:
    async def behave(_: web.Request) -> web.StreamResponse:
        return web.Response(
            status=status, text=text, headers={key.replace("_", "-"): value for key, value in headers.items()}
        )

    return behave
