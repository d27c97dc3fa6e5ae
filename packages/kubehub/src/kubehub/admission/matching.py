"""Match requests to policies and bindings."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubehub.resource import Document, Resource
from kubewire.api.selector import LabelSelector, Selector, compile_selector

ALL: Final = "*"
EXACT: Final = "Exact"
EQUIVALENT: Final = "Equivalent"

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The resource and operation of a request, which many requests share."""

    equivalents: tuple[Resource, ...]
    """The resource of the request, then its other versions and groups."""
    subresource: str
    operation: str

    @property
    def resource(self) -> Resource:
        return self.equivalents[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The object of a request."""

    name: str
    namespace: str
    """For a namespace, its own name."""
    labels: tuple[Labels, ...]
    """Labels of the new and the old object."""
    namespace_labels: Callable[[], Labels | None]


@dataclass(frozen=True, slots=True)
class _Rule:
    groups: tuple[str, ...]
    versions: tuple[str, ...]
    operations: tuple[str, ...]
    resources: tuple[str, ...]
    scope: str
    names: frozenset[str]

    @classmethod
    def of(cls, document: Document) -> "_Rule":
        return cls(
            groups=tuple(document.get("apiGroups") or ()),
            versions=tuple(document.get("apiVersions") or ()),
            operations=tuple(document.get("operations") or ()),
            resources=tuple(document.get("resources") or ()),
            scope=document.get("scope") or ALL,
            names=frozenset(document.get("resourceNames") or ()),
        )

    def covers(self, equivalent: Resource, subresource: str, operation: str) -> bool:
        return (
            _includes(operation, self.operations)
            and _includes(equivalent.group, self.groups)
            and _includes(equivalent.version, self.versions)
            and any(_names(resource, equivalent.plural, subresource) for resource in self.resources)
            and self.scope in (ALL, "Namespaced" if equivalent.namespaced else "Cluster")
        )


def _includes(wanted: str, listed: Sequence[str]) -> bool:
    return ALL in listed or wanted in listed


def _names(pattern: str, plural: str, subresource: str) -> bool:
    resource, _, part = pattern.partition("/")
    return resource in (ALL, plural) and part in (ALL, subresource)


class Match:
    """``matchConstraints`` of a policy or ``matchResources`` of a binding; without rules it matches everything."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._rules = tuple(map(_Rule.of, document.get("resourceRules") or ()))
        self._excluded = tuple(map(_Rule.of, document.get("excludeResourceRules") or ()))
        self._exact = document.get("matchPolicy") == EXACT
        self._namespaces = _selector(document.get("namespaceSelector"))
        self._objects = _selector(document.get("objectSelector"))

    def may_match(self, endpoint: Endpoint) -> bool:
        """Return whether any object at the endpoint could match."""
        return not self._rules or any(True for _ in self._covering(self._rules, endpoint))

    def equivalent(self, endpoint: Endpoint, subject: Subject) -> Resource | None:
        """Return the version of the resource that the rules name; None if the request doesn't match."""
        if not (self._selects_namespace(endpoint, subject) and self._selects_object(subject)):
            return None
        if self._first(self._excluded, endpoint, subject.name) is not None:
            return None
        return self._first(self._rules, endpoint, subject.name) if self._rules else endpoint.resource

    def _first(self, rules: Iterable[_Rule], endpoint: Endpoint, name: str) -> Resource | None:
        return next(
            (
                equivalent
                for rule, equivalent in self._covering(rules, endpoint)
                if not rule.names or name in rule.names
            ),
            None,
        )

    def _covering(self, rules: Iterable[_Rule], endpoint: Endpoint) -> Iterator[tuple[_Rule, Resource]]:
        first, *others = endpoint.equivalents
        listed = tuple(rules)
        for rule in listed:
            if rule.covers(first, endpoint.subresource, endpoint.operation):
                yield rule, first
        for rule in listed if not self._exact else ():
            for equivalent in others:
                if rule.covers(equivalent, endpoint.subresource, endpoint.operation):
                    yield rule, equivalent

    def _selects_namespace(self, endpoint: Endpoint, subject: Subject) -> bool:
        if self._namespaces is None or not subject.namespace:
            return True
        resource = endpoint.resource
        if resource.key == "namespaces" and not endpoint.subresource and endpoint.operation != DELETE:
            return self._namespaces.matches(subject.labels[0])
        labels = subject.namespace_labels()
        return labels is not None and self._namespaces.matches(labels)

    def _selects_object(self, subject: Subject) -> bool:
        return self._objects is None or any(map(self._objects.matches, subject.labels))


def _selector(document: Document | None) -> Selector | None:
    """Return None for a selector that matches everything."""
    return compile_selector(msgspec.convert(document, LabelSelector)) if document else None
