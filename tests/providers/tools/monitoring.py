"""A fleet monitored by a real Prometheus, behind a proxy with configurable faults."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from kubehub.testing.background import background
from providers.tools import prometheus as tool
from rigs.prometheus import Exporter, PrometheusServer, prometheus_server, served

PASSED_ON = frozenset({"Content-Type", "Authorization", "X-Scope-Orgid"})


class Steady(Exporter):
    """Expose samples with timestamps, so that a failed scrape on a stalled machine does not make series stale.

    A dropped series is exposed a few more times without one: only for such does Prometheus notice the end.
    """

    LAST_TIMES = 3

    def __init__(self) -> None:
        super().__init__()
        self._leaving: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, int]] = {}

    def drop(self, metric: str, **labels: str) -> None:
        key = (metric, tuple(sorted(labels.items())))
        value, _ = self._series[key]
        self._leaving[key] = (value, self.LAST_TIMES)
        super().drop(metric, **labels)

    def text(self) -> str:
        now = time.time()
        last = Exporter()
        for (metric, labels), (value, times) in list(self._leaving.items()):
            last.set(metric, value, at=None, **dict(labels))
            self._leaving[metric, labels] = (value, times - 1)
            if times == 1:
                del self._leaving[metric, labels]
        timed = Exporter()
        for (metric, labels), (value, at) in list(self._series.items()):
            timed.set(metric, value, at=now if at is None else at, **dict(labels))
        return last.text() + timed.text()


@dataclass(frozen=True, slots=True)
class Monitoring:
    """Shared by the session: use unique metric names."""

    server: PrometheusServer
    exporter: Exporter


def program() -> Path:
    """Without a server, tests fail in CI and are skipped elsewhere."""
    try:
        return tool.program()
    except tool.PrometheusMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@contextmanager
def monitored(folder: Path) -> Iterator[Monitoring]:
    with background(_monitored(program(), folder)) as running:
        yield running


@asynccontextmanager
async def _monitored(program: Path, folder: Path) -> AsyncIterator[Monitoring]:
    async with (
        Steady().serving() as exporter,
        prometheus_server(program, folder=folder, targets=[exporter.address]) as server,
    ):
        yield Monitoring(server, exporter)


Behaviour = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
"""Returns a response, or None to forward the request."""


class Proxy:
    """Forwards requests to a server unless its behaviour returns a response; records the requests."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.behaviour: Behaviour | None = None
        self.rewrite: Callable[[bytes], bytes] | None = None
        """Changes a response of the server."""
        self.requests: list[web.Request] = []
        self.url = ""
        self.released = asyncio.Event()
        """Number of hanging requests."""

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
        """Do not respond before the end of the test."""
        await self.released.wait()
        return None


def answering(status: int, text: str = "", **headers: str) -> Behaviour:
    async def behave(_: web.Request) -> web.StreamResponse:
        return web.Response(
            status=status, text=text, headers={key.replace("_", "-"): value for key, value in headers.items()}
        )

    return behave
