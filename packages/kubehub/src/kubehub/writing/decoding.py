"""Decode request documents: check the type, drop unknown fields, convert to the storage version."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kubehub import builtin, status
from kubehub.builtin.canonical import Malformed, canonical
from kubehub.json_decoder import decode_object as _decode
from kubehub.options import IGNORE, STRICT
from kubehub.registry import Registry
from kubehub.resource import Document, Resource
from kubehub.schema import Node
from kubehub.schemas import structural
from kubehub.schemas.object_meta import decoding_error, drop_empty_fields
from kubehub.write_request import WriteRequest
from kubewire.api.selector import quote

REPEATED_OWNERS: Final = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)

_MAX_UNKNOWN_FIELDS: Final = 100
"""Unknown fields that a message lists; the same limit as in kube-apiserver."""
_MAX_CHECKERS: Final = 2048
_EXPONENT_FROM: Final = 1e21
"""JSON writes whole numbers from here on with an exponent."""

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def clone(document: Document) -> Document:
    """Copy a document deeply. A JSON round trip is many times faster than ``copy.deepcopy``."""
    return _decode(_encode(document))


class Decoder:
    def __init__(self, *, registry: Registry) -> None:
        self._registry = registry
        self._checkers: dict[tuple[str, str], tuple[Node, structural.Checker]] = {}

    def checker(self, resource: Resource) -> structural.Checker:
        """Return the compiled schema of a resource version, which is replaced when its CRD changes."""
        key = (resource.key, resource.version)
        known = self._checkers.get(key)
        if known is None or known[0] is not resource.node:
            if len(self._checkers) > _MAX_CHECKERS:
                self._checkers.clear()
            known = self._checkers[key] = (resource.node, structural.compile(resource.node))
        return known[1]

    def check_type(self, resource: Resource, document: Document) -> None:
        """Require the apiVersion and kind of the path and remove both; built-in kinds may omit them. Raises a 400."""
        version, kind = document.get("apiVersion"), document.get("kind")
        omitted = () if resource.custom else (None, "")
        if version in (resource.api_version, *omitted) and kind in (resource.kind, *omitted):
            document.pop("apiVersion", None)
            document.pop("kind", None)
            return
        group, _, short = str(version).rpartition("/")
        if resource.custom:
            raise _type_refusal(resource, document)
        reason = (
            f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        )
        if self._registry.of_kind(group, short, str(kind)) is not None:
            reason = f"converting ({short}.{kind}) to (core.{resource.kind}): unknown conversion"
        raise status.bad_request(
            f'{kind} in version "{short}" cannot be handled as a {resource.kind}: {reason}'
        )

    def _prune(
        self, resource: Resource, document: Document, *, applied: bool = False
    ) -> tuple[Document, Sequence[str]]:
        """Return the document without unknown fields, and the paths of those. Raises Malformed.

        An ``applied`` custom resource is not pruned: apply rejects unknown fields itself, and the schema must still see
        its nulls to reject them.
        """
        if not resource.custom:
            converted = canonical(builtin.kind(resource.group, resource.version, resource.kind), document)
            converted.document.pop("apiVersion", None)
            converted.document.pop("kind", None)
            if (document.get("metadata") or {}).get("managedFields") == []:
                converted.document["metadata"]["managedFields"] = []  # an empty list removes all managers
            return converted.document, converted.unknown
        if fault := decoding_error(document.get("metadata")):
            raise Malformed(fault)
        metadata = document.get("metadata") or {}
        unknown: Sequence[str] = ()
        if applied:
            drop_empty_fields(metadata)
        else:
            unknown = self.checker(resource).prune(document)
        _floats_to_integers(document)
        return document, unknown

    def decode(
        self, resource: Resource, document: Document, request: WriteRequest, *, applied: bool = False
    ) -> Document:
        """Drop unknown fields; reject them or warn, depending on ``fieldValidation``. Raises a 400."""
        as_kind = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        try:
            decoded, unknown = self._prune(resource, document, applied=applied)
        except Malformed as fault:
            raise status.bad_request(f"{as_kind}: {fault}") from fault
        if error := report_unknown(_unknown_field_faults(unknown), request):
            raise status.bad_request(f"{as_kind}: {error}")
        return decoded

    def decode_patched(
        self, resource: Resource, document: Document, request: WriteRequest, *, in_patch: Sequence[str] = ()
    ) -> Document:
        """Decode the result of a patch. ``in_patch`` lists unknown fields of the patch itself. Raises a 422."""
        try:
            decoded, unknown = self._prune(resource, document)
        except Malformed as fault:
            raise _patch_refusal(document, str(fault)) from fault
        faults = [*in_patch[:_MAX_UNKNOWN_FIELDS], *_unknown_field_faults(unknown)]
        if error := report_unknown(faults, request):
            raise _patch_refusal(document, error)
        return decoded

    def normalize(self, resource: Resource, document: Document) -> Document:
        """Rewrite a built-in object the way kube-apiserver encodes it, after its defaults are set."""
        return document if resource.custom else self._prune(resource, document)[0]

    def to_storage(self, resource: Resource, document: Document) -> tuple[Resource, Document]:
        """Convert a document to the version that the store keeps."""
        if resource.conversion is None:
            return resource, document
        return self._registry.storage_version_of(resource), resource.conversion.to_storage(document)

    def zero_fields(self, resource: Resource) -> Document | None:
        """Return the fields that a built-in kind encodes even for an empty object. No manager owns them."""
        return None if resource.custom else self._prune(resource, {})[0]


def report_unknown(faults: Sequence[str], request: WriteRequest) -> str:
    """Return the error of strict field validation, or add warnings and return an empty string."""
    if faults and request.options.validation == STRICT:
        return f"strict decoding error: {', '.join(faults)}"
    if request.options.validation != IGNORE:
        request.warnings.extend(faults)
    return ""


def drop_duplicate_owners(document: Document, request: WriteRequest, *, patched: bool = False) -> None:
    """Remove repeated owner references, with a warning."""
    metadata = document.get("metadata") or {}
    owners = metadata.get("ownerReferences") or ()
    unique = {_encode_sorted(owner): owner for owner in reversed(owners)}
    if len(unique) == len(owners):
        return
    seen: set[bytes] = set()
    repeated: dict[str, None] = {}
    for owner in owners:
        text = _encode_sorted(owner)
        if text in seen:
            repeated[str(owner.get("uid"))] = None
        seen.add(text)
    metadata["ownerReferences"] = [*reversed(unique.values())]
    request.warnings.append(
        REPEATED_OWNERS.format(" after mutating admission happens" if patched else "", ", ".join(repeated))
    )


def _floats_to_integers(value: Any) -> None:
    """Store 3.0 as 3, as Kubernetes does, so that clients can decode it as an integer."""
    for key, child in value.items() if isinstance(value, dict) else enumerate(value):
        if type(child) is float:
            if child.is_integer() and abs(child) < _EXPONENT_FROM and str(child) != "-0.0":
                value[key] = int(child)
        elif isinstance(child, dict | list):
            _floats_to_integers(child)


def _type_refusal(resource: Resource, document: Document) -> status.Refusal:
    """Build the refusal for a custom resource without, or with another, apiVersion and kind."""
    version, kind = document.get("apiVersion"), document.get("kind")
    for key, value in (("Kind", kind), ("apiVersion", version)):
        if not value:
            text = _encode(document).decode()
            cut = f"{text[:30]} ..." if len(text) > 30 else text
            return status.bad_request(
                f"the object provided is unrecognized (must be of type {resource.kind}): Object '{key}' is missing "
                f"in '{text}' ({cut})"
            )
    if version != resource.api_version:
        return status.bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    cause = status.invalid_value("kind", kind, f"must be {resource.kind}")
    metadata = document.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return status.invalid(resource.group, str(kind), str(name), [cause])


def _unknown_field_faults(unknown: Sequence[str]) -> list[str]:
    return [f"unknown field {quote(path)}" for path in unknown[:_MAX_UNKNOWN_FIELDS]]


def _patch_refusal(document: Document, fault: str) -> status.Refusal:
    """Build the refusal for a patch whose result the kind can't hold."""
    shown = _encode(document).decode()
    return status.invalid("", "", "", [status.invalid_value("patch", shown, fault)])
