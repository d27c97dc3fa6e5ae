"""ApprovedMove: a request that a person approved to move goes to that hosting cluster, and to no other."""

from typing import Final

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.workloads.hosting.plugins.row import cluster_at, spec_in
from fairway.workloads.hosting.workload import MOVE_TO

NAME: Final = "ApprovedMove"
OTHER_HOST: Final = f"the annotation {MOVE_TO} allows only {{target}}; remove it to allow others"


class ApprovedMove(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        target = spec_in(context, NAME).target
        if not target or target == cluster_at(context, row).metadata.name:
            return OK
        return unschedulable(OTHER_HOST.format(target=target), plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        target, snapshot = spec_in(context, NAME).target, context.snapshot
        if not target:
            return OK, candidates
        return OK, candidates & bitmap.from_rows(snapshot.rows_named([target]), snapshot.capacity)

    def reads(self, _context: Context, /) -> Reads:
        return Reads()
