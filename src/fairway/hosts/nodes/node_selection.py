"""Node selectors, compiled: which nodes a pod requires, by labels and by name.

A requirement that Kubernetes would not accept matches no node, as in kube-scheduler.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairway.api.pod_affinity import GT, LT, NodeSelectorRequirement, NodeSelectorTerm, parse_integer
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.column import Key
from fairway.hosts.nodes.cells import label
from fairway.hosts.snapshot import Snapshot
from kubewire.api import naming
from kubewire.api.selector import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, requirement_problems

NAME_FIELD: Final = "metadata.name"
"""The only field that ``matchFields`` may name."""


@dataclass(frozen=True, slots=True)
class NodeRequirement:
    key: str
    operator: str
    values: frozenset[str] = frozenset()
    bound: int = 0
    """The number of Gt and Lt."""

    def accepts(self, value: str | None) -> bool:
        """Return whether a node with this value of the label matches; None for a node without the label."""
        if self.operator == IN:
            return value is not None and value in self.values
        if self.operator == NOT_IN:
            return value is None or value not in self.values
        if self.operator in (GT, LT):
            number = None if value is None else parse_integer(value)
            if number is None:
                return False
            return number > self.bound if self.operator == GT else number < self.bound
        return (value is not None) is (self.operator == EXISTS)

    def select(self, snapshot: Snapshot[Any], among: Bits) -> Bits:
        column = snapshot.codes(label(self.key))
        if self.operator == EXISTS:
            return among & ~column.bitmap(0)
        if self.operator == DOES_NOT_EXIST:
            return among & column.bitmap(0)
        if self.operator in (GT, LT):
            codes = [code for value, code in column.items() if self.accepts(str(value))]
        else:
            codes = [code for value in self.values if (code := column.code(value)) is not None]
        if self.operator == NOT_IN:
            return among & ~column.bitmap_of(codes) if codes else among
        return among & column.bitmap_of(codes) if codes else bitmap.empty(len(among) * bitmap.WORD)


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """All requirements and all names must match."""

    requirements: tuple[NodeRequirement, ...]
    named: tuple[str, ...] = ()
    """Names of which the node must have each; two different ones match no node."""
    not_named: frozenset[str] = frozenset()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        return (
            all(name == other for other in self.named)
            and name not in self.not_named
            and all(requirement.accepts(labels.get(requirement.key)) for requirement in self.requirements)
        )

    def select(self, snapshot: Snapshot[Any], among: Bits) -> Bits:
        bits = among
        if self.named:
            rows = snapshot.rows_named(list(set(self.named))) if len(set(self.named)) == 1 else []
            bits = bits & bitmap.from_rows(rows, snapshot.capacity)
        if self.not_named:
            bits = bits & ~bitmap.from_rows(snapshot.rows_named(list(self.not_named)), snapshot.capacity)
        for requirement in self.requirements:
            bits = requirement.select(snapshot, bits)
        return bits


@dataclass(frozen=True, slots=True)
class RequiredNodes:
    """``nodeSelector`` and the required node affinity of a pod."""

    selector: tuple[NodeRequirement, ...] = ()
    """Of ``nodeSelector``; all must match."""
    terms: tuple[NodeTerm, ...] | None = None
    """One must match; None if the pod has no required node affinity."""

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not all(requirement.accepts(labels.get(requirement.key)) for requirement in self.selector):
            return False
        return self.terms is None or any(term.matches(name, labels) for term in self.terms)

    def select(self, snapshot: Snapshot[Any], among: Bits) -> Bits:
        bits = among
        for requirement in self.selector:
            bits = requirement.select(snapshot, bits)
        if self.terms is None:
            return bits
        if len(self.terms) == 1:
            return self.terms[0].select(snapshot, bits)
        selected = snapshot.none()
        for term in self.terms:
            selected |= term.select(snapshot, bits)
        return selected

    def columns(self) -> frozenset[Key]:
        terms = self.terms or ()
        return frozenset(
            label(requirement.key)
            for requirement in (*self.selector, *(one for term in terms for one in term.requirements))
        )


def select_labels(labels: Mapping[str, str]) -> tuple[NodeRequirement, ...]:
    """Compile ``nodeSelector``."""
    return tuple(NodeRequirement(key, IN, frozenset({value})) for key, value in sorted(labels.items()))


def compile_terms(terms: Iterable[NodeSelectorTerm]) -> tuple[NodeTerm, ...]:
    """Compile terms, without those that match no node."""
    return tuple(term for selector_term in terms if (term := compile_term(selector_term)) is not None)


def compile_term(term: NodeSelectorTerm) -> NodeTerm | None:
    """Compile a term; None if it matches no node: it has no requirements, or an invalid one."""
    if not term.matchExpressions and not term.matchFields:
        return None
    requirements: list[NodeRequirement] = []
    for expression in term.matchExpressions:
        requirement = _compile(expression)
        if requirement is None:
            return None
        requirements.append(requirement)
    named: list[str] = []
    not_named: set[str] = set()
    for field in term.matchFields:
        if len(field.values) != 1 or field.operator not in (IN, NOT_IN):
            return None
        value = field.values[0] if field.key == NAME_FIELD else None
        if field.operator == NOT_IN:
            not_named.update(() if value is None else (value,))
        elif value is None:
            return None  # nodes have no other field
        else:
            named.append(value)
    return NodeTerm(tuple(requirements), tuple(named), frozenset(not_named))


def is_invalid(term: NodeSelectorTerm) -> bool:
    return bool(term.matchExpressions or term.matchFields) and compile_term(term) is None


def _compile(given: NodeSelectorRequirement) -> NodeRequirement | None:
    key, operator, values = given.key, given.operator, given.values
    if operator in (GT, LT):
        bound = parse_integer(values[0]) if len(values) == 1 else None
        if bound is None or any(naming.label_key(key)) or any(naming.label_value(values[0])):
            return None
        return NodeRequirement(key, operator, bound=bound)
    if any(requirement_problems(key=key, operator=operator, values=values)):
        return None
    return NodeRequirement(key, operator, frozenset(values))
