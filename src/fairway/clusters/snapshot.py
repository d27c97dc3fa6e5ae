"""A consistent view of the fleet at one generation. Cycles read only snapshots."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import cast

import numpy as np

from fairway.api.cluster import ManagedCluster
from fairway.api.score import AddOnPlacementScore
from fairway.clusters import cells
from fairway.clusters.decisions import Decisions, Owner
from fairway.clusters.hostset import HostSet
from fairway.clusters.scores import CalculatorTable, ScoreTable, cell_of
from fairway.fleet import bitmap
from fairway.fleet.bitmap import Bits, Rows
from fairway.fleet.column import NEVER, CodeColumn, Column, CountColumn, Key, NumberColumn, ScoreColumn
from fairway.fleet.derived import Derived
from fairway.fleet.hosts import Hosts
from fairway.fleet.journal import Journal

DERIVED_LIMIT = 1024
PATHS_LIMIT = 1000
NOT_CLUSTERS = (
    "this plugin reads sets, decisions or scores, and needs a snapshot of ManagedClusters; got {kind}"
)


class ClusterSnapshot:
    """All data is read-only and does not change while the snapshot lives."""

    __slots__ = (
        "__weakref__",
        "_columns",
        "_derived",
        "_held",
        "_keep",
        "bindings",
        "calculators",
        "decisions",
        "generation",
        "hosts",
        "journal",
        "scores",
        "sets",
    )

    def __init__(
        self,
        *,
        generation: int,
        hosts: Hosts[ManagedCluster],
        columns: dict[Key, Column],
        sets: Mapping[str, HostSet],
        bindings: Mapping[str, frozenset[str]],
        decisions: Decisions,
        scores: Mapping[str, ScoreTable],
        calculators: Mapping[str, CalculatorTable],
        journal: Journal,
        keep: Callable[["ClusterSnapshot", Key], Column | None],
        derived: dict[Hashable, Derived],
    ) -> None:
        self.generation = generation
        self.hosts = hosts
        self.sets = sets
        self.bindings = bindings
        """Return the names of the bindings in a namespace."""
        self.decisions = decisions
        self.scores = scores
        self.calculators = calculators
        self.journal = journal
        self._columns = columns
        self._keep = keep
        self._derived = derived
        self._held: tuple[Owner, Rows] | None = None

    @property
    def capacity(self) -> int:
        return self.hosts.capacity

    @property
    def live(self) -> Bits:
        return self.hosts.live

    def cluster(self, row: int) -> ManagedCluster:
        return cast("ManagedCluster", self.hosts.objects[row])

    def score_object(self, cluster: str, name: str) -> AddOnPlacementScore | None:
        return self.scores.get(name, {}).get(cluster)

    def codes(self, key: Key) -> CodeColumn:
        return cast("CodeColumn", self._column(key))

    def numbers(self, key: Key) -> NumberColumn:
        return cast("NumberColumn", self._column(key))

    def score_column(self, key: Key) -> ScoreColumn:
        return cast("ScoreColumn", self._column(key))

    def counts(self) -> CountColumn:
        return cast("CountColumn", self._column(cells.DECISIONS))

    def derived(self, key: Hashable, *, reads: frozenset[Key] | None) -> Derived:
        """Return the cached result of that name, or a new one. If there are too many, the least recently used one is
        dropped."""
        kept = self._derived.pop(key, None)
        if kept is None:
            if len(self._derived) >= DERIVED_LIMIT:
                del self._derived[next(iter(self._derived))]
            kept = Derived(reads=reads)
        self._derived[key] = kept
        return kept

    def has_column(self, key: Key) -> bool:
        return key in self._columns

    def can_follow(self, keys: Iterable[Key]) -> bool:
        """Return whether changes of these paths are, or can be, reported. Every reported path makes changes of clusters
        more expensive, so there are at most `PATHS_LIMIT`."""
        new = sum(key[0] == cells.PATH and key not in self._columns for key in keys)
        if not new:
            return True
        return new + sum(key[0] == cells.PATH for key in self._columns) <= PATHS_LIMIT

    def _column(self, key: Key) -> Column:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = self._keep(self, key) or self.materialise(key)
        return column

    def materialise(self, key: Key) -> Column:
        """Create the column from the objects, even if it exists already."""
        hosts = self.hosts
        column = cells.new_column(key, capacity=hosts.capacity, stamp=self.generation)
        if isinstance(column, ScoreColumn):
            column.fill(self._published(key))
        else:
            read = cells.cell_reader(key)
            values = [None if host is None else read(host) for host in hosts.objects]
            if isinstance(column, CodeColumn | NumberColumn):
                column.fill(values)
        return column

    def _published(self, key: Key) -> Iterator[tuple[int, tuple[int | None, int]]]:
        """Yield the rows of clusters with the score object of this column, and the cell."""
        row_of = self.hosts.row_of
        if key[0] in cells.PUBLISHED:
            for cluster, score in self.scores.get(key[1], {}).items():
                if cluster in row_of:
                    yield row_of[cluster], cell_of(score, key)
        else:
            for cluster, single in self.calculators.get(key[1], {}).items():
                if cluster in row_of:
                    yield row_of[cluster], (single.value, NEVER)

    def rows_named(self, names: list[str]) -> list[int]:
        """Return the rows of those names that are hosts, in the given order."""
        row_of = self.hosts.row_of
        return [row_of[name] for name in names if name in row_of]

    def held(self, owner: Owner) -> Rows:
        """Return the rows of hosts in a placement's decisions, with duplicates; cached for the last placement."""
        if self._held is None or self._held[0] != owner:
            rows = self.rows_named(self.decisions.clusters_of(owner))
            self._held = (owner, np.array(rows, dtype=np.int64))
        return self._held[1]

    def none(self) -> Bits:
        return bitmap.empty(self.hosts.capacity)


def clusters_of(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the snapshot as one of ManagedClusters, for plugins that read sets, decisions or scores."""
    if not isinstance(snapshot, ClusterSnapshot):
        raise TypeError(NOT_CLUSTERS.format(kind=type(snapshot).__name__))
    return snapshot
