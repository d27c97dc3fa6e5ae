"""NotFull: rejects clusters that claim to be full."""

from fairway.clusters import cells
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosting.plugins.row import cluster_at
from fairway.hosting.telemetry import FULL_CLAIM

NAME = "NotFull"
FULL = f"is full: its claim {FULL_CLAIM} is true"


class NotFull(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        full = cells.claims_of(cluster_at(context, row)).get(FULL_CLAIM) == "true"
        return unschedulable(FULL, plugin=NAME) if full else OK

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({cells.claim(FULL_CLAIM)}))
