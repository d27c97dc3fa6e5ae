"""From a real Prometheus to AddOnPlacementScores on a hub."""

import asyncio
from typing import Any

from fairway.providers import endpoint
from fairway.providers.prometheus import provider
from fairway.providers.runner import Settings, running
from fairway.testing.hub import HubAddress
from providers.tools.monitoring import Monitoring, Proxy, answering
from providers.tools.publishing import DEADLINE, condition, hub_of, scores
from providers.tools.readings import built
from rigs.processes import POLL

RESOURCE = "prometheus-score"
SETTINGS = Settings(interval=1, deadline=120)


def options(url: str, *metrics: str) -> dict[str, Any]:
    scale = {"kind": "linear", "low": 0, "high": 100}
    declared = [{"name": metric, "query": metric, "unit": "cores", "scale": scale} for metric in metrics]
    return {"url": url, "scores": declared}


async def test_prometheus_scores_are_published(monitoring: Monitoring, fairway_hub: HubAddress) -> None:
    monitoring.exporter.set("hub_free", 40, cluster="c1")
    monitoring.exporter.set("hub_free", 75, cluster="c2")
    await monitoring.server.until("hub_free", lambda values: len(values) == 2)
    source = built("prometheus", options(monitoring.server.url, "hub_free"))
    async with hub_of(fairway_hub) as hub:
        for name in ("c1", "c2", "c3"):
            await hub.cluster(name)
        async with running([source], hub=hub.client, settings=SETTINGS) as runner:
            score = await hub.until("c1", RESOURCE, lambda score: bool(score.status.scores))
            assert scores(score) == {"hub_free": 40}
            assert condition(score) == ("True", "AddOnPlacementScoreUpdated", "hub_free 40 cores")
            assert score.status.validUntil is not None
            assert score.metadata.labels["fairway.dev/provider"] == "prometheus"
            assert scores(await hub.until("c2", RESOURCE, lambda score: bool(score.status.scores))) == {
                "hub_free": 75
            }
            unknown = await hub.until("c3", RESOURCE, lambda score: bool(score.status.conditions))
            assert scores(unknown) == {}
            assert condition(unknown) == ("False", provider.MISSING, "hub_free: no series for this cluster")
            async with asyncio.timeout(DEADLINE):  # its writes are complete when the hub has responded
                while runner.unready():
                    await asyncio.sleep(POLL)
            monitoring.exporter.set("hub_free", 90, cluster="c1")
            await hub.until("c1", RESOURCE, lambda score: scores(score) == {"hub_free": 90})


async def test_failing_prometheus_does_not_extend_validity(
    monitoring: Monitoring, proxy: Proxy, fairway_hub: HubAddress
) -> None:
    monitoring.exporter.set("kept_free", 40, cluster="c1")
    monitoring.exporter.set("kept_used", 10, cluster="c1")
    await monitoring.server.until("kept_used", lambda values: "c1" in values)
    source = built("prometheus", options(proxy.url, "kept_free", "kept_used"))
    async with hub_of(fairway_hub) as hub:
        await hub.cluster("c1")
        async with running([source], hub=hub.client, settings=SETTINGS):
            before = await hub.until("c1", RESOURCE, lambda score: condition(score)[0] == "True")
            proxy.behaviour = answering(500, "compacting")
            failed = await hub.until("c1", RESOURCE, lambda score: condition(score)[0] == "False")
            assert condition(failed)[1] == endpoint.UNAVAILABLE
            assert "returned 500: compacting" in condition(failed)[2]
            assert scores(failed) == scores(before) == {"kept_free": 40, "kept_used": 10}
            assert before.status.validUntil is not None
            assert failed.status.validUntil is not None
            kept = failed.status.validUntil
            # Of the readings that were true, the last may have been later than the first write.
            assert kept >= before.status.validUntil
            proxy.behaviour = None
            await hub.until("c1", RESOURCE, lambda score: condition(score)[0] == "True")
            # A single lost score stays, and the others are renewed.
            monitoring.exporter.drop("kept_used", cluster="c1")
            monitoring.exporter.set("kept_free", 60, cluster="c1")
            await monitoring.server.until("kept_used", lambda values: not values)
            # Of one that goes while it is asked for, the age is not known for once.
            part = await hub.until(
                "c1",
                RESOURCE,
                lambda score: condition(score)[1] == provider.MISSING and scores(score)["kept_free"] == 60,
            )
            assert condition(part)[0] == "False"
            assert scores(part) == {"kept_free": 60, "kept_used": 10}
