"""NodeAffinity: rejects nodes that ``nodeSelector`` or the required node affinity excludes, and scores preferred terms.

``added_affinity`` is a node affinity that all pods of the profile must meet as well.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from fairway.api.pod_affinity import NodeAffinity as NodeAffinityRules
from fairway.engine.points import Context, CycleWorkload, Raw, Reads, Timeless
from fairway.engine.status import OK, SKIPPED, Code, Status, failed
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.column import Key
from fairway.hosts.nodes.cells import label
from fairway.hosts.nodes.node_selection import NodeTerm, RequiredNodes, compile_term, compile_terms
from fairway.workloads.pods.plugins.normalizing import ScaledByHighest
from fairway.workloads.pods.workload import PodPlugin, excluded_by, info_of_workload, template_of

NAME = "NodeAffinity"
REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"
INVALID = "the pod's preferred node affinity has an invalid term"

REJECTED = Status(Code.UNRESOLVABLE, (REASON,), plugin=NAME)
REJECTED_BY_PROFILE = Status(Code.UNRESOLVABLE, (ENFORCED,), plugin=NAME)
NOT_NAMED = Status(Code.UNRESOLVABLE, (excluded_by(NAME),), plugin=NAME)

Preferences = tuple[tuple[int, NodeTerm], ...]


class NodeAffinity(PodPlugin, ScaledByHighest, Timeless):
    name = NAME

    def __init__(self, *, added_affinity: Mapping[str, Any] | None = None) -> None:
        added = msgspec.convert(added_affinity or {}, NodeAffinityRules)
        required = added.requiredDuringSchedulingIgnoredDuringExecution
        self._required = (
            None if required is None else RequiredNodes((), compile_terms(required.nodeSelectorTerms))
        )
        self._preferred: Preferences = tuple(
            (preferred.weight, term)
            for preferred in added.preferredDuringSchedulingIgnoredDuringExecution or ()
            if preferred.weight and (term := compile_term(preferred.preference)) is not None
        )

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        template = template_of(context)
        if template.required_nodes is None and self._required is None:
            return SKIPPED, None
        names = template.named_nodes
        if names is None:
            return OK, None
        if not names:
            return Status(Code.UNRESOLVABLE, (CONFLICT,), plugin=NAME), None
        snapshot = context.snapshot
        return OK, bitmap.from_rows(snapshot.rows_named(list(names)), snapshot.capacity)

    def admits(self, context: Context, row: int, /) -> Status:
        names = template_of(context).named_nodes
        return OK if names is None or context.snapshot.hosts.names[row] in names else NOT_NAMED

    def filter(self, context: Context, row: int, /) -> Status:
        node = context.snapshot.host(row).metadata
        if self._required is not None and not self._required.matches(node.name, node.labels):
            return REJECTED_BY_PROFILE
        required = template_of(context).required_nodes
        return OK if required is None or required.matches(node.name, node.labels) else REJECTED

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        passed = candidates
        for required in (self._required, template_of(context).required_nodes):
            if required is not None:
                passed = required.select(context.snapshot, passed)
        return OK, passed

    def group_rejections(self, context: Context, rows: Rows, /) -> Sequence[tuple[Status, Rows]]:
        if self._required is None:
            return ((REJECTED, rows),)
        snapshot = context.snapshot
        passed = bitmap.unpack(self._required.select(snapshot, snapshot.live))[rows]
        return (REJECTED_BY_PROFILE, rows[~passed]), (REJECTED, rows[passed])

    def pre_score(self, context: Context, rows: Rows, /) -> Status:
        template = template_of(context)
        if template.has_invalid_preference and len(rows):
            return failed(INVALID, plugin=NAME)
        return SKIPPED if template.preferred_nodes is None and not self._preferred else OK

    def score(self, context: Context, row: int, /) -> int:
        node = context.snapshot.host(row).metadata
        preferred = (*self._preferred, *(template_of(context).preferred_nodes or ()))
        return sum(weight for weight, term in preferred if term.matches(node.name, node.labels))

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        snapshot = context.snapshot
        total = np.zeros(snapshot.capacity, dtype=np.int64)
        for weight, term in (*self._preferred, *(template_of(context).preferred_nodes or ())):
            total[bitmap.unpack(term.select(snapshot, snapshot.live))] += weight
        return Raw(total[rows])

    def reads(self, context: Context, /) -> Reads:
        template = template_of(context)
        cells: set[Key] = set()
        for required in (self._required, template.required_nodes):
            cells |= frozenset() if required is None else required.columns()
        for _, term in (*self._preferred, *(template.preferred_nodes or ())):
            cells.update(label(requirement.key) for requirement in term.requirements)
        return Reads(cells=frozenset(cells))

    def basis(self, _context: Context, /) -> object:
        return NAME  # pre_score depends on the pod only

    def signature(self, workload: CycleWorkload, /) -> Hashable | None:
        """Return None for pods with an invalid preference, whose cycles fail only if a node is feasible."""
        template = info_of_workload(workload).template
        return None if template.has_invalid_preference else template.signature
