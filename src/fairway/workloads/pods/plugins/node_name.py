"""NodeName: rejects all nodes but the one that the pod names."""

from collections.abc import Hashable

from fairway.engine.points import Context, CycleWorkload, Reads, Timeless
from fairway.engine.status import OK, SKIPPED, Code, Status
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.workloads.pods.workload import info_of_workload

NAME = "NodeName"
REASON = "node(s) didn't match the requested node name"

REJECTED = Status(Code.UNRESOLVABLE, (REASON,), plugin=NAME)


class NodeName(Timeless):
    name = NAME

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        wanted = info_of_workload(context.workload).pod.spec.nodeName
        if not wanted:
            return SKIPPED, None
        snapshot = context.snapshot
        return OK, bitmap.from_rows(snapshot.rows_named([wanted]), snapshot.capacity)

    def admits(self, context: Context, row: int, /) -> Status:
        return self.filter(context, row)

    def filter(self, context: Context, row: int, /) -> Status:
        wanted = info_of_workload(context.workload).pod.spec.nodeName
        return OK if not wanted or context.snapshot.hosts.names[row] == wanted else REJECTED

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        _, named = self.pre_filter(context)
        return OK, candidates if named is None else candidates & named

    def reads(self, _context: Context, /) -> Reads:
        return Reads()

    def signature(self, workload: CycleWorkload, /) -> Hashable:
        return info_of_workload(workload).pod.spec.nodeName
