"""The reconcile plan: pages and conditions to write, and nothing if nothing differs."""

from datetime import datetime, timedelta

import pytest
from msgspec import structs

from fairway.api.decision import PlacementDecision
from fairway.api.placement import Placement, PlacementSpec, PlacementStatus
from fairway.testing import builders
from fairway.whatif.world import World
from fairway.workloads.placement.conditions import MISCONFIGURED, SATISFIED
from fairway.workloads.placement.reconcile_plan import (
    KEEP,
    LONGEST_MESSAGE,
    ON_MISCONFIGURATION,
    ReconcilePlan,
    due_of,
    make_plan,
    owner_of,
    rate_of,
    stamp_due_of,
)
from fairway.workloads.placement.steps import Fill, owners_of
from fairway.workloads.placement.unscored import UNSCORED
from kubewire.api.meta import ObjectMeta, find_condition
from strategies import NOW, NOW_MICROS, bound_sets

SECOND = timedelta(seconds=1)
EMPTY = builders.predicate(labels=builders.selector(builders.requirement("env", "NoOperator")))
"""An invalid selector."""


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [("", 60), ("30s", 30), ("2m", 120), ("1h", 3600), ("0s", 0), ("1.5h", 60), ("soon", 60), ("-3s", 60)],
)
def test_scores_are_recorded_at_the_refresh_interval(limit: str, seconds: int) -> None:
    assert rate_of(builders.placement(spec=PlacementSpec(scoreRateLimit=limit))) == seconds * SECOND


@pytest.mark.parametrize(
    ("ago", "due_in"), [(29, 1), (30, None), (-5, None)], ids=["within", "at the end", "of a wrong clock"]
)
def test_scores_are_due_again_after_the_refresh_interval(ago: int, due_in: int | None) -> None:
    placement = builders.placement(spec=PlacementSpec(scoreRateLimit="30s"))
    due = due_of(placement, last=NOW - ago * SECOND, now=NOW)
    assert due == (None if due_in is None else NOW_MICROS + due_in * 1_000_000)


@pytest.mark.parametrize(("limit", "seconds"), [("10s", 10), ("1h", 60)])
def test_score_time_alone_is_written_after_a_minute_or_the_refresh_interval(limit: str, seconds: int) -> None:
    placement = structs.replace(
        builders.placement(spec=PlacementSpec(scoreRateLimit=limit)),
        status=PlacementStatus(lastScoreUpdateTime=NOW),
    )
    due = stamp_due_of(placement, last=NOW + SECOND, now=NOW + 2 * SECOND)
    assert due == NOW_MICROS + seconds * 1_000_000


def test_decision_keeps_its_other_owners_except_another_controller() -> None:
    owner = owner_of(builders.placement())
    user, former = (
        structs.replace(owner, name=name, uid=name, controller=name == "former")
        for name in ("user", "former")
    )
    decision = PlacementDecision(metadata=ObjectMeta(name="d", ownerReferences=(user, former)))
    assert owners_of(decision, owner) == (user, owner)


def proposed(
    world: World,
    placement: Placement,
    *,
    refresh: bool = False,
    last: datetime | None = None,
    until: int | None = None,
) -> ReconcilePlan:
    key = (placement.metadata.namespace, placement.metadata.name)
    decisions = world.decisions(placement.metadata.namespace)
    return make_plan(
        world.decide(key, now=NOW_MICROS),
        world.placements[key],
        named=decisions,
        own={
            name: decision
            for name, decision in decisions.items()
            if key[1] in decision.metadata.labels.values()
        },
        refresh=refresh,
        last=last or world.placements[key].status.lastScoreUpdateTime,
        now=NOW,
        until=until,
    )


def small_world(placement: Placement) -> World:
    return World([*bound_sets, builders.cluster("c1"), builders.cluster("c2"), placement])


def test_misconfiguration_empties_or_keeps_the_decision_by_option() -> None:
    placement = builders.placement(spec=PlacementSpec(predicates=(EMPTY,)))
    emptied = proposed(small_world(placement), placement)
    assert emptied.pages is not None
    assert emptied.selected == frozenset()
    keeping = builders.placement(spec=placement.spec, annotations={ON_MISCONFIGURATION: KEEP})
    kept = proposed(small_world(keeping), keeping)
    assert (kept.pages, kept.steps) == (None, ())
    for plan in (emptied, kept):
        assert plan.status is not None
        condition = find_condition(plan.status.conditions, MISCONFIGURED)
        assert condition is not None
        assert condition.status == "True"


def test_broken_set_keeps_decisions_and_is_reported() -> None:
    broken = builders.cluster_set(
        "default", selector=builders.selector(builders.requirement("env", "NoOperator"))
    )
    placement = builders.placement()
    world = small_world(placement)
    world.put(broken)
    plan = proposed(world, placement)
    assert (plan.pages, plan.steps) == (None, ())
    assert plan.status is not None
    condition = find_condition(plan.status.conditions, SATISFIED)
    assert condition is not None
    assert condition.status == "False"
    assert 'failed to get clusters from ClusterSet "default"' in condition.message


def test_condition_message_is_cut_at_the_api_limit() -> None:
    placement = builders.placement(
        spec=PlacementSpec(prioritizerPolicy=builders.policy(mode="x" * LONGEST_MESSAGE))
    )
    plan = proposed(small_world(placement), placement)
    assert plan.status is not None
    assert max(len(condition.message) for condition in plan.status.conditions) == LONGEST_MESSAGE
    assert any(condition.message.endswith("…") for condition in plan.status.conditions)


def test_missing_scores_message_is_cut() -> None:
    wanted = [builders.addon(f"{number}-" + "x" * 250, 1) for number in range(LONGEST_MESSAGE // 250)]
    placement = builders.placement(spec=PlacementSpec(prioritizerPolicy=builders.policy(*wanted)))
    plan = proposed(small_world(placement), placement)
    assert plan.status is not None
    condition = find_condition(plan.status.conditions, UNSCORED)
    assert condition is not None
    assert len(condition.message) == LONGEST_MESSAGE


@pytest.mark.parametrize("annotations", [{}, {ON_MISCONFIGURATION: KEEP}])
def test_misconfiguration_ends_the_missing_scores_condition(annotations: dict[str, str]) -> None:
    """The placement has no candidates then, whether it keeps its decision or not."""
    policy = builders.policy(builders.addon("cpu", 1))
    before = builders.placement(spec=PlacementSpec(prioritizerPolicy=policy), annotations=annotations)
    first = proposed(small_world(before), before)
    assert first.status is not None
    assert find_condition(first.status.conditions, UNSCORED) is not None
    wrong = structs.replace(
        before, spec=structs.replace(before.spec, predicates=(EMPTY,)), status=first.status
    )
    after = proposed(small_world(wrong), wrong)
    assert after.status is not None
    assert find_condition(after.status.conditions, UNSCORED) is None


def test_scores_that_change_without_a_move_are_listed_for_an_event() -> None:
    placement = builders.placement(spec=PlacementSpec(numberOfClusters=1))
    world = small_world(placement)
    first = proposed(world, placement)
    assert first.scores == "c1:100 c2:100 "
    world.place((placement.metadata.namespace, placement.metadata.name), now=NOW_MICROS)
    refreshed = proposed(world, placement, refresh=True)
    assert [(type(step), isinstance(step, Fill) and step.changed) for step in refreshed.steps] == [
        (Fill, False)
    ]
    assert refreshed.scores == "c1:200 c2:100 "


def test_score_time_is_written_when_scores_are_recorded() -> None:
    placement = builders.placement(spec=PlacementSpec(numberOfClusters=1))
    world = small_world(placement)
    first = proposed(world, placement)
    assert first.status is not None
    assert first.status.lastScoreUpdateTime == NOW
    world.place((placement.metadata.namespace, placement.metadata.name), now=NOW_MICROS)
    before = PlacementStatus(**{**structs.asdict(first.status), "lastScoreUpdateTime": NOW - 9 * SECOND})
    key = (placement.metadata.namespace, placement.metadata.name)
    world.put(structs.replace(world.placements[key], status=before))
    assert proposed(world, placement).empty
    for until, expected in ((None, 51_000_000), (NOW_MICROS + 5, 5)):
        plan = proposed(world, placement, last=NOW, until=until)
        assert (plan.empty, plan.until) == (True, NOW_MICROS + expected)
