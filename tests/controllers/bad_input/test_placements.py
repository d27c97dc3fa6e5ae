"""Placements that make no sense, or would make others wait: a condition reports what is wrong with them."""

from typing import Any

import pytest

from controllers.bad_input.conftest import Bystander
from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.testing import builders
from fairway.workloads.placement.plugins.prioritizer_policy import MOST_PRIORITIZERS
from fairway.workloads.placement.plugins.work_budget import EXPRESSION_WORK, FLEET_WORK, shortened
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement
from kubewire.client import Invalid

pytestmark = [pytest.mark.usefixtures("bystander"), pytest.mark.embedded]

VALUES = "values: Invalid value: "
SELECTORS: dict[str, tuple[dict[str, Any], str]] = {
    "operator": ({"key": "a", "operator": "Near"}, '"Near" is not a valid label selector operator'),
    "no-values": (
        {"key": "a", "operator": "In"},
        f"{VALUES}null: for 'in', 'notin' operators, values set can't be empty",
    ),
    "values": (
        {"key": "a", "operator": "Exists", "values": ["x"]},
        f'{VALUES}["x"]: values set must be empty for exists and does not exist',
    ),
    "key": (
        {"key": "a" * 64, "operator": "Exists"},
        f'key: Invalid value: "{"a" * 64}": name part must be no more than 63 bytes',
    ),
    "value": (
        {"key": "a", "operator": "In", "values": ["with space"]},
        'values[0][a]: Invalid value: "with space": a valid label must be an empty string or consist of '
        "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
        "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    ),
}


async def asks(fleet: HubFleet, name: str = "bad", **spec: Any) -> None:
    await fleet.create(PLACEMENTS, {"metadata": {"name": name}, "spec": spec}, namespace=fleet.namespace)


async def reported_mistake(fleet: HubFleet, name: str = "bad") -> str:
    await fleet.eventually(lambda: bool(fleet.mistake(name)))
    return fleet.mistake(name)


async def blamed(fleet: HubFleet, message: str, *, name: str = "bad") -> None:
    assert await reported_mistake(fleet, name) == message
    assert fleet.chosen(name) == []
    assert fleet.reason(name) == "NoManagedClusterMatched"


async def test_invalid_selector_is_reported_and_nothing_is_selected(fleet: HubFleet) -> None:
    for kind in ("labelSelector", "claimSelector"):
        for case, (requirement, _) in SELECTORS.items():
            predicate = {"requiredClusterSelector": {kind: {"matchExpressions": [requirement]}}}
            await asks(fleet, f"{case}-{kind.lower()}", predicates=[{}, predicate])
    for kind in ("labelSelector", "claimSelector"):
        for case, (_, message) in SELECTORS.items():
            await blamed(fleet, f"Predicate:{message}", name=f"{case}-{kind.lower()}")


async def test_contradictory_selector_is_valid_and_matches_nothing(fleet: HubFleet) -> None:
    red, not_red = (
        LabelSelectorRequirement(key="colour", operator=operator, values=("red",))
        for operator in ("In", "NotIn")
    )
    selector = builders.predicate(labels=LabelSelector(matchExpressions=(red, not_red)))
    await fleet.place("bad", PlacementSpec(predicates=(selector,)))
    await fleet.chooses("bad")
    assert (fleet.mistake("bad"), fleet.reason("bad")) == ("", "NoManagedClusterMatched")


async def asks_by_expression(fleet: HubFleet, name: str, expression: str) -> None:
    selector = {"celSelector": {"celExpressions": [expression]}}
    await asks(fleet, name, predicates=[{"requiredClusterSelector": selector}])


NOT_COMPILING = {
    "syntax": ("managedCluster.", "Syntax error"),
    "variable": ("nobody.metadata.name == 'a'", "undeclared reference to 'nobody'"),
    "function": ("managedCluster.metadata.name.frobnicate()", "undeclared reference to 'frobnicate'"),
    "long": ("true &&" * 20_000 + "true", "expression code point size exceeds limit"),
    "deep": ("(" * 10_000 + "true" + ")" * 10_000, "recursion"),
}


async def test_expression_that_does_not_compile_is_reported(fleet: HubFleet) -> None:
    for name, (expression, words) in NOT_COMPILING.items():
        await asks_by_expression(fleet, name, expression)
        mistake = await reported_mistake(fleet, name)
        assert mistake.startswith("Predicate:compilation failed: ERROR: <input>:")
        assert words in mistake
        assert fleet.chosen(name) == []


FAILING = {
    "missing": "managedCluster.metadata.labels['missing'] == 'x'",
    "division": "1 / (managedCluster.metadata.name.size() - managedCluster.metadata.name.size()) == 1",
    "not-a-boolean": "managedCluster.metadata.name",
    "pattern": "managedCluster.metadata.name.matches('([')",
}


async def test_expression_that_fails_matches_nothing(fleet: HubFleet) -> None:
    for name, expression in FAILING.items():
        await asks_by_expression(fleet, name, expression)
        await fleet.chooses(name)
        assert fleet.reason(name) == "NoManagedClusterMatched"


def nested(levels: int) -> str:
    """An expression that iterates over all combinations of this many lists of ten numbers."""
    numbers = str(list(range(10)))
    return (
        "".join(f"{numbers}.all(x{level}, " for level in range(levels))
        + "managedCluster.metadata.name != ''"
        + ")" * levels
    )


COSTLY = {
    "loops": nested(7),
    "quantities": nested(3).replace(
        "managedCluster.metadata.name != ''", 'quantity("1e9").isGreaterThan(quantity("1"))'
    )
    + " && managedCluster.metadata.name != ''",
    "findall": "(managedCluster.metadata.name + '" + "a" * 60_000 + "').findAll('a').size() > 0",
}


async def test_expression_that_is_too_much_work_is_reported(fleet: HubFleet) -> None:
    for name, expression in COSTLY.items():
        await asks_by_expression(fleet, name, expression)
        assert (await reported_mistake(fleet, name)).startswith(
            f"Predicate:CEL expression {shortened(expression)} takes more than {EXPRESSION_WORK} units of work"
        )
        assert fleet.chosen(name) == []


async def test_expressions_that_are_too_much_work_for_the_fleet_are_reported(
    manager: Manager, fleet: HubFleet
) -> None:
    """Each cluster may take so much, but not all of them."""
    many = [f"many-{number:02}" for number in range(FLEET_WORK // EXPRESSION_WORK + 1)]
    await fleet.clusters(*many)
    await fleet.eventually(lambda: set(many) <= set(fleet.chosen("bystander")))
    costly = {"celExpressions": [f"{nested(3)} && {number} != 99" for number in range(10)]}
    await asks(fleet, predicates=[{"requiredClusterSelector": {"celSelector": costly}}])
    mistake = await reported_mistake(fleet)
    assert mistake.startswith("Predicate:the CEL expressions take more than ")
    assert "narrow the clusters down by labels first" in mistake


def prioritizers(count: int) -> dict[str, Any]:
    coordinates = (
        {"type": "AddOn", "addOn": {"resourceName": "default", "scoreName": f"score-{number}"}}
        for number in range(count)
    )
    return {
        "mode": "Exact",
        "configurations": [{"scoreCoordinate": coordinate} for coordinate in coordinates],
    }


@pytest.mark.both_hubs
async def test_placement_with_too_many_prioritizers_is_misconfigured(fleet: HubFleet) -> None:
    await asks(fleet, prioritizerPolicy=prioritizers(10_000))
    await blamed(
        fleet,
        ":spec.prioritizerPolicy.configurations has 10000 entries, each of which is evaluated for every cluster; "
        f"write at most {MOST_PRIORITIZERS}",
    )


@pytest.mark.both_hubs
async def test_placement_with_as_many_prioritizers_as_allowed_is_decided(fleet: HubFleet) -> None:
    await asks(fleet, "many", prioritizerPolicy=prioritizers(MOST_PRIORITIZERS))
    await fleet.chooses("many", "a", "b")
    assert max(len(decision.reason) for decision in fleet.decisions("many")[0].status.decisions) < 1200


def named(number: int) -> str:
    return f'managedCluster.metadata.name != "c{number}"'


MANY: dict[str, dict[str, Any]] = {
    "predicates": {
        "predicates": [
            {"requiredClusterSelector": {"celSelector": {"celExpressions": [named(number)]}}}
            for number in range(3000)
        ]
    },
    "expressions": {
        "predicates": [
            {"requiredClusterSelector": {"celSelector": {"celExpressions": [named(n) for n in range(5000)]}}}
        ]
    },
    "groups": {
        "decisionStrategy": {
            "groupStrategy": {
                "decisionGroups": [
                    {
                        "groupName": f"group-{number}",
                        "groupClusterSelector": {"labelSelector": {"matchLabels": {"no": "such"}}},
                    }
                    for number in range(3000)
                ]
            }
        }
    },
}


MANY_WORDS = {
    "predicates": "Predicate:spec.predicates has 3000 entries, each of which is evaluated for every cluster",
    "expressions": "Predicate:spec.predicates[*].requiredClusterSelector.celSelector.celExpressions has 5000 entries",
    "groups": ":spec.decisionStrategy.groupStrategy.decisionGroups has 3000 entries",
}


async def test_placement_with_thousands_of_entries_in_a_field_is_misconfigured(fleet: HubFleet) -> None:
    for field, spec in MANY.items():
        await asks(fleet, field, **spec)
        mistake = await reported_mistake(fleet, field)
        assert mistake.startswith(MANY_WORDS[field])
        assert mistake.endswith("write at most 1000")


@pytest.mark.both_hubs
async def test_placement_name_too_long_for_a_label_is_reported(fleet: HubFleet) -> None:
    name = "n" * 64
    await asks(fleet, name)
    await fleet.eventually(lambda: bool(fleet.reason(name)))
    assert fleet.condition(name) == (
        "False",
        "NotAllDecisionsScheduled",
        f"placement name {name} has 64 characters: its decisions have the name as a label, at most 63 long; "
        "give the placement a shorter name",
    )
    fits = "n" * 63
    await asks(fleet, fits)
    await fleet.chooses(fits, "a", "b")


async def test_impossible_names_of_cluster_sets_are_reported_as_unbound(fleet: HubFleet) -> None:
    names = ["../../secrets", "", "%2e%2e", "\N{SNOWMAN}" * 100]
    await asks(fleet, clusterSets=names)
    await fleet.eventually(lambda: bool(fleet.reason("bad")))
    assert fleet.condition("bad") == (
        "False",
        "NoIntersection",
        f"None of ManagedClusterSets [{','.join(names)}] is bound to placement namespace",
    )


@pytest.mark.both_hubs
async def test_message_too_long_for_a_condition_is_cut(fleet: HubFleet) -> None:
    await asks(fleet, clusterSets=[f"set-{number}" for number in range(10_000)])
    await fleet.eventually(lambda: bool(fleet.reason("bad")))
    message = fleet.condition("bad")[2]
    assert message.startswith("None of ManagedClusterSets [set-0,set-1,")
    assert (len(message), message[-1]) == (32768, "…")


@pytest.mark.both_hubs
async def test_spec_that_violates_the_schema_is_rejected(fleet: HubFleet) -> None:
    specs: tuple[dict[str, Any], ...] = (
        {"numberOfClusters": 2**31},
        {"numberOfClusters": "3"},
        {"numberOfClusters": 1.5},
        {"tolerations": [{"key": "not a key"}]},
        {"tolerations": [{"effect": "NoSchedule"}]},
        {"prioritizerPolicy": {"configurations": [{"weight": 1}]}},
        {"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {}, "weight": 11}]}},
        {"spreadPolicy": {"spreadConstraints": [{"topologyKey": "zone"}]}},
        {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "101%"}}},
        {"sortBy": "Luck"},
        {"scoreRateLimit": "soon"},
    )
    for spec in specs:
        with pytest.raises(Invalid):
            await asks(fleet, **spec)


@pytest.mark.both_hubs
async def test_mistakes_are_reported_one_after_the_other(fleet: HubFleet, bystander: Bystander) -> None:
    await asks(
        fleet,
        predicates=[
            {
                "requiredClusterSelector": {
                    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}
                }
            }
        ],
        tolerations=[{"key": "gpu", "operator": "Exists", "value": "big"}],
        prioritizerPolicy={"mode": "Sometimes"},
        decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": "5"}},
    )
    mistakes = {
        "decisionStrategy": ":5 invalid type: string is not a percentage",
        "predicates": 'Predicate:"Near" is not a valid label selector operator',
        "tolerations": "TaintToleration:If the operator is Exists, the value should be empty.",
        "prioritizerPolicy": ":incorrect prioritizer policy mode: Sometimes",
    }
    for field, message in mistakes.items():
        await until_mistake(fleet, message)
        await fleet.replace("bad", **{field: None})
    await fleet.chooses("bad", "a", "b")


async def until_mistake(fleet: HubFleet, message: str) -> None:
    await fleet.eventually(lambda: fleet.mistake("bad") == message)
