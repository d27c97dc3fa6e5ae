"""Validate the parts of a CRD besides its schemas: names, printer columns, subresources, selectable fields."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubehub import status
from kubehub.go_format import json_text
from kubehub.schema import Node
from kubehub.schemas.field_path import PathError, resolve
from kubehub.status import Cause
from kubewire.api import naming

COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
MAX_SELECTABLE: Final = 8
MAX_WARNING: Final = 256

MIXED_CASE: Final = "may have mixed case, but should otherwise match: {}"
SAME_KIND: Final = "kind and listKind may not be the same"
ONE_OF: Final = "must be one of {}"
SIMPLE_PATH: Final = "must be a simple json path starting with ."
UNDER: Final = "should be a json path under {}"
BAD_PATH: Final = "is an invalid path: {}"
NOT_METADATA: Final = "must not point to fields in metadata"
NOT_SELECTABLE: Final = (
    "must point to a field of type string, boolean or integer. "
    "Enum string fields and strings with formats are allowed."
)
ONLY_DEPRECATED: Final = "can only be set for deprecated versions"
WARNING_LENGTH: Final = "must be <= 256 characters long"
WARNING_EMPTY: Final = "must not be an empty string"
WARNING_PRINTABLE: Final = (
    "must only contain printable UTF-8 characters; non-printable character found at index {}"
)


def name_faults(names: Mapping[str, Any], path: str) -> Iterator[Cause]:
    for key in ("plural", "singular"):
        text = names.get(key) or ""
        if text and naming.dns1035_label(text):
            yield status.invalid_value(f"{path}.{key}", text, ",".join(naming.dns1035_label(text)))
    for key in ("kind", "listKind"):
        text = names.get(key) or ""
        if text and naming.dns1035_label(text.lower()):
            words = MIXED_CASE.format(",".join(naming.dns1035_label(text.lower())))
            yield status.invalid_value(f"{path}.{key}", text, words)
    yield from _labels(names.get("shortNames") or (), f"{path}.shortNames")
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield status.invalid_value(f"{path}.listKind", names["listKind"], SAME_KIND)
    yield from _labels(names.get("categories") or (), f"{path}.categories")


def _labels(texts: Sequence[str], path: str) -> Iterator[Cause]:
    for index, text in enumerate(texts):
        faults = naming.dns1035_label(text)
        if faults:
            yield status.invalid_value(f"{path}[{index}]", text, ",".join(faults))


def column_faults(columns: Sequence[Mapping[str, Any]], path: str) -> Iterator[Cause]:
    for index, column in enumerate(columns):
        place = f"{path}[{index}]"
        kind, form = column.get("type") or "", column.get("format") or ""
        if not column.get("name"):
            yield status.required(f"{place}.name")
        if kind not in COLUMN_TYPES:
            words = ONE_OF.format(",".join(COLUMN_TYPES))
            yield (
                status.invalid_value(f"{place}.type", kind, words)
                if kind
                else status.required(f"{place}.type", words)
            )
        if form and form not in COLUMN_FORMATS:
            yield status.invalid_value(f"{place}.format", form, ONE_OF.format(",".join(COLUMN_FORMATS)))
        source = column.get("jsonPath") or ""
        if not source:
            yield status.required(f"{place}.JSONPath")
        elif not source.startswith("."):
            yield status.invalid_value(f"{place}.JSONPath", source, SIMPLE_PATH)


def subresource_faults(subresources: Mapping[str, Any] | None, path: str) -> Iterator[Cause]:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return
    for name, roots in (("specReplicasPath", (".spec",)), ("statusReplicasPath", (".status",))):
        source = scale.get(name) or ""
        if not source:
            yield status.required(f"{path}.scale.{name}")
        else:
            yield from _under(source, roots, f"{path}.scale.{name}", ".".join(roots))
    selector = scale.get("labelSelectorPath") or ""
    if selector:
        yield from _under(
            selector, (".spec", ".status"), f"{path}.scale.labelSelectorPath", "either .spec or .status"
        )


def _under(source: str, roots: Sequence[str], path: str, places: str) -> Iterator[Cause]:
    if not source.startswith("."):
        yield status.invalid_value(path, source, SIMPLE_PATH)
    elif not any(source.startswith(f"{root}.") for root in roots):
        yield status.invalid_value(path, source, UNDER.format(places))


def selectable_faults(fields: Sequence[Mapping[str, Any]], node: Node, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, field in enumerate(fields):
        place, source = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not source:
            yield status.required(place)
            continue
        try:
            shown, target = resolve(source, node, brackets=False)
        except PathError as error:
            yield status.invalid_value(place, source, BAD_PATH.format(error))
            continue
        if shown.partition(".")[0] == "metadata":
            yield status.invalid_value(place, source, NOT_METADATA)
        if target.type not in ("string", "boolean", "integer"):
            yield status.invalid_value(place, source, NOT_SELECTABLE)
        if shown in seen:
            yield status.duplicate(place, source)
        seen.add(shown)
    if len(seen) > MAX_SELECTABLE:
        yield status.too_many(path, len(seen), MAX_SELECTABLE)


def warning_faults(version: Mapping[str, Any], path: str) -> Iterator[Cause]:
    text = version.get("deprecationWarning")
    if text is None:
        return
    details = [] if version.get("deprecated") else [ONLY_DEPRECATED]
    if not details and naming.size(text) > MAX_WARNING:
        details.append(WARNING_LENGTH)
    if not details and not text:
        details.append(WARNING_EMPTY)
    if version.get("deprecated") and not text.isprintable():
        index = next(index for index, char in enumerate(text) if not char.isprintable())
        details.append(WARNING_PRINTABLE.format(naming.size(text[:index])))
    for detail in details:
        message = f"Invalid value: {json_text(text)}: {detail}"
        yield Cause(field=f"{path}.deprecationWarning", reason=status.INVALID, message=message)
