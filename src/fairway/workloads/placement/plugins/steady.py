"""Steady: prefers clusters that are already in the decision, so that small changes cause no moves."""

import numpy as np

from fairway.engine.points import Context, Raw, Reads, Timeless
from fairway.engine.remedies import Remedy
from fairway.hosts.bitmap import Rows
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.snapshot import clusters_of
from fairway.workloads.placement.workload import placement_of

NAME = "Steady"
INCUMBENT = 100


class Steady(Timeless):
    name = NAME

    def score(self, context: Context, row: int, /) -> int:
        snapshot = clusters_of(context.snapshot)
        held = snapshot.decisions.counted(placement_of(context).owner)
        return INCUMBENT if snapshot.hosts.names[row] in held else 0

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        snapshot = clusters_of(context.snapshot)
        scores = np.zeros(len(rows), dtype=np.int64)
        held = snapshot.held(placement_of(context).owner)
        if len(held) and len(rows):
            at = np.minimum(np.searchsorted(rows, held), len(rows) - 1)
            scores[at[rows[at] == held]] = INCUMBENT
        return Raw(scores)

    def score_remedies(self, _context: Context, _row: int, _weight: int, /) -> tuple[Remedy, ...]:
        """Propose nothing: the score follows from an earlier decision."""
        return ()

    def reads(self, context: Context, /) -> Reads:
        return Reads(shared=frozenset({(cells.OWN_DECISIONS, *placement_of(context).owner)}))
