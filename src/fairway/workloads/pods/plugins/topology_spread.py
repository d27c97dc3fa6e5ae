"""PodTopologySpread: limits how uneven pods are spread over topology domains, and prefers domains with fewer of them.

A domain is all nodes with the same value of a label. Constraints with ``DoNotSchedule`` reject nodes, those with
``ScheduleAnyway`` score them. Default constraints apply to pods without constraints of their own that belong to a
Service, a ReplicationController, a ReplicaSet or a StatefulSet (``fairway.hosts.nodes.pod_owners``), and count its
pods.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from fairway.api.pod_affinity import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY, TopologySpreadConstraint
from fairway.engine.points import Amounts, Context, CycleWorkload, Extent, Raw, Reads, Scores, Timeless
from fairway.engine.status import OK, SKIPPED, Code, Status, failed
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Mask, Rows
from fairway.hosts.column import MEMBERSHIP, Key
from fairway.hosts.nodes.cells import TAINTS, label
from fairway.hosts.nodes.pod_owners import POD_OWNERS, PodOwners
from fairway.hosts.nodes.pod_template import PodTemplate, SpreadConstraint
from fairway.workloads.pods.plugins.normalizing import HIGHEST
from fairway.workloads.pods.plugins.taint_toleration import tolerated
from fairway.workloads.pods.plugins.topology import Counts, DomainSums, domain_codes, domain_sums, rows_in
from fairway.workloads.pods.workload import PodPlugin, info_of_workload, template_of
from kubewire.api.selector import Selector, SelectorError

NAME = "PodTopologySpread"
UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"

REJECTED = Status(Code.UNSCHEDULABLE, (UNEVEN,), plugin=NAME)
REJECTED_WITHOUT_LABEL = Status(Code.UNRESOLVABLE, (NO_LABEL,), plugin=NAME)

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
SYSTEM: Final = "System"
LIST: Final = "List"
SYSTEM_CONSTRAINTS: Final = tuple(
    TopologySpreadConstraint(maxSkew=skew, topologyKey=key, whenUnsatisfiable=SCHEDULE_ANYWAY)
    for key, skew in ((HOSTNAME, 3), (ZONE, 5))
)
"""The default constraints of kube-scheduler."""
BAD_TYPE: Final = "defaultingType must be System or List; got {given!r}"
WITH_SYSTEM: Final = "defaultConstraints must be empty because defaultingType is System"
_SCORING: Final = f"{NAME}/score"


@dataclass(frozen=True, slots=True)
class _Domains:
    """The domains of a required constraint."""

    constraint: SpreadConstraint
    pods: DomainSums
    """Matching pods of each domain."""
    eligible: Mask
    """Domains that count, by code."""
    accepts: Mask
    """Domains that take the pod, by code."""

    @staticmethod
    def of(constraint: SpreadConstraint, pods: DomainSums, eligible: Mask) -> "_Domains":
        counts = pods.sums[eligible]
        # As in kube-scheduler, the missing domains count as empty ones while there are fewer than minDomains.
        lowest = int(counts.min()) if len(counts) >= max(constraint.min_domains, 1) else 0
        accepts = pods.sums <= constraint.max_skew + lowest - constraint.matches_itself
        # Code 0 stands for nodes without the label, which are no domain.
        accepts[0] = False
        return _Domains(constraint, pods, eligible, accepts)


@dataclass(frozen=True, slots=True)
class _Required:
    domains: tuple[_Domains, ...]
    fixed: frozenset[Key]
    """Columns after whose change all is counted again."""


@dataclass(frozen=True, slots=True)
class _Preferred:
    """What each row of the domains of the preferred constraints scores."""

    scores: npt.NDArray[np.int64]
    """By row."""
    ignored: Mask
    """Rows without one of the labels."""


class PodTopologySpread(PodPlugin, Timeless):
    """``owners`` are the objects that pods belong to; without them, default constraints apply to no pod."""

    name = NAME

    def __init__(
        self,
        *,
        default_constraints: Sequence[Mapping[str, Any]] = (),
        defaulting_type: str = SYSTEM,
        owners: PodOwners | None = None,
    ) -> None:
        if defaulting_type not in (SYSTEM, LIST):
            raise ValueError(BAD_TYPE.format(given=defaulting_type))
        if default_constraints and defaulting_type == SYSTEM:
            raise ValueError(WITH_SYSTEM)
        self._system = defaulting_type == SYSTEM
        self._defaults = (
            SYSTEM_CONSTRAINTS
            if self._system
            else msgspec.convert(default_constraints, tuple[TopologySpreadConstraint, ...])
        )
        self._owners = owners

    def _constraints(self, workload: CycleWorkload, action: str) -> tuple[SpreadConstraint, ...]:
        """Return the constraints of the pod, or the default ones. Raise SelectorError."""
        info = info_of_workload(workload)
        template = info.template
        if template.has_spread:
            return template.required_spread if action == DO_NOT_SCHEDULE else template.preferred_spread
        defaults = [default for default in self._defaults if default.whenUnsatisfiable == action]
        selector = None if self._owners is None or not defaults else self._owners.selector_of(info.pod)
        if selector is None:
            return ()
        return tuple(_default_constraint(template, default, selector) for default in defaults)

    def _settings(self) -> list[tuple[str, Any]]:
        return [("defaults", SYSTEM if self._system else list(self._defaults))]

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        template = template_of(context)
        try:
            constraints = self._constraints(context.workload, DO_NOT_SCHEDULE)
        except SelectorError as error:
            return failed(str(error), plugin=NAME), None
        if not constraints:
            return SKIPPED, None
        fixed = _fixed_columns(template, constraints)
        context.state.write(NAME, _Required(tuple(_count(context, template, constraints)), fixed))
        return OK, None

    def update_shared(self, context: Context, generation: int, /) -> Sequence[int] | None:
        snapshot = context.snapshot
        known = context.state.find(NAME, _Required)
        if known is None or snapshot.journal.has_changed(known.fixed, generation):
            return None
        domains: list[_Domains] = []
        rows: list[int] = []
        for old in known.domains:
            new = _Domains.of(old.constraint, old.pods.updated(snapshot, generation), old.eligible)
            rows += rows_in(new.pods.codes, old.accepts != new.accepts)
            domains.append(new)
        context.state.write(NAME, _Required(tuple(domains), known.fixed))
        return rows

    def admits(self, _context: Context, _row: int, /) -> Status:
        return OK

    def filter(self, context: Context, row: int, /) -> Status:
        for domain in context.state.read(NAME, _Required).domains:
            code = domain.pods.codes.item(row)
            if not code:
                return REJECTED_WITHOUT_LABEL
            if not domain.accepts.item(code):
                return REJECTED
        return OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        passed = candidates
        for domain in context.state.read(NAME, _Required).domains:
            passed = passed & bitmap.pack(domain.accepts[domain.pods.codes])
        return OK, passed

    def pre_score(self, context: Context, rows: Rows, /) -> Status:
        template = template_of(context)
        try:
            constraints = self._constraints(context.workload, SCHEDULE_ANYWAY)
        except SelectorError as error:
            return failed(str(error), plugin=NAME)
        if not constraints or not len(rows):
            return SKIPPED
        # With kube-scheduler's own constraints, nodes without a zone are still spread by their names.
        everywhere = self._system and not template.has_spread
        labelled = context.snapshot.live if everywhere else _labelled(context, constraints)
        context.state.write(_SCORING, _score(context, template, constraints, rows, labelled))
        return OK

    def score(self, context: Context, row: int, /) -> int | None:
        preferred = context.state.read(_SCORING, _Preferred)
        return None if preferred.ignored[row] else preferred.scores.item(row)

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        preferred = context.state.read(_SCORING, _Preferred)
        ignored = preferred.ignored[rows]
        return Raw(preferred.scores[rows], ~ignored if ignored.any() else None)

    def normalize(self, raw: float, extent: Extent, /) -> int:
        low, high = int(extent.low), int(extent.high)
        return HIGHEST * (high + low - int(raw)) // high if high else HIGHEST

    def normalize_fleet(self, raw: Amounts, extent: Extent, /) -> Scores:
        low, high = int(extent.low), int(extent.high)
        if not high:
            return np.full(len(raw), HIGHEST, dtype=np.int64)
        return HIGHEST * (high + low - raw.astype(np.int64)) // high

    def reads(self, context: Context, /) -> Reads:
        template, workload = template_of(context), context.workload
        constraints = [
            constraint
            for action in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)
            for constraint in self._constraints(workload, action)
        ]
        if not constraints:
            return Reads()
        shared: set[Key] = {constraint.pods for constraint in constraints if constraint.pods is not None}
        if not template.has_spread:
            shared.add(POD_OWNERS)
        return Reads(shared=_fixed_columns(template, constraints).union(shared))

    def signature(self, workload: CycleWorkload, /) -> Hashable | None:
        """Return None for pods with preferred constraints, whose scores depend on which nodes are feasible."""
        template = info_of_workload(workload).template
        if template.has_spread:
            return None if template.has_preferred_spread else template.signature
        if self._constraints(workload, SCHEDULE_ANYWAY):
            return None
        return template.signature, tuple(
            constraint.pods for constraint in self._constraints(workload, DO_NOT_SCHEDULE)
        )


@lru_cache(maxsize=1 << 12)
def _default_constraint(
    template: PodTemplate, given: TopologySpreadConstraint, selector: Selector
) -> SpreadConstraint:
    return template.constraint_on(given, selector)


def _fixed_columns(template: PodTemplate, constraints: Sequence[SpreadConstraint]) -> frozenset[Key]:
    """Return the columns that decide which nodes and domains count."""
    columns: set[Key] = {MEMBERSHIP, *(label(constraint.topology_key) for constraint in constraints)}
    if any(constraint.honors_taints for constraint in constraints):
        columns.add(TAINTS)
    if any(constraint.honors_affinity for constraint in constraints) and template.required_nodes is not None:
        columns |= template.required_nodes.columns()
    return frozenset(columns)


def _included(context: Context, template: PodTemplate, constraint: SpreadConstraint, labelled: Bits) -> Mask:
    """Return the rows whose pods and domains the constraint counts, among those with all labels."""
    snapshot = context.snapshot
    bits = labelled
    if constraint.honors_affinity and template.required_nodes is not None:
        bits = template.required_nodes.select(snapshot, bits)
    if constraint.honors_taints:
        bits = tolerated(template, snapshot.codes(TAINTS), bits)
    return bitmap.unpack(bits)


def _labelled(context: Context, constraints: Sequence[SpreadConstraint]) -> Bits:
    """Return the rows that have the labels of all constraints."""
    bits = context.snapshot.live
    for constraint in constraints:
        bits = bits & ~context.snapshot.codes(label(constraint.topology_key)).bitmap(0)
    return bits


def _sums(
    context: Context, template: PodTemplate, constraint: SpreadConstraint, labelled: Bits
) -> DomainSums:
    columns = () if constraint.pods is None else ((constraint.pods, 1),)
    among = _included(context, template, constraint, labelled)
    return domain_sums(context.snapshot, constraint.topology_key, columns, among=among)


def _count(
    context: Context, template: PodTemplate, constraints: Sequence[SpreadConstraint]
) -> list[_Domains]:
    domains: list[_Domains] = []
    labelled = _labelled(context, constraints)
    for constraint in constraints:
        pods = _sums(context, template, constraint, labelled)
        eligible = np.zeros(len(pods.sums), dtype=np.bool_)
        eligible[pods.counted] = True
        eligible[0] = False
        domains.append(_Domains.of(constraint, pods, eligible))
    return domains


def _score(
    context: Context,
    template: PodTemplate,
    constraints: Sequence[SpreadConstraint],
    rows: Rows,
    labelled: Bits,
) -> _Preferred:
    """Score the labelled rows. A row counts for the constraints whose label it has."""
    snapshot = context.snapshot
    ignored = ~bitmap.unpack(labelled)
    scored = rows[~ignored[rows]]
    scores = np.zeros(snapshot.capacity)
    for constraint in constraints:
        codes = domain_codes(snapshot, constraint.topology_key)
        counts: Counts | int
        if constraint.topology_key == HOSTNAME:
            size = len(scored)
            counts = 0 if constraint.pods is None else snapshot.counts(constraint.pods).values
        else:
            size = int(np.count_nonzero(np.bincount(codes[scored])))
            counts = _sums(context, template, constraint, labelled).sums[codes]
        scores += np.where(codes > 0, counts * log(size + 2) + (constraint.max_skew - 1), 0)
    whole = np.trunc(scores)
    return _Preferred((whole + (scores - whole >= 0.5)).astype(np.int64), ignored)
