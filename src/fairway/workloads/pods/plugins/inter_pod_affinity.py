"""InterPodAffinity: keeps pods together or apart, by their labels, within topology domains.

Terms of the pod and of the pods on nodes count: an anti-affinity term of a pod on a node rejects pods that it matches
from the whole domain, and preferred terms score in both directions.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fairway.engine.points import Amounts, Context, Extent, Raw, Reads, Scores, Timeless
from fairway.engine.status import OK, SKIPPED, Code, Status, failed
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Mask, Rows
from fairway.hosts.column import MEMBERSHIP, Key
from fairway.hosts.direction import Direction
from fairway.hosts.nodes.cells import label
from fairway.hosts.nodes.pod_columns import NAMESPACES, POD_TERMS
from fairway.hosts.nodes.pod_selection import AffinityTerm, PodQuery, TermKind, term_of
from fairway.hosts.nodes.pod_template import PodTemplate
from fairway.hosts.nodes.snapshot import NodeSnapshot
from fairway.workloads.pods.plugins.normalizing import HIGHEST
from fairway.workloads.pods.plugins.topology import Codes, DomainSums, domain_sums, rows_in
from fairway.workloads.pods.workload import PodPlugin, nodes_of, template_of
from kubewire.api.selector import SelectorError

NAME = "InterPodAffinity"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
BAD_WEIGHT = "hardPodAffinityWeight must be from 0 to 100; got {given!r}"

REJECTED_BY_AFFINITY = Status(Code.UNRESOLVABLE, (AFFINITY,), plugin=NAME)
REJECTED_BY_ANTI_AFFINITY = Status(Code.UNSCHEDULABLE, (ANTI_AFFINITY,), plugin=NAME)
REJECTED_BY_EXISTING = Status(Code.UNSCHEDULABLE, (EXISTING_ANTI_AFFINITY,), plugin=NAME)

_SCORING: Final = f"{NAME}/score"
_NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class _Required:
    affinity: tuple[DomainSums, ...]
    """Pods that match all affinity terms, for each topology key."""
    first: bool
    """Whether no such pod exists, and the pod itself matches: it may be the first one, on any node with the labels."""
    anti_affinity: tuple[DomainSums, ...]
    existing: tuple[DomainSums, ...]

    @property
    def alone(self) -> bool:
        """Whether no pod matches the affinity terms."""
        return not any(domain.sums.any() for domain in self.affinity)

    def accepting(self) -> Iterator[tuple[Codes, Mask]]:
        """Yield which domains accept the pod, by code, and the domain of each row."""
        for domain in self.affinity:
            accepts = np.ones(len(domain.sums), dtype=np.bool_) if self.first else domain.sums > 0
            accepts[0] = False
            yield domain.codes, accepts
        for domain in (*self.anti_affinity, *self.existing):
            yield domain.codes, domain.sums == 0

    def updated(self, snapshot: NodeSnapshot, generation: int) -> "_Required":
        return _Required(
            affinity=_updated(self.affinity, snapshot, generation),
            first=self.first,
            anti_affinity=_updated(self.anti_affinity, snapshot, generation),
            existing=_updated(self.existing, snapshot, generation),
        )


@dataclass(frozen=True, slots=True)
class _Preferred:
    domains: tuple[DomainSums, ...]
    """What nodes score."""
    newest: tuple[DomainSums, ...]
    """The sums now. Only differences between nodes count, so that ``domains`` stay as long as those are the same."""
    skipped: bool


class InterPodAffinity(PodPlugin, Timeless):
    name = NAME

    def __init__(
        self, *, hard_pod_affinity_weight: int = 1, ignore_preferred_terms_of_existing_pods: bool = False
    ) -> None:
        if not 0 <= hard_pod_affinity_weight <= 100:
            raise ValueError(BAD_WEIGHT.format(given=hard_pod_affinity_weight))
        self._hard_weight = hard_pod_affinity_weight
        self._ignore_preferred = ignore_preferred_terms_of_existing_pods

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        snapshot, template = nodes_of(context), template_of(context)
        try:
            affinity, anti_affinity = template.affinity, template.anti_affinity
        except SelectorError as error:
            return failed(str(error), plugin=NAME), None
        state = _Required(
            affinity=_affinity_domains(snapshot, affinity),
            first=False,
            anti_affinity=_domains(
                snapshot, ((term.topology_key, _pods_of(snapshot, (term,)), 1) for term in anti_affinity)
            ),
            existing=_domains(
                snapshot,
                (
                    (term.topology_key, key, 1)
                    for key, term in _matching_terms(snapshot, template, TermKind.REQUIRED_ANTI_AFFINITY)
                ),
            ),
        )
        if affinity and state.alone:
            first = all(_matches_itself(snapshot, template, term) for term in affinity)
            state = replace(state, first=first)
        context.state.write(NAME, state)
        return OK, None

    def update_shared(self, context: Context, generation: int, /) -> Sequence[int] | None:
        snapshot = nodes_of(context)
        old, scored = context.state.read(NAME, _Required), context.state.find(_SCORING, _Preferred)
        counted = (*old.affinity, *old.anti_affinity, *old.existing, *(scored.newest if scored else ()))
        fixed = (POD_TERMS, NAMESPACES, MEMBERSHIP, *(domain.label for domain in counted))
        if snapshot.journal.has_changed(fixed, generation):
            return None
        new = old.updated(snapshot, generation)
        if new.affinity and new.alone != old.alone:
            return None
        context.state.write(NAME, new)
        rows: list[int] = []
        for (codes, before), (_, after) in zip(old.accepting(), new.accepting(), strict=True):
            rows += rows_in(codes, before != after)
        if scored is None:
            return rows
        changed = _rescore(context, scored, new, generation)
        return None if changed is None else [*rows, *changed]

    def admits(self, _context: Context, _row: int, /) -> Status:
        return OK

    def filter(self, context: Context, row: int, /) -> Status:
        state = context.state.read(NAME, _Required)
        for domain in state.affinity:
            code = domain.codes.item(row)
            if not code or not (state.first or domain.sums.item(code) > 0):
                return REJECTED_BY_AFFINITY
        for domain in state.anti_affinity:
            if domain.sums.item(domain.codes.item(row)) > 0:
                return REJECTED_BY_ANTI_AFFINITY
        for domain in state.existing:
            if domain.sums.item(domain.codes.item(row)) > 0:
                return REJECTED_BY_EXISTING
        return OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        passed = candidates
        for codes, accepts in context.state.read(NAME, _Required).accepting():
            if not accepts.all():
                passed = passed & bitmap.pack(accepts[codes])
        return OK, passed

    def pre_score(self, context: Context, _rows: Rows, /) -> Status:
        template = template_of(context)
        try:
            preferred = bool(template.preferred_affinity or template.preferred_anti_affinity)
        except SelectorError as error:
            return failed(str(error), plugin=NAME)
        if self._ignore_preferred and not preferred:
            return SKIPPED
        domains = _domains(nodes_of(context), self._weighted(nodes_of(context), template))
        skipped = not any(domain.counts_any for domain in domains)
        context.state.write(_SCORING, _Preferred(domains, domains, skipped))
        return SKIPPED if skipped else OK

    def score(self, context: Context, row: int, /) -> int:
        domains = context.state.read(_SCORING, _Preferred).domains
        return sum(domain.sums.item(domain.codes.item(row)) for domain in domains)

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        total = np.zeros(len(rows), dtype=np.int64)
        for domain in context.state.read(_SCORING, _Preferred).domains:
            total += domain.sums[domain.codes[rows]]
        return Raw(total)

    def normalize(self, raw: float, extent: Extent, /) -> int:
        span = extent.high - extent.low
        return int(float(HIGHEST) * ((raw - extent.low) / span)) if span > 0 else 0

    def normalize_fleet(self, raw: Amounts, extent: Extent, /) -> Scores:
        span = extent.high - extent.low
        if span <= 0:
            return np.zeros(len(raw), dtype=np.int64)
        return (float(HIGHEST) * ((raw - extent.low) / span)).astype(np.int64)

    def _weighted(self, snapshot: NodeSnapshot, template: PodTemplate) -> Iterator[tuple[str, Key, int]]:
        """Yield topology key, column of pods and weight of each preference."""
        for sign, terms in ((1, template.preferred_affinity), (-1, template.preferred_anti_affinity)):
            for term in terms:
                yield term.topology_key, _pods_of(snapshot, (term,)), sign * term.weight
        if self._hard_weight:
            for key, term in _matching_terms(snapshot, template, TermKind.REQUIRED_AFFINITY):
                yield term.topology_key, key, self._hard_weight
        if not self._ignore_preferred:
            for sign, kind in ((1, TermKind.PREFERRED_AFFINITY), (-1, TermKind.PREFERRED_ANTI_AFFINITY)):
                for key, term in _matching_terms(snapshot, template, kind):
                    yield term.topology_key, key, sign * term.weight

    def reads(self, context: Context, /) -> Reads:
        """Results of all nodes depend on the pods of their domains."""
        snapshot, template = nodes_of(context), template_of(context)
        helps: dict[Key, Direction] = {POD_TERMS: Direction.ANY, NAMESPACES: Direction.ANY}

        def add(topology_key: str, pods: Key, direction: Direction) -> None:
            helps[label(topology_key)] = helps[MEMBERSHIP] = Direction.ANY
            helps[pods] = helps.get(pods, Direction.NONE) | direction

        for term in template.affinity:
            add(term.topology_key, _pods_of(snapshot, template.affinity), Direction.UP)
        for term in template.anti_affinity:
            add(term.topology_key, _pods_of(snapshot, (term,)), Direction.DOWN)
        for key, term in _matching_terms(snapshot, template, TermKind.REQUIRED_ANTI_AFFINITY):
            add(term.topology_key, key, Direction.DOWN)
        for topology_key, key, _ in self._weighted(snapshot, template):
            add(topology_key, key, Direction.NONE)
        return Reads(shared=frozenset(helps), helps=helps)

    def basis(self, _context: Context, /) -> object:
        return NAME  # all shared input are columns


def _pods_of(snapshot: NodeSnapshot, terms: Sequence[AffinityTerm]) -> Key:
    """Return the column of the pods that match all these terms."""
    conditions = tuple((term.namespaces_of(snapshot.namespaces), term.selector) for term in terms)
    return PodQuery(conditions, terminating=True).key()


def _affinity_domains(snapshot: NodeSnapshot, terms: Sequence[AffinityTerm]) -> tuple[DomainSums, ...]:
    if not terms:
        return ()
    pods = _pods_of(snapshot, terms)
    return tuple(
        domain_sums(snapshot, key, ((pods, 1),)) for key in dict.fromkeys(term.topology_key for term in terms)
    )


def _domains(snapshot: NodeSnapshot, columns: Iterable[tuple[str, Key, int]]) -> tuple[DomainSums, ...]:
    """Return the weighted sums of these columns by topology key."""
    weighted_columns: dict[str, list[tuple[Key, int]]] = {}
    for topology_key, column, weight in columns:
        weighted_columns.setdefault(topology_key, []).append((column, weight))
    return tuple(domain_sums(snapshot, key, weighted) for key, weighted in weighted_columns.items())


def _updated(
    domains: tuple[DomainSums, ...], snapshot: NodeSnapshot, generation: int
) -> tuple[DomainSums, ...]:
    return tuple([domain.updated(snapshot, generation) for domain in domains])


def _rescore(
    context: Context, scored: _Preferred, required: _Required, generation: int
) -> Sequence[int] | None:
    """Update the scores. Return the rows whose scores changed; None if those of all may have."""
    newest = _updated(scored.newest, nodes_of(context), generation)
    if scored.skipped:
        return None if any(domain.counts_any for domain in newest) else ()
    if all(before.sums is after.sums for before, after in zip(scored.domains, newest, strict=True)):
        return ()
    passing = np.ones(context.snapshot.capacity, dtype=np.bool_)
    for codes, accepts in required.accepting():
        passing &= accepts[codes]
    difference = np.zeros(len(passing), dtype=np.int64)
    for before, after in zip(scored.domains, newest, strict=True):
        difference += (after.sums - before.sums)[after.codes]
    different = difference[passing]
    if not len(different) or different.min() == different.max():
        context.state.write(_SCORING, replace(scored, newest=newest))
        return ()
    context.state.write(_SCORING, _Preferred(newest, newest, skipped=False))
    rows: list[int] = np.flatnonzero(passing & (difference != 0)).tolist()
    return rows


def _matching_terms(
    snapshot: NodeSnapshot, template: PodTemplate, kind: TermKind
) -> Iterator[tuple[Key, AffinityTerm]]:
    """Yield the terms of pods on nodes that match the pod, with their columns."""
    namespace, labels = template.namespace, template.labels
    namespace_labels = snapshot.namespaces.get(namespace, _NO_LABELS)
    for key in snapshot.pods.terms(kind):
        term = term_of(key)
        if term.matches(namespace, namespace_labels, labels):
            yield key, term


def _matches_itself(snapshot: NodeSnapshot, template: PodTemplate, term: AffinityTerm) -> bool:
    namespaces = term.namespaces_of(snapshot.namespaces)
    return (namespaces is None or template.namespace in namespaces) and term.selector.matches(template.labels)
