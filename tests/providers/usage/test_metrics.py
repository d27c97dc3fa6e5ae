"""Usage of nodes from a metrics API that is available, missing, or failing."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from fairway.providers.usage.metrics import Meter
from kubewire.client import Client, Connection
from kubewire.client.transport import Retry

PATH = "/apis/metrics.k8s.io/v1beta1/nodes"
INTERVAL = 60.0


@dataclass
class Api:
    """Returns the configured response."""

    status: int = 200
    body: Any = None
    now: float = 1000.0
    asked: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if self.status != 200:
            reason = {403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable"}[self.status]
            return web.json_response(
                {
                    "kind": "Status",
                    "status": "Failure",
                    "reason": reason,
                    "message": "no",
                    "code": self.status,
                },
                status=self.status,
            )
        items = [{"metadata": {"name": name}, "usage": usage} for name, usage in self.body.items()]
        return web.json_response({"kind": "NodeMetricsList", "metadata": {}, "items": items})


@asynccontextmanager
async def serving(api: Api) -> AsyncIterator[Meter]:
    app = web.Application()
    app.router.add_get(PATH, api.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        connection = Connection(server=f"http://{host}:{port}")
        async with Client(connection, retry=Retry(asked=0, failed=0)) as client:
            yield Meter(client, interval=INTERVAL, clock=lambda: api.now)
    finally:
        await runner.cleanup()


async def test_node_metrics_are_rounded_up() -> None:
    api = Api(body={"n1": {"cpu": "1500300400n", "memory": "2048Ki"}, "n2": {"cpu": "12m", "memory": "1Gi"}})
    async with serving(api) as meter:
        assert await meter.request() == {
            "n1": {"cpu": 1501, "memory": 2 * 2**20},
            "n2": {"cpu": 12, "memory": 2**30},
        }
    assert api.asked == [PATH]


async def test_invalid_metrics_affect_only_their_node(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Api(body={"n1": {"cpu": "hot"}, "n2": {"cpu": "1"}})) as meter:
        assert await meter.request() == {"n2": {"cpu": 1000}}
        assert meter.problem == ""
    assert 'NodeMetrics n1: usage cpu: quantity "hot"' in caplog.text


@pytest.mark.parametrize(
    ("status", "logged"), [(404, "does not serve metrics.k8s.io"), (403, "no permission to list")]
)
async def test_missing_metrics_api_is_logged_once(
    status: int, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    api = Api(status=status)
    async with serving(api) as meter:
        for _ in range(3):
            assert await meter.request() == {}
            api.now += INTERVAL
        assert meter.problem == ""
    assert [
        logged in record.message for record in caplog.records if record.name.endswith("usage.metrics")
    ] == [True]


async def test_failing_metrics_expire_after_some_intervals() -> None:
    api = Api(body={"n1": {"cpu": "1"}})
    async with serving(api) as meter:
        assert await meter.request() == {"n1": {"cpu": 1000}}
        api.status = 503
        for _ in range(2):
            api.now += INTERVAL
            assert await meter.request() is None
            assert meter.problem == ""
        api.now += INTERVAL
        assert await meter.request() == {}
        assert meter.problem.startswith("metrics.k8s.io has not responded for 180s (")
        api.status = 200
        assert await meter.request() == {"n1": {"cpu": 1000}}
        assert meter.problem == ""


async def test_metrics_failing_from_start_are_a_problem() -> None:
    async with serving(Api(status=503)) as meter:
        assert await meter.request() == {}
        assert meter.problem.startswith("metrics.k8s.io does not respond (")
        assert meter.problem.endswith("): scores are computed from requests")
