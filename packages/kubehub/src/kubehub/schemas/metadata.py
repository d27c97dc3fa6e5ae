"""Validation of ``metadata`` of every kind, on create and update."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kubecel.errors import Failure
from kubecel.instants import parse_timestamp
from kubehub import status
from kubehub.go_format import json_text
from kubehub.resource import Document
from kubehub.status import Cause
from kubewire.api import naming
from kubewire.api.naming import NameRule
from kubewire.api.selector import quote

ANNOTATIONS_LIMIT: Final = 256 * 1024
MANAGER_LENGTH: Final = 128
SUBRESOURCE_LENGTH: Final = 256
ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
STANDARD_FINALIZERS: Final = frozenset({ORPHAN, FOREGROUND, "kubernetes"})

NO_NAME: Final = "name or generateName is required"
NO_NAMESPACE_HERE: Final = "not allowed on this type"
NEGATIVE: Final = "must be greater than or equal to 0"
NO_VERSION: Final = "version must not be empty"
EMPTY: Final = "must not be empty"
NO_OWNER: Final = "{}, Kind={} is disallowed from being an owner"
TWO_CONTROLLERS: Final = (
    'Only one reference can have Controller set to true. Found "true" in references for {} and {}'
)
BOTH_FINALIZERS: Final = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
NEW_FINALIZERS: Final = (
    "no new finalizers can be added if the object is being deleted, found new finalizers {}"
)
NO_RESOURCE_VERSION: Final = "must be specified for an update"
GOES_BACK: Final = "must not be decremented"
IMMUTABLE: Final = "field is immutable"
BAD_OPERATION: Final = "must be `Apply` or `Update`"
BAD_FIELDS_TYPE: Final = "must be `FieldsV1`"
BAD_CHARACTER: Final = "invalid character {} (at position {})"
UNKNOWN_FINALIZER: Final = "name is neither a standard finalizer name nor is it fully qualified"
UNQUALIFIED_FINALIZER: Final = (
    "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
)
PATHLESS_FINALIZER: Final = (
    "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other "
    "finalizer writers"
)

_OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_IMMUTABLE: Final = (
    ("name", ""),
    ("namespace", ""),
    ("uid", ""),
    ("creationTimestamp", None),
    ("deletionTimestamp", None),
    ("deletionGracePeriodSeconds", None),
)


def check_new(
    metadata: Mapping[str, Any],
    *,
    namespaced: bool,
    rule: NameRule = naming.subdomain,
    path: str = "metadata",
) -> list[Cause]:
    """Validate new metadata, with a name and valid types (``malformed``)."""
    causes: list[Cause] = []
    prefix = metadata.get("generateName") or ""
    if prefix:
        causes += [status.invalid_value(f"{path}.generateName", prefix, text) for text in rule(prefix, True)]
    name = metadata.get("name") or ""
    if name:
        causes += [status.invalid_value(f"{path}.name", name, text) for text in rule(name, False)]
    else:
        causes.append(status.required(f"{path}.name", NO_NAME))
    namespace = metadata.get("namespace") or ""
    if not namespaced:
        if namespace:
            causes.append(status.forbidden_field(f"{path}.namespace", NO_NAMESPACE_HERE))
    elif not namespace:
        causes.append(status.required(f"{path}.namespace"))
    else:
        causes += [status.invalid_value(f"{path}.namespace", namespace, t) for t in naming.label(namespace)]
    generation = metadata.get("generation") or 0
    if generation < 0:
        causes.append(status.invalid_value(f"{path}.generation", generation, NEGATIVE))
    causes += _common(metadata, path)
    return causes + _finalizers(metadata.get("finalizers") or (), f"{path}.finalizers")


def check_changed(metadata: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    if old.get("deletionTimestamp"):
        added = sorted({*(metadata.get("finalizers") or ())} - {*(old.get("finalizers") or ())})
        if added:
            listed = f"[]string{{{', '.join(map(quote, added))}}}"
            causes.append(status.forbidden_field("metadata.finalizers", NEW_FINALIZERS.format(listed)))
    if not metadata.get("resourceVersion"):
        causes.append(status.invalid_value("metadata.resourceVersion", "", NO_RESOURCE_VERSION))
    generation = metadata.get("generation") or 0
    if generation < (old.get("generation") or 0):
        causes.append(status.invalid_value("metadata.generation", generation, GOES_BACK))
    for name, nothing in _IMMUTABLE:
        new, before = (nothing if held.get(name) in (None, "") else held[name] for held in (metadata, old))
        if not _same_moment(new, before):
            causes.append(status.invalid_value(f"metadata.{name}", new, IMMUTABLE))
    return causes + _common(metadata, "metadata")


def finalizer_faults(name: str) -> list[str]:
    """Return the faults of a finalizer of a built-in kind."""
    unknown = "/" not in name and name not in STANDARD_FINALIZERS
    return [*naming.label_key(name), *([UNKNOWN_FINALIZER] if unknown else ())]


def finalizer_warnings(document: Document, old: Document | None = None) -> list[str]:
    """Return warnings about new finalizers of custom resources."""
    before = {*((old or {}).get("metadata") or {}).get("finalizers", ())}
    warnings: list[str] = []
    for name in sorted({*((document.get("metadata") or {}).get("finalizers") or ())} - before):
        texts = naming.label_key(name)
        if "/" not in name and name not in STANDARD_FINALIZERS:
            texts = [*texts, PATHLESS_FINALIZER if "." in name else UNQUALIFIED_FINALIZER]
        warnings += [f"metadata.finalizers: {quote(name)}: {text}" for text in texts]
    return warnings


def _same_moment(new: Any, old: Any) -> bool:
    if new == old or not (isinstance(new, str) and isinstance(old, str)):
        return bool(new == old)
    try:
        left, right = parse_timestamp(new), parse_timestamp(old)
    except Failure:
        return False
    return left is not None and right is not None and left.equals(right)


def _common(metadata: Mapping[str, Any], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in (metadata.get("labels") or {}).items():
        causes += [status.invalid_value(f"{path}.labels", key, text) for text in naming.label_key(key)]
        causes += [status.invalid_value(f"{path}.labels", value, text) for text in naming.label_value(value)]
    total = 0
    for key, value in (metadata.get("annotations") or {}).items():
        # Case-insensitive, including the prefix.
        texts = naming.label_key(key.lower())
        causes += [status.invalid_value(f"{path}.annotations", key, text) for text in texts]
        total += naming.size(key) + naming.size(value)
    if total > ANNOTATIONS_LIMIT:
        causes.append(status.too_long(f"{path}.annotations", ANNOTATIONS_LIMIT))
    causes += _owners(metadata.get("ownerReferences") or (), f"{path}.ownerReferences")
    for index, entry in enumerate(metadata.get("managedFields") or ()):
        causes += _managed(entry, f"{path}.managedFields[{index}]")
    return causes


def _finalizers(names: Sequence[str], path: str) -> list[Cause]:
    causes = [status.invalid_value(path, name, text) for name in names for text in naming.label_key(name)]
    if ORPHAN in names and FOREGROUND in names:
        causes.append(status.invalid_value(path, list(names), BOTH_FINALIZERS))
    return causes


def _owners(owners: Sequence[Mapping[str, Any]], path: str) -> list[Cause]:
    causes: list[Cause] = []
    controller = ""
    for owner in owners:
        version, kind = owner.get("apiVersion") or "", owner.get("kind") or ""
        if not version.rpartition("/")[2] or version.count("/") > 1:
            causes.append(status.invalid_value(f"{path}.apiVersion", version, NO_VERSION))
        causes += [
            status.invalid_value(f"{path}.{name}", "", EMPTY)
            for name in ("kind", "name", "uid")
            if not owner.get(name)
        ]
        if (version, kind) == ("v1", "Event"):
            causes.append(_owner_cause(path, _owner_text(owner), NO_OWNER.format("/v1", "Event")))
        if owner.get("controller"):
            current = f"{kind}/{owner.get('name') or ''}"
            if controller:
                listed = f"[{','.join(map(_owner_text, owners))}]"
                causes.append(_owner_cause(path, listed, TWO_CONTROLLERS.format(controller, current)))
            controller = controller or current
    return causes


def _owner_cause(path: str, text: str, detail: str) -> Cause:
    return Cause(field=path, reason=status.INVALID, message=f"Invalid value: {text}: {detail}")


def _owner_text(owner: Mapping[str, Any]) -> str:
    """Kubernetes prints the fields in the order of their declaration."""
    fields = {name: owner.get(name) or "" for name in _OWNER_FIELDS[:4]}
    fields |= {name: owner[name] for name in _OWNER_FIELDS[4:] if owner.get(name) is not None}
    return "{" + ",".join(f"{json_text(name)}:{json_text(value)}" for name, value in fields.items()) + "}"


def _managed(entry: Mapping[str, Any], path: str) -> list[Cause]:
    causes: list[Cause] = []
    operation, kind = entry.get("operation") or "", entry.get("fieldsType") or ""
    if operation not in ("Apply", "Update"):
        causes.append(status.invalid_value(f"{path}.operation", operation, BAD_OPERATION))
    if kind not in ("", "FieldsV1"):
        causes.append(status.invalid_value(f"{path}.fieldsType", kind, BAD_FIELDS_TYPE))
    causes += check_manager(entry.get("manager") or "", f"{path}.manager")
    if naming.size(entry.get("subresource") or "") > SUBRESOURCE_LENGTH:
        causes.append(status.too_long(f"{path}.subresource", SUBRESOURCE_LENGTH))
    return causes


def check_manager(name: str, path: str = "fieldManager") -> list[Cause]:
    """Validate the name of a field manager, in ``managedFields`` or in the options of a request."""
    causes = [status.too_long(path, MANAGER_LENGTH)] if naming.size(name) > MANAGER_LENGTH else []
    if name.isprintable():
        return causes
    position = 0
    for char in name:
        if not char.isprintable():
            causes.append(
                status.invalid_value(path, name, BAD_CHARACTER.format(f"U+{ord(char):04X}", position))
            )
        position += naming.size(char)
    return causes
