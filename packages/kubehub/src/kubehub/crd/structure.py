"""Check that a schema is structural: pruning and defaulting must know every field without evaluating alternatives.

So every type is stated outside of junctors (``allOf``, ``anyOf``, ``oneOf``, ``not``); inside there are only
conditions on values, and only on fields that are declared outside.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubecel.errors import Failure
from kubecel.regex import compile_pattern
from kubehub import status
from kubehub.slicing import checkpoint
from kubehub.status import Cause

Schema = Mapping[str, Any]

MISSING_ITEMS: Final = "must be specified"
MAP_AT_ROOT: Final = "must not be used at the root"
MAP_IN_EMBEDDED: Final = "must not be used if x-kubernetes-embedded-resource is set"
NO_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
ROOT_TYPE: Final = "must be object at the root"
EMBEDDED_TYPE: Final = "must be object if x-kubernetes-embedded-resource is true"
EMBEDDED_EMPTY: Final = (
    "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
)
MUST_BE_STRING: Final = "must be string"
MUST_BE_OBJECT: Final = "must be object"
META_ONLY_NAMES: Final = (
    "must not specify anything other than name and generateName, but metadata is implicitly specified"
)
NOT_WITH_INT_OR_STRING: Final = "must be false if x-kubernetes-int-or-string is true"
BAD_PATTERN: Final = "must be a valid regular expression, but isn't: {}"
NESTED_META: Final = "must not be specified in a nested context"
DEFINED_IN: Final = "because it is defined in {}"

_JUNCTORS: Final = ("anyOf", "allOf", "oneOf")
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_UNSUPPORTED: Final = (
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
)
# Keywords that are forbidden inside a junctor, and their messages.
_OUTSIDE_ONLY: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def unsupported(schema: Any) -> str | None:
    """Return the message for a keyword that no structural schema allows; None if there is none."""
    pending = [schema]
    while pending:
        checkpoint()
        subschema = pending.pop()
        if not isinstance(subschema, Mapping):
            continue
        for keyword, message in _UNSUPPORTED:
            if subschema.get(keyword):
                return f"OpenAPIV3Schema '{message}' is not supported"
        if isinstance(subschema.get("items"), list):
            return "OpenAPIV3Schema 'items' must be a schema, but is an array"
        if subschema.get("x-kubernetes-preserve-unknown-fields") is False:
            return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
        pending += [subschema.get("items"), subschema.get("not"), subschema.get("additionalProperties")]
        pending += (subschema.get("properties") or {}).values()
        for junctor in _JUNCTORS:
            pending += subschema.get(junctor) or ()
    return None


def structural_faults(schema: Schema, path: str) -> list[Cause]:
    causes = [*_invariants(schema, "root", path), *_completeness(schema, schema, path, path)]
    return sorted(causes, key=lambda cause: f"{cause.field}: {cause.message}")


def _invariants(schema: Schema, level: str, path: str) -> Iterator[Cause]:
    kind = schema.get("type") or ""
    items, properties = schema.get("items"), schema.get("properties") or {}
    if kind == "array" and not isinstance(items, Mapping):
        yield status.required(f"{path}.items", MISSING_ITEMS)
    if isinstance(items, Mapping):
        yield from _invariants(items, "item", f"{path}.items")
    for name, child in properties.items():
        yield from _invariants(child, "field", f"{path}.properties[{name}]")
    additional = schema.get("additionalProperties")
    if additional is not None:
        if level == "root":
            yield status.forbidden_field(f"{path}.additionalProperties", MAP_AT_ROOT)
        if isinstance(additional, Mapping):
            yield from _invariants(additional, "field", f"{path}.additionalProperties")
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    for name, there in (("preserve-unknown-fields", preserve), ("embedded-resource", embedded)):
        if int_or_string and there:
            yield status.invalid_value(f"{path}.x-kubernetes-{name}", True, NOT_WITH_INT_OR_STRING)
    yield from _conditions(
        schema, path, first_any_of=int_or_string_any_of(schema), in_all_of=_in_all_of(schema)
    )
    if embedded and kind != "object":
        yield _wrong(f"{path}.type", kind, EMBEDDED_TYPE)
    elif not kind and not int_or_string and not preserve:
        yield status.required(f"{path}.type", NO_TYPE[level])
    if embedded and additional is not None:
        yield status.forbidden_field(f"{path}.additionalProperties", MAP_IN_EMBEDDED)
    if level == "root" and kind not in ("", "object"):
        yield status.invalid_value(f"{path}.type", kind, ROOT_TYPE)
    yield from _meta(properties, path, root=level == "root", checked=level == "root" or embedded)
    if embedded and not preserve and not properties:
        yield status.required(f"{path}.properties", EMBEDDED_EMPTY)


def _wrong(path: str, actual: str, words: str) -> Cause:
    return status.invalid_value(path, actual, words) if actual else status.required(path, words)


def _meta(properties: Schema, path: str, *, root: bool, checked: bool) -> Iterator[Cause]:
    for name in ("kind", "apiVersion"):
        if checked and name in properties and properties[name].get("type") != "string":
            declared = properties[name].get("type") or ""
            yield status.invalid_value(f"{path}.properties[{name}].type", declared, MUST_BE_STRING)
    metadata = properties.get("metadata")
    if metadata is None:
        return
    place = f"{path}.properties[metadata]"
    if checked and metadata.get("type") != "object":
        yield status.invalid_value(f"{place}.type", metadata.get("type") or "", MUST_BE_OBJECT)
    if root:
        rest = {key for key, value in metadata.items() if value} - {"type", "default", "properties"}
        if rest or not {*(metadata.get("properties") or ())} <= {"name", "generateName"}:
            yield status.forbidden_field(place, META_ONLY_NAMES)


# --- junctors ----------------------------------------------------------------------------------------------------


def int_or_string_any_of(schema: Schema) -> bool:
    return list(schema.get("anyOf") or ()) == _INT_OR_STRING


def _in_all_of(schema: Schema) -> bool:
    first = next(iter(schema.get("allOf") or ()), None)
    return isinstance(first, Mapping) and int_or_string_any_of(first)


def _conditions(schema: Schema, path: str, *, first_any_of: bool, in_all_of: bool) -> Iterator[Cause]:
    """``first_any_of`` and ``in_all_of``: types are allowed there, to express int-or-string."""
    for junctor in _JUNCTORS:
        if junctor == "anyOf" and first_any_of:
            continue
        for index, child in enumerate(schema.get(junctor) or ()):
            yield from _nested(
                child, f"{path}.{junctor}[{index}]", any_of=junctor == "allOf" and in_all_of and not index
            )
    if isinstance(schema.get("not"), Mapping):
        yield from _nested(schema["not"], f"{path}.not")
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_pattern(pattern)
        except Failure as failure:
            yield status.invalid_value(f"{path}.pattern", pattern, BAD_PATTERN.format(failure))


def _nested(schema: Schema, path: str, *, any_of: bool = False) -> Iterator[Cause]:
    yield from _conditions(schema, path, first_any_of=any_of, in_all_of=False)
    if isinstance(schema.get("items"), Mapping):
        yield from _nested(schema["items"], f"{path}.items")
    properties = schema.get("properties") or {}
    for name, child in properties.items():
        yield from _nested(child, f"{path}.properties[{name}]")
    for keyword, words in _OUTSIDE_ONLY:
        value = schema.get(keyword)
        if value or (
            keyword in ("default", "additionalProperties") and value is not None and value is not False
        ):
            yield status.forbidden_field(f"{path}.{keyword}", words)
    if "metadata" in properties:
        yield status.forbidden_field(f"{path}.properties[metadata]", NESTED_META)


def _completeness(conditions: Schema, schema: Schema | None, place: str, path: str) -> Iterator[Cause]:
    """``place`` is the path of ``schema``, ``path`` that of the conditions on it."""
    if isinstance(conditions.get("not"), Mapping):
        yield from _complete(conditions["not"], schema, place, f"{path}.not")
    for junctor in _JUNCTORS:
        for index, child in enumerate(conditions.get(junctor) or ()):
            yield from _complete(child, schema, place, f"{path}.{junctor}[{index}]")


def _complete(conditions: Schema, schema: Schema | None, place: str, path: str) -> Iterator[Cause]:
    if schema is None:
        yield status.required(place, DEFINED_IN.format(path))
        return
    yield from _completeness(conditions, schema, place, path)
    if isinstance(conditions.get("items"), Mapping):
        items = schema.get("items")
        known = items if isinstance(items, Mapping) else None
        yield from _complete(conditions["items"], known, f"{place}.items", f"{path}.items")
    for name, child in (conditions.get("properties") or {}).items():
        known = (schema.get("properties") or {}).get(name)
        here, there = f"{place}.properties[{name}]", f"{path}.properties[{name}]"
        yield from _complete(child, known, here, there)
