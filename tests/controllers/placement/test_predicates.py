"""Decisions follow predicates, and the labels and claims of clusters."""

from typing import Any

import pytest

from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.controllers.manager import Manager
from fairway.testing import builders
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement

pytestmark = pytest.mark.embedded

RED = LabelSelector(matchLabels={"colour": "red"})
IN_EUROPE = LabelSelectorRequirement(key="region", operator="In", values=("europe",))
SCORE_OVER_80 = 'managedCluster.scores("default").filter(s, s.name == "cpu").all(s, s.value > 80)'


def wants(**predicate: Any) -> PlacementSpec:
    return PlacementSpec(predicates=(builders.predicate(**predicate),))


def wanted(**selectors: Any) -> list[dict[str, Any]]:
    return [{"requiredClusterSelector": selectors}]


async def test_predicate_needs_labels_and_claims(manager: Manager, fleet: HubFleet) -> None:
    await fleet.cluster("a", labels={"colour": "red"})
    await fleet.cluster("b", labels={"colour": "red"}, claims={"region": "europe"})
    await fleet.cluster("c", claims={"region": "europe"})
    await fleet.place("p", wants(labels=RED, claims=(IN_EUROPE,)))
    await fleet.chooses("p", "b")


async def test_expression_reads_scores(manager: Manager, fleet: HubFleet) -> None:
    """A changed score wakes a placement that reads it only in an expression."""
    await fleet.clusters("a", "b")
    await fleet.score("a", {"cpu": 80})
    await fleet.score("b", {"cpu": 81})
    await fleet.place("p", wants(cel=(SCORE_OVER_80,)))
    await fleet.chooses("p", "b")
    await fleet.score("a", {"cpu": 90})
    await fleet.chooses("p", "a", "b")
    await fleet.score("b", {"cpu": 0})
    await fleet.chooses("p", "a")


async def test_corrected_expression_takes_effect(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b")
    await fleet.score("a", {"cpu": 90})
    await fleet.score("b", {"cpu": 10})
    await fleet.place("p", wants(cel=("managedCluster.metadata.",)))
    await fleet.chooses("p")
    assert fleet.mistake("p").startswith("Predicate:compilation failed: ")
    assert fleet.reason("p") == "NoManagedClusterMatched"
    await fleet.replace("p", predicates=wanted(celSelector={"celExpressions": [SCORE_OVER_80]}))
    await fleet.chooses("p", "a")
    assert fleet.mistake("p") == ""


async def test_unmet_predicate_leaves_one_empty_decision(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b")
    await fleet.place()
    await fleet.chooses("p", "a", "b")
    await fleet.replace("p", predicates=wanted(labelSelector={"matchLabels": {"no": "such"}}))
    await fleet.chooses("p")
    assert fleet.pages("p") == {"p-decision-1": ()}
