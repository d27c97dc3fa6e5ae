"""Decoding of ``metadata``: wrong types and empty fields.

An API server decodes ``metadata`` of every kind into a struct and encodes it again. So a field of a wrong type is a
decoding error, not a validation fault, and empty fields are dropped.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kubecel.errors import Failure
from kubecel.instants import parse_timestamp
from kubehub.go_format import format_number
from kubewire.api.selector import quote

NO_OBJECT: Final = "json: cannot unmarshal {} into Go value of type v1.ObjectMeta"
MISTYPED: Final = "json: cannot unmarshal {} into Go struct field {} of type {}"
NO_TIME: Final = 'parsing time {0} as "2006-01-02T15:04:05Z07:00": cannot parse {0} as "2006"'

_TEXTS: Final = ("generateName", "name", "namespace", "resourceVersion", "selfLink")
_TIMES: Final = ("creationTimestamp", "deletionTimestamp")
_NUMBERS: Final = ("deletionGracePeriodSeconds", "generation")
_MAPS: Final = ("annotations", "labels")
_LISTS: Final = ("finalizers", "ownerReferences", "managedFields")
_OWNER: Final = {"apiVersion": "string", "kind": "string", "name": "string", "uid": "types.UID"}
_MANAGED: Final = {
    "manager": "string",
    "operation": "v1.ManagedFieldsOperationType",
    "apiVersion": "string",
    "fieldsType": "string",
    "subresource": "string",
}


def decoding_error(metadata: object) -> str | None:
    """Return the decoding error with the message of Go's decoder."""
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        return NO_OBJECT.format(_kind(metadata))
    for name, value in metadata.items():
        if value is not None:
            fault = _field(name, value)
            if fault is not None:
                return fault
    return None


def _field(name: str, value: Any) -> str | None:
    if name in _TEXTS:
        return _scalar(value, str, f"ObjectMeta.{name}", "string")
    if name == "uid":
        return _scalar(value, str, "ObjectMeta.uid", "types.UID")
    if name in _NUMBERS:
        return _scalar(value, int, f"ObjectMeta.{name}", "int64")
    if name in _TIMES:
        return _time(value, f"ObjectMeta.{name}")
    if name in _MAPS:
        if not isinstance(value, dict):
            return MISTYPED.format(_kind(value), f"ObjectMeta.{name}", "map[string]string")
        return _first(_scalar(entry, str, f"ObjectMeta.{name}", "string") for entry in value.values())
    if name == "finalizers":
        return _list(
            name, value, "[]string", lambda entry: _scalar(entry, str, "ObjectMeta.finalizers", "string")
        )
    if name == "ownerReferences":
        return _list(name, value, "[]v1.OwnerReference", _owner)
    if name == "managedFields":
        return _list(name, value, "[]v1.ManagedFieldsEntry", _managed)
    return None


def _first(faults: Iterable[str | None]) -> str | None:
    return next((fault for fault in faults if fault is not None), None)


def _list(name: str, value: Any, wanted: str, item: Callable[[Any], str | None]) -> str | None:
    if not isinstance(value, list):
        return MISTYPED.format(_kind(value), f"ObjectMeta.{name}", wanted)
    return _first(item(entry) for entry in value)


def _owner(value: Any) -> str | None:
    return _entry(value, "OwnerReference.ownerReferences", _OWNER, ("controller", "blockOwnerDeletion"))


def _managed(value: Any) -> str | None:
    fault = _entry(value, "ManagedFieldsEntry.managedFields", _MANAGED, ())
    if fault is None and isinstance(value, dict) and value.get("time") is not None:
        fault = _time(value["time"], "ManagedFieldsEntry.managedFields.time")
    return fault


def _entry(value: Any, path: str, texts: Mapping[str, str], flags: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        return MISTYPED.format(
            _kind(value), f"ObjectMeta.{path.partition('.')[2]}", f"v1.{path.partition('.')[0]}"
        )
    for name, child in value.items():
        fault = None
        if name in texts:
            fault = _scalar(child, str, f"{path}.{name}", texts[name])
        elif name in flags:
            fault = _scalar(child, bool, f"{path}.{name}", "bool")
        if fault is not None:
            return fault
    return None


def _scalar(value: Any, wanted: type, path: str, go_type: str) -> str | None:
    if value is None or type(value) is wanted:
        return None
    kind = _kind(value)
    if kind == "number" and wanted is int:
        kind = f"number {format_number(value)}"
    return MISTYPED.format(kind, path, go_type)


def _time(value: Any, path: str) -> str | None:
    if not isinstance(value, str):
        return MISTYPED.format(_kind(value), path, "string")
    try:
        parsed = parse_timestamp(value)
    except Failure:
        parsed = None
    return NO_TIME.format(quote(value)) if parsed is None else None


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def drop_empty_fields(metadata: dict[str, Any]) -> None:
    """Drop empty fields and replace nulls in lists, in place. Parts of a wrong type stay."""
    for name in [
        name for name, value in metadata.items() if not value and name != "deletionGracePeriodSeconds"
    ]:
        del metadata[name]
    if "deletionGracePeriodSeconds" in metadata and metadata["deletionGracePeriodSeconds"] is None:
        del metadata["deletionGracePeriodSeconds"]
    for name in _MAPS:
        texts = metadata.get(name)
        if isinstance(texts, dict) and None in texts.values():
            metadata[name] = {key: value or "" for key, value in texts.items()}
    for name in _LISTS:
        items = metadata.get(name)
        if isinstance(items, list) and None in items:
            nothing: Callable[[], Any] = str if name == "finalizers" else dict
            metadata[name] = [nothing() if item is None else item for item in items]
    owners = metadata.get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict):
            for name in _OWNER:
                owner.setdefault(name, "")
