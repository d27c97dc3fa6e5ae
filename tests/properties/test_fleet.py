"""A fleet after any sequence of changes equals one that is built from scratch.

In between, columns are read, so that they exist and must be updated, and snapshots are kept, so that they must not
change.
"""

from collections.abc import Callable
from typing import Any
from unittest import mock

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fairway.hosts import bitmap, hosts, selection
from fairway.hosts.clusters import ClusterSnapshot, Fleet, cells
from fairway.hosts.clusters.scores import score_item
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.journal import NOTHING, Change
from fairway.testing import builders
from kubewire.api.selector import compile_selector
from strategies import (
    CALCULATORS,
    ODD_AMOUNTS,
    SCORE_NAMES,
    SETS,
    any_value,
    cluster_scores,
    cluster_sets,
    clusters,
    decisions,
    scores,
    selectors,
)

KEYS: tuple[Key, ...] = (
    *((cells.LABEL, key) for key in ("env", "gpu", "region")),
    *((cells.CLAIM, key) for key in ("zone", "region")),
    cells.TAINTS,
    cells.DELETING,
    *((kind, key) for kind in (cells.ALLOCATABLE, cells.CAPACITY) for key in ("cpu", "memory")),
    *((cells.SCORE, resource, name) for resource in ("default", "other") for name in SCORE_NAMES),
    *((cells.CALCULATOR, name.lower()) for name in CALCULATORS),
    (cells.PATH, "metadata", "labels", "env"),
    (cells.PATH, "status", "version", "kubernetes"),
    (cells.PATH, "status", "clusterClaims"),
)


def cell(snapshot: ClusterSnapshot, key: Key, row: int) -> object:
    kind = key[0]
    if kind in (cells.ALLOCATABLE, cells.CAPACITY):
        value = float(snapshot.numbers(key).values[row])
        return None if np.isnan(value) else value
    if kind in (cells.SCORE, cells.CALCULATOR):
        column = snapshot.score_column(key)
        return int(column.values[row]), int(column.expires[row]), bool(column.present[row])
    return snapshot.codes(key).value(row)


def contents(snapshot: ClusterSnapshot, keys: tuple[Key, ...] = KEYS) -> dict[str, object]:
    """Everything a cycle can see, by name instead of by row."""
    index = snapshot.hosts
    by_rank = sorted(index.row_of, key=lambda name: int(index.rank[index.row_of[name]]))
    assert by_rank == index.in_name_order()
    seen: dict[str, object] = {
        "order": by_rank,
        "live": sorted(index.names[row] for row in bitmap.rows_of(snapshot.live).tolist()),
        "objects": {name: snapshot.cluster(row) for name, row in index.row_of.items()},
        "held": {
            name: int(snapshot.counts(cells.DECISIONS).values[row]) for name, row in index.row_of.items()
        },
        "absent_clusters": dict(snapshot.decisions.absent_clusters),
        "owners": {
            owner: sorted(snapshot.decisions.clusters_of(("ns1", owner))) for owner in ("p0", "p1", "other")
        },
        "sets": dict(snapshot.sets),
        "bindings": {key: value for key, value in snapshot.bindings.items() if value},
        "scores": {name: dict(table) for name, table in snapshot.scores.items()},
        "calculators": {name: dict(table) for name, table in snapshot.calculators.items()},
    }
    for key in keys:
        seen[str(key)] = {name: cell(snapshot, key, row) for name, row in index.row_of.items()}
    return seen


Operation = tuple[str, Any]

operations: st.SearchStrategy[Operation] = st.one_of(
    st.tuples(st.just("cluster"), clusters(amounts=ODD_AMOUNTS)),
    st.tuples(st.just("score"), scores(any_value)),
    st.tuples(st.just("calculator"), cluster_scores()),
    st.tuples(st.just("decision"), decisions()),
    st.tuples(st.just("set"), cluster_sets()),
    st.tuples(st.just("binding"), st.sampled_from(SETS).map(builders.binding)),
)


class FleetMachine(RuleBasedStateMachine):
    """``self.model`` is the hub as plain objects."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet()
        self.model: dict[tuple[str, str, str], Any] = {}
        self.held: list[tuple[ClusterSnapshot, dict[str, object]]] = []

    @rule(things=st.lists(operations, min_size=1, max_size=4))
    def upsert(self, things: list[Operation]) -> None:
        for kind, obj in things:
            key = (kind, obj.metadata.namespace, obj.metadata.name)
            old = self.model.get(key)
            change = UPSERTS[kind](self.fleet, obj)
            if old == obj:
                assert change == NOTHING
            elif kind == "cluster" and old is not None:
                assert reported(change) == {column for column in CLUSTER_KEYS if differs(column, old, obj)}
                for resource, text in obj.status.allocatable.items():
                    before, after = (
                        cells.amount_of(version.status.allocatable, resource) for version in (old, obj)
                    )
                    if text != old.status.allocatable.get(resource):
                        direction = change.columns[cells.ALLOCATABLE, resource]
                        assert direction in possible(before, after)
            elif kind == "score" and old is not None:
                for name in SCORE_NAMES:
                    (value, expiry), (other, later) = (score_item(version, name) for version in (old, obj))
                    # The expiry of a score that neither version has concerns only readers of its column.
                    if (value, other) != (None, None) and (value, expiry) != (other, later):
                        direction = change.columns[cells.SCORE, obj.metadata.name, name]
                        assert direction in possible(value if expiry == later else None, other)
            self.model[key] = obj

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from([*sorted(self.model), ("cluster", "", "never-was")]))
        change = DELETES[key[0]](self.fleet, key[1], key[2])
        if key not in self.model:
            assert change == NOTHING
        self.model.pop(key, None)

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=8))
    def read(self, keys: list[Key]) -> None:
        """Makes columns, which later writes must keep up."""
        contents(self.fleet.snapshot(), tuple(keys))

    @rule(selector=selectors, kind=st.sampled_from([cells.LABEL, cells.CLAIM]))
    def select(self, selector: Any, kind: str) -> None:
        """Also makes bitmaps, which later writes must keep up."""
        snapshot = self.fleet.snapshot()
        compiled = compile_selector(selector)
        selected = selection.select(snapshot, compiled, kind=kind, among=snapshot.live)
        expected = {
            name
            for name, row in snapshot.hosts.row_of.items()
            if compiled.matches(
                snapshot.cluster(row).metadata.labels
                if kind == cells.LABEL
                else cells.claims_of(snapshot.cluster(row))
            )
        }
        assert {snapshot.hosts.names[row] for row in bitmap.rows_of(selected).tolist()} == expected

    @rule(keys=st.lists(st.sampled_from(KEYS), max_size=3))
    def hold(self, keys: list[Key]) -> None:
        """Reads only some columns now; the others must be as of now when read later."""
        snapshot = self.fleet.snapshot()
        contents(snapshot, tuple(keys))
        self.held = [*self.held[-1:], (snapshot, contents(self.rebuilt()))]

    @rule(published=st.lists(scores(), max_size=3))
    def load_scores(self, published: list[Any]) -> None:
        self.fleet.load_scores(published)
        self.model.update(
            (("score", score.metadata.namespace, score.metadata.name), score) for score in published
        )

    @rule()
    def release_snapshots(self) -> None:
        self.held.clear()

    @invariant()
    def held_snapshots_are_as_they_were(self) -> None:
        for snapshot, then in self.held:
            assert contents(snapshot) == then

    @invariant()
    def equals_one_built_from_scratch(self) -> None:
        assert contents(self.fleet.snapshot()) == contents(self.rebuilt())

    def rebuilt(self) -> ClusterSnapshot:
        fleet = Fleet()
        fleet.load([obj for key, obj in self.model.items() if key[0] == "cluster"])
        fleet.load_scores([obj for key, obj in self.model.items() if key[0] == "score"])
        for key, obj in self.model.items():
            if key[0] not in ("cluster", "score"):
                UPSERTS[key[0]](fleet, obj)
        return fleet.snapshot()


CLUSTER_KEYS = frozenset(
    key
    for key in KEYS
    if key[0] in (cells.LABEL, cells.CLAIM, cells.ALLOCATABLE, cells.CAPACITY)
    or key in (cells.TAINTS, cells.DELETING)
)

UPSERTS: dict[str, Callable[[Fleet, Any], Change]] = {
    "cluster": Fleet.upsert_cluster,
    "score": Fleet.upsert_score,
    "calculator": Fleet.upsert_cluster_score,
    "decision": Fleet.upsert_decision,
    "set": Fleet.upsert_set,
    "binding": Fleet.upsert_binding,
}
DELETES: dict[str, Callable[[Fleet, str, str], Change]] = {
    "cluster": lambda fleet, _, name: fleet.delete_cluster(name),
    "score": Fleet.delete_score,
    "calculator": lambda fleet, cluster, name: fleet.delete_cluster_score(
        cluster, name.removeprefix(f"{cluster}-")
    ),
    "decision": Fleet.delete_decision,
    "set": lambda fleet, _, name: fleet.delete_set(name),
    "binding": Fleet.delete_binding,
}


def reported(change: Change) -> set[Key]:
    return {key for key in change.columns if key in CLUSTER_KEYS}


def possible(old: float | None, new: float | None) -> tuple[Direction, ...]:
    """The directions that may be reported. Any is allowed: without a column there is nothing to compare with."""
    if old is None or new is None or old == new:
        return (Direction.ANY,)
    return (Direction.UP if old < new else Direction.DOWN, Direction.ANY)


def differs(key: Key, old: Any, new: Any) -> bool:
    """Whether the objects differ in what the column is about, times of taints and spellings of amounts included."""
    match key[0]:
        case cells.LABEL:
            return bool(old.metadata.labels.get(key[1]) != new.metadata.labels.get(key[1]))
        case cells.CLAIM:
            return cells.claims_of(old).get(key[1]) != cells.claims_of(new).get(key[1])
        case cells.ALLOCATABLE:
            return bool(old.status.allocatable.get(key[1]) != new.status.allocatable.get(key[1]))
        case cells.CAPACITY:
            return bool(old.status.capacity.get(key[1]) != new.status.capacity.get(key[1]))
        case "taints":
            return bool(old.spec.taints != new.spec.taints)
        case _:
            return (old.metadata.deletionTimestamp is None) != (new.metadata.deletionTimestamp is None)


FleetMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestFleet = FleetMachine.TestCase


@given(
    names=st.lists(st.text("ab", min_size=1, max_size=6), unique=True, max_size=30),
    gone=st.sets(st.integers(0, 29)),
)
def test_ranks_are_in_name_order_however_narrow_the_gaps(names: list[str], gone: set[int]) -> None:
    with mock.patch.object(hosts, "GAP", 3):
        index: hosts.Hosts[str] = hosts.Hosts(capacity=64)
        for at, name in enumerate(names):
            index.add(name, name)
            if at in gone:
                index.remove(name)
            left = sorted(index.row_of, key=lambda name: int(index.rank[index.row_of[name]]))
            assert left == sorted(index.row_of) == index.in_name_order()
            assert len({int(index.rank[row]) for row in index.row_of.values()}) == len(left)
