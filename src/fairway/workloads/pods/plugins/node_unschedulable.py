"""NodeUnschedulable: rejects cordoned nodes, unless the pod tolerates the taint of a cordon."""

from fairway.api.node import NO_SCHEDULE, UNSCHEDULABLE_TAINT, NodeTaint
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Code, Status
from fairway.hosts.bitmap import Bits
from fairway.hosts.nodes.cells import UNSCHEDULABLE
from fairway.workloads.pods.workload import PodPlugin, RejectsAlike, template_of

NAME = "NodeUnschedulable"
REASON = "node(s) were unschedulable"

REJECTED = Status(Code.UNRESOLVABLE, (REASON,), plugin=NAME)
_CORDON = NodeTaint(key=UNSCHEDULABLE_TAINT, effect=NO_SCHEDULE)


class NodeUnschedulable(RejectsAlike, PodPlugin, Timeless):
    name = NAME
    rejected = REJECTED

    def filter(self, context: Context, row: int, /) -> Status:
        if not context.snapshot.codes(UNSCHEDULABLE).codes[row] or template_of(context).tolerates(_CORDON):
            return OK
        return REJECTED

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        if template_of(context).tolerates(_CORDON):
            return OK, candidates
        return OK, candidates & context.snapshot.codes(UNSCHEDULABLE).bitmap(0)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({UNSCHEDULABLE}))
