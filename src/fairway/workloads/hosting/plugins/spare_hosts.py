"""SpareHosts: picks the best host with which every single host may still fail.

It is a choice and not a filter, because a check packs everything that each host carries, and usually the first host
passes.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from fairway.engine.points import Context, Reads, Scores, Timeless
from fairway.hosts.bitmap import Rows
from fairway.hosts.direction import Direction
from fairway.hosts.resources import grantable
from fairway.workloads.hosting.fleet.columns import RESIDENTS
from fairway.workloads.hosting.fleet.snapshot import hosting_of
from fairway.workloads.hosting.planning.evacuation import Evacuation
from fairway.workloads.hosting.plugins.row import cluster_at, spec_in
from fairway.workloads.hosting.resources import DIMENSIONS
from fairway.workloads.hosting.workload import HostingSpec

NAME: Final = "SpareHosts"
NO_SPARE: Final = "with it there, {count} hosted clusters of {host} would not fit elsewhere if {host} failed"

STRANDED: Final = "hosting/stranded"
"""Of the rows that a cycle without a choice tried, in its state."""


class SpareHosts(Timeless):
    name = NAME

    def choose(self, context: Context, rows: Rows, totals: Scores, /) -> Rows | None:
        spec = spec_in(context, NAME)
        if not _keeps_spare(spec) or not len(rows):
            return None
        evacuation = Evacuation.of(hosting_of(context.snapshot), spec.policy)
        order = np.lexsort((context.snapshot.hosts.rank[rows], -totals))
        stranded: dict[int, tuple[str, int]] = {}
        suspect = ""
        for row in rows[order].tolist():
            added = evacuation.with_added(cluster_at(context, row).metadata.name, spec.need)
            if (obstacle := added.stranded(suspect=suspect)) is None:
                return np.array([row], dtype=np.int64)
            stranded[row] = obstacle
            suspect = obstacle[0]
        context.state.write(STRANDED, stranded)
        return np.zeros(0, dtype=np.int64)

    def objection(self, context: Context, row: int, /) -> str | None:
        """Return why a host with room must stay as it is; None if the hosted cluster may go there."""
        spec = spec_in(context, NAME)
        if not _keeps_spare(spec):
            return None
        known = context.state.find(STRANDED, dict)
        if known is not None and row in known:
            stranded: tuple[str, int] | None = known[row]
        else:
            evacuation = Evacuation.of(hosting_of(context.snapshot), spec.policy)
            stranded = evacuation.with_added(cluster_at(context, row).metadata.name, spec.need).stranded()
        return None if stranded is None else NO_SPARE.format(host=stranded[0], count=stranded[1])

    def explain_choice(
        self, context: Context, _chosen: Rows, _rows: Rows, _totals: Scores, /
    ) -> Callable[[int], str | None]:
        return lambda row: self.objection(context, row)

    def reads(self, _context: Context, /) -> Reads:
        helps = {grantable(resource): Direction.UP for resource in DIMENSIONS}
        return Reads(cells=frozenset({*helps, RESIDENTS}), helps=helps)


def _keeps_spare(spec: HostingSpec) -> bool:
    # A host has failed: what it carried takes the room that was kept for it.
    return bool(spec.policy.limits.spare_hosts) and not spec.is_displaced
