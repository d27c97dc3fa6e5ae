"""The events of a plan have OCM's reasons and messages."""

from dataclasses import replace

import pytest
from msgspec import structs

from fairway.api.decision import PlacementDecision
from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL, PlacementSpec
from fairway.hosts.instant import SECOND
from fairway.testing.builders import addon, cluster, decision, policy, predicate, requirement, score, selector
from fairway.workloads.placement.events import Event, events_of, status_event
from fairway.workloads.placement.reconcile_plan import ReconcilePlan, score_text
from fairway.workloads.placement.steps import Relabel
from kubewire.api.meta import ObjectMeta
from strategies import NOW, NOW_MICROS
from workloads.placement.plugins.verdicts import KEY, hub

EXACT = PlacementSpec(prioritizerPolicy=policy(addon("free", 1), mode="Exact"))
ALL_SCORES = Event("Normal", "ScoreUpdate", "ScoreUpdated", "c1:-3 c2:7 ")


def page(
    number: int, *clusters: str, group: str = "", extra: dict[str, str] | None = None
) -> PlacementDecision:
    labels = {PLACEMENT_LABEL: "p1", GROUP_INDEX_LABEL: "0", GROUP_NAME_LABEL: group, **(extra or {})}
    page = decision(f"p1-decision-{number}", clusters)
    meta = ObjectMeta(name=page.metadata.name, namespace="ns1", labels=labels)
    return PlacementDecision(metadata=meta, status=page.status)


def planned(*objects: object, spec: PlacementSpec | None = None) -> ReconcilePlan:
    world = hub(*objects, spec=spec)
    return world.plan(KEY, world.decide(KEY, now=NOW_MICROS), now=NOW_MICROS)


def events(plan: ReconcilePlan) -> list[Event]:
    return [event for step in plan.steps for event in events_of(step, plan)]


def on_decision(verb: str, number: int) -> Event:
    text = f"Decision p1-decision-{number} is {verb.lower()}d with placement p1 in namespace ns1"
    return Event("Normal", f"Decision{verb}", f"Decision{verb}d", text)


SCORED = (cluster("c1"), cluster("c2"), score("c1", {"free": -3}), score("c2", {"free": 7}))


def test_new_page_is_created_then_filled_with_an_update_and_the_scores() -> None:
    assert events(planned(*SCORED, spec=EXACT)) == [
        on_decision("Create", 1),
        on_decision("Update", 1),
        ALL_SCORES,
    ]


def test_empty_decision_gets_one_page_and_no_update() -> None:
    assert events(planned()) == [on_decision("Create", 1)]


@pytest.mark.parametrize(
    "clusters",
    [
        pytest.param(("c1",), id="one less"),
        pytest.param(("c1", "c2", "c3"), id="one more"),
        pytest.param(("c2", "c1"), id="another order"),
        pytest.param((), id="none"),
    ],
)
def test_changed_clusters_of_a_page_report_all_scores(clusters: tuple[str, ...]) -> None:
    plan = planned(*SCORED, page(1, *clusters), spec=EXACT)
    assert events(plan) == [on_decision("Update", 1), ALL_SCORES]


def test_update_without_candidates_reports_no_scores() -> None:
    assert events(planned(page(1, "c1"))) == [on_decision("Update", 1)]


@pytest.mark.parametrize(
    "existing",
    [
        pytest.param(page(1, "c1", group="canary"), id="another group name"),
        pytest.param(page(1, "c1", extra={GROUP_INDEX_LABEL: "4"}), id="another index"),
        pytest.param(page(1, "c1", extra={"team": "blue"}), id="a label that is not ours"),
        pytest.param(decision("p1-decision-1", ["c1"]), id="no labels at all"),
    ],
)
def test_labels_are_repaired_without_an_event(existing: PlacementDecision) -> None:
    plan = planned(cluster("c1"), existing)
    assert any(isinstance(step, Relabel) for step in plan.steps)
    assert events(plan) == []


def test_surplus_pages_are_deleted_in_order_of_their_names() -> None:
    surplus = [page(number, "x") for number in (10, 9, 2)]
    plan = planned(cluster("c1"), page(1, "c1"), *surplus)
    assert events(plan) == [on_decision("Delete", number) for number in (10, 2, 9)]


def test_only_decisions_with_the_label_of_the_placement_are_deleted() -> None:
    labelled = decision("made-by-hand", ["c1"], placement="p1")
    others = (decision("p2-decision-1", ["c1"], placement="p2"), decision("p1-decision-7", ["c1"]))
    plan = planned(cluster("c1"), page(1, "c1"), labelled, *others)
    assert [event.message.split()[1] for event in events(plan)] == ["made-by-hand"]


def test_warning_is_part_of_the_update_and_of_no_other_event() -> None:
    expired = score("c1", {"free": 5}, valid_until=NOW)
    world = hub(cluster("c1"), expired, page(1), page(3), spec=EXACT)
    verdict = world.decide(KEY, now=NOW_MICROS + SECOND)
    plan = world.plan(KEY, verdict, now=NOW_MICROS + SECOND)
    update, scores, deletion = events(plan)
    assert (update.type, update.reason) == ("Warning", "DecisionUpdate")
    assert update.message == (
        "Decision p1-decision-1 is updated with placement p1 in namespace ns1: "
        "AddOnPlacementScores c1/default expired in plugin AddOn/default/free"
    )
    assert scores.message == "c1:0 "
    assert deletion == on_decision("Delete", 3)


def test_score_that_no_cluster_publishes_is_reported_once() -> None:
    world = hub(cluster("c1"), spec=EXACT)
    plan = world.plan(KEY, world.decide(KEY, now=NOW_MICROS), now=NOW_MICROS)
    assert status_event(plan) == Event(
        "Warning",
        "ScoreNotPublished",
        "Schedule",
        "no candidate has a score default/free, so it counts 0 everywhere and decides nothing: check resourceName and "
        "scoreName, or install the provider that publishes it",
    )
    assert plan.status is not None
    known = structs.replace(plan.placement, status=plan.status)
    assert status_event(replace(plan, placement=known)) is None
    assert status_event(planned(*SCORED, spec=EXACT)) is None


def test_misconfigured_placement_updates_without_a_warning() -> None:
    wrong = predicate(labels=selector(requirement("env", "NoOperator")))
    plan = planned(cluster("c1"), page(1, "c1"), spec=PlacementSpec(predicates=(wrong,)))
    assert events(plan) == [on_decision("Update", 1)]


def test_scores_are_listed_by_name() -> None:
    assert score_text({"b": 1, "a": -20, "c": 0}) == "a:-20 b:1 c:0 "
    assert score_text({}) == ""


def test_score_text_of_exactly_1000_characters_is_complete() -> None:
    scores = {f"c{at:02d}-xx": 10 for at in range(100)}
    text = score_text(scores)
    assert len(text) == 1000
    assert text.endswith("c99-xx:10 ")
    assert score_text({**scores, "d": 1}) == text + "......"


def test_longer_score_text_is_truncated_before_the_first_that_does_not_fit() -> None:
    text = score_text({f"cluster-{at:03d}": 100 for at in range(100)})
    assert len(text) == 16 * 62 + 6
    assert text.endswith("cluster-061:100 ......")


def test_score_text_is_measured_in_bytes() -> None:
    assert score_text({"é" * 498: 1}) == "é" * 498 + ":1 "
    assert score_text({"é" * 499: 1}) == "......"


def test_scores_and_warning_are_formatted_only_for_an_update() -> None:
    """A placement of 100,000 clusters has 1,000 pages, and most cycles change none of them."""
    expired = score("c1", {"free": 5}, valid_until=NOW)
    world = hub(cluster("c1"), expired, page(1, "c1"), spec=EXACT)
    plan = world.plan(KEY, world.decide(KEY, now=NOW_MICROS + SECOND), now=NOW_MICROS + SECOND)
    assert (plan.scores, plan.outcome.reasons) == ("", ())
