"""Decisions follow what a placement asks of clusters, and what clusters say of themselves."""

from typing import Any

import pytest

from controllers.world import World
from fairway.api.placement import PlacementSpec
from fairway.api.selector import LabelSelector, LabelSelectorRequirement
from fairway.controllers.manager import Manager
from fairway.testing import builders

pytestmark = pytest.mark.embedded

RED = LabelSelector(matchLabels={"colour": "red"})
IN_EUROPE = LabelSelectorRequirement(key="region", operator="In", values=("europe",))
SCORE_OVER_80 = 'managedCluster.scores("default").filter(s, s.name == "cpu").all(s, s.value > 80)'


def wants(**predicate: Any) -> PlacementSpec:
    return PlacementSpec(predicates=(builders.predicate(**predicate),))


def wanted(**selectors: Any) -> list[dict[str, Any]]:
    return [{"requiredClusterSelector": selectors}]


async def test_labels_and_claims_must_both_be_right(manager: Manager, world: World) -> None:
    await world.cluster("a", labels={"colour": "red"})
    await world.cluster("b", labels={"colour": "red"}, claims={"region": "europe"})
    await world.cluster("c", claims={"region": "europe"})
    await world.place("p", wants(labels=RED, claims=(IN_EUROPE,)))
    await world.chooses("p", "b")


async def test_expression_reads_scores(manager: Manager, world: World) -> None:
    """A score that only an expression reads is reason enough to look again."""
    await world.clusters("a", "b")
    await world.score("a", {"cpu": 80})
    await world.score("b", {"cpu": 81})
    await world.place("p", wants(cel=(SCORE_OVER_80,)))
    await world.chooses("p", "b")
    await world.score("a", {"cpu": 90})
    await world.chooses("p", "a", "b")
    await world.score("b", {"cpu": 0})
    await world.chooses("p", "a")


async def test_an_expression_that_does_not_compile_is_mended(manager: Manager, world: World) -> None:
    await world.clusters("a", "b")
    await world.score("a", {"cpu": 90})
    await world.score("b", {"cpu": 10})
    await world.place("p", wants(cel=("managedCluster.metadata.",)))
    await world.chooses("p")
    assert world.mistake("p").startswith("Predicate:compilation failed: ")
    assert world.reason("p") == "NoManagedClusterMatched"
    await world.replace("p", predicates=wanted(celSelector={"celExpressions": [SCORE_OVER_80]}))
    await world.chooses("p", "a")
    assert world.mistake("p") == ""


async def test_a_predicate_that_nothing_meets_leaves_one_empty_decision(
    manager: Manager, world: World
) -> None:
    await world.clusters("a", "b")
    await world.place()
    await world.chooses("p", "a", "b")
    await world.replace("p", predicates=wanted(labelSelector={"matchLabels": {"no": "such"}}))
    await world.chooses("p")
    assert world.pages("p") == {"p-decision-1": ()}
