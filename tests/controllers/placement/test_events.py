"""Events of placements, with their exact messages."""

import socket
from datetime import timedelta

import pytest

from controllers.clocks import JUST, NOON, Stopped
from controllers.conftest import Start
from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, PLACEMENT_DECISIONS
from fairway.controllers.manager import Manager
from fairway.testing import builders
from fairway.workloads.placement.plugins.contract import DWELL
from kubewire.api.event import ObjectReference
from kubewire.client.correlator import LONGEST_MESSAGE
from metric_values import values

pytestmark = pytest.mark.embedded


def told(fleet: HubFleet, *, about: str = "p") -> list[tuple[str, str, str, str]]:
    return [(event.type, event.reason, event.action, event.note) for event in fleet.events(about=about)]


@pytest.mark.both_hubs
async def test_decision_events_report_creation_change_and_deletion(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a")
    await fleet.place("p", PlacementSpec(numberOfClusters=1))
    await fleet.chooses("p", "a")
    where = f"with placement p in namespace {fleet.namespace}"
    made = [
        ("Normal", "DecisionCreate", "DecisionCreated", f"Decision p-decision-1 is created {where}"),
        ("Normal", "DecisionUpdate", "DecisionUpdated", f"Decision p-decision-1 is updated {where}"),
        ("Normal", "ScoreUpdate", "ScoreUpdated", f"{fleet.name('a')}:100 "),
    ]
    await fleet.eventually(lambda: len(told(fleet)) == 3)
    assert told(fleet) == made
    await fleet.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": "5"}})
    await fleet.eventually(lambda: len(told(fleet)) == 4)
    assert told(fleet)[3] == (
        "Normal",
        "DecisionDelete",
        "DecisionDeleted",
        f"Decision p-decision-1 is deleted {where}",
    )


@pytest.mark.both_hubs
async def test_events_name_reporter_and_object(manager: Manager, fleet: HubFleet) -> None:
    placement = await fleet.place()
    await fleet.eventually(lambda: bool(fleet.events("DecisionCreate") and fleet.decisions("p")))
    (event,) = fleet.events("DecisionCreate")
    api_version = "cluster.open-cluster-management.io/v1beta1"
    assert event.regarding == ObjectReference(
        apiVersion=api_version,
        kind="Placement",
        name="p",
        namespace=fleet.namespace,
        uid=placement.metadata.uid,
    )
    assert event.related == ObjectReference(
        apiVersion=api_version,
        kind="PlacementDecision",
        name="p-decision-1",
        namespace=fleet.namespace,
        uid=fleet.decisions("p")[0].metadata.uid,
    )
    assert event.reportingController == "placement-controller"
    assert event.reportingInstance == f"placement-controller-{socket.gethostname()}"


async def test_scores_are_those_of_all_that_passed_the_filters(manager: Manager, fleet: HubFleet) -> None:
    for word, value in (("a", 1), ("b", 3), ("c", -2)):
        await fleet.cluster(word)
        await fleet.score(word, {"cpu": value})
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    await fleet.place("p", PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy))
    await fleet.chooses("p", "b")
    await fleet.eventually(lambda: bool(fleet.events("ScoreUpdate")))
    a, b, c = (fleet.name(word) for word in "abc")
    assert fleet.events("ScoreUpdate")[-1].note == f"{a}:1 {b}:3 {c}:-2 "


async def test_empty_decision_has_only_a_creation_event(manager: Manager, fleet: HubFleet) -> None:
    await fleet.place()
    await fleet.chooses("p")
    await fleet.clusters("a")
    await fleet.chooses("p", "a")
    await fleet.eventually(lambda: bool(fleet.events("ScoreUpdate")))
    assert [event.reason for event in fleet.events()] == ["DecisionCreate", "DecisionUpdate", "ScoreUpdate"]


async def test_each_changed_page_has_an_event(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b")
    await fleet.place()
    await fleet.chooses("p", "a", "b")
    await fleet.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 1}})
    await fleet.eventually(lambda: len(fleet.pages("p")) == 2 and fleet.chosen("p") == ["a", "b"])
    await fleet.eventually(lambda: len(fleet.events("DecisionCreate")) == 2)
    await fleet.eventually(
        lambda: (
            {event.note.split()[1] for event in fleet.events("DecisionUpdate")}
            == {"p-decision-1", "p-decision-2"}
        )
    )


async def test_changed_labels_of_a_page_have_no_event(manager: Manager, fleet: HubFleet) -> None:
    await fleet.cluster("a")
    await fleet.score("a", {"cpu": 1})
    # Without Steady and Balance, by which the repair would find other scores than the decision.
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    await fleet.place("p", PlacementSpec(prioritizerPolicy=policy))
    await fleet.chooses("p", "a")
    await fleet.eventually(lambda: bool(fleet.events("ScoreUpdate")))
    before = [event.reason for event in fleet.events()]
    changed = {"metadata": {"labels": {"mine": "yes"}}}
    written = await fleet.edit(PLACEMENT_DECISIONS, "p-decision-1", changed, namespace=fleet.namespace)
    await fleet.after(manager, PLACEMENT_DECISIONS, written)
    assert "mine" not in fleet.decisions("p")[0].metadata.labels
    # Events are written in order: an earlier one would be there before this one.
    await fleet.place("q")
    await fleet.eventually(lambda: bool(fleet.events("ScoreUpdate", about="q")))
    assert [event.reason for event in fleet.events()] == before


async def test_expired_scores_cause_a_warning_event(start: Start, fleet: HubFleet) -> None:
    for word in "abc":
        await fleet.cluster(word)
        await fleet.score(word, {"cpu": 5}, valid_until=None if word == "b" else NOON)
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    async with start(clock=Stopped(NOON.replace(second=1))):
        await fleet.place("p", PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy))
        await fleet.chooses("p", "b")
        await fleet.eventually(lambda: len(fleet.events()) == 3)
    a, c = fleet.name("a"), fleet.name("c")
    assert told(fleet)[1] == (
        "Warning",
        "DecisionUpdate",
        "DecisionUpdated",
        f"Decision p-decision-1 is updated with placement p in namespace {fleet.namespace}: "
        f"AddOnPlacementScores {a}/default {c}/default expired in plugin AddOn/default/cpu",
    )
    assert told(fleet)[2][:2] == ("Normal", "ScoreUpdate")


@pytest.mark.both_hubs
async def test_long_event_message_is_truncated(start: Start, fleet: HubFleet) -> None:
    words = [f"{letter * 40}{number}" for number in range(3) for letter in "abcdefg"]
    for word in words:
        await fleet.cluster(word)
        await fleet.score(word, {"cpu": 5}, valid_until=NOON)
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    async with start(clock=Stopped(NOON.replace(second=1))):
        await fleet.place("p", PlacementSpec(prioritizerPolicy=policy))
        await fleet.chooses("p", *sorted(words))
        await fleet.eventually(lambda: len(fleet.events()) == 3)
    warning, scores = fleet.events("DecisionUpdate")[0].note, fleet.events("ScoreUpdate")[0].note
    assert len(warning.encode()) <= LONGEST_MESSAGE
    assert warning.endswith("…")
    assert scores.endswith(" ......")
    assert len(scores) <= 1006
    assert len(scores) > 1000 - len(f"{fleet.name(words[0])}:0 ")


async def test_move_that_waits_is_reported_once_and_made_by_a_timer(start: Start, fleet: HubFleet) -> None:
    clock, hour = Stopped(NOON), timedelta(hours=1)
    await fleet.clusters("a", "b")
    await fleet.score("a", {"cpu": 60})
    await fleet.score("b", {"cpu": 50})
    async with start(clock=clock) as manager:
        policy = builders.policy(builders.addon("cpu"), mode="Exact")
        spec = PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy)
        await fleet.place("p", spec, annotations={DWELL: "1h"})
        await fleet.chooses("p", "a")
        clock.now = NOON + hour - JUST
        for points in (90, 91):
            await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, await fleet.score("b", {"cpu": points}))
        words = f"is better than a selected cluster, which stays until 2031-05-05T13:00:00Z by {DWELL}"
        reported = ("Normal", "MoveSuppressed", "Schedule", f"{fleet.name('b')}: {words}")
        await fleet.eventually(lambda: reported in told(fleet))
        assert told(fleet).count(reported) == 1
        assert fleet.chosen("p") == ["a"]
        assert values(manager.meters.expose())['fairway_moves_suppressed_total{cause="Dwell"}'] == 1
        clock.now = NOON + hour
        await fleet.chooses("p", "b")
