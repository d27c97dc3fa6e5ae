"""What ``kubectl describe placement`` tells, word by word."""

import socket

import pytest

from controllers.clocks import NOON, Stopped
from controllers.conftest import Start
from controllers.world import World
from fairway.api.event import ObjectReference
from fairway.api.placement import PlacementSpec
from fairway.controllers.manager import Manager
from fairway.kube import PLACEMENT_DECISIONS
from fairway.kube.correlator import LONGEST_MESSAGE
from fairway.testing import builders

pytestmark = pytest.mark.embedded


def told(world: World, *, about: str = "p") -> list[tuple[str, str, str, str]]:
    return [(each.type, each.reason, each.action, each.note) for each in world.events(about=about)]


@pytest.mark.both_hubs
async def test_a_decision_is_made_and_changed_and_deleted(manager: Manager, world: World) -> None:
    await world.clusters("a")
    await world.place("p", PlacementSpec(numberOfClusters=1))
    await world.chooses("p", "a")
    where = f"with placement p in namespace {world.namespace}"
    made = [
        ("Normal", "DecisionCreate", "DecisionCreated", f"Decision p-decision-1 is created {where}"),
        ("Normal", "DecisionUpdate", "DecisionUpdated", f"Decision p-decision-1 is updated {where}"),
        ("Normal", "ScoreUpdate", "ScoreUpdated", f"{world.full('a')}:100 "),
    ]
    await world.eventually(lambda: len(told(world)) == 3)
    assert told(world) == made
    await world.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": "5"}})
    await world.eventually(lambda: len(told(world)) == 4)
    assert told(world)[3] == (
        "Normal",
        "DecisionDelete",
        "DecisionDeleted",
        f"Decision p-decision-1 is deleted {where}",
    )


@pytest.mark.both_hubs
async def test_who_tells_about_what(manager: Manager, world: World) -> None:
    placement = await world.place()
    await world.eventually(lambda: bool(world.events("DecisionCreate") and world.decisions("p")))
    (event,) = world.events("DecisionCreate")
    api_version = "cluster.open-cluster-management.io/v1beta1"
    assert event.regarding == ObjectReference(
        apiVersion=api_version,
        kind="Placement",
        name="p",
        namespace=world.namespace,
        uid=placement.metadata.uid,
    )
    assert event.related == ObjectReference(
        apiVersion=api_version,
        kind="PlacementDecision",
        name="p-decision-1",
        namespace=world.namespace,
        uid=world.decisions("p")[0].metadata.uid,
    )
    assert event.reportingController == "placement-controller"
    assert event.reportingInstance == f"placement-controller-{socket.gethostname()}"


async def test_scores_are_those_of_all_that_passed_the_filters(manager: Manager, world: World) -> None:
    """By name, whether they were chosen or not."""
    for word, value in (("a", 1), ("b", 3), ("c", -2)):
        await world.cluster(word)
        await world.score(word, {"cpu": value})
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    await world.place("p", PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy))
    await world.chooses("p", "b")
    await world.eventually(lambda: bool(world.events("ScoreUpdate")))
    a, b, c = (world.full(word) for word in "abc")
    assert world.events("ScoreUpdate")[-1].note == f"{a}:1 {b}:3 {c}:-2 "


async def test_an_empty_decision_is_only_created(manager: Manager, world: World) -> None:
    await world.place()
    await world.chooses("p")
    await world.clusters("a")
    await world.chooses("p", "a")
    await world.eventually(lambda: bool(world.events("ScoreUpdate")))
    assert [each.reason for each in world.events()] == ["DecisionCreate", "DecisionUpdate", "ScoreUpdate"]


async def test_every_page_that_changes_is_told_of(manager: Manager, world: World) -> None:
    await world.clusters("a", "b")
    await world.place()
    await world.chooses("p", "a", "b")
    await world.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 1}})
    await world.eventually(lambda: len(world.pages("p")) == 2 and world.chosen("p") == ["a", "b"])
    await world.eventually(lambda: len(world.events("DecisionCreate")) == 2)
    await world.eventually(
        lambda: (
            {each.note.split()[1] for each in world.events("DecisionUpdate")}
            == {"p-decision-1", "p-decision-2"}
        )
    )


async def test_other_labels_are_not_told_of(manager: Manager, world: World) -> None:
    await world.cluster("a")
    await world.score("a", {"cpu": 1})
    # Without Steady and Balance, by which the repair would find other scores than the decision.
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    await world.place("p", PlacementSpec(prioritizerPolicy=policy))
    await world.chooses("p", "a")
    await world.eventually(lambda: bool(world.events("ScoreUpdate")))
    before = [each.reason for each in world.events()]
    changed = {"metadata": {"labels": {"mine": "yes"}}}
    written = await world.edit(PLACEMENT_DECISIONS, "p-decision-1", changed, namespace=world.namespace)
    await world.after(manager, PLACEMENT_DECISIONS, written)
    assert "mine" not in world.decisions("p")[0].metadata.labels
    # What is told is told in order: had there been anything, it would be there before this.
    await world.place("q")
    await world.eventually(lambda: bool(world.events("ScoreUpdate", about="q")))
    assert [each.reason for each in world.events()] == before


async def test_scores_that_have_expired_are_warned_of(start: Start, world: World) -> None:
    for word in "abc":
        await world.cluster(word)
        await world.score(word, {"cpu": 5}, valid_until=None if word == "b" else NOON)
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    async with start(clock=Stopped(NOON.replace(second=1))):
        await world.place("p", PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy))
        await world.chooses("p", "b")
        await world.eventually(lambda: len(world.events()) == 3)
    a, c = world.full("a"), world.full("c")
    assert told(world)[1] == (
        "Warning",
        "DecisionUpdate",
        "DecisionUpdated",
        f"Decision p-decision-1 is updated with placement p in namespace {world.namespace}: "
        f"AddOnPlacementScores {a}/default {c}/default expired in plugin AddOn/default/cpu",
    )
    assert told(world)[2][:2] == ("Normal", "ScoreUpdate")


@pytest.mark.both_hubs
async def test_no_event_is_too_long_for_a_hub(start: Start, world: World) -> None:
    """However many scores have expired, and however many clusters there are."""
    words = [f"{letter * 40}{number}" for number in range(3) for letter in "abcdefg"]
    for word in words:
        await world.cluster(word)
        await world.score(word, {"cpu": 5}, valid_until=NOON)
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    async with start(clock=Stopped(NOON.replace(second=1))):
        await world.place("p", PlacementSpec(prioritizerPolicy=policy))
        await world.chooses("p", *sorted(words))
        await world.eventually(lambda: len(world.events()) == 3)
    warning, scores = world.events("DecisionUpdate")[0].note, world.events("ScoreUpdate")[0].note
    assert len(warning.encode()) <= LONGEST_MESSAGE
    assert warning.endswith("…")
    assert scores.endswith(" ......")
    assert len(scores) <= 1006
    assert len(scores) > 1000 - len(f"{world.full(words[0])}:0 ")
