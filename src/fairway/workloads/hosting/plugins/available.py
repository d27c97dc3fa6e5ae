"""HostAvailable: rejects clusters that are not available, not accepted or being deleted."""

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts.bitmap import Bits
from fairway.workloads.hosting.fleet.columns import UNAVAILABLE
from fairway.workloads.hosting.fleet.facts import why_unavailable
from fairway.workloads.hosting.plugins.row import cluster_at, rows_without

NAME = "HostAvailable"


class HostAvailable(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        if not context.snapshot.counts(UNAVAILABLE).values[row]:
            return OK
        return unschedulable(why_unavailable(cluster_at(context, row)), plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        return OK, rows_without(context, UNAVAILABLE, candidates)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({UNAVAILABLE}))
