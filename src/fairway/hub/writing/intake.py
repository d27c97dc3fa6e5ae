"""From what a client sends to a document the store may keep: kind, fields, defaults, owners, faults."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from fairway.hub import builtin, status
from fairway.hub.builtin.canonical import Malformed, canonical
from fairway.hub.go_format import quoted
from fairway.hub.json_decoder import decode_object as _decode
from fairway.hub.kind import PLAIN, Kind
from fairway.hub.options import IGNORE, STRICT
from fairway.hub.patches import managed_fields
from fairway.hub.registry import Registry
from fairway.hub.resource import Document, Resource
from fairway.hub.schema import Node
from fairway.hub.schemas import structural
from fairway.hub.schemas.metadata import finalizer_warnings
from fairway.hub.schemas.object_meta import malformed, tidy
from fairway.hub.timestamps import timestamp
from fairway.hub.write_request import WriteRequest
from fairway.hub.writing import validation

REPEATED_OWNERS: Final = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)

_UNKNOWN: Final = 100
"""Fields that are told; as many as in kube-apiserver."""
_CHECKERS: Final = 2048

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


_LONGEST_WHOLE: Final = 1e21
"""From here on numbers are written with an exponent."""


def clone(document: Document) -> Document:
    """A copy that shares nothing: through JSON it is made many times faster than piece by piece."""
    return _decode(_encode(document))


class Intake:
    def __init__(
        self, *, registry: Registry, kinds: Mapping[str, Kind], clock: Callable[[], datetime]
    ) -> None:
        self._registry, self._kinds, self._clock = registry, kinds, clock
        self._checkers: dict[tuple[str, str], tuple[Node, structural.Checker]] = {}

    def kind(self, resource: Resource) -> Kind:
        return PLAIN if resource.custom else self._kinds.get(resource.key, PLAIN)

    def checker(self, resource: Resource) -> structural.Checker:
        """One for each version of a resource: a definition that changes takes the place of what it was."""
        key = (resource.key, resource.version)
        known = self._checkers.get(key)
        if known is None or known[0] is not resource.node:
            if len(self._checkers) > _CHECKERS:
                self._checkers.clear()
            known = self._checkers[key] = (resource.node, structural.compile(resource.node))
        return known[1]

    def typed(self, resource: Resource, document: Document) -> None:
        """The body must be of the kind the path is for; a body that doesn't say is taken to be."""
        version, kind = document.get("apiVersion"), document.get("kind")
        silent = () if resource.custom else (None, "")
        if version in (resource.api_version, *silent) and kind in (resource.kind, *silent):
            document.pop("apiVersion", None)
            document.pop("kind", None)
            return
        group, _, short = str(version).rpartition("/")
        if resource.custom:
            raise _mistyped(resource, document)
        told = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        if self._registry.of_kind(group, short, str(kind)) is not None:
            told = f"converting ({short}.{kind}) to (core.{resource.kind}): unknown conversion"
        raise status.bad_request(
            f'{kind} in version "{short}" cannot be handled as a {resource.kind}: {told}'
        )

    def _read(
        self, resource: Resource, document: Document, *, applied: bool = False
    ) -> tuple[Document, Sequence[str]]:
        """The document as its kind can hold it, and what of it was unknown. Raises Malformed.

        A custom resource that was ``applied`` is not pruned: apply refuses unknown fields itself, and nulls stay for
        the schema to refuse.
        """
        if not resource.custom:
            made = canonical(builtin.kind(resource.group, resource.version, resource.kind), document)
            made.document.pop("apiVersion", None)
            made.document.pop("kind", None)
            if (document.get("metadata") or {}).get("managedFields") == []:
                made.document["metadata"]["managedFields"] = []  # which ends all ownership, in built-in kinds
            return made.document, made.unknown
        if fault := malformed(document.get("metadata")):
            raise Malformed(fault)
        metadata = document.get("metadata") or {}
        unknown: Sequence[str] = ()
        if applied:
            tidy(metadata)
        else:
            unknown = self.checker(resource).prune(document)
        _make_whole(document)
        return document, unknown

    def cleaned(
        self, resource: Resource, document: Document, request: WriteRequest, *, applied: bool = False
    ) -> Document:
        """The document without what its kind doesn't have; that is refused or warned of, as asked."""
        as_kind = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        try:
            cleaned, unknown = self._read(resource, document, applied=applied)
        except Malformed as fault:
            raise status.bad_request(f"{as_kind}: {fault}") from fault
        told = _told(unknown)
        if told and request.options.validation == STRICT:
            raise status.bad_request(f"{as_kind}: strict decoding error: {', '.join(told)}")
        if request.options.validation != IGNORE:
            request.warnings.extend(told)
        return cleaned

    def cleaned_patch(
        self, resource: Resource, document: Document, request: WriteRequest, *, odd: Sequence[str] = ()
    ) -> Document:
        """The same for a patched document, whose faults are the patch's; ``odd`` is what the patch itself has."""
        try:
            cleaned, unknown = self._read(resource, document)
        except Malformed as fault:
            raise _bad_patch(document, str(fault)) from fault
        told = [*odd[:_UNKNOWN], *_told(unknown)]
        if told and request.options.validation == STRICT:
            raise _bad_patch(document, f"strict decoding error: {', '.join(told)}")
        if request.options.validation != IGNORE:
            request.warnings.extend(told)
        return cleaned

    def single_owners(self, document: Document, request: WriteRequest, *, patched: bool = False) -> None:
        """Drops owner references that occur twice, with a warning."""
        metadata = document.get("metadata") or {}
        owners = metadata.get("ownerReferences") or ()
        kept = {_encode_sorted(owner): owner for owner in reversed(owners)}
        if len(kept) == len(owners):
            return
        seen: set[bytes] = set()
        repeated: dict[str, None] = {}
        for owner in owners:
            text = _encode_sorted(owner)
            if text in seen:
                repeated[str(owner.get("uid"))] = None
            seen.add(text)
        metadata["ownerReferences"] = [*reversed(kept.values())]
        told = REPEATED_OWNERS.format(
            " after mutating admission happens" if patched else "", ", ".join(repeated)
        )
        request.warnings.append(told)

    def rewritten(self, resource: Resource, document: Document) -> Document:
        """Built-in kinds once more as they are written, after their defaults."""
        return document if resource.custom else self._read(resource, document)[0]

    def converted(self, resource: Resource, document: Document) -> tuple[Resource, Document]:
        if resource.conversion is None:
            return resource, document
        return self._registry.stored(resource), resource.conversion.inward(document)

    def defaulted(self, resource: Resource, document: Document) -> Document:
        self.checker(resource).default(document)
        self.kind(resource).default(document)
        return self.rewritten(resource, document)

    def kept(
        self, resource: Resource, document: Document, request: WriteRequest
    ) -> tuple[Resource, Document]:
        """The document in the shape the store keeps, without what its schema doesn't know."""
        self.typed(resource, document)
        document = self.cleaned(resource, document, request)
        return self.converted(resource, document)

    def check(
        self, resource: Resource, document: Document, old: Document | None, request: WriteRequest
    ) -> None:
        """Raises a refusal with everything that is wrong; completes what is right."""
        kind = self.kind(resource)
        kind.admit_early(document, old, request)
        causes = validation.causes(resource, kind, self.checker(resource), document, old, request)
        if causes:
            raise status.invalid(resource.group, resource.kind, document["metadata"].get("name", ""), causes)
        kind.complete(document, old, request)
        if resource.custom:
            request.warnings.extend(finalizer_warnings(document, old))

    def own(self, view: Resource, old: Document | None, document: Document, request: WriteRequest) -> None:
        """Who manages which field, in the shape that the client wrote."""
        after = document
        if view.conversion is not None:
            after = view.conversion.outward(document)
            old = None if old is None else view.conversion.outward(old)
        managed_fields.update(
            old,
            after,
            manager=request.options.manager,
            operation="Update",
            api_version=view.api_version,
            # A scale is written without saying when, so that it doesn't come between others.
            time="" if request.subresource == "scale" else timestamp(self._clock()),
            subresource=request.subresource,
            node=view.node,
            blank=self.nothing(view),
        )

    def owned_fields(self, resource: Resource, document: Document, request: WriteRequest) -> list[Document]:
        """Who manages the fields of a document that isn't kept."""
        cleaned = self.cleaned(resource, clone(document), request)
        self.own(resource, None, cleaned, request)
        listed: list[Document] = cleaned["metadata"].get("managedFields", [])
        return listed

    def nothing(self, resource: Resource) -> Document | None:
        """What a built-in kind writes of an object with nothing in it: nobody owns that."""
        return None if resource.custom else self._read(resource, {})[0]


def _make_whole(value: Any) -> None:
    """3.0 is kept as 3, which is how Kubernetes writes it, and what readers of whole numbers can read."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if type(each) is float:
            if each.is_integer() and abs(each) < _LONGEST_WHOLE and str(each) != "-0.0":
                value[key] = int(each)
        elif isinstance(each, dict | list):
            _make_whole(each)


def _mistyped(resource: Resource, document: Document) -> status.Refusal:
    """A custom resource must say what it is, and that must be true."""
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


def _told(unknown: Sequence[str]) -> list[str]:
    return [f"unknown field {quoted(path)}" for path in unknown[:_UNKNOWN]]


def _bad_patch(document: Document, fault: str) -> status.Refusal:
    """A patch that leaves something its kind can't hold."""
    shown = _encode(document).decode()
    return status.invalid("", "", "", [status.invalid_value("patch", shown, fault)])
