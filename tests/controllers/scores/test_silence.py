"""When a score counts as silent and what is done about it, in virtual time."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from clocks import START, LoopClock
from controllers.scores.score_hub import USAGE, ScoreHub, now, watching
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS
from fairway.controllers.scores import Orphans, Silence, SilencePolicy
from fairway.controllers.scores.controller import METRICS_SECONDS
from fairway.controllers.scores.silence_marker import BEFORE
from fairway.hosts.clusters.scores import SILENT, is_silent
from fairway.observe.meters import Meters
from kubewire.api.meta import find_condition
from kubewire.client import Conflict, Resource
from metric_values import values

pytestmark = pytest.mark.looptime

LEAVE = SilencePolicy()
WORST = SilencePolicy(default=Silence.WORST)
DROP = SilencePolicy(default=Silence.DROP)


def silent(hub: ScoreHub, cluster: str = "c") -> bool:
    score = hub.score(cluster)
    return score is not None and is_silent(score)


def with_one(**values: int) -> ScoreHub:
    hub = ScoreHub()
    hub.join("c")
    hub.publish("c", lasts=180, resource=USAGE, **values)
    return hub


# Policies


async def test_policy_worst_replaces_values_after_the_grace_period_and_keeps_the_original() -> None:
    hub = with_one(cpu=10, mem=-30)
    async with watching(hub, WORST) as events:
        assert await hub.until(lambda: silent(hub)) == pytest.approx(240, abs=0.5)
        score = hub.score()
        assert score is not None
        assert hub.values() == {"cpu": -100, "mem": -100}
        assert score.status.validUntil is None
        condition = find_condition(score.status.conditions, SILENT)
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "ScoreExpired")
        assert condition.message == (
            "usage expired at 2026-03-01T12:03:00Z and was not renewed. Its values are replaced by the worst until its "
            "provider publishes again. Last values: cpu 10, mem -30"
        )
        assert json.loads(score.metadata.annotations[BEFORE]) == {
            "scores": {"cpu": 10, "mem": -30},
            "validUntil": "2026-03-01T12:03:00Z",
            "written": {"cpu": -100, "mem": -100},
        }
        assert events.recorded == [
            (
                "c",
                "ScoreSilent",
                "usage of cluster c expired at 2026-03-01T12:03:00Z and was not renewed; "
                "its values are replaced by the worst value",
            )
        ]
        await asyncio.sleep(600)
        assert hub.writes == [("patch", "c/usage"), ("patch", "c/usage/status")]


async def test_policy_worst_of_a_score_where_less_is_better() -> None:
    hub = with_one(count=10, cpu=10)
    policy = SilencePolicy(default=Silence.WORST, worst={"usage/count": 100})
    async with watching(hub, policy):
        await hub.until(lambda: silent(hub))
        assert hub.values() == {"count": 100, "cpu": -100}


async def test_policy_drop_deletes_the_object() -> None:
    hub = with_one()
    async with watching(hub, DROP) as events:
        assert await hub.until(lambda: hub.score() is None) == pytest.approx(240, abs=0.5)
        assert events.reasons() == ["ScoreSilent"]
        hub.publish(cpu=20)
        assert await hub.until(lambda: hub.score() is None) == pytest.approx(480, abs=1)


async def test_policy_leave_reports_once() -> None:
    hub = with_one()
    async with watching(hub, LEAVE) as events:
        assert await hub.until(lambda: bool(events.recorded)) == pytest.approx(240, abs=0.5)
        await asyncio.sleep(600)
        assert events.reasons() == ["ScoreSilent"]
        hub.publish()
        began = now()
        assert await hub.until(lambda: len(events.recorded) == 2) == pytest.approx(began + 240, abs=1)
        assert hub.writes == []


async def test_silence_policy_by_resource() -> None:
    hub = with_one()
    hub.publish(resource="health", health=90)
    policy = SilencePolicy(default=Silence.WORST, by_resource={USAGE: Silence.LEAVE})
    async with watching(hub, policy):
        await asyncio.sleep(500)
        assert hub.values() == {"cpu": 10}
        health = hub.score(resource="health")
        assert health is not None
        assert is_silent(health)


@pytest.mark.parametrize("policy", [LEAVE, WORST, DROP])
async def test_score_without_validity_is_never_silent(policy: SilencePolicy) -> None:
    hub = ScoreHub()
    hub.join("c", available="Unknown")
    hub.publish(lasts=None)
    async with watching(hub, policy) as events:
        await asyncio.sleep(600)
        assert (hub.writes, events.recorded) == ([], [])


async def test_silence_known_at_start_is_not_reported_again() -> None:
    hub = with_one()
    clock = LoopClock(off=timedelta(hours=2))
    async with watching(hub, LEAVE, clock=clock) as events:
        await asyncio.sleep(500)
        assert events.recorded == []


# Coming back


async def test_returning_provider_gets_its_object_restored() -> None:
    hub = with_one(cpu=10)
    async with watching(hub, WORST) as events:
        await hub.until(lambda: silent(hub))
        await asyncio.sleep(500)
        hub.publish(cpu=-100)
        await asyncio.sleep(1)
        score = hub.score()
        assert score is not None
        assert (hub.values(), score.status.conditions, score.metadata.annotations) == ({"cpu": -100}, (), {})
        assert score.status.validUntil is not None
        assert events.reasons() == ["ScoreSilent", "ScoreReturned"]


async def test_returning_score_without_validity_is_accepted() -> None:
    hub = with_one(cpu=10)
    async with watching(hub, WORST):
        await hub.until(lambda: silent(hub))
        hub.publish(cpu=3, lasts=None)
        await asyncio.sleep(1)
        assert (silent(hub), hub.values()) == (False, {"cpu": 3})


async def test_grace_period_grows_for_a_slow_provider() -> None:
    """Its scores last for a minute, and it publishes every five."""
    hub = ScoreHub()
    hub.join("c")
    async with watching(hub, WORST) as events:
        for _ in range(8):
            hub.publish(lasts=60)
            await asyncio.sleep(300)
        assert events.reasons().count("ScoreSilent") <= 2


async def test_grace_period_shrinks_when_a_provider_is_on_time_again() -> None:
    hub = with_one()
    async with watching(hub, WORST):
        await hub.until(lambda: silent(hub))
        await asyncio.sleep(600)
        for _ in range(3):
            hub.publish()
            await asyncio.sleep(60)
        last = now() - 60
        assert await hub.until(lambda: silent(hub)) == pytest.approx(last + 240, abs=1)


# Clusters


async def test_scores_of_a_cluster_unavailable_since_before_year_1_are_silent() -> None:
    hub = ScoreHub()
    hub.join("c")
    hub.publish(lasts=100_000, cpu=40)
    document = hub.documents["managedclusters", "", "c"]
    odd = {**document["status"]["conditions"][0], "status": "Unknown"}
    odd["lastTransitionTime"] = "0001-01-01T00:00:00+14:00"
    hub.put(MANAGED_CLUSTERS, {**document, "status": {"conditions": [odd]}})
    async with watching(hub, WORST):
        await hub.until(lambda: silent(hub))


@pytest.mark.parametrize("status", ["Unknown", "False"])
async def test_score_of_an_unavailable_cluster_is_silent_before_it_expires(status: str) -> None:
    hub = ScoreHub()
    hub.join("c")
    hub.publish(lasts=100_000, cpu=40)
    async with watching(hub, WORST):
        await asyncio.sleep(500)
        hub.turn(status)
        assert await hub.until(lambda: silent(hub)) == pytest.approx(560, abs=0.5)
        score = hub.score()
        assert score is not None
        condition = find_condition(score.status.conditions, SILENT)
        assert condition is not None
        assert condition.reason == "ClusterUnavailable"
        assert "after cluster c became unavailable at 2026-03-01T12:08:20Z" in condition.message
        hub.turn("True")
        await asyncio.sleep(1)
        assert (silent(hub), hub.values()) == (False, {"cpu": 40})
        score = hub.score()
        assert score is not None
        assert score.status.validUntil == START + timedelta(seconds=100_000)
        assert score.metadata.annotations == {}


async def test_expired_original_values_are_not_restored() -> None:
    hub = ScoreHub()
    hub.join("c")
    hub.publish(lasts=300, cpu=40)
    async with watching(hub, WORST):
        hub.turn("Unknown")
        await hub.until(lambda: silent(hub))
        await asyncio.sleep(600)
        hub.turn("True")
        await asyncio.sleep(100)
        assert (silent(hub), hub.values()) == (True, {"cpu": -100})


async def test_renewed_score_of_an_unavailable_cluster_is_not_silent() -> None:
    """It continues to publish for an unavailable cluster, and is overridden at most once."""
    hub = ScoreHub()
    hub.join("c")
    async with watching(hub, WORST) as events:
        for at in range(40):
            hub.publish(cpu=at)
            await asyncio.sleep(1)
            if at == 5:
                hub.turn("Unknown")
            await asyncio.sleep(59)
        assert events.reasons().count("ScoreSilent") <= 1
        assert hub.values() == {"cpu": 39}


async def test_score_renewed_during_a_watch_gap_is_not_declared_silent() -> None:
    hub = with_one()
    scores = hub.of(ADD_ON_PLACEMENT_SCORES)
    async with watching(hub, LEAVE) as events:
        await asyncio.sleep(238)
        scores.cut()  # for less than it takes to restart all grace periods
        hub.publish()
        await asyncio.sleep(4)
        assert events.recorded == []
        scores.mend()
        await asyncio.sleep(60)
        assert events.recorded == []


async def test_orphaned_scores_are_kept_or_deleted_by_policy() -> None:
    for orphans, there in ((Orphans.LEAVE, True), (Orphans.DROP, False)):
        hub = with_one()
        hub.publish("c", lasts=None, resource="endless")
        async with watching(hub, SilencePolicy(orphans=orphans)) as events:
            await asyncio.sleep(10)
            hub.drop(MANAGED_CLUSTERS, "c")
            await asyncio.sleep(55)
            assert hub.score(resource="endless") is not None
            await asyncio.sleep(20)
            assert (hub.score(resource="endless") is not None) is there
            assert (hub.score() is not None) is there
            assert events.reasons() == ["ScoreOrphaned"] * 2


async def test_returning_cluster_keeps_its_orphaned_scores() -> None:
    hub = with_one(cpu=1)
    hub.publish(lasts=100_000, cpu=1)
    async with watching(hub, SilencePolicy(orphans=Orphans.DROP)) as events:
        hub.drop(MANAGED_CLUSTERS, "c")
        await asyncio.sleep(50)
        hub.join("c")
        await asyncio.sleep(500)
        hub.drop(MANAGED_CLUSTERS, "c")
        await asyncio.sleep(50)  # the grace period starts again
        assert hub.values() == {"cpu": 1}
        assert events.recorded == []


# Whose fault it is


def fleet(number: int) -> ScoreHub:
    hub = ScoreHub()
    names = [f"c{at}" for at in range(number)]
    hub.join(*names)
    for name in names:
        hub.publish(name)
    return hub


async def test_simultaneous_silence_of_most_scores_marks_none() -> None:
    hub, meters = fleet(10), Meters()
    async with watching(hub, WORST, meters=meters) as events:
        await asyncio.sleep(1500)
        assert hub.writes == []
        (message,) = {message for _, _, message in events.recorded}
        assert message == (
            "10 of 10 scores usage are silent at once, more than 50 %: probably a hub-side fault; "
            "none is marked until fewer are silent"
        )
        figures = values(meters.expose())
        assert figures['fairway_scores_held{resource="usage"}'] == 1
        assert figures['fairway_scores{resource="usage",state="expired"}'] == 10
        for at in range(9):
            hub.publish(f"c{at}", lasts=100_000)
        began = now()
        await hub.until(lambda: silent(hub, "c9"))
        assert now() > began + 30, "everybody has time to come back"
        await asyncio.sleep(METRICS_SECONDS)
        assert values(meters.expose())['fairway_scores_held{resource="usage"}'] == 0
        assert [number for number in range(10) if silent(hub, f"c{number}")] == [9]


async def test_long_validity_scores_count_together_when_they_expire() -> None:
    """The hub was cut off for an hour; scores expired one after the other."""
    hub = ScoreHub()
    names = [f"c{at}" for at in range(20)]
    hub.join(*names)
    for at, name in enumerate(names):
        hub.publish(name, lasts=600 + 30 * at)
    async with watching(hub, WORST):
        await asyncio.sleep(2500)
        assert sum(silent(hub, name) for name in names) <= 11


async def test_silence_spread_over_days_is_marked() -> None:
    hub = ScoreHub()
    names = [f"c{at}" for at in range(6)]
    hub.join(*names)
    for at, name in enumerate(names):
        hub.publish(name, lasts=300 + 1200 * at)
    async with watching(hub, WORST):
        await asyncio.sleep(8000)
        assert all(silent(hub, name) for name in names)


async def test_scores_are_kept_when_all_clusters_disappear() -> None:
    hub = fleet(5)
    async with watching(hub, SilencePolicy(orphans=Orphans.DROP)):
        for at in range(5):
            hub.drop(MANAGED_CLUSTERS, f"c{at}")
        await asyncio.sleep(500)
        assert all(hub.score(f"c{at}") for at in range(5))


async def test_no_score_is_silent_while_the_watch_is_down() -> None:
    hub = with_one()
    shelf = hub.of(ADD_ON_PLACEMENT_SCORES)
    async with watching(hub, WORST):
        shelf.cut()
        await asyncio.sleep(500)
        hub.publish(cpu=7)
        assert hub.writes == []
        shelf.mend()
        began = now()
        assert await hub.until(lambda: silent(hub)) == pytest.approx(began + 240, abs=2)


@pytest.mark.parametrize("kind", [ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS], ids=["scores", "clusters"])
async def test_watch_gap_restarts_all_grace_periods(kind: Resource[Any]) -> None:
    hub = with_one()
    async with watching(hub, WORST):
        hub.of(kind).cut()
        await asyncio.sleep(250)
        assert not silent(hub)
        hub.of(kind).mend()
        assert await hub.until(lambda: silent(hub)) == pytest.approx(310, abs=2)


async def test_start_restarts_all_grace_periods() -> None:
    hub = with_one()
    async with watching(hub, WORST, clock=LoopClock(off=timedelta(seconds=600))):
        await asyncio.sleep(58)
        assert not silent(hub)
        assert await hub.until(lambda: silent(hub)) == pytest.approx(60, abs=1)


# Races


async def test_concurrent_write_of_the_provider_wins() -> None:
    hub = with_one(cpu=10)

    def between(body: object) -> None:
        hub.reject = lambda _: None
        hub.publish(cpu=11)
        raise Conflict("changed meanwhile")

    async with watching(hub, WORST):
        hub.reject = between
        await asyncio.sleep(300)
        assert (silent(hub), hub.values()) == (False, {"cpu": 11})


async def test_write_between_annotation_and_values_removes_the_annotation() -> None:
    hub = with_one(cpu=10)
    patched: list[object] = []

    def between(body: object) -> None:
        patched.append(body)
        if len(patched) == 2:
            hub.publish(cpu=11)

    async with watching(hub, WORST):
        hub.reject = between
        await asyncio.sleep(300)
        score = hub.score()
        assert score is not None
        assert (silent(hub), hub.values(), score.metadata.annotations) == (False, {"cpu": 11}, {})


async def test_score_too_large_for_the_annotation_is_still_marked() -> None:
    hub = with_one(**{f"score-{at:05d}-{'x' * 40}": at % 100 for at in range(4000)})
    async with watching(hub, WORST):
        await hub.until(lambda: silent(hub))
        score = hub.score()
        assert score is not None
        assert score.metadata.annotations == {}
        await asyncio.sleep(500)
        assert silent(hub)
        assert set((hub.values() or {}).values()) == {-100}
