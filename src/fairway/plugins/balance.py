"""Balance: prefers clusters that fewer decisions of other placements name."""

from collections import Counter
from functools import lru_cache

import numpy as np

from fairway.engine.points import Context, Raw, Reads, Scores, Timeless
from fairway.engine.status import OK, Status
from fairway.fleet import cells
from fairway.fleet.bitmap import Rows
from fairway.fleet.snapshot import Snapshot

NAME = "Balance"


class Balance(Timeless):
    name = NAME

    def __init__(self, *, owner: tuple[str, str]) -> None:
        self._owner = owner

    def pre_score(self, context: Context, _rows: Rows, /) -> Status:
        context.state.write(NAME, self._most(context.snapshot))
        return OK

    def score(self, context: Context, row: int, /) -> int:
        snapshot = context.snapshot
        own = snapshot.decisions.clusters_of(self._owner).count(snapshot.hosts.names[row])
        return score_of(int(snapshot.counts().values[row]) - own, context.state.read(NAME, int))

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        snapshot = context.snapshot
        table = _table(context.state.read(NAME, int))
        counts = snapshot.counts().values
        held = snapshot.rows_named(snapshot.decisions.clusters_of(self._owner))
        if held:
            counts = counts.copy()
            for row in held:
                counts[row] -= 1
        return Raw(table[counts[rows]])

    def reads(self, _context: Context, /) -> Reads:
        return Reads(
            cells=frozenset({cells.DECISIONS}), shared=frozenset({(cells.OWN_DECISIONS, *self._owner)})
        )

    def basis(self, context: Context, /) -> object:
        return self._most(context.snapshot)

    def _most(self, snapshot: Snapshot) -> int:
        """The highest count of any name in decisions of others, host or not."""
        counts = snapshot.counts().values
        outsiders = snapshot.decisions.outsiders
        held = snapshot.decisions.clusters_of(self._owner)
        if not held and not outsiders:
            return int(counts.max(initial=0))
        mine = Counter(held)
        most = max((count - mine.get(name, 0) for name, count in outsiders.items()), default=0)
        rows = [(snapshot.hosts.row_of[name], times) for name, times in mine.items() if name not in outsiders]
        if not rows:
            return max(most, int(counts.max(initial=0)))
        counts = counts.copy()
        for row, times in rows:
            counts[row] -= times
        return max(most, int(counts.max(initial=0)))


@lru_cache(maxsize=256)
def _table(most: int) -> Scores:
    """``score_of`` every count up to the most."""
    scores = 2 * (100.0 * (0.5 - np.arange(most + 1) / max(1, most))).astype(np.int64)
    scores[0] = 100
    scores.flags.writeable = False
    return scores


def score_of(count: int, most: int) -> int:
    """100 for a cluster nobody holds, down to -100 for the most held one; always even."""
    return 100 if count == 0 else 2 * int(100.0 * (0.5 - count / most))
