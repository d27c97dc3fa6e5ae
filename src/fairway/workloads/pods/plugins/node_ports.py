"""NodePorts: rejects nodes on which a pod already has one of the host ports."""

from collections.abc import Iterator

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, SKIPPED, Code, Status
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.nodes.pod_columns import WILDCARD, host_port
from fairway.hosts.nodes.pod_template import PodTemplate
from fairway.workloads.pods.workload import PodPlugin, RejectsAlike, template_of

NAME = "NodePorts"
REASON = "node(s) didn't have free ports for the requested pod ports"

REJECTED = Status(Code.UNSCHEDULABLE, (REASON,), plugin=NAME)


def _conflicts(template: PodTemplate) -> Iterator[Key]:
    """Yield the columns that must be 0 on the node."""
    for port in template.host_ports:
        if port.address == WILDCARD:
            yield host_port(port.protocol, port.port)
        else:
            yield host_port(port.protocol, port.port, port.address)
            yield host_port(port.protocol, port.port, WILDCARD)


class NodePorts(RejectsAlike, PodPlugin, Timeless):
    name = NAME
    rejected = REJECTED

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        return (OK if template_of(context).host_ports else SKIPPED), None

    def admits(self, _context: Context, _row: int, /) -> Status:
        return OK

    def filter(self, context: Context, row: int, /) -> Status:
        taken = any(context.snapshot.counts(key).values[row] for key in _conflicts(template_of(context)))
        return REJECTED if taken else OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        passed = candidates
        for key in _conflicts(template_of(context)):
            passed = passed & bitmap.pack(context.snapshot.counts(key).values == 0)
        return OK, passed

    def reads(self, context: Context, /) -> Reads:
        keys = list(_conflicts(template_of(context)))
        return Reads(cells=frozenset(keys), helps=dict.fromkeys(keys, Direction.DOWN))
