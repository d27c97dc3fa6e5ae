"""NotRefused: rejects hosting clusters that refused the request for a reason of their own, until it is tried again."""

from typing import Final

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.workloads.hosting.fleet.facts import host_key
from fairway.workloads.hosting.plugins.row import cluster_at, spec_in

NAME: Final = "NotRefused"
REFUSED: Final = "it refused what the request creates: {message}"


class NotRefused(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        message = spec_in(context, NAME).avoided.get(host_key(cluster_at(context, row)))
        return OK if message is None else unschedulable(REFUSED.format(message=message), plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        avoided, snapshot = spec_in(context, NAME).avoided, context.snapshot
        if not avoided:
            return OK, candidates
        rows = snapshot.rows_named([host.name for host in avoided])
        refused = [row for row in rows if host_key(cluster_at(context, row)) in avoided]
        return OK, candidates & ~bitmap.from_rows(refused, snapshot.capacity)

    def reads(self, _context: Context, /) -> Reads:
        # Of the request's status only: the controller offers the request again when a retry is due.
        return Reads()
