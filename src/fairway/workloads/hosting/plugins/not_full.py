"""NotFull: rejects clusters that claim to be full."""

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.workloads.hosting.fleet import columns
from fairway.workloads.hosting.fleet.telemetry import FULL_CLAIM
from fairway.workloads.hosting.plugins.row import rows_without

NAME = "NotFull"
FULL = f"is full: its claim {FULL_CLAIM} is true"


class NotFull(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        is_full = context.snapshot.counts(columns.FULL).values[row]
        return unschedulable(FULL, plugin=NAME) if is_full else OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        return OK, rows_without(context, columns.FULL, candidates)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({columns.FULL, cells.claim(FULL_CLAIM)}))
