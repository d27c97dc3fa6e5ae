"""A consistent view of the clusters, with their sets, bindings, decisions and scores, at one generation."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fairway.api.cluster import ManagedCluster
from fairway.api.score import AddOnPlacementScore
from fairway.hosts.bitmap import Rows
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.debits import Debits
from fairway.hosts.clusters.decisions import Decisions, Owner
from fairway.hosts.clusters.hostset import HostSet
from fairway.hosts.clusters.scores import CalculatorTable, ScoreTable, cell_of
from fairway.hosts.column import NEVER, Key, ScoreColumn
from fairway.hosts.snapshot import Snapshot

if TYPE_CHECKING:
    from fairway.hosts.clusters.fleet import Fleet

NOT_CLUSTERS = (
    "this plugin reads sets, decisions or scores, and needs a snapshot of ManagedClusters; got {kind}"
)


class ClusterSnapshot(Snapshot[ManagedCluster]):
    __slots__ = ("_held", "bindings", "calculators", "debits", "decisions", "requests", "scores", "sets")

    def __init__(self, fleet: "Fleet") -> None:
        super().__init__(fleet)
        self.sets: Mapping[str, HostSet] = fleet._sets
        self.bindings: Mapping[str, frozenset[str]] = fleet._bindings
        """Names of the bindings by namespace."""
        self.decisions: Decisions = fleet._decisions
        self.debits: Debits = fleet._debits
        self.requests: Mapping[str, tuple[str, ...]] = fleet._requests
        """HostedClusterRequests that the published load does not include yet, by cluster."""
        self.scores: Mapping[str, ScoreTable] = fleet._scores
        self.calculators: Mapping[str, CalculatorTable] = fleet._calculators
        self._held: tuple[Owner, Rows] | None = None

    def cluster(self, row: int) -> ManagedCluster:
        return self.host(row)

    def score_object(self, cluster: str, name: str) -> AddOnPlacementScore | None:
        return self.scores.get(name, {}).get(cluster)

    def held(self, owner: Owner) -> Rows:
        """Return the rows of hosts in a placement's decisions, with duplicates; cached for the last placement."""
        if self._held is None or self._held[0] != owner:
            rows = self.rows_named(self.decisions.clusters_of(owner))
            self._held = (owner, np.array(rows, dtype=np.int64))
        return self._held[1]

    def _fill(self, column: Any, key: Key) -> None:
        if isinstance(column, ScoreColumn):
            column.fill(self._published(key))
        elif key == cells.PROMISED:
            return  # the fleet writes it with the first request
        elif key[0] == cells.DEBIT:
            for cluster in self.debits.clusters():
                if (row := self.hosts.row_of.get(cluster)) is not None:
                    column.write(row, self.debits.total(cluster, key))
        else:
            super()._fill(column, key)

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


def clusters_of(snapshot: Snapshot[Any]) -> ClusterSnapshot:
    """Return the snapshot as one of ManagedClusters, for plugins that read sets, decisions or scores."""
    if not isinstance(snapshot, ClusterSnapshot):
        raise TypeError(NOT_CLUSTERS.format(kind=type(snapshot).__name__))
    return snapshot
