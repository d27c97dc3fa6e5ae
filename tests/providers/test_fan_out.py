"""Scores for placements, and raw values as ManagedClusterScores."""

import logging

import pytest

from fairway.api.resources import MANAGED_CLUSTER_SCORES
from fairway.providers import DefinitionError, Direct, Linear, Runner, Settings, provider, running
from fairway.providers.rbac import CLUSTER_RULES, RAW_RULES
from kubewire.client import Client
from metric_values import values
from providers.hub_fleet import HubFleet


@provider(scores={"queueFree": Linear(0, 1000)})
def queue() -> float:
    return 750.4


async def test_fan_out_publishes_raw_values_and_scores(fleet: HubFleet, client: Client) -> None:
    cluster = await fleet.namespace()
    connection = await fleet.account(cluster, (*CLUSTER_RULES, *RAW_RULES))
    settings = Settings(cluster=cluster, managed_cluster_scores=True)
    async with Client(connection) as theirs:
        runner = Runner([queue], client=theirs, settings=settings)
        await runner.once()
        assert runner.loops["queue"].problem == ""
        await fleet.scored(cluster, "queue-score", queueFree=75)
        raw = await client.get(MANAGED_CLUSTER_SCORES, f"{cluster}-queuefree", namespace=cluster)
        assert raw.status.score == 750


async def test_companion_failure_does_not_affect_scores(
    fleet: HubFleet, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = await fleet.namespace()
    connection = await fleet.account(cluster, CLUSTER_RULES)
    settings = Settings(cluster=cluster, managed_cluster_scores=True)
    with caplog.at_level(logging.WARNING, logger="fairway.providers"):
        async with running([queue], hub=connection, settings=settings) as runner:
            await fleet.scored(cluster, "queue-score", queueFree=75)
            while not runner.loops["queue"].problem:
                await fleet.scored(cluster, "queue-score", queueFree=75)
            assert runner.unready() == []
            exposed = values(runner.meters.expose())
            assert runner.loops["queue"].problem.startswith("ManagedClusterScores: the hub refuses")
    assert exposed['fairway_provider_write_failures_total{provider="queue",reason="Forbidden"}'] == 1
    assert exposed['fairway_provider_writes_total{provider="queue"}'] == 1
    assert "but failed to publish them as ManagedClusterScores: the hub refuses" in caplog.text


@pytest.mark.embedded
def test_invalid_calculator_names_are_rejected(client: Client) -> None:
    odd = provider(scores={"queue_free": Direct()}, name="odd")(lambda: 1)
    with pytest.raises(DefinitionError, match="'queue_free' cannot be a calculator"):
        Runner([odd], client=client, settings=Settings(cluster="c1", managed_cluster_scores=True))
