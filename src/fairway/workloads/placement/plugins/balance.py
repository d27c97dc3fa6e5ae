"""Balance: prefers clusters that fewer decisions of other placements name."""

from functools import lru_cache

import numpy as np

from fairway.engine.points import Context, Raw, Reads, Scores, Timeless
from fairway.engine.remedies import Remedy
from fairway.engine.status import OK, Status
from fairway.hosts.bitmap import Rows
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.snapshot import clusters_of
from fairway.workloads.placement.workload import placement_of

NAME = "Balance"


class Balance(Timeless):
    name = NAME

    def pre_score(self, context: Context, _rows: Rows, /) -> Status:
        context.state.write(NAME, _most(context))
        return OK

    def score(self, context: Context, row: int, /) -> int:
        snapshot = clusters_of(context.snapshot)
        own = snapshot.decisions.counted(placement_of(context).owner).get(snapshot.hosts.names[row], 0)
        return score_of(
            int(snapshot.counts(cells.DECISIONS).values[row]) - own, context.state.read(NAME, int)
        )

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        return Raw(_table(context.state.read(NAME, int))[_counts(context)[rows]])

    def score_remedies(self, _context: Context, _row: int, _weight: int, /) -> tuple[Remedy, ...]:
        """Propose nothing: the score follows from decisions of other placements."""
        return ()

    def reads(self, context: Context, /) -> Reads:
        owner = placement_of(context).owner
        return Reads(cells=frozenset({cells.DECISIONS}), shared=frozenset({(cells.OWN_DECISIONS, *owner)}))

    def basis(self, context: Context, /) -> object:
        return _most(context)


def _counts(context: Context) -> Scores:
    """Return how often decisions of other placements name each host."""
    snapshot = clusters_of(context.snapshot)
    counts = snapshot.counts(cells.DECISIONS).values
    held = snapshot.held(placement_of(context).owner)
    if len(held):
        counts = counts.copy()
        np.subtract.at(counts, held, 1)
    return counts


def _most(context: Context) -> int:
    """Return the highest count of any name in decisions of other placements, host or not."""
    most = int(_counts(context).max(initial=0))
    decisions = clusters_of(context.snapshot).decisions
    if not decisions.absent_clusters:
        return most
    own_counts = decisions.counted(placement_of(context).owner)
    return max(most, *(count - own_counts.get(name, 0) for name, count in decisions.absent_clusters.items()))


@lru_cache(maxsize=256)
def _table(most: int) -> Scores:
    """Return ``score_of`` for every count up to the highest."""
    scores = 2 * (100.0 * (0.5 - np.arange(most + 1) / max(1, most))).astype(np.int64)
    scores[0] = 100
    scores.flags.writeable = False
    return scores


def score_of(count: int, most: int) -> int:
    """Return 100 for a cluster without decisions, down to -100 for the one with most; always even."""
    return 100 if count == 0 else 2 * int(100.0 * (0.5 - count / most))
