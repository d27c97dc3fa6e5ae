"""Request rates of hosted clusters from a real Prometheus, and their absence."""

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from fairway.api import crds
from fairway.providers.hosted.capacity import API_HEADROOM, COUNT, HEADROOM
from fairway.providers.hosted.load import QUERY
from fairway.providers.hosted.provider import RATE_UNKNOWN
from fairway.providers.provider import Reading
from providers.hosted.hosting import HOSTED_CLUSTER, Cluster, hosting, reading
from providers.tools.monitoring import Monitoring, Proxy, answering

METRIC = "apiserver_request_total"
CONTROL_PLANE = "default-load-h1"
EACH = 2000.0
"""Requests in a second: 18 more cores than an idle one, by the sizing baseline."""


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with hosting(*crds(), HOSTED_CLUSTER) as made:
        await made.node("n1", cpu="400", memory="4000Gi", pods="10000")
        await made.hosted("load-h1")
        yield made


async def keep_busy(monitoring: Monitoring) -> None:
    """Requests have been counted for a while, for this hosted cluster and for another one.

    The samples extend into the future, because a rate covers two minutes and a slow machine may need longer.
    """
    now = time.time()
    for seconds in (-105, -55, -5, 45, 95):
        for namespace, rate in ((CONTROL_PLANE, EACH), ("others", 50 * EACH)):
            monitoring.exporter.set(METRIC, 1e9 + rate * seconds, at=now + seconds, namespace=namespace)
        await monitoring.server.until(
            f"timestamp({METRIC} offset -2m)", _as_new_as(now + seconds), label="namespace"
        )


def _as_new_as(moment: float) -> Callable[[Mapping[str, float]], bool]:
    return lambda series: all(
        series.get(namespace, 0) > moment - 0.1 for namespace in (CONTROL_PLANE, "others")
    )


def at(url: str) -> dict[str, Any]:
    return {"prometheus": {"url": url, "timeout": "2m"}}


async def test_api_headroom_decreases_with_request_rate(monitoring: Monitoring, cluster: Cluster) -> None:
    await keep_busy(monitoring)
    idle = await reading(cluster)
    assert idle.values[API_HEADROOM] == pytest.approx(79 / 80)
    measured = await reading(cluster, **at(monitoring.server.url))
    assert measured.problem == ""
    # 400 cores over 2.9 and 9 for every thousand requests
    assert measured.values[API_HEADROOM] == pytest.approx(18 / 19, abs=0.005)
    assert {**measured.values, API_HEADROOM: 0} == {**idle.values, API_HEADROOM: 0}


async def test_rate_query_selects_control_plane_namespaces(proxy: Proxy, cluster: Cluster) -> None:
    await cluster.hosted("load.h2")
    asked: list[dict[str, str]] = []

    async def listen(request: web.Request) -> None:
        asked.append({key: str(value) for key, value in (await request.post()).items()})

    proxy.behaviour = listen
    measured = await reading(cluster, **at(proxy.url))
    assert measured.problem == ""
    assert [call["query"] for call in asked] == [QUERY.format(namespaces=f"{CONTROL_PLANE}|default-load-h2")]
    assert asked[0]["partial_response"] == "false"


PARTLY = json.dumps(
    {
        "status": "success",
        "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "5"]}]},
        "warnings": ["store-3 did not answer"],
    }
)
NAN = PARTLY.replace('"5"', '"NaN"').replace('"warnings"', '"notes"')


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (500, "boom", "returned 500: boom"),
        (401, "who?", "rejected the credentials"),
        (200, "<html>Sign in</html>", "is there a login page in front of it?"),
        (200, PARTLY, "the result is incomplete: store-3 did not answer"),
        (200, NAN, "Prometheus returned nan"),
    ],
)
async def test_failed_rate_query_affects_only_api_headroom(
    proxy: Proxy, cluster: Cluster, status: int, text: str, words: str
) -> None:
    proxy.behaviour = answering(status, text)
    lost(await reading(cluster, **at(proxy.url)), words)


async def test_unreachable_prometheus_affects_only_api_headroom(cluster: Cluster) -> None:
    lost(await reading(cluster, **at("http://127.0.0.1:9")), "cannot reach")


def lost(measured: Reading, words: str) -> None:
    assert API_HEADROOM not in measured.values
    assert {COUNT, HEADROOM, "hcpSlotsSmall", "hcpSlotsLarge"} <= set(measured.values)
    assert measured.reason == RATE_UNKNOWN
    assert words in measured.problem
