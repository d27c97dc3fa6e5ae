"""HostingCluster: rejects clusters that do not claim to host control planes."""

from fairway.clusters import cells
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosting.plugins.row import cluster_at
from fairway.hosting.state import is_hosting
from fairway.hosting.telemetry import HOSTING_CLAIM

NAME = "HostingCluster"
NOT_HOSTING = f"does not host control planes: its claim {HOSTING_CLAIM} is not true"


class HostingCluster(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        return OK if is_hosting(cluster_at(context, row)) else unschedulable(NOT_HOSTING, plugin=NAME)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({cells.claim(HOSTING_CLAIM)}))
