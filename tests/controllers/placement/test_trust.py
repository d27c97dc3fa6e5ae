"""Placements that say how far they trust scores: at the moment one runs out, and when it comes back."""

from datetime import timedelta

import pytest

from controllers.clocks import JUST, NOON, Stopped
from controllers.conftest import Start
from controllers.world import World
from fairway.api.placement import PlacementSpec
from fairway.controllers.manager import Manager
from fairway.kube import ADD_ON_PLACEMENT_SCORES, PLACEMENTS
from fairway.placement.conditions import MISCONFIGURED
from fairway.plugins.trust import EXPIRED_SCORES, MISSING_SCORE
from fairway.testing import builders

pytestmark = pytest.mark.embedded

HOUR = timedelta(hours=1)
HAS_CPU = 'managedCluster.scores("default").exists(s, s.name == "cpu" && s.value > 0)'


def best(number: int | None = None) -> PlacementSpec:
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    return PlacementSpec(numberOfClusters=number, prioritizerPolicy=policy)


async def test_the_worst_counts_from_the_moment_a_score_runs_out(start: Start, world: World) -> None:
    clock = Stopped(NOON - JUST)
    await world.clusters("a", "b")
    await world.score("a", {"cpu": 90}, valid_until=NOON)
    await world.score("b", {"cpu": -40})
    async with start(clock=clock) as manager:
        await world.place("p", best(1), annotations={MISSING_SCORE: "worst"})
        await world.chooses("p", "a")
        clock.now = NOON
        await world.after(manager, PLACEMENTS, await world.touch("p"))
        assert world.chosen("p") == ["a"], "it is true until then"
        clock.now = NOON + timedelta(microseconds=1)
        await world.chooses("p", "b")
        await world.eventually(lambda: world.last_event("DecisionUpdate").type == "Warning")
        assert "expired and count as the worst, by annotation fairway.dev/missing-score" in (
            world.last_event("DecisionUpdate").note
        )
        await world.score("a", {"cpu": -39}, valid_until=NOON + HOUR)
        await world.chooses("p", "a")


async def test_a_cluster_is_excluded_while_its_score_is_missing(start: Start, world: World) -> None:
    clock = Stopped(NOON - JUST)
    await world.clusters("a", "b", "c")
    await world.score("a", {"cpu": 90}, valid_until=NOON)
    await world.score("b", {"cpu": -40})
    async with start(clock=clock):
        await world.place("p", best(), annotations={MISSING_SCORE: "exclude"})
        await world.chooses("p", "a", "b")
        clock.now = NOON + timedelta(seconds=1)
        await world.chooses("p", "b")
        await world.eventually(lambda: world.last_event("DecisionUpdate").type == "Warning")
        assert "so annotation fairway.dev/missing-score excludes the clusters" in (
            world.last_event("DecisionUpdate").note
        )
        await world.score("c", {"cpu": -100})
        await world.chooses("p", "b", "c")
        await world.score("a", {"cpu": 1}, valid_until=NOON + HOUR)
        await world.chooses("p", "a", "b", "c")


async def test_the_annotation_comes_and_goes(manager: Manager, world: World) -> None:
    await world.clusters("a", "b")
    await world.score("b", {"cpu": -40})
    await world.place("p", best(1))
    await world.chooses("p", "a")
    for says, chosen in (("worst", "b"), (None, "a"), ("exclude", "b"), ("nonsense", "a")):
        body = {"metadata": {"annotations": {MISSING_SCORE: says}}}
        await world.edit(PLACEMENTS, "p", body, namespace=world.namespace)
        await world.chooses("p", chosen)


async def test_a_value_that_means_nothing_is_told_on_the_placement(manager: Manager, world: World) -> None:
    await world.clusters("a")
    await world.place("p", best(1), annotations={MISSING_SCORE: "wrost", EXPIRED_SCORES: "gone"})
    await world.chooses("p", "a")
    assert world.condition("p", MISCONFIGURED) == (
        "False",
        "Succeedconfigured",
        "Placement configurations check pass; "
        "annotation fairway.dev/missing-score: 'wrost' must be zero, worst or exclude, so it has no effect; "
        "annotation fairway.dev/expired-scores: 'gone' is neither absent nor present, so it has no effect",
    )
    body = {"metadata": {"annotations": {MISSING_SCORE: "worst", EXPIRED_SCORES: None}}}
    written = await world.edit(PLACEMENTS, "p", body, namespace=world.namespace)
    await world.after(manager, PLACEMENTS, written)
    assert world.condition("p", MISCONFIGURED)[2] == "Placement configurations check pass"


async def test_an_expression_no_longer_sees_what_has_run_out(start: Start, world: World) -> None:
    """Nothing but time, or a change of the score alone, wakes the placement."""
    clock = Stopped(NOON - JUST)
    await world.clusters("a", "b")
    await world.score("a", {"cpu": 90}, valid_until=NOON)
    await world.score("b", {"cpu": 5})
    async with start(clock=clock) as manager:
        spec = PlacementSpec(predicates=(builders.predicate(cel=[HAS_CPU]),))
        await world.place("p", spec, annotations={EXPIRED_SCORES: "absent"})
        await world.place("q", spec)
        await world.chooses("p", "a", "b")
        clock.now = NOON + timedelta(seconds=1)
        await world.chooses("p", "b")
        await world.score("b", {"cpu": -5})
        await world.chooses("p")
        await world.chooses("q", "a")
        written = await world.score("a", {"cpu": 90}, valid_until=NOON + HOUR)
        await world.after(manager, ADD_ON_PLACEMENT_SCORES, written)
        await world.chooses("p", "a")
