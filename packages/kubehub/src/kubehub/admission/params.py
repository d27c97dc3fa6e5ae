"""The parameter objects that bindings pass to policies."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kubehub.object_reader import ObjectReader
from kubehub.registry import Registry
from kubehub.resource import Document, Resource
from kubehub.selectors import matches_selector

UNKNOWN_KIND: Final = "failed to find resource referenced by paramKind: '{group_version}, Kind={kind}'"
NAMESPACE_NEEDED: Final = (
    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
)
NO_NAMESPACE: Final = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
NONE_FOUND: Final = "no params found for policy binding with `Deny` parameterNotFoundAction"

_NOBODY: Final = (None,)


class Misconfigured(Exception):
    """A policy or binding refers to something that doesn't exist."""


class Params:
    def __init__(self, *, objects: ObjectReader, registry: Registry) -> None:
        self._objects, self._registry = objects, registry

    def resource_of(self, kind: Mapping[str, str] | None) -> Resource | None:
        """Return the resource of ``paramKind``; None if there is none. Raises `Misconfigured`."""
        if kind is None:
            return None
        version, name = kind.get("apiVersion", ""), kind.get("kind", "")
        group, _, short = version.rpartition("/")
        resource = self._registry.of_kind(group, short, name)
        if resource is None:
            raise Misconfigured(UNKNOWN_KIND.format(group_version=version, kind=name))
        return resource

    def select(
        self, kind: Mapping[str, str] | None, reference: Mapping[str, Any] | None, *, namespace: str
    ) -> Sequence[Document | None]:
        """Return the parameter objects of a binding; the policy is evaluated with each. Raises `Misconfigured`."""
        resource = self.resource_of(kind)
        if resource is None or reference is None:
            return _NOBODY
        place = reference.get("namespace") or ""
        if resource.namespaced:
            place = place or namespace
            if not place:
                raise Misconfigured(NAMESPACE_NEEDED)
        elif place:
            raise Misconfigured(NO_NAMESPACE)
        selected = [
            _to_client_version(resource, document) for document in self._lookup(resource, reference, place)
        ]
        if not selected and reference.get("parameterNotFoundAction") == "Deny":
            raise Misconfigured(NONE_FOUND)
        return selected

    def _lookup(self, resource: Resource, reference: Mapping[str, Any], place: str) -> Sequence[Document]:
        if name := reference.get("name"):
            one = self._objects.document(resource.key, place, name)
            return [] if one is None else [one]
        selector = reference.get("selector")
        return [
            document
            for document in self._objects.documents(resource.key, place if resource.namespaced else None)
            if matches_selector(selector, document["metadata"].get("labels") or {})
        ]


def _to_client_version(resource: Resource, document: Document) -> Document:
    shown = document if resource.conversion is None else resource.conversion.from_storage(document)
    return {**shown, "apiVersion": resource.api_version, "kind": resource.kind}
