"""An HTTP scorer: a real server that responds correctly, wrongly, late or not at all."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from fairway.providers import endpoint
from fairway.providers.http_scorer import contract, provider
from fairway.providers.http_scorer.breaker import CLOSED, HALF_OPEN, OPEN
from fairway.providers.provider import ProviderError, Reading
from providers.tools.monitoring import Monitoring
from providers.tools.readings import StoppedClock, built, failure, fleet, open_provider, problem, values
from rigs.prometheus import served


class Scorer:
    """``answer`` computes the response from the request body."""

    def __init__(self) -> None:
        self.scores: dict[str, float] = {}
        self.config: dict[str, Any] = {}
        self.status = 200
        self.raw: str | None = None
        self.healthy = True
        self.asked: list[tuple[str, Any]] = []
        self.busy = self.busiest = 0
        self.arrived: asyncio.Queue[str] = asyncio.Queue()
        self.gate = asyncio.Event()
        self.gate.set()
        self.url = ""

    async def _config(self, _: web.Request) -> web.Response:
        self.asked.append(("/config", None))
        return web.json_response(self.config)

    async def _healthz(self, _: web.Request) -> web.Response:
        self.asked.append(("/healthz", None))
        return web.Response(status=200 if self.healthy else 503, text="ok")

    async def _score(self, request: web.Request) -> web.Response:
        data = (await request.json())["data"]
        self.asked.append((request.path, data))
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        self.arrived.put_nowait(request.path)
        try:
            await self.gate.wait()
        finally:
            self.busy -= 1
        if self.raw is not None or self.status != 200:
            return web.Response(
                status=self.status, text=self.raw or "broken", content_type="application/json"
            )
        results = [
            {"metric": entry["metric"], "score": self.scores[entry["metric"]["cluster"]]}
            for entry in data
            if entry["metric"].get("cluster") in self.scores
        ]
        return web.json_response({"results": results})

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    @asynccontextmanager
    async def serving(self) -> "AsyncIterator[Scorer]":
        application = web.Application()
        application.router.add_get("/config", self._config)
        application.router.add_get("/healthz", self._healthz)
        application.router.add_post("/{path:.*}", self._score)
        async with served(application) as address:
            self.url = f"http://{address}"
            try:
                yield self
            finally:
                self.gate.set()


@pytest.fixture
async def scorer() -> AsyncIterator[Scorer]:
    async with Scorer().serving() as running:
        yield running


def options(scorer: Scorer, **more: Any) -> dict[str, Any]:
    return {"url": scorer.url, "score": {"name": "mine"}, "timeout": "2m", **more}


async def test_fleet_mode_sends_one_request(scorer: Scorer) -> None:
    scorer.scores = {"c1": 12.4, "c2": 123.45, "elsewhere": 1}
    async with open_provider("http-scorer", options(scorer)) as opened:
        assert await values(opened, fleet("c1", "c2")) == {"c1": {"mine": 12.4}, "c2": {"mine": 123.45}}
        # What is beyond all scores is brought back into their range by the scale, not by luck.
        assert opened.scores[0].scale.score(123.45) == 100
    assert scorer.asked == [
        (
            "/scoring",
            [{"metric": {"cluster": "c1"}, "values": []}, {"metric": {"cluster": "c2"}, "values": []}],
        )
    ]


async def test_cluster_without_scorer_result_is_reported(scorer: Scorer) -> None:
    scorer.scores = {"c1": 1}
    async with open_provider("http-scorer", options(scorer)) as opened:
        assert await problem(opened, fleet("c1", "c2"), "c2") == (
            provider.NOT_SCORED,
            "the response of the scorer has no result for this cluster",
        )
    scorer.raw = json.dumps({"results": [{"metric": {"node": "n"}, "score": 1}]})
    async with open_provider("http-scorer", options(scorer)) as opened:
        _, words = await problem(opened, fleet("c2"), "c2")
    assert words.endswith(": its results have no label cluster")
    scorer.raw = json.dumps({"results": [{"metric": {"cluster": "C2"}, "score": 1}]})
    async with open_provider("http-scorer", options(scorer)) as opened:
        _, words = await problem(opened, fleet("c2"), "c2")
    assert words.endswith(": label cluster has the values C2")


async def test_several_scorer_results_need_reduce(scorer: Scorer) -> None:
    results = [{"metric": {"cluster": "c1", "device": str(score)}, "score": score} for score in (10, 30)]
    scorer.raw = json.dumps({"results": results})
    async with open_provider("http-scorer", options(scorer)) as opened:
        reason, words = await problem(opened, fleet("c1"), "c1")
    assert reason == provider.AMBIGUOUS
    assert words == "2 results for this cluster: set reduce to combine them"
    async with open_provider("http-scorer", options(scorer, reduce="avg")) as opened:
        assert await values(opened, fleet("c1")) == {"c1": {"mine": 20.0}}


async def test_prometheus_series_are_sent_to_scorer(scorer: Scorer, monitoring: Monitoring) -> None:
    monitoring.exporter.set("scorer_load", 0.5, cluster="c1")
    monitoring.exporter.set("scorer_load", 0.75, cluster="elsewhere")
    await monitoring.server.until("scorer_load", lambda series: "c1" in series)
    scorer.scores = {"c1": 5}
    source = {"url": monitoring.server.url, "query": "scorer_load;scorer_load*2", "range": "2s", "step": "1s"}
    async with open_provider("http-scorer", options(scorer, source=source, reduce="last")) as opened:
        assert await values(opened, fleet("c1")) == {"c1": {"mine": 5.0}}
    ((_, data),) = scorer.asked
    assert [entry["metric"]["cluster"] for entry in data] == ["c1", "c1"]
    assert {text for _, text in data[0]["values"]} == {"0.5"}
    assert {text for _, text in data[1]["values"]} == {"1"}


async def test_scorer_configuration_selects_query(scorer: Scorer, monitoring: Monitoring) -> None:
    monitoring.exporter.set("synced_load", 0.5, cluster="c1")
    await monitoring.server.until("synced_load", lambda series: "c1" in series)
    scorer.scores = {"c1": 5}
    scorer.config = {
        "name": "x",
        "source": {"type": "Prometheus", "params": {"query": "synced_load"}},
        "scoring": {"path": "predict", "params": {"name": "mine"}},
    }
    given = options(scorer, sync="full", source={"url": monitoring.server.url})
    async with open_provider("http-scorer", given) as opened:
        assert await values(opened, fleet("c1")) == {"c1": {"mine": 5.0}}
        assert scorer.paths == ["/config", "/predict"]
        # A change is heard of with the next question, not with the next restart.
        scorer.config["scoring"]["path"] = "/elsewhere"
        await values(opened, fleet("c1"))
        assert scorer.paths[-1] == "/elsewhere"
        scorer.config["scoring"]["params"]["name"] = "another"
        reason, words = await failure(opened, fleet("c1"))
        assert reason == provider.OTHER_SCORE
        assert words == "the scorer computes 'another' by its configuration, not 'mine'"
        scorer.config["scoring"]["params"]["name"] = "mine"
        scorer.config["source"]["params"] = {}
        reason, words = await failure(opened, fleet("c1"))
        assert reason == contract.BAD_CONFIG
        assert "source.params.query" in words


@pytest.mark.parametrize("mode", ["fleet", "cluster"])
async def test_scorer_failures_open_breaker_and_trial_closes_it(scorer: Scorer, mode: str) -> None:
    clock = StoppedClock()
    given = options(scorer, mode=mode, breaker={"failures": 2, "pause": "30s"})
    made = built("http-scorer", given, clock=clock)
    assert isinstance(made, provider.HttpScorer)
    scorer.scores, scorer.status = {"c1": 7}, 500
    async with made.running(lambda: None):
        for _ in range(2):
            assert (await failure(made, fleet("c1")))[0] == endpoint.UNAVAILABLE
        assert made.breaker.state == OPEN
        asked = len(scorer.asked)
        reason, words = await failure(made, fleet("c1"))
        assert reason == provider.CIRCUIT_OPEN
        assert words.startswith(
            "the scorer failed 2 times in a row; no requests for another 30 s; last error:"
        )
        assert len(scorer.asked) == asked
        # Ill still: asked for its health, and no more.
        clock.seconds += 30
        scorer.healthy = False
        await failure(made, fleet("c1"))
        assert scorer.paths[asked:] == ["/healthz"]
        assert made.breaker.wait(clock.seconds) == 60
        clock.seconds += 60
        scorer.healthy, scorer.status = True, 200
        assert await values(made, fleet("c1")) == {"c1": {"mine": 7.0}}
        assert scorer.paths[asked + 1 :] == ["/healthz", "/scoring"]
        assert made.breaker.failures == 0


async def test_failed_source_does_not_open_breaker(scorer: Scorer) -> None:
    given = options(scorer, source={"url": "http://127.0.0.1:9", "query": "up"}, breaker={"failures": 1})
    made = built("http-scorer", given)
    assert isinstance(made, provider.HttpScorer)
    async with made.running(lambda: None):
        reason, words = await failure(made, fleet("c1"))
    assert reason == endpoint.UNREACHABLE
    assert words.startswith("data source: ")
    assert made.breaker.state == CLOSED
    assert not scorer.asked


async def test_hanging_scorer_times_out(scorer: Scorer) -> None:
    scorer.gate.clear()
    async with open_provider("http-scorer", options(scorer, timeout="100ms")) as opened:
        reason, _ = await failure(opened, fleet("c1"))
    assert reason == endpoint.TIMEOUT


async def test_invalid_scorer_response_counts_as_failure(scorer: Scorer) -> None:
    scorer.raw = '{"results": [{"metric": {"cluster": "c1"}, "score": "high"}]}'
    made = built("http-scorer", options(scorer, breaker={"failures": 1}))
    assert isinstance(made, provider.HttpScorer)
    async with made.running(lambda: None):
        reason, words = await failure(made, fleet("c1"))
    assert reason == contract.BAD_ANSWER
    assert words == "response of the scorer: results[0].score: expected a number, got 'high'"
    assert made.breaker.state == OPEN


async def test_invalid_result_affects_only_its_cluster(scorer: Scorer) -> None:
    results = [{"metric": {"cluster": "c1"}, "score": None}, {"metric": {"cluster": "c2"}, "score": 5}]
    scorer.raw = json.dumps({"results": results})
    made = built("http-scorer", options(scorer, breaker={"failures": 1}))
    assert isinstance(made, provider.HttpScorer)
    async with made.running(lambda: None):
        read = await made.read(fleet("c1", "c2"))
    assert read["c2"] == Reading(values={"mine": 5.0})
    assert isinstance(read["c1"], ProviderError)
    assert read["c1"].reason == contract.BAD_ANSWER
    assert str(read["c1"]).endswith("results[0].score: expected a number, got null")
    assert made.breaker.state == CLOSED
    # One of several results that count together is as good as none of them.
    scorer.raw = json.dumps({"results": [*results, {"metric": {"cluster": "c1"}, "score": 9}]})
    async with open_provider("http-scorer", options(scorer, reduce="max")) as opened:
        assert (await problem(opened, fleet("c1", "c2"), "c1"))[0] == contract.BAD_ANSWER


async def test_cluster_mode_sends_one_request_per_cluster(scorer: Scorer) -> None:
    scorer.scores = {"c1": 1, "c2": 2}
    given = options(scorer, mode="cluster", path="/clusters/{cluster}/score")
    async with open_provider("http-scorer", given) as opened:
        assert await values(opened, fleet("c1", "c2")) == {"c1": {"mine": 1.0}, "c2": {"mine": 2.0}}
    assert sorted(scorer.paths) == ["/clusters/c1/score", "/clusters/c2/score"]


async def test_result_for_another_cluster_is_rejected(scorer: Scorer) -> None:
    scorer.raw = '{"results": [{"metric": {"cluster": "c1"}, "score": 5}]}'
    async with open_provider("http-scorer", options(scorer, mode="cluster")) as opened:
        readings = await opened.read(fleet("c1", "c2"))
    assert isinstance(readings["c1"], Reading)
    assert isinstance(readings["c2"], ProviderError)
    assert str(readings["c2"]) == "results[0].metric.cluster is 'c1', but 'c2' was requested"


async def test_scorer_concurrency_is_limited(scorer: Scorer) -> None:
    scorer.scores = {f"c{number}": number for number in range(12)}
    scorer.gate.clear()
    async with open_provider("http-scorer", options(scorer, mode="cluster", concurrency=3)) as opened:
        reading = asyncio.create_task(values(opened, fleet(*scorer.scores)))
        async with asyncio.timeout(120):
            for _ in range(3):
                await scorer.arrived.get()
        scorer.gate.set()
        assert len(await reading) == 12
    assert scorer.busiest == 3


async def test_half_open_breaker_tries_one_cluster(scorer: Scorer) -> None:
    clock = StoppedClock()
    given = options(scorer, mode="cluster", breaker={"failures": 1, "pause": "10s"}, concurrency=1)
    made = built("http-scorer", given, clock=clock)
    assert isinstance(made, provider.HttpScorer)
    clusters = fleet("c1", "c2", "c3")
    scorer.scores, scorer.status = {"c1": 1, "c2": 2, "c3": 3}, 500
    async with made.running(lambda: None):
        await failure(made, clusters)
        assert scorer.paths == ["/scoring"]  # the others were not asked any more
        clock.seconds += 10
        await failure(made, clusters)
        assert scorer.paths == ["/scoring", "/healthz", "/scoring"]
        clock.seconds += 20
        scorer.status = 200
        assert len(await values(made, clusters)) == 3
        assert made.breaker.state != HALF_OPEN


async def test_last_good_drop_removes_failed_scores(scorer: Scorer) -> None:
    scorer.status = 500
    async with open_provider("http-scorer", options(scorer, lastGood="drop")) as opened:
        reading = (await opened.read(fleet("c1")))["c1"]
    assert isinstance(reading, Reading)
    assert not reading.values
    assert not reading.lost
    assert reading.reason == endpoint.UNAVAILABLE
