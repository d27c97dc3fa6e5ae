"""Debits of scores in the fleet: they count until the score is published again, or the decision is withdrawn."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairway.hosts.clusters import Fleet
from fairway.hosts.clusters.debits import NAMESPACE_BOUND, shared_debits
from fairway.hosts.clusters.decisions import Holding
from fairway.testing.builders import cluster, score

CPU = shared_debits("usage", "cpu", rises=False)
MEMORY = shared_debits("usage", "memory", rises=False)
OWN = (*CPU, "ns")
DELTAS = {("usage", "cpu"): -10, ("usage", "memory"): -5}


def fleet_of(*names: str) -> Fleet:
    fleet = Fleet()
    fleet.load([cluster(name) for name in names])
    return fleet


def hold(fleet: Fleet, placement: str, *clusters: str) -> None:
    fleet.hold(namespace="ns", name=f"{placement}-1", holding=Holding(("ns", placement), clusters))


def debits(fleet: Fleet, key: tuple[str, ...] = CPU) -> dict[str, int]:
    snapshot = fleet.snapshot()
    column = snapshot.counts(key)
    return {
        name: int(column.values[row]) for name, row in snapshot.hosts.row_of.items() if column.values[row]
    }


def test_debits_of_several_placements_add_up() -> None:
    fleet = fleet_of("a", "b")
    fleet.debit(("ns", "one"), ["a", "b"], DELTAS)
    assert debits(fleet) == {"a": 10, "b": 10}
    fleet.debit(("ns", "two"), ["b"], DELTAS)
    assert debits(fleet) == {"a": 10, "b": 20}
    assert debits(fleet, MEMORY) == {"a": 5, "b": 10}


def test_published_score_ends_its_debits_on_that_cluster_only() -> None:
    fleet = fleet_of("a", "b")
    fleet.debit(("ns", "one"), ["a", "b"], {**DELTAS, ("other", "x"): 1})
    assert debits(fleet) == {"a": 10, "b": 10}
    change = fleet.upsert_score(score("a", {"cpu": 50}, name="usage"))
    assert CPU in change.columns
    assert debits(fleet) == {"b": 10}
    assert debits(fleet, shared_debits("other", "x", rises=True)) == {"a": 1, "b": 1}


def test_withdrawn_decision_ends_the_debits_of_its_placement() -> None:
    fleet = fleet_of("a", "b")
    for placement in ("one", "two"):
        hold(fleet, placement, "a", "b")
        fleet.debit(("ns", placement), ["a", "b"], DELTAS)
    hold(fleet, "one", "b")
    assert debits(fleet) == {"a": 10, "b": 20}


def test_snapshot_keeps_its_debits() -> None:
    fleet = fleet_of("a")
    fleet.debit(("ns", "one"), ["a"], DELTAS)
    before = fleet.snapshot()
    fleet.upsert_score(score("a", {"cpu": 50}, name="usage"))
    assert int(before.counts(CPU).values[0]) == 10
    assert debits(fleet) == {}


def test_recreated_cluster_has_no_debits() -> None:
    fleet = fleet_of("a")
    fleet.debit(("ns", "one"), ["a"], DELTAS)
    assert debits(fleet) == {"a": 10}
    fleet.delete_cluster("a")
    fleet.upsert_cluster(cluster("a"))
    assert debits(fleet) == {}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["debit", "publish", "hold", "delete", "add", "read"]),
        st.sampled_from(["one", "two"]),
        st.sampled_from(["a", "b", "c"]),
    ),
    max_size=40,
)


@given(STEPS)
def test_column_equals_the_sum_of_debits_after_any_changes(steps: list[tuple[str, str, str]]) -> None:
    fleet = fleet_of("a", "b")
    for at, (step, placement, name) in enumerate(steps):
        match step:
            case "debit":
                fleet.debit(("ns", placement), [name], {("usage", "cpu"): -at})
            case "publish":
                fleet.upsert_score(score(name, {"cpu": at}, name="usage"))
            case "hold":
                hold(fleet, placement, name)
            case "delete":
                fleet.delete_cluster(name)
            case "add":
                fleet.upsert_cluster(cluster(name))
            case "read":
                for column in (CPU, OWN):
                    fleet.snapshot().counts(column)
    snapshot = fleet.snapshot()
    for column in (CPU, OWN):
        kept = snapshot.counts(column).values
        assert np.array_equal(kept, snapshot.materialise(column).values)  # type: ignore[attr-defined]


def test_debits_of_one_namespace_are_bounded_in_the_column_of_all() -> None:
    fleet = fleet_of("a")
    for at in range(5000):
        fleet.debit(("evil", f"p{at}"), ["a"], {("usage", "cpu"): -100})
    fleet.debit(("ns", "one"), ["a"], DELTAS)
    assert debits(fleet) == {"a": NAMESPACE_BOUND + 10}
    assert debits(fleet, (*CPU, "evil")) == {"a": 500_000}


def test_rising_and_falling_debits_do_not_cancel_each_other() -> None:
    fleet = fleet_of("a")
    fleet.debit(("ns", "one"), ["a"], {("usage", "cpu"): -10})
    fleet.debit(("evil", "two"), ["a"], {("usage", "cpu"): 10})
    assert debits(fleet) == {"a": 10}
    assert debits(fleet, shared_debits("usage", "cpu", rises=True)) == {"a": 10}
