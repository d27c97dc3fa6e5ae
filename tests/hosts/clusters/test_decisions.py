"""Clusters of decisions, by name and by row."""

import pytest

from fairway.hosts.clusters import Fleet
from fairway.hosts.clusters.decisions import Decisions, Holding
from fairway.testing.builders import cluster, decision

MINE = ("ns1", "p1")
OTHER = ("ns1", "p2")


def test_decision_counts_are_summed_over_pages() -> None:
    held = Decisions()
    held.put("ns1", "d1", Holding(MINE, ("a", "b", "a")))
    held.put("ns1", "d2", Holding(MINE, ("a", "nowhere")))
    held.put("ns1", "d3", Holding(OTHER, ("c",)))
    assert held.counted(MINE) == {"a": 3, "b": 1, "nowhere": 1}
    assert held.counted(OTHER) == {"c": 1}
    assert held.counted(("ns2", "p1")) == {}


def test_repeated_decision_query_counts_nothing_again() -> None:
    """Per-host filters and prioritizers query it for every row."""
    held = Decisions()
    held.put("ns1", "d1", Holding(MINE, ("a",)))
    first = held.counted(MINE)
    held.put("ns1", "d3", Holding(OTHER, ("c",)))
    assert held.counted(MINE) is first


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(Holding(MINE, ("b",)), {"b": 1}, id="another cluster"),
        pytest.param(Holding(OTHER, ("a",)), {}, id="another placement's now"),
        pytest.param(Holding(None, ("a",)), {}, id="without an owner"),
        pytest.param(None, {}, id="gone"),
    ],
)
def test_decision_counts_follow_changes(change: Holding | None, expected: dict[str, int]) -> None:
    held = Decisions()
    held.put("ns1", "d1", Holding(MINE, ("a",)))
    assert held.counted(MINE) == {"a": 1}
    copy = held.fork()
    copy.put("ns1", "d1", change)
    assert copy.counted(MINE) == expected
    assert held.counted(MINE) == {"a": 1}
    held.put("ns1", "d1", change)
    assert held.counted(MINE) == expected


def test_decision_with_new_owner_is_counted() -> None:
    held = Decisions()
    held.put("ns1", "d1", Holding(OTHER, ("a",)))
    assert held.counted(MINE) == {}
    held.put("ns1", "d1", Holding(MINE, ("a",)))
    assert held.counted(MINE) == {"a": 1}


def test_rows_held_repeat_hosts_named_repeatedly() -> None:
    fleet = Fleet()
    fleet.load([cluster("a"), cluster("b"), cluster("c")])
    fleet.upsert_decision(decision("d1", ["b", "nowhere", "a"], placement="p1"))
    fleet.upsert_decision(decision("d2", ["b"], placement="p1"))
    view = fleet.snapshot()
    assert sorted(view.held(MINE).tolist()) == [0, 1, 1]
    assert view.held(OTHER).tolist() == []
    fleet.delete_cluster("b")
    assert sorted(view.held(MINE).tolist()) == [0, 1, 1]
    assert fleet.snapshot().held(MINE).tolist() == [0]
