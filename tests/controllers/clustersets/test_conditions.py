"""Conditions of cluster sets and the paths in their messages."""

import pytest

from clocks import ManualClock
from fairway.api.clusterset import ManagedClusterSelector
from fairway.controllers.clustersets.conditions import EMPTY, broken_condition, empty_condition, fault
from fairway.controllers.clustersets.defaults import AUTO_UPDATE, SELECTORS, needs_reset
from fairway.controllers.runtime.writer import LONGEST_MESSAGE, truncate, with_condition
from fairway.hosts.clusters.hostset import host_set
from fairway.testing.builders import cluster_set, requirement, selector
from kubewire.api.meta import Condition
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement


def message_of(labels: LabelSelector | None, *, kind: str = "LabelSelector") -> str:
    made = cluster_set("s", selector=labels, kind=kind)
    error = host_set(made).error
    assert error is not None
    return fault(made.spec.clusterSelector, error=error)


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        (requirement("zone", "Near"), "matchExpressions[1].operator"),
        (requirement("not a key", "Exists"), "matchExpressions[1].key"),
        (requirement("zone", "In"), "matchExpressions[1].values"),
        (requirement("zone", "Exists", "x"), "matchExpressions[1].values"),
        (requirement("zone", "In", "fine", "no good"), "matchExpressions[1].values[1]"),
    ],
)
def test_selector_fault_has_its_path(wrong: LabelSelectorRequirement, place: str) -> None:
    message = message_of(selector(requirement("sound", "Exists"), wrong))
    assert message.startswith(f"spec.clusterSelector.labelSelector.{place}: ")
    assert len(message) > len(f"spec.clusterSelector.labelSelector.{place}: ")


def test_match_labels_fault_has_its_path() -> None:
    message = message_of(selector(labels={"zone": "no good"}))
    assert message.startswith("spec.clusterSelector.labelSelector.matchLabels: ")
    assert '"no good"' in message


def test_unknown_selector_type_is_reported() -> None:
    place = "spec.clusterSelector.selectorType"
    assert message_of(None, kind="Astrology") == f"{place}: selectorType is not right: Astrology"


def test_long_fault_message_is_truncated() -> None:
    message = truncate(message_of(selector(labels={"zone": "x" * 100_000})))
    assert len(broken_condition(message).message) == LONGEST_MESSAGE
    assert message.endswith("…")
    assert truncate("short") == "short"


def test_unchanged_condition_keeps_its_transition_time() -> None:
    clock = ManualClock()
    one = with_condition((), empty_condition(count=1), clock=clock)
    clock.advance(60)
    two = with_condition(one, empty_condition(count=2), clock=clock)
    none = with_condition(two, empty_condition(count=0), clock=clock)
    assert two[0].lastTransitionTime == one[0].lastTransitionTime
    assert two[0].message == "2 ManagedClusters selected"
    assert none[0].lastTransitionTime == clock.wall()


def test_duplicate_conditions_are_merged() -> None:
    clock = ManualClock()
    wanted = empty_condition(count=1)
    other = Condition(type="Painted", status="True", reason="Red", lastTransitionTime=clock.wall())
    double = (*with_condition((other,), wanted, clock=clock), Condition(type=EMPTY, status="True"))
    assert [condition.type for condition in with_condition(double, wanted, clock=clock)] == ["Painted", EMPTY]
    assert with_condition(None, wanted, clock=clock) == with_condition((), wanted, clock=clock)


def test_changed_default_selectors_are_restored() -> None:
    for name, right in SELECTORS.items():
        made = cluster_set(name, selector=right.labelSelector, kind=right.selectorType)
        assert not needs_reset(made)
    assert not needs_reset(cluster_set("default")), "no type is the exclusive label"
    assert needs_reset(cluster_set("global"))
    assert needs_reset(cluster_set("default", selector=selector(), kind="ExclusiveClusterSetLabel"))
    assert not needs_reset(cluster_set("mine"))


def test_only_the_annotation_value_false_keeps_a_selector() -> None:
    edited = cluster_set("global")
    for value, put_back in (("false", False), ("true", True), ("", True)):
        annotated = type(edited)(
            metadata=type(edited.metadata)(name="global", annotations={AUTO_UPDATE: value}), spec=edited.spec
        )
        assert needs_reset(annotated) is put_back
    assert SELECTORS["default"] == ManagedClusterSelector(selectorType="ExclusiveClusterSetLabel")
