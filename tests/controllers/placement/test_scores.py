"""Scores and reasons that are recorded with a decision, their refresh, and their expiry."""

from datetime import timedelta
from typing import Any

import pytest

from controllers.clocks import JUST, NOON, Stopped
from controllers.conftest import Start
from controllers.figures import wakes
from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.testing import builders
from fairway.workloads.placement.unscored import UNSCORED
from kubewire.api.meta import Condition, find_condition

pytestmark = pytest.mark.embedded


def best(number: int | None = None, **rest: Any) -> PlacementSpec:
    """Select the clusters with the highest ``cpu``."""
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    return PlacementSpec(numberOfClusters=number, prioritizerPolicy=policy, **rest)


async def scored(fleet: HubFleet, **values: int) -> None:
    for word, value in values.items():
        await fleet.cluster(word)
        await fleet.score(word, {"cpu": value})


async def test_scores_and_reasons_are_recorded(manager: Manager, fleet: HubFleet) -> None:
    await scored(fleet, a=20, b=-5, c=0)
    await fleet.place("p", best())
    await fleet.chooses("p", "a", "b", "c")
    (page,) = fleet.decisions("p")
    assert [
        (fleet.short(decision.clusterName), decision.score, decision.reason)
        for decision in page.status.decisions
    ] == [
        ("a", 20, "Rank 1 of 3 with 20 points: AddOn/default/cpu 20"),
        ("b", -5, "Rank 3 of 3 with -5 points: AddOn/default/cpu -5"),
        ("c", 0, "Rank 2 of 3 with 0 points: AddOn/default/cpu 0"),
    ]
    assert fleet.status("p").lastScoreUpdateTime is not None


async def test_unpublished_score_is_named_until_a_cluster_publishes_it(
    manager: Manager, fleet: HubFleet
) -> None:
    await fleet.clusters("a", "b")
    await fleet.place("p", best(1))
    await fleet.chooses("p", "a")

    def said() -> Condition | None:
        return find_condition(fleet.status("p").conditions, UNSCORED)

    await fleet.eventually(lambda: said() is not None)
    assert "no candidate has a score default/cpu, so it counts 0 everywhere" in str(said())
    await fleet.eventually(lambda: bool(fleet.events("ScoreNotPublished")))
    await fleet.score("b", {"cpu": 5})
    await fleet.chooses("p", "b")
    await fleet.eventually(lambda: said() is None)


# How often


async def test_recorded_scores_are_refreshed_when_the_rate_limit_allows(
    start: Start, fleet: HubFleet
) -> None:
    """Without an event. The queue waits in real time, so the limit is short."""
    clock = Stopped(NOON)
    due = NOON + timedelta(seconds=2)
    await scored(fleet, a=20)
    async with start(clock=clock) as manager:
        await fleet.place("p", best(scoreRateLimit="2s"))
        await fleet.chooses("p", "a")
        assert fleet.status("p").lastScoreUpdateTime == NOON
        before = await fleet.versions()
        await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, await fleet.score("a", {"cpu": 30}))
        assert await fleet.versions() == before
        clock.now = due - JUST
        await fleet.after(manager, PLACEMENTS, await fleet.touch("p"))
        assert fleet.scores("p") == {"a": 20}
        clock.now = due
        await fleet.eventually(lambda: fleet.scores("p") == {"a": 30})
        await fleet.eventually(lambda: fleet.status("p").lastScoreUpdateTime == due)
        scored_first, refreshed = f"{fleet.name('a')}:20 ", f"{fleet.name('a')}:30 "
        await fleet.eventually(
            lambda: {event.note for event in fleet.events("ScoreUpdate")} == {scored_first, refreshed}
        )
        await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, await fleet.score("a", {"cpu": 40}))
        clock.now = due + timedelta(seconds=2)
        await fleet.eventually(lambda: fleet.scores("p") == {"a": 40})
        refreshed = f"{fleet.name('a')}:40 "
        await fleet.eventually(
            lambda: {event.note for event in fleet.events("ScoreUpdate")} == {scored_first, refreshed}
        )
        assert [event.reason for event in fleet.events()].count("DecisionUpdate") == 1


async def test_changed_selection_is_written_at_once(start: Start, fleet: HubFleet) -> None:
    clock = Stopped(NOON)
    await scored(fleet, a=20, b=10)
    async with start(clock=clock) as manager:
        await fleet.place("p", best(1, scoreRateLimit="1h"))
        await fleet.chooses("p", "a")
        clock.now = NOON + timedelta(seconds=1)
        await fleet.score("b", {"cpu": 40})
        await fleet.chooses("p", "b")
        assert fleet.scores("p") == {"b": 40}
        # Nothing else in the status changed, so it can wait for a minute.
        written = clock.now
        await fleet.after(manager, PLACEMENTS, await fleet.touch("p"))
        assert fleet.status("p").lastScoreUpdateTime == NOON
        clock.now = NOON + timedelta(minutes=1)
        await fleet.touch("p")
        await fleet.eventually(lambda: fleet.status("p").lastScoreUpdateTime == written)
        assert fleet.scores("p") == {"b": 40}


async def test_recorded_scores_are_refreshed_once_a_minute_by_default(start: Start, fleet: HubFleet) -> None:
    clock = Stopped(NOON)
    await scored(fleet, a=20)
    async with start(clock=clock) as manager:
        await fleet.place("p", best())
        await fleet.chooses("p", "a")
        await fleet.score("a", {"cpu": 30})
        clock.now = NOON + timedelta(seconds=59)
        await fleet.after(manager, PLACEMENTS, await fleet.touch("p"))
        assert fleet.scores("p") == {"a": 20}
        clock.now = NOON + timedelta(seconds=60)
        await fleet.touch("p")
        await fleet.eventually(lambda: fleet.scores("p") == {"a": 30})


async def test_without_a_limit_every_change_is_recorded(manager: Manager, fleet: HubFleet) -> None:
    await scored(fleet, a=20)
    await fleet.place("p", best(scoreRateLimit="0s"))
    await fleet.chooses("p", "a")
    await fleet.score("a", {"cpu": 30})
    await fleet.eventually(lambda: fleet.scores("p") == {"a": 30})
    await fleet.score("a", {"cpu": 40})
    await fleet.eventually(lambda: fleet.scores("p") == {"a": 40})


async def test_very_long_refresh_interval_is_accepted(manager: Manager, fleet: HubFleet) -> None:
    await scored(fleet, a=20, b=10)
    await fleet.place("p", best(1, scoreRateLimit="999999999h"))
    await fleet.chooses("p", "a")
    await fleet.score("b", {"cpu": 30})
    await fleet.chooses("p", "b")


@pytest.mark.parametrize("moment", ["2032-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
async def test_future_time_of_recorded_scores_delays_nothing(
    start: Start, fleet: HubFleet, moment: str
) -> None:
    """A time in the future comes from a wrong clock."""
    clock = Stopped(NOON)
    await scored(fleet, a=20)
    async with start(clock=clock) as manager:
        await fleet.place("p", best(scoreRateLimit="30s"))
        await fleet.chooses("p", "a")
        wrong = {"status": {"lastScoreUpdateTime": moment}}
        written = await fleet.edit(PLACEMENTS, "p", wrong, namespace=fleet.namespace, status=True)
        await fleet.after(manager, PLACEMENTS, written)
        await fleet.score("a", {"cpu": 30})
        await fleet.eventually(lambda: fleet.scores("p") == {"a": 30})
        await fleet.eventually(lambda: fleet.status("p").lastScoreUpdateTime == NOON)


# In order of score


async def test_decisions_are_sorted_by_score(start: Start, fleet: HubFleet) -> None:
    clock = Stopped(NOON)
    await scored(fleet, a=10, b=30, c=20)
    async with start(clock=clock) as manager:
        await fleet.place("p", best(sortBy="Score", scoreRateLimit="30s"))
        await fleet.chooses("p", "b", "c", "a")
        before = await fleet.versions()
        await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, await fleet.score("a", {"cpu": 90}))
        assert await fleet.versions() == before, "another order alone is no other decision"
        clock.now = NOON + timedelta(seconds=30)
        await fleet.touch("p")
        await fleet.chooses("p", "a", "b", "c")


async def test_groups_are_filled_by_score(manager: Manager, fleet: HubFleet) -> None:
    await scored(fleet, a=10, b=30, c=20)
    await fleet.place("p", best(sortBy="Score"))
    await fleet.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 2}})
    await fleet.eventually(lambda: fleet.groups("p") == [("0", "", ("b", "c")), ("1", "", ("a",))])
    await fleet.score("a", {"cpu": 100})
    await fleet.eventually(lambda: fleet.groups("p") == [("0", "", ("a", "b")), ("1", "", ("c",))])


async def test_changed_prioritizer_order_changes_the_decision(manager: Manager, fleet: HubFleet) -> None:
    await scored(fleet, a=10, b=30)
    await fleet.place("p", best())
    await fleet.chooses("p", "a", "b")
    await fleet.replace("p", sortBy="Score", scoreRateLimit="0s")
    await fleet.chooses("p", "b", "a")
    await fleet.replace("p", sortBy="ClusterName")
    await fleet.chooses("p", "a", "b")


# When they expire


async def test_score_expiry_wakes_its_placements(start: Start, fleet: HubFleet) -> None:
    clock = Stopped(NOON - JUST)
    await scored(fleet, b=10)
    await fleet.cluster("a")
    await fleet.score("a", {"cpu": 90}, valid_until=NOON)
    async with start(clock=clock) as manager:
        await fleet.place("p", best(1))
        await fleet.chooses("p", "a")
        clock.now = NOON
        await fleet.after(manager, PLACEMENTS, await fleet.touch("p"))
        assert fleet.chosen("p") == ["a"], "it is true until then"
        clock.now = NOON + timedelta(microseconds=1)
        await fleet.chooses("p", "b")
        await fleet.eventually(lambda: fleet.last_event("DecisionUpdate").type == "Warning")
        assert f"AddOnPlacementScores {fleet.name('a')}/default expired" in (
            fleet.last_event("DecisionUpdate").note
        )
        assert fleet.condition("p") == ("True", "AllDecisionsScheduled", "All cluster decisions scheduled")
        await fleet.score("a", {"cpu": 91}, valid_until=NOON + timedelta(hours=1))
        await fleet.chooses("p", "a")


async def test_expired_score_causes_no_further_cycles(start: Start, fleet: HubFleet) -> None:
    await fleet.cluster("a")
    await fleet.score("a", {"cpu": 90}, valid_until=NOON - timedelta(seconds=1))
    async with start(clock=Stopped(NOON)) as manager:
        await fleet.place("p", best())
        await fleet.chooses("p", "a")
        await fleet.settled(manager)
        before = wakes(manager)
        await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, await fleet.score("a", {"cpu": 90}, resource="x"))
        assert wakes(manager) == before


async def test_extended_score_does_not_expire(start: Start, fleet: HubFleet) -> None:
    clock = Stopped(NOON - JUST)
    await scored(fleet, b=10)
    await fleet.cluster("a")
    await fleet.score("a", {"cpu": 90}, valid_until=NOON)
    async with start(clock=clock) as manager:
        await fleet.place("p", best(1))
        await fleet.chooses("p", "a")
        later = await fleet.score("a", {"cpu": 90}, valid_until=NOON + timedelta(hours=1))
        await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, later)
        begun = len(fleet.history)
        clock.now = NOON + timedelta(seconds=1)
        await fleet.after(manager, PLACEMENTS, await fleet.touch("p"))
        assert fleet.chosen("p") == ["a"]
        assert all(pages == {"p-decision-1": ("a",)} for pages in fleet.history[begun:])
