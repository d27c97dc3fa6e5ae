"""The columnar table of hosts, with the sets, bindings, scores and decisions that placements read.

Every upsert compares old and new, writes only the cells that differ, and returns the changed columns. Reads
use snapshots. A snapshot costs nothing: it shares all data with the fleet, and the fleet copies a
part only before writing to it while a snapshot that shares it is still alive.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from weakref import WeakSet

from fairway.api.cluster import ManagedCluster
from fairway.api.clusterset import ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.decision import PlacementDecision
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.clusters import cells
from fairway.clusters.decisions import Decisions, Holding
from fairway.clusters.hostset import HostSet, host_set
from fairway.clusters.scores import (
    CalculatorTable,
    ScoreTable,
    calculator_cell,
    calculator_of,
    score_cell,
    score_item,
)
from fairway.clusters.snapshot import ClusterSnapshot
from fairway.fleet.column import MEMBERSHIP, Column, CountColumn, Key
from fairway.fleet.derived import Derived
from fairway.fleet.hosts import Hosts
from fairway.fleet.journal import NOTHING, Change, Journal

Part = TypeVar("Part", Hosts[ManagedCluster], Decisions)
Published = TypeVar("Published", AddOnPlacementScore, ManagedClusterScore)


@dataclass(slots=True)
class _Parts:
    """The state that a snapshot shares with its fleet. Shared dictionaries are replaced, never modified."""

    hosts: Hosts[ManagedCluster]
    columns: dict[Key, Column]
    sets: dict[str, HostSet]
    bindings: dict[str, frozenset[str]]
    decisions: Decisions
    scores: dict[str, ScoreTable]
    calculators: dict[str, CalculatorTable]


class Fleet:
    def __init__(self) -> None:
        hosts: Hosts[ManagedCluster] = Hosts()
        counts = CountColumn(capacity=hosts.capacity)
        self._parts = _Parts(hosts, {cells.DECISIONS: counts}, {}, {}, Decisions(), {}, {})
        self._journal = Journal()
        self._snapshots: WeakSet[ClusterSnapshot] = WeakSet()
        self._stamps: dict[tuple[str, str], int] = {}
        """Generation in which each copy of a score table was created, as for columns."""
        self._paths: dict[Key, Callable[[ManagedCluster], Any]] = {}
        self._derived: dict[Hashable, Derived] = {}

    def __len__(self) -> int:
        return len(self._parts.hosts)

    @property
    def generation(self) -> int:
        return self._journal.generation

    def snapshot(self) -> ClusterSnapshot:
        parts = self._parts
        view = ClusterSnapshot(
            generation=self._journal.generation,
            hosts=parts.hosts,
            columns=dict(parts.columns),
            sets=parts.sets,
            bindings=parts.bindings,
            decisions=parts.decisions,
            scores=parts.scores,
            calculators=parts.calculators,
            journal=self._journal,
            keep=self._keep,
            derived=self._derived,
        )
        self._snapshots.add(view)
        return view

    # Clusters

    def load(self, clusters: Iterable[ManagedCluster]) -> None:
        """Fill a fleet without hosts at once; several times faster than upserts."""
        parts = self._parts
        if parts.hosts.row_of:
            for cluster in clusters:
                self.upsert_cluster(cluster)
            return
        unique = {cluster.metadata.name: cluster for cluster in clusters}
        capacity = parts.hosts.capacity
        while capacity < len(unique):
            capacity *= 2
        hosts: Hosts[ManagedCluster] = Hosts(capacity=capacity, stamp=self._journal.generation + 1)
        hosts.add_all(unique.items())
        hosts.renumbered = parts.hosts.renumbered + 1
        decisions = self._own_decisions()
        counts = CountColumn(capacity=capacity, stamp=hosts.stamp)
        for name in [name for name in decisions.outsiders if name in hosts.row_of]:
            counts.values[hosts.row_of[name]] = decisions.outsiders.pop(name)
        self._journal.forget()
        parts.hosts = hosts
        parts.columns = {cells.DECISIONS: counts}
        self._paths.clear()

    def upsert_cluster(self, cluster: ManagedCluster) -> Change:
        name = cluster.metadata.name
        parts = self._parts
        row = parts.hosts.row_of.get(name)
        if row is not None:
            old = cast("ManagedCluster", parts.hosts.objects[row])
            changed = cells.changed_columns(old, cluster)
            for key, read in self._paths.items():
                if read(old) != read(cluster):
                    changed.add(key)
            if not changed and old == cluster:
                return NOTHING
            self._own_hosts().objects[row] = cluster
            for key in changed:
                if key in parts.columns:
                    self._own_column(key).write(row, cells.cell_reader(key)(cluster))
            return self._record((row,), changed)
        if not parts.hosts.room():
            self._grow()
        row = self._own_hosts().add(name, cluster)
        changed = cells.all_columns(cluster)
        decisions = parts.decisions
        for key in list(parts.columns):
            kind = key[0]
            if key == cells.DECISIONS:
                if name in decisions.outsiders:
                    self._own_column(key).write(row, self._own_decisions().outsiders.pop(name))
                    changed.add(key)
            elif kind in cells.PUBLISHED:
                self._own_column(key).write(row, score_cell(parts.scores, name, key))
                changed.add(key)
            elif kind == cells.CALCULATOR:
                self._own_column(key).write(row, calculator_cell(parts.calculators, name, key))
                changed.add(key)
            elif key in changed or kind == cells.PATH:
                self._own_column(key).write(row, cells.cell_reader(key)(cluster))
                changed.add(key)
        return self._record((row,), changed)

    def delete_cluster(self, name: str) -> Change:
        parts = self._parts
        if name not in parts.hosts.row_of:
            return NOTHING
        row = self._own_hosts().remove(name)
        changed = {MEMBERSHIP}
        for key, column in list(parts.columns.items()):
            if key == cells.DECISIONS:
                held = int(cast("CountColumn", column).values[row])
                if held:
                    self._own_decisions().outsiders[name] = held
                    self._own_column(key).write(row, 0)
                    changed.add(key)
            elif self._own_column(key).write(row, None):
                changed.add(key)
        return self._record((row,), changed)

    # Sets and bindings

    def upsert_set(self, source: ManagedClusterSet) -> Change:
        compiled = host_set(source)
        if self._parts.sets.get(compiled.name) == compiled:
            return NOTHING
        self._parts.sets = {**self._parts.sets, compiled.name: compiled}
        return self._record((), {(cells.SETS, compiled.name)})

    def delete_set(self, name: str) -> Change:
        if name not in self._parts.sets:
            return NOTHING
        self._parts.sets = {key: value for key, value in self._parts.sets.items() if key != name}
        return self._record((), {(cells.SETS, name)})

    def upsert_binding(self, binding: ManagedClusterSetBinding) -> Change:
        return self._bind(binding.metadata.namespace, binding.metadata.name, bound=True)

    def delete_binding(self, namespace: str, name: str) -> Change:
        return self._bind(namespace, name, bound=False)

    def _bind(self, namespace: str, name: str, *, bound: bool) -> Change:
        known = self._parts.bindings.get(namespace, frozenset())
        if (name in known) == bound:
            return NOTHING
        bindings = self._parts.bindings.copy()
        bindings[namespace] = known | {name} if bound else known - {name}
        if not bindings[namespace]:
            del bindings[namespace]
        self._parts.bindings = bindings
        return self._record((), {(cells.BINDINGS, namespace)})

    # Scores

    def upsert_score(self, score: AddOnPlacementScore) -> Change:
        return self._put_score(score.metadata.namespace, score.metadata.name, score)

    def delete_score(self, cluster: str, name: str) -> Change:
        return self._put_score(cluster, name, None)

    def load_scores(self, scores: Iterable[AddOnPlacementScore]) -> None:
        """Do the same as upserts at once, to fill a fleet."""
        tables = {name: dict(table) for name, table in self._parts.scores.items()}
        for score in scores:
            tables.setdefault(score.metadata.name, {})[score.metadata.namespace] = score
        self._parts.scores = tables
        for key in [key for key in self._parts.columns if key[0] in cells.PUBLISHED]:
            del self._parts.columns[key]
        self._journal.forget()

    def _put_score(self, cluster: str, name: str, score: AddOnPlacementScore | None) -> Change:
        parts = self._parts
        old = parts.scores.get(name, {}).get(cluster)
        if old == score:
            return NOTHING
        parts.scores = self._own_table(parts.scores, (cells.SCORE, name))
        _put(parts.scores, name, cluster, score)
        row = parts.hosts.row_of.get(cluster)
        changed: set[Key] = {(cells.SCORES, name)}
        for item in {
            item.name for source in (old, score) if source is not None for item in source.status.scores
        }:
            if old is None or score is None or score_item(old, item) != score_item(score, item):
                changed.add((cells.SCORE, name, item))
        for key in parts.columns:
            if key[0] in cells.PUBLISHED and key[1] == name and row is not None:
                cell = score_cell(parts.scores, cluster, key)
                if self._own_column(key).write(row, cell) and key[0] == cells.SCORE:
                    changed.add(key)
        return self._record(() if row is None else (row,), changed)

    def upsert_cluster_score(self, score: ManagedClusterScore) -> Change:
        """Ignore a score whose name does not start with its cluster's name."""
        cluster = score.metadata.namespace
        calculator = calculator_of(score)
        return NOTHING if calculator is None else self._put_calculator(cluster, calculator, score)

    def delete_cluster_score(self, cluster: str, calculator: str) -> Change:
        return self._put_calculator(cluster, calculator.lower(), None)

    def _put_calculator(self, cluster: str, calculator: str, score: ManagedClusterScore | None) -> Change:
        parts = self._parts
        if parts.calculators.get(calculator, {}).get(cluster) == score:
            return NOTHING
        key = (cells.CALCULATOR, calculator)
        parts.calculators = self._own_table(parts.calculators, key)
        _put(parts.calculators, calculator, cluster, score)
        row = parts.hosts.row_of.get(cluster)
        if row is not None and key in parts.columns:
            self._own_column(key).write(row, calculator_cell(parts.calculators, cluster, key))
        return self._record(() if row is None else (row,), {key})

    # Decisions

    def upsert_decision(self, decision: PlacementDecision) -> Change:
        meta = decision.metadata
        placement = meta.labels.get(PLACEMENT_LABEL, "")
        return self.hold(
            namespace=meta.namespace,
            name=meta.name,
            holding=Holding(
                owner=(meta.namespace, placement) if placement else None,
                clusters=tuple(item.clusterName for item in decision.status.decisions),
            ),
        )

    def delete_decision(self, namespace: str, name: str) -> Change:
        return self.hold(namespace=namespace, name=name, holding=None)

    def hold(self, *, namespace: str, name: str, holding: Holding | None) -> Change:
        """Implement ``upsert_decision`` and ``delete_decision``."""
        if self._parts.decisions.get(namespace, name) == holding:
            return NOTHING
        decisions = self._own_decisions()
        old = decisions.put(namespace, name, holding)
        changed: set[Key] = set()
        counts = self._own_column(cells.DECISIONS)
        assert isinstance(counts, CountColumn)
        before = old.clusters if old is not None else ()
        after = holding.clusters if holding is not None else ()
        rows: set[int] = set()
        if before != after:
            row_of = self._parts.hosts.row_of
            for clusters, step in ((before, -1), (after, 1)):
                for cluster in clusters:
                    row = row_of.get(cluster)
                    if row is not None:
                        counts.values[row] += step
                        rows.add(row)
                    else:
                        left = decisions.outsiders.get(cluster, 0) + step
                        if left:
                            decisions.outsiders[cluster] = left
                        else:
                            decisions.outsiders.pop(cluster, None)
            changed.add(cells.DECISIONS)
        changed.update(
            (cells.OWN_DECISIONS, *source.owner)
            for source in (old, holding)
            if source is not None and source.owner is not None
        )
        return self._record(tuple(rows), changed)

    # Copy on write

    def _pinned(self, stamp: int) -> bool:
        return bool(self._snapshots) and any(view.generation >= stamp for view in self._snapshots)

    def _own_hosts(self) -> Hosts[ManagedCluster]:
        if self._pinned(self._parts.hosts.stamp):
            self._parts.hosts = self._forked(self._parts.hosts)
        return self._parts.hosts

    def _own_decisions(self) -> Decisions:
        if self._pinned(self._parts.decisions.stamp):
            self._parts.decisions = self._forked(self._parts.decisions)
        return self._parts.decisions

    def _own_column(self, key: Key) -> Column:
        column = self._parts.columns[key]
        if self._pinned(column.stamp):
            column = self._parts.columns[key] = column.fork()
            column.stamp = self._journal.generation + 1
        return column

    def _own_table(
        self, tables: dict[str, dict[str, Published]], key: tuple[str, str]
    ) -> dict[str, dict[str, Published]]:
        """Return the tables and the table of this key, both safe to modify."""
        if not self._snapshots:
            return tables
        tables = tables.copy()
        if self._pinned(self._stamps.get(key, 0)):
            tables[key[1]] = tables.get(key[1], {}).copy()
            self._stamps[key] = self._journal.generation + 1
        return tables

    def _forked(self, part: Part) -> Part:
        copy = part.fork()
        copy.stamp = self._journal.generation + 1
        return copy

    def _grow(self) -> None:
        hosts = self._own_hosts()
        capacity = hosts.capacity * 2
        hosts.grow(capacity)
        for key in list(self._parts.columns):
            self._own_column(key).grow(capacity)

    def _record(self, rows: tuple[int, ...], changed: set[Key]) -> Change:
        change = Change(rows=rows, columns=frozenset(changed))
        self._journal.append(change)
        return change

    def _keep(self, view: ClusterSnapshot, key: Key) -> Column | None:
        """Keep a column that was created for a current snapshot."""
        if view.generation != self._journal.generation:
            return None
        column = self._parts.columns.get(key)
        if column is None:
            column = view.materialise(key)
            column.stamp = view.generation
            self._parts.columns[key] = column
            if key[0] == cells.PATH:
                self._paths[key] = cells.cell_reader(key)
        return column


def _put(tables: dict[str, dict[str, Published]], name: str, cluster: str, score: Published | None) -> None:
    """Drop empty tables: the existence of a calculator's table means that it has published."""
    if score is not None:
        tables.setdefault(name, {})[cluster] = score
        return
    del tables[name][cluster]
    if not tables[name]:
        del tables[name]
