"""The past of a real Prometheus makes the first forecast possible at once."""

import logging
import math
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fairway.providers.forecast import provider
from fairway.providers.forecast.provider import Forecast
from fairway.providers.provider import Reading
from providers.tools.monitoring import Monitoring, Proxy, Steady, program
from providers.tools.readings import built, fleet
from rigs.prometheus import prometheus_server

DAY = 86400
LINEAR = {"kind": "linear", "low": 0, "high": 100}


def free(at: float) -> float:
    return 50 + 30 * math.sin(2 * math.pi * at / DAY)


def past(now: float) -> str:
    times = range(int(now - 4 * DAY), int(now) - 60, 240)
    lines = [f'free{{cluster="c1"}} {free(at)} {at}' for at in times]
    return "\n".join(["# TYPE free gauge", *lines, "# EOF", ""])


def options(url: str, **more: Any) -> dict[str, Any]:
    inner = {"url": url, "scores": [{"name": "free", "query": "free", "scale": LINEAR}], "maxAge": "1h"}
    of = {"provider": "prometheus", "options": inner}
    return {"of": of, "horizon": "6h", "step": "1h", "keep": 4, **more}


async def test_history_is_loaded_from_prometheus(tmp_path: Path) -> None:
    now = time.time()
    async with (
        Steady().serving() as exporter,
        prometheus_server(program(), folder=tmp_path, targets=[exporter.address], past=past(now)) as server,
    ):
        exporter.set("free", free(now), cluster="c1")
        await server.until("free", lambda values: "c1" in values)
        built_provider = built("forecast", options(server.url))
        assert isinstance(built_provider, Forecast)
        async with built_provider.running(lambda: None):
            reading = (await built_provider.read(fleet("c1", "c2")))["c1"]
    assert isinstance(reading, Reading)
    assert reading.values["freeForecast"] == pytest.approx(free(now + 6 * 3600), abs=8)
    outlook = built_provider.outlooks["c1", "free"]
    assert outlook.error < 3 < outlook.unchanged


async def test_failing_history_source_is_retried_a_few_times(
    monitoring: Monitoring, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="fairway.providers.forecast")
    monitoring.exporter.set("free", 40, cluster="c1")
    await monitoring.server.until("free", lambda values: "c1" in values)

    async def forgetful(request: web.Request) -> web.StreamResponse | None:
        return web.Response(status=500) if request.path.endswith("query_range") else None

    proxy.behaviour = forgetful
    built_provider = built("forecast", options(proxy.url, fallback="current"))
    async with built_provider.running(lambda: None):
        for _ in range(provider.ATTEMPTS + 2):
            reading = (await built_provider.read(fleet("c1")))["c1"]
            assert isinstance(reading, Reading)
            assert dict(reading.values) == {"freeForecast": 40.0}
    assert len(caplog.records) == provider.ATTEMPTS
    assert "cannot load past values" in caplog.text
