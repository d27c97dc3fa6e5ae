"""HostingCluster: rejects clusters that do not claim to host control planes.

It is the first filter, and reads a column: what a request costs must not depend on the number of clusters that host
nothing.
"""

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import ClusterSnapshot, cells, clusters_of
from fairway.workloads.hosting.fleet.telemetry import HOSTING_CLAIM

NAME = "HostingCluster"
NOT_HOSTING = f"does not host control planes: its claim {HOSTING_CLAIM} is not true"


def hosting_rows(snapshot: ClusterSnapshot) -> Bits:
    """Return the clusters that claim to host control planes."""
    column = snapshot.codes(cells.claim(HOSTING_CLAIM))
    code = column.code("true")
    return snapshot.none() if code is None else snapshot.live & column.bitmap(code)


class HostingCluster(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        if context.snapshot.codes(cells.claim(HOSTING_CLAIM)).value(row) == "true":
            return OK
        return unschedulable(NOT_HOSTING, plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        return OK, candidates & hosting_rows(clusters_of(context.snapshot))

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({cells.claim(HOSTING_CLAIM)}))
