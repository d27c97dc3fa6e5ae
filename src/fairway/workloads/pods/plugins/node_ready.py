"""NodeReady: rejects nodes that are not ready, unless the pod tolerates the taint of such a node.

kube-scheduler has no such plugin: it relies on taints, which a controller adds after the condition changed.
"""

from fairway.api.node import NO_SCHEDULE, NOT_READY_TAINTS, NodeTaint
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Code, Status
from fairway.hosts.bitmap import Bits
from fairway.hosts.nodes.cells import READY
from fairway.workloads.pods.workload import PodPlugin, RejectsAlike, template_of
from kubewire.api.meta import TRUE, UNKNOWN

NAME = "NodeReady"
REASON = "node(s) were not ready"

REJECTED = Status(Code.UNRESOLVABLE, (REASON,), plugin=NAME)
_NOT_READY, _UNREACHABLE = (NodeTaint(key=key, effect=NO_SCHEDULE) for key in NOT_READY_TAINTS)


def _taint(status: object) -> NodeTaint:
    """Return the taint that Kubernetes adds for a status of the Ready condition."""
    return _UNREACHABLE if status == UNKNOWN else _NOT_READY


class NodeReady(RejectsAlike, PodPlugin, Timeless):
    """A node without the condition is not ready."""

    name = NAME
    rejected = REJECTED

    def filter(self, context: Context, row: int, /) -> Status:
        status = context.snapshot.codes(READY).value(row)
        return OK if status == TRUE or template_of(context).tolerates(_taint(status)) else REJECTED

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        template, column = template_of(context), context.snapshot.codes(READY)
        codes = [
            code
            for status, code in ((None, 0), *column.items())
            if status == TRUE or template.tolerates(_taint(status))
        ]
        return OK, candidates & column.bitmap_of(codes)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({READY}))
