"""Scores and reasons that are recorded with a decision, how often they are, and what happens when scores run out."""

from datetime import timedelta
from typing import Any

import pytest

from controllers.clocks import JUST, NOON, Stopped
from controllers.conftest import Start
from controllers.figures import wakes
from controllers.world import World
from fairway.api.meta import Condition, find_condition
from fairway.api.placement import PlacementSpec
from fairway.controllers.manager import Manager
from fairway.kube import ADD_ON_PLACEMENT_SCORES, PLACEMENTS
from fairway.placement.unscored import UNSCORED
from fairway.testing import builders

pytestmark = pytest.mark.embedded


def best(number: int | None = None, **rest: Any) -> PlacementSpec:
    """Of the highest ``cpu``, and nothing else counts."""
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    return PlacementSpec(numberOfClusters=number, prioritizerPolicy=policy, **rest)


async def scored(world: World, **values: int) -> None:
    for word, value in values.items():
        await world.cluster(word)
        await world.score(word, {"cpu": value})


async def test_scores_and_reasons_are_recorded(manager: Manager, world: World) -> None:
    await scored(world, a=20, b=-5, c=0)
    await world.place("p", best())
    await world.chooses("p", "a", "b", "c")
    (page,) = world.decisions("p")
    assert [(world.word(each.clusterName), each.score, each.reason) for each in page.status.decisions] == [
        ("a", 20, "Rank 1 of 3 with 20 points: AddOn/default/cpu 20"),
        ("b", -5, "Rank 3 of 3 with -5 points: AddOn/default/cpu -5"),
        ("c", 0, "Rank 2 of 3 with 0 points: AddOn/default/cpu 0"),
    ]
    assert world.status("p").lastScoreUpdateTime is not None


async def test_a_score_that_no_cluster_has_is_named_until_one_publishes_it(
    manager: Manager, world: World
) -> None:
    await world.clusters("a", "b")
    await world.place("p", best(1))
    await world.chooses("p", "a")

    def said() -> Condition | None:
        return find_condition(world.status("p").conditions, UNSCORED)

    await world.eventually(lambda: said() is not None)
    assert "no candidate has a score default/cpu, so it counts 0 everywhere" in str(said())
    await world.score("b", {"cpu": 5})
    await world.chooses("p", "b")
    await world.eventually(lambda: said() is None)


# How often


async def test_recorded_scores_are_refreshed_when_the_rate_limit_allows(start: Start, world: World) -> None:
    """Not before, and then without an event. The queue waits in real time, so the limit is short."""
    clock = Stopped(NOON)
    due = NOON + timedelta(seconds=2)
    await scored(world, a=20)
    async with start(clock=clock) as manager:
        await world.place("p", best(scoreRateLimit="2s"))
        await world.chooses("p", "a")
        assert world.status("p").lastScoreUpdateTime == NOON
        before = await world.versions()
        await world.after(manager, ADD_ON_PLACEMENT_SCORES, await world.score("a", {"cpu": 30}))
        assert await world.versions() == before
        clock.now = due - JUST
        await world.after(manager, PLACEMENTS, await world.touch("p"))
        assert world.scores("p") == {"a": 20}
        clock.now = due
        await world.eventually(lambda: world.scores("p") == {"a": 30})
        await world.eventually(lambda: world.status("p").lastScoreUpdateTime == due)
        scored_first, refreshed = f"{world.full('a')}:20 ", f"{world.full('a')}:30 "
        await world.eventually(
            lambda: {each.note for each in world.events("ScoreUpdate")} == {scored_first, refreshed}
        )
        await world.after(manager, ADD_ON_PLACEMENT_SCORES, await world.score("a", {"cpu": 40}))
        clock.now = due + timedelta(seconds=2)
        await world.eventually(lambda: world.scores("p") == {"a": 40})
        refreshed = f"{world.full('a')}:40 "
        await world.eventually(
            lambda: {each.note for each in world.events("ScoreUpdate")} == {scored_first, refreshed}
        )
        assert [each.reason for each in world.events()].count("DecisionUpdate") == 1


async def test_a_changed_selection_is_written_at_once(start: Start, world: World) -> None:
    """With the scores of that moment."""
    clock = Stopped(NOON)
    await scored(world, a=20, b=10)
    async with start(clock=clock) as manager:
        await world.place("p", best(1, scoreRateLimit="1h"))
        await world.chooses("p", "a")
        clock.now = NOON + timedelta(seconds=1)
        await world.score("b", {"cpu": 40})
        await world.chooses("p", "b")
        assert world.scores("p") == {"b": 40}
        # Nothing else in the status changed, so it can wait for a minute.
        written = clock.now
        await world.after(manager, PLACEMENTS, await world.touch("p"))
        assert world.status("p").lastScoreUpdateTime == NOON
        clock.now = NOON + timedelta(minutes=1)
        await world.touch("p")
        await world.eventually(lambda: world.status("p").lastScoreUpdateTime == written)
        assert world.scores("p") == {"b": 40}


async def test_once_a_minute_unless_said_otherwise(start: Start, world: World) -> None:
    clock = Stopped(NOON)
    await scored(world, a=20)
    async with start(clock=clock) as manager:
        await world.place("p", best())
        await world.chooses("p", "a")
        await world.score("a", {"cpu": 30})
        clock.now = NOON + timedelta(seconds=59)
        await world.after(manager, PLACEMENTS, await world.touch("p"))
        assert world.scores("p") == {"a": 20}
        clock.now = NOON + timedelta(seconds=60)
        await world.touch("p")
        await world.eventually(lambda: world.scores("p") == {"a": 30})


async def test_without_a_limit_every_change_is_recorded(manager: Manager, world: World) -> None:
    await scored(world, a=20)
    await world.place("p", best(scoreRateLimit="0s"))
    await world.chooses("p", "a")
    await world.score("a", {"cpu": 30})
    await world.eventually(lambda: world.scores("p") == {"a": 30})
    await world.score("a", {"cpu": 40})
    await world.eventually(lambda: world.scores("p") == {"a": 40})


async def test_a_limit_longer_than_time_itself(manager: Manager, world: World) -> None:
    await scored(world, a=20, b=10)
    await world.place("p", best(1, scoreRateLimit="999999999h"))
    await world.chooses("p", "a")
    await world.score("b", {"cpu": 30})
    await world.chooses("p", "b")


@pytest.mark.parametrize("moment", ["2032-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
async def test_a_last_time_that_is_yet_to_come_delays_nothing(
    start: Start, world: World, moment: str
) -> None:
    """Somebody's clock was wrong."""
    clock = Stopped(NOON)
    await scored(world, a=20)
    async with start(clock=clock) as manager:
        await world.place("p", best(scoreRateLimit="30s"))
        await world.chooses("p", "a")
        wrong = {"status": {"lastScoreUpdateTime": moment}}
        written = await world.edit(PLACEMENTS, "p", wrong, namespace=world.namespace, status=True)
        await world.after(manager, PLACEMENTS, written)
        await world.score("a", {"cpu": 30})
        await world.eventually(lambda: world.scores("p") == {"a": 30})
        await world.eventually(lambda: world.status("p").lastScoreUpdateTime == NOON)


# In order of score


async def test_decisions_are_sorted_by_score(start: Start, world: World) -> None:
    clock = Stopped(NOON)
    await scored(world, a=10, b=30, c=20)
    async with start(clock=clock) as manager:
        await world.place("p", best(sortBy="Score", scoreRateLimit="30s"))
        await world.chooses("p", "b", "c", "a")
        before = await world.versions()
        await world.after(manager, ADD_ON_PLACEMENT_SCORES, await world.score("a", {"cpu": 90}))
        assert await world.versions() == before, "another order alone is no other decision"
        clock.now = NOON + timedelta(seconds=30)
        await world.touch("p")
        await world.chooses("p", "a", "b", "c")


async def test_groups_are_filled_by_score(manager: Manager, world: World) -> None:
    """The best come first, so they are in the first group."""
    await scored(world, a=10, b=30, c=20)
    await world.place("p", best(sortBy="Score"))
    await world.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 2}})
    await world.eventually(lambda: world.groups("p") == [("0", "", ("b", "c")), ("1", "", ("a",))])
    await world.score("a", {"cpu": 100})
    await world.eventually(lambda: world.groups("p") == [("0", "", ("a", "b")), ("1", "", ("c",))])


async def test_the_order_that_is_asked_for_changes(manager: Manager, world: World) -> None:
    await scored(world, a=10, b=30)
    await world.place("p", best())
    await world.chooses("p", "a", "b")
    await world.replace("p", sortBy="Score", scoreRateLimit="0s")
    await world.chooses("p", "b", "a")
    await world.replace("p", sortBy="ClusterName")
    await world.chooses("p", "a", "b")


# When they run out


async def test_a_score_that_runs_out_is_noticed_at_that_moment(start: Start, world: World) -> None:
    clock = Stopped(NOON - JUST)
    await scored(world, b=10)
    await world.cluster("a")
    await world.score("a", {"cpu": 90}, valid_until=NOON)
    async with start(clock=clock) as manager:
        await world.place("p", best(1))
        await world.chooses("p", "a")
        clock.now = NOON
        await world.after(manager, PLACEMENTS, await world.touch("p"))
        assert world.chosen("p") == ["a"], "it is true until then"
        clock.now = NOON + timedelta(microseconds=1)
        await world.chooses("p", "b")
        await world.eventually(lambda: world.last_event("DecisionUpdate").type == "Warning")
        assert f"AddOnPlacementScores {world.full('a')}/default expired" in (
            world.last_event("DecisionUpdate").note
        )
        assert world.condition("p") == ("True", "AllDecisionsScheduled", "All cluster decisions scheduled")
        await world.score("a", {"cpu": 91}, valid_until=NOON + timedelta(hours=1))
        await world.chooses("p", "a")


async def test_a_score_that_has_run_out_costs_nothing(start: Start, world: World) -> None:
    """It is not looked at again and again."""
    await world.cluster("a")
    await world.score("a", {"cpu": 90}, valid_until=NOON - timedelta(seconds=1))
    async with start(clock=Stopped(NOON)) as manager:
        await world.place("p", best())
        await world.chooses("p", "a")
        await world.settled(manager)
        before = wakes(manager)
        await world.after(manager, ADD_ON_PLACEMENT_SCORES, await world.score("a", {"cpu": 90}, resource="x"))
        assert wakes(manager) == before


async def test_a_score_whose_time_is_extended_is_not_given_up(start: Start, world: World) -> None:
    clock = Stopped(NOON - JUST)
    await scored(world, b=10)
    await world.cluster("a")
    await world.score("a", {"cpu": 90}, valid_until=NOON)
    async with start(clock=clock) as manager:
        await world.place("p", best(1))
        await world.chooses("p", "a")
        later = await world.score("a", {"cpu": 90}, valid_until=NOON + timedelta(hours=1))
        await world.after(manager, ADD_ON_PLACEMENT_SCORES, later)
        begun = len(world.history)
        clock.now = NOON + timedelta(seconds=1)
        await world.after(manager, PLACEMENTS, await world.touch("p"))
        assert world.chosen("p") == ["a"]
        assert all(pages == {"p-decision-1": ("a",)} for pages in world.history[begun:])
