"""Incremental membership counts equal a recount after any changes in any order."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fairway.api import ManagedClusterSet
from fairway.api.cluster import CLUSTER_SET_LABEL
from fairway.controllers.clustersets.membership import Membership
from fairway.hosts.clusters.hostset import host_set
from fairway.testing.builders import cluster_set, requirement, selector
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement, Selector

CLUSTERS = st.sampled_from([f"c{number}" for number in range(5)])
SETS = st.sampled_from(["default", "red", "blue", "both"])
KEYS = st.sampled_from([CLUSTER_SET_LABEL, "zone", "tier"])
VALUES = st.sampled_from(["", "red", "blue", "default"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)


@st.composite
def requirements(draw: st.DrawFn) -> LabelSelectorRequirement:
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Near"]))
    values = draw(st.lists(VALUES, max_size=2)) if "In" in operator else []
    return requirement(draw(KEYS), operator, *values)


SELECTORS = st.builds(
    lambda expressions, labels: selector(*expressions, labels=labels),
    st.lists(requirements(), max_size=2),
    st.dictionaries(KEYS, VALUES, max_size=1),
)


class Fleet(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.membership = Membership()
        self.clusters: dict[str, Mapping[str, str]] = {}
        self.sets: dict[str, ManagedClusterSet] = {}

    def matching(self, labels: Mapping[str, str] | None) -> set[str]:
        if labels is None:
            return set()
        return {name for name, stored in self.sets.items() if host_set(stored).selector.matches(labels)}

    @rule(name=CLUSTERS, labels=LABELS)
    def a_cluster_comes_or_changes(self, name: str, labels: Mapping[str, str]) -> None:
        before = self.matching(self.clusters.get(name))
        assert self.membership.put_cluster(name, labels) == before ^ self.matching(labels)
        self.clusters[name] = labels

    @rule(name=CLUSTERS)
    def a_cluster_goes(self, name: str) -> None:
        assert self.membership.drop_cluster(name) == self.matching(self.clusters.pop(name, None))

    @rule(name=SETS, chosen=st.none() | SELECTORS, kind=st.sampled_from(["", "LabelSelector", "Astrology"]))
    def a_set_comes_or_changes(self, name: str, chosen: LabelSelector | None, kind: str) -> None:
        self.sets[name] = cluster_set(name, selector=chosen, kind=kind)
        self.membership.put_set(self.sets[name])

    @rule(name=SETS)
    def a_set_goes(self, name: str) -> None:
        self.sets.pop(name, None)
        self.membership.drop_set(name)

    @invariant()
    def counts_are_those_of_a_recount(self) -> None:
        for name, stored in self.sets.items():
            wanted = host_set(stored)
            matched = [labels for labels in self.clusters.values() if wanted.selector.matches(labels)]
            assert self.membership.count(name) == len(matched)
            assert self.membership.error(name) == wanted.error
        assert self.membership.count("no such set") == 0

    @invariant()
    def deleted_objects_are_forgotten(self) -> None:
        if not self.sets and not self.clusters:
            assert all(not kept for kept in vars(self.membership).values())


TestFleet = Fleet.TestCase

ZONE_A = {CLUSTER_SET_LABEL: "s", "zone": "a"}


@pytest.mark.parametrize("set_first", [True, False])
@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        (selector(), 3),
        (selector(labels={"zone": "a"}), 1),
        (selector(requirement("zone", "In", "a", "b")), 2),
        (selector(requirement("zone", "NotIn", "a")), 2),
        (selector(requirement("zone", "Exists")), 2),
        (selector(requirement("zone", "DoesNotExist")), 1),
        (selector(requirement("zone", "Exists"), requirement("zone", "NotIn", "a")), 1),
        (selector(requirement("zone", "Near")), 0),
        (None, 1),
    ],
)
def test_membership_is_found_in_either_order_of_events(
    chosen: LabelSelector | None, count: int, set_first: bool
) -> None:
    membership = Membership()
    if set_first:
        membership.put_set(cluster_set("s", selector=chosen))
    membership.put_cluster("c1", ZONE_A)
    membership.put_cluster("c2", {"zone": "b"})
    membership.put_cluster("c3", {})
    if not set_first:
        membership.put_set(cluster_set("s", selector=chosen))
    assert membership.count("s") == count


@dataclass
class CountingClusters:
    """Counts the clusters that selectors are asked about."""

    labels: list[Mapping[str, str]] = field(default_factory=list)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> CountingClusters:
    made = CountingClusters()
    matches = Selector.matches

    def counted(self: Selector, labels: Mapping[str, str]) -> bool:
        made.labels.append(labels)
        return matches(self, labels)

    monkeypatch.setattr(Selector, "matches", counted)
    return made


def large_fleet(*, clusters: int, sets: int) -> Membership:
    """Half of the sets are exclusive, half select by a label."""
    membership = Membership()
    for number in range(clusters):
        group = f"s{number % sets}"
        membership.put_cluster(f"c{number}", {CLUSTER_SET_LABEL: group, "group": group})
    for number in range(sets):
        name = f"s{number}"
        membership.put_set(cluster_set(name))
        membership.put_set(cluster_set(f"by-{name}", selector=selector(labels={"group": name})))
    return membership


def test_cluster_event_evaluates_only_candidate_sets(asked: CountingClusters) -> None:
    membership = large_fleet(clusters=1000, sets=100)
    asked.labels.clear()
    touched = membership.put_cluster("c0", {CLUSTER_SET_LABEL: "s1", "group": "s0"})
    assert touched == {"s0", "s1"}
    assert len(asked.labels) == 2, "the set it moved to, and the one its other label speaks for"
    assert (membership.count("s0"), membership.count("s1"), membership.count("by-s0")) == (9, 11, 10)


def test_change_without_label_change_evaluates_no_set(asked: CountingClusters) -> None:
    membership = large_fleet(clusters=10, sets=2)
    asked.labels.clear()
    assert membership.put_cluster("c0", {CLUSTER_SET_LABEL: "s0", "group": "s0"}) == frozenset()
    assert asked.labels == []


def test_new_set_evaluates_only_candidate_clusters(asked: CountingClusters) -> None:
    membership = large_fleet(clusters=1000, sets=100)
    asked.labels.clear()
    membership.put_set(
        cluster_set(
            "new",
            selector=selector(requirement("colour", "NotIn", "red"), requirement("group", "In", "s1", "s2")),
        )
    )
    assert membership.count("new") == len(asked.labels) == 20


def test_set_status_change_evaluates_no_cluster(asked: CountingClusters) -> None:
    membership = large_fleet(clusters=10, sets=2)
    asked.labels.clear()
    membership.put_set(cluster_set("s0"))
    assert asked.labels == []


def test_set_of_unknown_type_has_an_error_and_no_members() -> None:
    membership = large_fleet(clusters=4, sets=2)
    membership.put_set(cluster_set("s0", kind="Astrology"))
    assert membership.error("s0") == "selectorType is not right: Astrology"
    assert (membership.count("s0"), membership.count("s1")) == (0, 2)
