"""Which pods a selector, an affinity term or a spread constraint means.

Selectors and terms have a canonical text, which is a part of column names: equal ones of many pods share a column.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import msgspec

from fairway.api.pod_affinity import PodAffinityTerm
from fairway.hosts.column import Key
from fairway.hosts.nodes.pod_columns import POD_TERM, pods_matching
from kubewire.api.selector import (
    IN,
    NOT_IN,
    SELECT_NOTHING,
    LabelSelector,
    LabelSelectorRequirement,
    Requirement,
    Selector,
    compile_selector,
)

_encode: Final = msgspec.json.Encoder(order="deterministic").encode

Labels = Mapping[str, str]
NamespaceLabels = Mapping[str, Labels]


class TermKind(StrEnum):
    """What an affinity term of a pod on a node does to other pods."""

    REQUIRED_AFFINITY = "required-affinity"
    REQUIRED_ANTI_AFFINITY = "required-anti-affinity"
    PREFERRED_AFFINITY = "preferred-affinity"
    PREFERRED_ANTI_AFFINITY = "preferred-anti-affinity"


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A term of podAffinity or podAntiAffinity, of a pod of which the namespace and labels are filled in."""

    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    weight: int = 0
    """Of preferred terms."""

    def matches(self, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        return (
            namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        ) and self.selector.matches(labels)

    def namespaces_of(self, known: NamespaceLabels) -> frozenset[str] | None:
        """Return the namespaces whose pods the term means; None for all.

        An empty selector means all namespaces, another one those that exist and match.
        """
        selector = self.namespace_selector
        if selector.nothing:
            return self.namespaces
        if not selector.requirements:
            return None
        return self.namespaces | {name for name, labels in known.items() if selector.matches(labels)}

    def key(self, kind: TermKind) -> Key:
        text = _encode(
            [
                self.topology_key,
                sorted(self.namespaces),
                _as_list(self.namespace_selector),
                _as_list(self.selector),
                self.weight,
            ]
        )
        return (POD_TERM, kind.value, text.decode())


@lru_cache(maxsize=1 << 14)
def term_of(key: Key) -> AffinityTerm:
    """Return the term that a column counts."""
    topology_key, namespaces, namespace_selector, selector, weight = msgspec.json.decode(key[2])
    return AffinityTerm(
        topology_key, frozenset(namespaces), _from_list(namespace_selector), _from_list(selector), weight
    )


def compile_affinity_term(
    term: PodAffinityTerm, *, namespace: str, labels: Labels, weight: int = 0
) -> AffinityTerm:
    """Compile a term of a pod with this namespace and these labels. Raise SelectorError."""
    selector = with_label_keys(
        term.labelSelector, labels, match=term.matchLabelKeys, mismatch=term.mismatchLabelKeys
    )
    own = () if term.namespaces or term.namespaceSelector is not None else (namespace,)
    return AffinityTerm(
        topology_key=term.topologyKey,
        namespaces=frozenset((*term.namespaces, *own)),
        namespace_selector=compile_selector(term.namespaceSelector),
        selector=compile_selector(selector),
        weight=weight,
    )


def with_label_keys(
    selector: LabelSelector | None, labels: Labels, *, match: Iterable[str], mismatch: Iterable[str] = ()
) -> LabelSelector | None:
    """Return the selector with the pod's values of these labels; those that the pod does not have are left out.

    Newer API servers have added them when the pod was created, which makes no difference here.
    """
    more = tuple(
        LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],))
        for operator, keys in ((IN, match), (NOT_IN, mismatch))
        for key in keys
        if key in labels
    )
    if selector is None or not more:
        return selector
    return LabelSelector(
        matchLabels=selector.matchLabels, matchExpressions=(*selector.matchExpressions, *more)
    )


@dataclass(frozen=True, slots=True)
class PodQuery:
    """Pods that match all conditions."""

    conditions: tuple[tuple[frozenset[str] | None, Selector], ...]
    """Namespaces (None for all) and labels."""
    terminating: bool
    """Whether terminating pods count."""

    def matches(self, namespace: str, labels: Labels, *, terminating: bool) -> bool:
        return (self.terminating or not terminating) and all(
            (namespaces is None or namespace in namespaces) and selector.matches(labels)
            for namespaces, selector in self.conditions
        )

    def key(self) -> Key:
        """Return the column that counts these pods."""
        conditions = [
            [None if namespaces is None else sorted(namespaces), _as_list(selector)]
            for namespaces, selector in self.conditions
        ]
        return pods_matching(_encode([conditions, self.terminating]).decode())


@lru_cache(maxsize=1 << 12)
def query_of(key: Key) -> PodQuery:
    """Return the query of a column."""
    conditions, terminating = msgspec.json.decode(key[1])
    return PodQuery(
        tuple(
            (None if namespaces is None else frozenset(namespaces), _from_list(selector))
            for namespaces, selector in conditions
        ),
        terminating,
    )


def labels_text(labels: Labels) -> str:
    return _encode(labels).decode()


@lru_cache(maxsize=1 << 14)
def labels_of(text: str) -> Labels:
    labels: dict[str, str] = msgspec.json.decode(text)
    return labels


def _as_list(selector: Selector) -> list[Any] | None:
    if selector.nothing:
        return None
    return sorted(
        [requirement.key, requirement.operator, sorted(requirement.values)]
        for requirement in selector.requirements
    )


def _from_list(given: list[Any] | None) -> Selector:
    if given is None:
        return SELECT_NOTHING
    return Selector(tuple(Requirement(key, operator, frozenset(values)) for key, operator, values in given))
