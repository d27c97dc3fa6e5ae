"""TaintToleration: rejects nodes with taints that the pod does not tolerate, and prefers nodes with fewer soft ones."""

from typing import cast

import numpy as np

from fairway.api.node import NodeTaint
from fairway.api.pod_affinity import PREFER_NO_SCHEDULE, REPELLING
from fairway.engine.points import Context, Raw, Reads, Timeless
from fairway.engine.status import OK, Code, Status
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.column import CodeColumn
from fairway.hosts.nodes.cells import TAINTS
from fairway.hosts.nodes.pod_template import PodTemplate
from fairway.workloads.pods.plugins.normalizing import ReversedByHighest
from fairway.workloads.pods.workload import PodPlugin, RejectsAlike, template_of

NAME = "TaintToleration"
REASON = "node(s) had untolerated taint(s)"

REJECTED = Status(Code.UNRESOLVABLE, (REASON,), plugin=NAME)

Taints = tuple[NodeTaint, ...]


def repels(template: PodTemplate, taints: Taints) -> bool:
    """Return whether one of the taints keeps the pod off the node."""
    return any(taint.effect in REPELLING and not template.tolerates(taint) for taint in taints)


def tolerated(template: PodTemplate, column: CodeColumn, among: Bits) -> Bits:
    """Return the rows whose taints do not keep the pod off."""
    codes = [code for taints, code in column.items() if repels(template, cast("Taints", taints))]
    return among & ~column.bitmap_of(codes) if codes else among


def intolerable(template: PodTemplate, taints: Taints) -> int:
    """Return the number of soft taints that the pod does not tolerate."""
    return sum(taint.effect == PREFER_NO_SCHEDULE and not template.tolerates(taint) for taint in taints)


class TaintToleration(RejectsAlike, PodPlugin, ReversedByHighest, Timeless):
    name = NAME
    rejected = REJECTED

    def filter(self, context: Context, row: int, /) -> Status:
        taints = context.snapshot.codes(TAINTS).value(row)
        if taints is None or not repels(template_of(context), cast("Taints", taints)):
            return OK
        return REJECTED

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        return OK, tolerated(template_of(context), context.snapshot.codes(TAINTS), candidates)

    def score(self, context: Context, row: int, /) -> int:
        taints = context.snapshot.codes(TAINTS).value(row)
        return 0 if taints is None else intolerable(template_of(context), cast("Taints", taints))

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        template, column = template_of(context), context.snapshot.codes(TAINTS)
        counts = np.zeros(len(column.values), dtype=np.int64)
        for taints, code in column.items():
            counts[code] = intolerable(template, cast("Taints", taints))
        return Raw(counts[column.codes[rows]])

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({TAINTS}))
