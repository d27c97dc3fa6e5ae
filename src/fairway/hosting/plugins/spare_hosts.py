"""SpareHosts: picks the best host with which every single host may still fail.

It is a choice and not a filter, because a check packs everything that each host carries, and usually the first host
passes.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from fairway.engine.points import Context, Reads, Scores, Timeless
from fairway.fleet.bitmap import Rows
from fairway.fleet.direction import Direction
from fairway.fleet.resources import grantable
from fairway.hosting.evacuation import Evacuation
from fairway.hosting.plugins.row import cluster_at, spec_in
from fairway.hosting.resources import DIMENSIONS
from fairway.hosting.state import HostingState

NAME: Final = "SpareHosts"
NO_SPARE: Final = "with it there, {count} hosted clusters of {host} would not fit elsewhere if {host} failed"


class SpareHosts(Timeless):
    name = NAME

    def __init__(self, *, state: HostingState) -> None:
        self._state = state

    def choose(self, context: Context, rows: Rows, totals: Scores, /) -> Rows | None:
        spec = spec_in(context, NAME)
        if not spec.policy.limits.spare_hosts or not len(rows):
            return None
        evacuation = Evacuation.of(self._state, spec.policy)
        order = np.lexsort((context.snapshot.hosts.rank[rows], -totals))
        for row in rows[order].tolist():
            if evacuation.with_added(cluster_at(context, row).metadata.name, spec.need).stranded() is None:
                return np.array([row], dtype=np.int64)
        return np.zeros(0, dtype=np.int64)

    def objection(self, context: Context, row: int, /) -> str | None:
        """Return why a host with room must stay as it is; None if the hosted cluster may go there."""
        spec = spec_in(context, NAME)
        if not spec.policy.limits.spare_hosts:
            return None
        added = Evacuation.of(self._state, spec.policy).with_added(
            cluster_at(context, row).metadata.name, spec.need
        )
        stranded = added.stranded()
        return None if stranded is None else NO_SPARE.format(host=stranded[0], count=stranded[1])

    def explain_choice(
        self, context: Context, _chosen: Rows, _rows: Rows, _totals: Scores, /
    ) -> Callable[[int], str | None]:
        return lambda row: self.objection(context, row)

    def reads(self, _context: Context, /) -> Reads:
        helps = {grantable(each): Direction.UP for each in DIMENSIONS}
        return Reads(cells=frozenset(helps), helps=helps)
