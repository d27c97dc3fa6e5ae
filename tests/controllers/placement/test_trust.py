"""Trust annotations of placements, when scores expire and return."""

from datetime import timedelta

import pytest

from controllers.clocks import JUST, NOON, Stopped
from controllers.conftest import Start
from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.testing import builders
from fairway.workloads.placement.conditions import MISCONFIGURED
from fairway.workloads.placement.plugins.trust import EXPIRED_SCORES, MISSING_SCORE

pytestmark = pytest.mark.embedded

HOUR = timedelta(hours=1)
HAS_CPU = 'managedCluster.scores("default").exists(s, s.name == "cpu" && s.value > 0)'


def best(number: int | None = None) -> PlacementSpec:
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    return PlacementSpec(numberOfClusters=number, prioritizerPolicy=policy)


async def test_expired_score_counts_as_the_worst_at_once(start: Start, fleet: HubFleet) -> None:
    clock = Stopped(NOON - JUST)
    await fleet.clusters("a", "b")
    await fleet.score("a", {"cpu": 90}, valid_until=NOON)
    await fleet.score("b", {"cpu": -40})
    async with start(clock=clock) as manager:
        await fleet.place("p", best(1), annotations={MISSING_SCORE: "worst"})
        await fleet.chooses("p", "a")
        clock.now = NOON
        await fleet.after(manager, PLACEMENTS, await fleet.touch("p"))
        assert fleet.chosen("p") == ["a"], "it is true until then"
        clock.now = NOON + timedelta(microseconds=1)
        await fleet.chooses("p", "b")
        await fleet.eventually(lambda: fleet.last_event("DecisionUpdate").type == "Warning")
        assert "expired and count as the worst, by annotation fairway.dev/missing-score" in (
            fleet.last_event("DecisionUpdate").note
        )
        await fleet.score("a", {"cpu": -39}, valid_until=NOON + HOUR)
        await fleet.chooses("p", "a")


async def test_cluster_is_excluded_while_its_score_is_missing(start: Start, fleet: HubFleet) -> None:
    clock = Stopped(NOON - JUST)
    await fleet.clusters("a", "b", "c")
    await fleet.score("a", {"cpu": 90}, valid_until=NOON)
    await fleet.score("b", {"cpu": -40})
    async with start(clock=clock):
        await fleet.place("p", best(), annotations={MISSING_SCORE: "exclude"})
        await fleet.chooses("p", "a", "b")
        clock.now = NOON + timedelta(seconds=1)
        await fleet.chooses("p", "b")
        await fleet.eventually(lambda: fleet.last_event("DecisionUpdate").type == "Warning")
        assert "so annotation fairway.dev/missing-score excludes the clusters" in (
            fleet.last_event("DecisionUpdate").note
        )
        await fleet.score("c", {"cpu": -100})
        await fleet.chooses("p", "b", "c")
        await fleet.score("a", {"cpu": 1}, valid_until=NOON + HOUR)
        await fleet.chooses("p", "a", "b", "c")


async def test_trust_annotation_takes_effect_while_set(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b")
    await fleet.score("b", {"cpu": -40})
    await fleet.place("p", best(1))
    await fleet.chooses("p", "a")
    for says, chosen in (("worst", "b"), (None, "a"), ("exclude", "b"), ("nonsense", "a")):
        body = {"metadata": {"annotations": {MISSING_SCORE: says}}}
        await fleet.edit(PLACEMENTS, "p", body, namespace=fleet.namespace)
        await fleet.chooses("p", chosen)


async def test_invalid_trust_annotation_is_reported_on_the_placement(
    manager: Manager, fleet: HubFleet
) -> None:
    await fleet.clusters("a")
    await fleet.place("p", best(1), annotations={MISSING_SCORE: "wrost", EXPIRED_SCORES: "gone"})
    await fleet.chooses("p", "a")
    assert fleet.condition("p", MISCONFIGURED) == (
        "False",
        "Succeedconfigured",
        "Placement configurations check pass; "
        "annotation fairway.dev/missing-score: 'wrost' must be zero, worst or exclude, so it has no effect; "
        "annotation fairway.dev/expired-scores: 'gone' is neither absent nor present, so it has no effect",
    )
    body = {"metadata": {"annotations": {MISSING_SCORE: "worst", EXPIRED_SCORES: None}}}
    written = await fleet.edit(PLACEMENTS, "p", body, namespace=fleet.namespace)
    await fleet.after(manager, PLACEMENTS, written)
    assert fleet.condition("p", MISCONFIGURED)[2] == "Placement configurations check pass"


async def test_expression_does_not_see_expired_scores(start: Start, fleet: HubFleet) -> None:
    """Only the time, or the score alone, wakes the placement."""
    clock = Stopped(NOON - JUST)
    await fleet.clusters("a", "b")
    await fleet.score("a", {"cpu": 90}, valid_until=NOON)
    await fleet.score("b", {"cpu": 5})
    async with start(clock=clock) as manager:
        spec = PlacementSpec(predicates=(builders.predicate(cel=[HAS_CPU]),))
        await fleet.place("p", spec, annotations={EXPIRED_SCORES: "absent"})
        await fleet.place("q", spec)
        await fleet.chooses("p", "a", "b")
        clock.now = NOON + timedelta(seconds=1)
        await fleet.chooses("p", "b")
        await fleet.score("b", {"cpu": -5})
        await fleet.chooses("p")
        await fleet.chooses("q", "a")
        written = await fleet.score("a", {"cpu": 90}, valid_until=NOON + HOUR)
        await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, written)
        await fleet.chooses("p", "a")
