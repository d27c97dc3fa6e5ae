"""Silenced scores: a valid reading replaces them, and other writers do not conflict."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES
from fairway.api.score import AddOnPlacementScore
from fairway.controllers.scores import silence_marker
from fairway.controllers.scores.policy import SilencePolicy
from fairway.hosts.clusters.scores import SILENT as MARK
from fairway.hosts.clusters.scores import is_silent
from fairway.providers import Direct, ProviderError, Settings, fleet_provider, provider, running
from fairway.providers.placement_scores import AddOnPlacementScores, stored_publication
from fairway.providers.publication import CONDITION, Publication
from fairway.providers.sink import SILENT, SinkError
from kubewire.client import SYSTEM_CLOCK, Client, Patch
from providers.hub_fleet import HubFleet, values_of
from rigs.processes import POLL


async def declare_silent(client: Client, score: AddOnPlacementScore) -> AddOnPlacementScore:
    """As the controller of scores does it."""
    policy, meta = SilencePolicy(), score.metadata
    note = {"metadata": {"annotations": {silence_marker.BEFORE: silence_marker.annotation_of(score, policy)}}}
    await client.patch(ADD_ON_PLACEMENT_SCORES, meta.name, note, kind=Patch.MERGE, namespace=meta.namespace)
    since = datetime.now(UTC) - timedelta(minutes=2)
    status = silence_marker.silent_status(
        score, policy, reason=silence_marker.EXPIRED, since=since, clock=SYSTEM_CLOCK
    )
    return await client.patch(
        ADD_ON_PLACEMENT_SCORES,
        meta.name,
        {"status": status},
        kind=Patch.MERGE,
        namespace=meta.namespace,
        subresource="status",
    )


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(POLL)


def test_silence_condition_matches_controller() -> None:
    assert SILENT == MARK


async def test_fleet_provider_replaces_silenced_score_at_once(fleet: HubFleet, client: Client) -> None:
    name, cluster = fleet.name("alive"), await fleet.cluster("c1")
    made = fleet_provider(scores={"free": Direct()}, name=name, interval=3600)(lambda _: {cluster: 40})
    async with running([made], hub=client):
        before = await fleet.scored(cluster, f"{name}-score", free=40)
        silenced = await declare_silent(client, before)
        assert values_of(silenced) == {"free": -100}
        assert stored_publication(silenced).publication.silenced
        back = await fleet.scored(cluster, f"{name}-score", free=40)
        assert back.status.validUntil is not None
        # Only the controller removes its mark; until then it shows that the score was silenced.
        assert is_silent(back)
        assert not silence_marker.is_unchanged(back, SilencePolicy())


async def test_cluster_provider_replaces_silenced_score_on_write(fleet: HubFleet, client: Client) -> None:
    cluster, value = await fleet.namespace(), [40]
    made = provider(scores={"free": Direct()}, name="alive", interval=0.2)(lambda: value[0])
    async with running([made], hub=client, settings=Settings(cluster=cluster)):
        await declare_silent(client, await fleet.scored(cluster, "alive-score", free=40))
        value[0] = 60
        back = await fleet.scored(cluster, "alive-score", free=60)
        assert back.status.validUntil is not None


async def test_late_write_does_not_replace_silenced_score(fleet: HubFleet, client: Client) -> None:
    """A write without a valid reading was in progress when the score was marked silent."""
    cluster = await fleet.namespace()
    sink = AddOnPlacementScores(client, provider="late", resource="late-score")
    now = datetime.now(UTC).replace(microsecond=0)
    true = Publication(
        scores=(("free", 40),),
        valid_until=now,
        ok=True,
        reason=CONDITION,
        message="free 40",
        changed_at=now,
        read_at=now,
    )
    held = await sink.write(cluster, true, stored=None)
    left = await declare_silent(client, await fleet.get(cluster, "late-score"))
    dark = replace(true, ok=False, reason="Dark", read_at=None)
    with pytest.raises(SinkError, match="was marked silent"):
        await sink.write(cluster, dark, stored=held)
    assert await fleet.get(cluster, "late-score") == left
    await sink.write(cluster, true, stored=held)
    assert values_of(await fleet.get(cluster, "late-score")) == {"free": 40}


@pytest.mark.parametrize("declared", ["silent", "deleted"])
async def test_failing_provider_keeps_silenced_score(fleet: HubFleet, client: Client, declared: str) -> None:
    name, cluster = fleet.name("blind"), await fleet.cluster("c1")
    sees, readings = [True], [0]

    @fleet_provider(scores={"free": Direct()}, name=name, interval=0.2)
    def blind(_: object) -> dict[str, object]:
        readings[0] += 1
        if not sees[0]:
            raise ProviderError("dark", reason="Dark")
        return {cluster: 40}

    async with running([blind], hub=client, settings=Settings(valid_for=2.0)) as runner:
        seen = await fleet.scored(cluster, f"{name}-score", free=40)
        sees[0] = False
        await fleet.until(
            cluster,
            f"{name}-score",
            lambda score: any(condition.reason == "Dark" for condition in score.status.conditions),
        )
        publishing = runner.loops[name].publisher.clusters[cluster]
        # Known to the runner, too: before, it goes by what was valid for less than the last that it has read.
        await until(lambda: publishing.published is not None and publishing.published.reason == "Dark")
        await until(lambda: bool(runner.unready()))  # it has expired
        if declared == "silent":
            left = await declare_silent(client, await fleet.get(cluster, f"{name}-score"))
            await until(lambda: publishing.published is not None and publishing.published.silenced)
        else:
            await fleet.delete(cluster, f"{name}-score")
            await until(lambda: publishing.published is None)
        count = readings[0]
        await until(lambda: readings[0] > count + 3)
        scores = (await client.list(ADD_ON_PLACEMENT_SCORES, namespace=cluster)).items
        assert list(scores) == ([left] if declared == "silent" else [])
        sees[0] = True
        back = await fleet.scored(cluster, f"{name}-score", free=40)
        assert back.status.validUntil is not None
        assert (back.metadata.uid == seen.metadata.uid) is (declared == "silent")
