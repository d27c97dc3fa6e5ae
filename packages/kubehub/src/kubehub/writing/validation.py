"""Collect all faults of a document."""

from collections.abc import Sequence
from typing import Any

from kubehub import status
from kubehub.kind import Kind
from kubehub.resource import Document, Resource
from kubehub.schemas.metadata import STANDARD_FINALIZERS, UNKNOWN_FINALIZER, check_changed, check_new
from kubehub.schemas.structural import RULES_NOT_CHECKED, Checker
from kubehub.write_request import WriteRequest
from kubehub.writing import required_fields


def causes(
    resource: Resource,
    kind: Kind,
    checker: Checker,
    document: Document,
    old: Document | None,
    request: WriteRequest,
) -> list[status.Cause]:
    """Return the faults in Kubernetes' order: metadata, schema, then those that only the kind finds."""
    faults: Sequence[status.Cause] = checker.check(
        _add_type(resource, document),
        old=None if old is None else _add_type(resource, old),
        subresource=request.subresource,
    )
    own = kind.validate(document, old, request)
    if not resource.custom:
        faults = [
            *_filter_builtin(faults),
            *(required_fields.causes(resource.node, document) if kind.required_fields_non_empty else ()),
        ]
    if not resource.custom and not kind.required_fields_non_empty:
        # The kind reports its missing fields with Kubernetes' own messages.
        reported = {cause.field for cause in own if cause.reason == status.REQUIRED}
        faults = [cause for cause in faults if cause.reason != status.REQUIRED or cause.field not in reported]
    metadata = document["metadata"]
    if old is None:
        about = check_new(metadata, namespaced=resource.namespaced, rule=kind.naming)
    else:
        about = check_changed(metadata, old["metadata"])
    if old is not None:
        about = [
            *about,
            *about,
        ]  # Kubernetes validates twice, for all kinds and for the kind, and reports both
    if not resource.custom:
        about += _finalizer_causes(metadata)
    if resource.custom and resource.scale is not None:
        at = next(
            (i for i, cause in enumerate(faults) if cause.message.endswith(RULES_NOT_CHECKED)), len(faults)
        )
        scaled = _scale_causes(resource.scale.spec_path, document)
        faults = [*faults[:at], *scaled, *faults[at:]]
    return [*about, *faults, *own]


def _add_type(resource: Resource, document: Document) -> Document:
    """Add apiVersion and kind, which CEL rules of custom resources may read."""
    if not resource.custom:
        return document
    return {"apiVersion": resource.api_version, "kind": resource.kind, **document}


def _filter_builtin(causes: Sequence[status.Cause]) -> list[status.Cause]:
    """Keep the schema faults that Kubernetes reports for built-in kinds. Decoding has rejected wrong types,
    metadata is validated separately, and status isn't validated."""
    return [
        cause
        for cause in causes
        if cause.reason != status.TYPE_INVALID and not cause.field.startswith(("metadata", "status"))
    ]


def _finalizer_causes(metadata: Document) -> list[status.Cause]:
    return [
        status.invalid_value(f"metadata.finalizers[{index}]", name, UNKNOWN_FINALIZER)
        for index, name in enumerate(metadata.get("finalizers") or ())
        if "/" not in name and name not in STANDARD_FINALIZERS
    ]


def _scale_causes(path: str, document: Document) -> list[status.Cause]:
    value: Any = document
    for part in path.strip(".").split("."):
        if value is None:
            return []
        if not isinstance(value, dict):
            return [status.invalid_value(path, 0, _wrong_type(path, value, "map[string]interface{}"))]
        value = value.get(part)
    if value is not None and _go_type(value) != "int64":
        return [status.invalid_value(path, 0, _wrong_type(path, value, "int64"))]
    if value is not None and value < 0:
        return [status.invalid_value(path, value, "should be a non-negative integer")]
    return []


def _wrong_type(path: str, value: Any, expected: str) -> str:
    return f"{path} accessor error: {value} is of the type {_go_type(value)}, expected {expected}"


def _go_type(value: Any) -> str:
    names = {str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")
