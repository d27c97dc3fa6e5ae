"""The law of the fleet: after any sequence of changes it is what it would be if built from scratch.

Along the way somebody reads columns (so that they exist and must be kept up), and somebody holds on to snapshots
(so that they must be kept apart).
"""

from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from fairway.api.selector import compile_selector
from fairway.fleet import Fleet, Snapshot, bitmap, cells, selection
from fairway.fleet.column import Key
from fairway.fleet.journal import NOTHING, Change
from fairway.testing import builders
from strategies import (
    CALCULATORS,
    SCORE_NAMES,
    SETS,
    cluster_scores,
    cluster_sets,
    clusters,
    decisions,
    names,
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


def cell(snapshot: Snapshot, key: Key, row: int) -> object:
    kind = key[0]
    if kind in (cells.ALLOCATABLE, cells.CAPACITY):
        value = float(snapshot.numbers(key).values[row])
        return None if np.isnan(value) else value
    if kind in (cells.SCORE, cells.CALCULATOR):
        column = snapshot.score_column(key)
        return int(column.values[row]), int(column.expires[row]), bool(column.present[row])
    return snapshot.codes(key).value(row)


def contents(snapshot: Snapshot, keys: tuple[Key, ...] = KEYS) -> dict[str, object]:
    """Everything a cycle can see, by name instead of by row."""
    hosts = snapshot.hosts
    by_rank = sorted(hosts.row_of, key=lambda name: int(hosts.rank[hosts.row_of[name]]))
    assert by_rank == hosts.in_name_order()
    seen: dict[str, object] = {
        "order": by_rank,
        "live": sorted(hosts.names[row] for row in bitmap.rows_of(snapshot.live).tolist()),
        "objects": {name: snapshot.cluster(row) for name, row in hosts.row_of.items()},
        "held": {name: int(snapshot.counts().values[row]) for name, row in hosts.row_of.items()},
        "outsiders": dict(snapshot.decisions.outsiders),
        "owners": {
            owner: sorted(snapshot.decisions.clusters_of(("ns1", owner))) for owner in ("p0", "p1", "other")
        },
        "sets": dict(snapshot.sets),
        "bindings": {key: value for key, value in snapshot.bindings.items() if value},
        "scores": {name: dict(table) for name, table in snapshot.scores.items()},
        "calculators": {name: dict(table) for name, table in snapshot.calculators.items()},
    }
    for key in keys:
        seen[str(key)] = {name: cell(snapshot, key, row) for name, row in hosts.row_of.items()}
    return seen


class FleetMachine(RuleBasedStateMachine):
    """``self.model`` is the hub as plain objects."""

    snapshots = Bundle("snapshots")

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet()
        self.model: dict[tuple[Any, ...], Any] = {}

    def check(self, change: Change, key: tuple[Any, ...], thing: Any) -> None:
        """A change is reported if and only if something changed."""
        if self.model.get(key) == thing:
            assert change == NOTHING
        if thing is None:
            self.model.pop(key, None)
        else:
            self.model[key] = thing

    @rule(thing=clusters())
    def upsert_cluster(self, thing: Any) -> None:
        old = self.model.get(("cluster", thing.metadata.name))
        change = self.fleet.upsert_cluster(thing)
        if old is not None:
            for key in KEYS:
                if key[0] in (cells.LABEL, cells.CLAIM, cells.ALLOCATABLE, cells.CAPACITY):
                    read = cells.cell_reader(key)
                    if read(old) != read(thing):
                        assert key in change.columns
        self.check(change, ("cluster", thing.metadata.name), thing)

    @rule(name=names)
    def delete_cluster(self, name: str) -> None:
        self.check(self.fleet.delete_cluster(name), ("cluster", name), None)

    @rule(thing=scores())
    def upsert_score(self, thing: Any) -> None:
        key = ("score", thing.metadata.namespace, thing.metadata.name)
        self.check(self.fleet.upsert_score(thing), key, thing)

    @rule(name=names, resource=st.sampled_from(["default", "other"]))
    def delete_score(self, name: str, resource: str) -> None:
        self.check(self.fleet.delete_score(name, resource), ("score", name, resource), None)

    @rule(thing=cluster_scores())
    def upsert_cluster_score(self, thing: Any) -> None:
        self.check(self.fleet.upsert_cluster_score(thing), ("calculator", thing.metadata.name), thing)

    @rule(name=names, calculator=st.sampled_from(CALCULATORS))
    def delete_cluster_score(self, name: str, calculator: str) -> None:
        key = ("calculator", f"{name}-{calculator}".lower())
        self.check(self.fleet.delete_cluster_score(name, calculator), key, None)

    @rule(thing=decisions())
    def upsert_decision(self, thing: Any) -> None:
        key = ("decision", thing.metadata.namespace, thing.metadata.name)
        self.check(self.fleet.upsert_decision(thing), key, thing)

    @rule(owner=st.sampled_from(["p0", "p1", "other", "loose"]), number=st.integers(1, 2))
    def delete_decision(self, owner: str, number: int) -> None:
        name = f"{owner}-decision-{number}"
        self.check(self.fleet.delete_decision("ns1", name), ("decision", "ns1", name), None)

    @rule(thing=cluster_sets())
    def upsert_set(self, thing: Any) -> None:
        self.check(self.fleet.upsert_set(thing), ("set", thing.metadata.name), thing)

    @rule(name=st.sampled_from(SETS))
    def delete_set(self, name: str) -> None:
        self.check(self.fleet.delete_set(name), ("set", name), None)

    @rule(name=st.sampled_from(SETS), bound=st.booleans())
    def bind(self, name: str, bound: bool) -> None:
        if bound:
            self.check(
                self.fleet.upsert_binding(builders.binding(name)), ("binding", name), builders.binding(name)
            )
        else:
            self.check(self.fleet.delete_binding("ns1", name), ("binding", name), None)

    @rule(keys=st.lists(st.sampled_from(KEYS), max_size=6))
    def read(self, keys: list[Key]) -> None:
        contents(self.fleet.snapshot(), tuple(keys))

    @rule(selector=selectors, kind=st.sampled_from([cells.LABEL, cells.CLAIM]))
    def select(self, selector: Any, kind: str) -> None:
        """Also makes bitmaps, which later writes must keep up."""
        snapshot = self.fleet.snapshot()
        compiled = compile_selector(selector)
        found = selection.select(snapshot, compiled, kind=kind, among=snapshot.live)
        expected = {
            name
            for name, row in snapshot.hosts.row_of.items()
            if compiled.matches(
                snapshot.cluster(row).metadata.labels
                if kind == cells.LABEL
                else cells.claims_of(snapshot.cluster(row))
            )
        }
        assert {snapshot.hosts.names[row] for row in bitmap.rows_of(found).tolist()} == expected

    @rule(target=snapshots, keys=st.lists(st.sampled_from(KEYS), max_size=3))
    def hold(self, keys: list[Key]) -> Any:
        snapshot = self.fleet.snapshot()
        return snapshot, contents(snapshot, tuple(keys)), contents(self.rebuilt())

    @rule(held=snapshots)
    def held_snapshot_is_as_it_was(self, held: Any) -> None:
        snapshot, _, then = held
        assert contents(snapshot) == then

    @rule(target=snapshots)
    def nothing(self) -> Any:
        return multiple()

    @invariant()
    def equals_one_built_from_scratch(self) -> None:
        assert contents(self.fleet.snapshot()) == contents(self.rebuilt())

    def rebuilt(self) -> Snapshot:
        fleet = Fleet()
        fleet.load([thing for key, thing in self.model.items() if key[0] == "cluster"])
        fleet.load_scores([thing for key, thing in self.model.items() if key[0] == "score"])
        for key, thing in self.model.items():
            match key[0]:
                case "calculator":
                    fleet.upsert_cluster_score(thing)
                case "decision":
                    fleet.upsert_decision(thing)
                case "set":
                    fleet.upsert_set(thing)
                case "binding":
                    fleet.upsert_binding(thing)
        return fleet.snapshot()


FleetMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestFleet = FleetMachine.TestCase
