"""The schemas of OpenAPI documents.

Built-in types come from their field tables, custom resources from their CRD, completed as kube-apiserver does.
OpenAPI v2 is derived from v3 by dropping what it can't express.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from kubehub import builtin
from kubehub.builtin.shapes import COLLECTIONS, DICTIONARY, MESSAGE, PLAIN, SCALARS, Field, Shape
from kubehub.resource import Document, Resource

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
PATCH: Final = f"{META}.Patch"
V3_PREFIX: Final = "#/components/schemas/"
V2_PREFIX: Final = "#/definitions/"
GVK: Final = "x-kubernetes-group-version-kind"
PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"

_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
_NAMED_SCALARS: Final[Mapping[str, Document]] = {
    SCALARS["Time"].name: {"type": "string", "format": "date-time"},
    SCALARS["MicroTime"].name: {"type": "string", "format": "date-time"},
    SCALARS["Quantity"].name: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    SCALARS["IntOrString"].name: {"format": "int-or-string", "oneOf": _EITHER},
    SCALARS["RawExtension"].name: {"type": "object"},
    SCALARS["FieldsV1"].name: {"type": "object"},
    SCALARS["JSON"].name: {},
    PATCH: {"type": "object"},
}
_V2_SCALARS: Final[Mapping[str, Document]] = {
    SCALARS["Quantity"].name: {"type": "string"},
    SCALARS["IntOrString"].name: {"type": "string", "format": "int-or-string"},
}
_SPREAD: Final = frozenset({"DeleteOptions", "WatchEvent"})
"""Kinds of meta.v1 that belong to every group."""


def name_of(resource: Resource) -> str:
    """Return the name of the schema of a resource's objects."""
    if not resource.custom:
        return resource.node.name
    return ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))


def reference(name: str) -> Document:
    return {"$ref": V3_PREFIX + name}


def definitions(resources: Iterable[Resource], names: Iterable[str]) -> dict[str, Document]:
    """Return schemas by name: those of custom resources and their lists, and all built-in ones that these or
    ``names`` refer to."""
    schemas: dict[str, Document] = {}
    groups: set[tuple[str, str]] = set()
    for resource in resources:
        groups.add((resource.group, resource.version))
        if resource.custom:
            schemas[name_of(resource)] = _custom(resource)
            schemas[name_of(resource) + "List"] = _custom_list(resource)
    # Custom schemas have no references; a "$ref" in them is data of a default or an enumeration.
    pending = [*names, *((f"{META}.ObjectMeta", f"{META}.ListMeta") if schemas else ())]
    while pending:
        name = pending.pop()
        if name not in schemas:
            schemas[name] = _published(name)
            pending += _references(schemas[name])
    for name in _SPREAD:
        full = f"{META}.{name}"
        if full in schemas:
            pairs = sorted({("", "v1"), *groups})
            schemas[full] = schemas[full] | {GVK: [kind_of(group, version, name) for group, version in pairs]}
    return dict(sorted(schemas.items()))


def kind_of(group: str, version: str, kind: str) -> Document:
    return {"group": group, "kind": kind, "version": version}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        target = value.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(V3_PREFIX)
        for child in value.values():
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)


@cache
def _published(name: str) -> Document:
    """Shared between documents; never modified."""
    if name in _NAMED_SCALARS:
        return _NAMED_SCALARS[name]
    type_ = builtin.type_of(name)
    if type_.union:
        return {}
    schema: Document = {"description": type_.description} if type_.description else {}
    schema["type"] = "object"
    if type_.fields:
        schema["properties"] = {field.name: _property(field) for field in type_.fields.values()}
    if type_.node.required:
        schema["required"] = list(type_.node.required)
    schema |= type_.node.raw
    if type_.kind:
        schema[GVK] = [kind_of(type_.group, type_.version, type_.name)]
    return schema


def _property(field: Field) -> Document:
    shape, schema = field.shape, _schema(field.shape)
    plain = shape.type.node.raw if shape.type is not None else {**schema, **_raw(shape.kind)}
    more = {key: value for key, value in field.node.raw.items() if plain.get(key) != value}
    if _has_zero(field):
        more.setdefault("default", {} if shape.kind == MESSAGE else PLAIN[shape.kind])
    if "$ref" in schema and more:
        schema = {"allOf": [schema]}  # siblings of a reference are ignored
    return schema | more


def _raw(kind: str) -> Mapping[str, Any]:
    return SCALARS[kind].raw if kind in SCALARS else {}


def _has_zero(field: Field) -> bool:
    if field.pointer or field.shape.kind == "bytes":
        return False
    return field.shape.kind == MESSAGE or (field.always and field.shape.kind in PLAIN)


def _schema(shape: Shape) -> Document:
    if shape.type is not None:
        return reference(shape.type.full_name)
    if shape.kind in COLLECTIONS:
        assert shape.element is not None
        if shape.kind == DICTIONARY:
            return {"type": "object", "additionalProperties": _element(shape.element)}
        return {"type": "array", "items": _element(shape.element)}
    scalar = SCALARS[shape.kind]
    if scalar.name:
        return reference(scalar.name)
    schema: Document = {"type": scalar.type, **scalar.raw}
    return schema | {"enum": list(shape.enum)} if shape.enum else schema


def _element(shape: Shape) -> Document:
    schema = _schema(shape)
    if shape.kind == MESSAGE:
        return {"allOf": [schema], "default": {}}
    if shape.kind in PLAIN and shape.kind != "bytes":
        return schema | {"default": PLAIN[shape.kind]}
    return schema


def _custom(resource: Resource) -> Document:
    schema = _expand(resource.node.raw)
    schema["properties"] = schema.get("properties", {}) | {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"allOf": [reference(f"{META}.ObjectMeta")]},
    }
    return schema | {GVK: [kind_of(resource.group, resource.version, resource.kind)]}


def _custom_list(resource: Resource) -> Document:
    list_kind = resource.list_kind or f"{resource.kind}List"
    return {
        "description": f"A list of {resource.kind} objects.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": reference(name_of(resource))},
            "kind": {"type": "string"},
            "metadata": {"allOf": [reference(f"{META}.ListMeta")]},
        },
        GVK: [kind_of(resource.group, resource.version, list_kind)],
    }


def _expand(schema: Mapping[str, Any]) -> Document:
    """Return a CRD's schema with its shorthands expanded."""
    expanded = dict(schema)
    if "properties" in expanded:
        expanded["properties"] = {name: _expand(child) for name, child in expanded["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(expanded.get(key), Mapping):
            expanded[key] = _expand(expanded[key])
    if expanded.get(INT_OR_STRING) and "anyOf" not in expanded and "allOf" not in expanded:
        expanded["anyOf"] = _EITHER
    if expanded.get(EMBEDDED):
        expanded["properties"] = expanded.get("properties", {}) | {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [reference(f"{META}.ObjectMeta")]},
        }
        expanded["required"] = list(dict.fromkeys([*expanded.get("required", ()), "kind", "apiVersion"]))
    return expanded


def to_v2(name: str, schema: Mapping[str, Any]) -> Document:
    """Return a definition for OpenAPI v2."""
    known = _V2_SCALARS.get(name)
    if known is not None:
        return known
    converted = _schema_to_v2(schema)
    if schema.get(PRESERVE):
        converted = {"type": "object"} | {key: value for key, value in converted.items() if key != PRESERVE}
    return converted


def _schema_to_v2(schema: Mapping[str, Any]) -> Document:
    converted = {
        key: value
        for key, value in schema.items()
        if key not in ("default", "nullable", "oneOf", "anyOf", "allOf", "not")
    }
    for part in schema.get("allOf", ()):
        if "$ref" in part:
            converted["$ref"] = part["$ref"]
    if "$ref" in converted:
        converted["$ref"] = V2_PREFIX + converted["$ref"].removeprefix(V3_PREFIX)
    if schema.get("nullable") or schema.get(PRESERVE):
        for key in ("type", "properties", "items", "additionalProperties", "required"):
            converted.pop(key, None)
    if "properties" in converted:
        converted["properties"] = {
            name: _schema_to_v2(child) for name, child in converted["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(converted.get(key), Mapping):
            converted[key] = _schema_to_v2(converted[key])
    return converted
