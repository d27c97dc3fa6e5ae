"""Balance: prefers clusters that fewer decisions of other placements name."""

from functools import lru_cache

import numpy as np

from fairway.clusters import cells
from fairway.clusters.snapshot import ClusterSnapshot, clusters_of
from fairway.engine.points import Context, Raw, Reads, Scores, Timeless
from fairway.engine.status import OK, Status
from fairway.fleet.bitmap import Rows

NAME = "Balance"


class Balance(Timeless):
    name = NAME

    def __init__(self, *, owner: tuple[str, str]) -> None:
        self._owner = owner

    def pre_score(self, context: Context, _rows: Rows, /) -> Status:
        context.state.write(NAME, self._most(clusters_of(context.snapshot)))
        return OK

    def score(self, context: Context, row: int, /) -> int:
        snapshot = clusters_of(context.snapshot)
        own = snapshot.decisions.counted(self._owner).get(snapshot.hosts.names[row], 0)
        return score_of(
            int(snapshot.counts(cells.DECISIONS).values[row]) - own, context.state.read(NAME, int)
        )

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        return Raw(_table(context.state.read(NAME, int))[self._counts(clusters_of(context.snapshot))[rows]])

    def reads(self, _context: Context, /) -> Reads:
        return Reads(
            cells=frozenset({cells.DECISIONS}), shared=frozenset({(cells.OWN_DECISIONS, *self._owner)})
        )

    def basis(self, context: Context, /) -> object:
        return self._most(clusters_of(context.snapshot))

    def _counts(self, snapshot: ClusterSnapshot) -> Scores:
        """Return how often decisions of other placements name each host."""
        counts = snapshot.counts(cells.DECISIONS).values
        held = snapshot.held(self._owner)
        if len(held):
            counts = counts.copy()
            np.subtract.at(counts, held, 1)
        return counts

    def _most(self, snapshot: ClusterSnapshot) -> int:
        """Return the highest count of any name in decisions of other placements, host or not."""
        most = int(self._counts(snapshot).max(initial=0))
        outsiders = snapshot.decisions.outsiders
        if not outsiders:
            return most
        mine = snapshot.decisions.counted(self._owner)
        return max(most, *(count - mine.get(name, 0) for name, count in outsiders.items()))


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
