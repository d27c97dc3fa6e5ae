"""Which keywords the schema of a custom resource may use, and where."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kubehub import status
from kubehub.crd.cel_rules import RuleChecker
from kubehub.crd.structure import unsupported
from kubehub.schema import Node, parse
from kubehub.schemas.field_path import PathError, resolve
from kubehub.slicing import checkpoint
from kubehub.status import Cause

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
REASONS: Final = (status.DUPLICATE, status.FORBIDDEN_FIELD, status.INVALID, status.REQUIRED)

NO_DEFAULT: Final = "must not be set {}"
NOT_SUPPORTED: Final = "{} is not supported"
NULL_TYPE: Final = "type cannot be set to null, use nullable as an alternative"
ITEMS_LIST: Final = "items must be a schema object and not an array"
NOT_IN_META: Final = "must not be used inside of resource meta"
UNIQUE_ITEMS: Final = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
MAP_OR_FIELDS: Final = "additionalProperties and properties are mutual exclusive"
TRUE_OR_UNDEFINED: Final = "must be true or undefined"
MAP_TYPE_OBJECT: Final = "must be object if x-kubernetes-map-type is specified"
LIST_TYPE_ARRAY: Final = "must be array if x-kubernetes-list-type is specified"
SET_OF_ATOMS: Final = "must be atomic as item of a list with x-kubernetes-list-type=set"
KEYS_NEED_MAP: Final = "must be map if x-kubernetes-list-map-keys is non-empty"
MAP_NEEDS_KEYS: Final = "must not be empty if x-kubernetes-list-type is map"
MAP_NEEDS_ITEMS: Final = "must have a schema if x-kubernetes-list-type is map"
MAP_OF_OBJECTS: Final = "must be object if parent array's x-kubernetes-list-type is map"
SCALAR_KEY: Final = "must be a scalar type if parent array's x-kubernetes-list-type is map"
UNKNOWN_KEY: Final = "entries must all be names of item properties"
REPEATED_KEY: Final = "must not contain duplicate entries"
NULLABLE_ITEM: Final = "cannot be nullable when x-kubernetes-list-type is {}"
OPTIONAL_KEY: Final = (
    "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
)
NULLABLE_KEY: Final = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
NO_RULE: Final = "rule is not specified"
NOT_EMPTY: Final = "must be non-empty if specified"
ONE_LINE: Final = "must not contain line breaks"
LINES_NEED_MESSAGE: Final = "message must be specified if rule contains line breaks"
EMPTY_EXPRESSION: Final = "messageExpression must be non-empty if specified"
BAD_PATH: Final = "must be a valid path"

_FORBIDDEN: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_META: Final = ("metadata", "kind", "apiVersion")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The position of the walk. ``unlinked`` is the path of the enclosing list whose items can't be correlated with
    old ones; ``checker`` is None where rules aren't checked."""

    path: str
    root: bool = False
    no_defaults: str = ""
    inside_meta: bool = False
    unlinked: str = ""
    checker: RuleChecker | None = None


@dataclass(slots=True)
class Faults:
    """Rules are checked only where the schema and its children are valid."""

    schema: list[Cause]
    rules: list[Cause]

    def add(self, other: "Faults") -> None:
        self.schema += other.schema
        self.rules += other.rules


def openapi_faults(schema: Mapping[str, Any], place: Place) -> Faults:
    checkpoint()
    faults = Faults([*_keywords(schema, place)], [])
    for child, where in _children(schema, place):
        faults.add(openapi_faults(child, where))
    path = place.path
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        faults.schema.append(
            status.invalid_value(f"{path}.x-kubernetes-preserve-unknown-fields", False, TRUE_OR_UNDEFINED)
        )
    faults.schema += _kinds(schema, path)
    faults.schema += _list_map(schema, path)
    faults.schema += _keys(schema, path)
    rules = schema.get("x-kubernetes-validations") or ()
    if rules:
        # A path through a schema that isn't structural can't be resolved.
        node = parse(schema) if unsupported(schema) is None else None
        for index, rule in enumerate(rules):
            faults.schema += _rule(rule, node, f"{path}.x-kubernetes-validations[{index}]")
        if not faults.schema and place.checker is not None:
            faults.rules += place.checker.check(path, place.unlinked)
    return faults


def _keywords(schema: Mapping[str, Any], place: Place) -> Iterator[Cause]:
    path, kind = place.path, schema.get("type") or ""
    if kind and kind not in TYPES:
        yield status.not_supported(f"{path}.type", kind, TYPES)
    if schema.get("default") is not None and place.no_defaults:
        yield status.forbidden_field(f"{path}.default", NO_DEFAULT.format(place.no_defaults))
    for keyword in _FORBIDDEN:
        if schema.get(keyword):
            yield status.forbidden_field(f"{path}.{keyword}", NOT_SUPPORTED.format(keyword))
    if kind == "null":
        yield status.forbidden_field(f"{path}.type", NULL_TYPE)
    if isinstance(schema.get("items"), list):
        yield status.forbidden_field(f"{path}.items", ITEMS_LIST)
    if place.inside_meta and schema.get("x-kubernetes-embedded-resource"):
        yield status.forbidden_field(f"{path}.x-kubernetes-embedded-resource", NOT_IN_META)
    if schema.get("uniqueItems"):
        yield status.forbidden_field(f"{path}.uniqueItems", UNIQUE_ITEMS)
    additional = schema.get("additionalProperties")
    if additional is not None and additional is not True and schema.get("properties"):
        yield status.forbidden_field(f"{path}.additionalProperties", MAP_OR_FIELDS)


def _children(schema: Mapping[str, Any], place: Place) -> Iterator[tuple[Mapping[str, Any], Place]]:
    path, checker = place.path, place.checker
    inner = replace(place, root=False)
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        reason = (
            "inside additionalProperties applying to object metadata"
            if place.inside_meta
            else place.no_defaults
        )
        yield (
            additional,
            replace(
                inner,
                path=f"{path}.additionalProperties",
                no_defaults=reason,
                checker=checker.entry() if checker else None,
            ),
        )
    for name, child in (schema.get("properties") or {}).items():
        where = replace(
            inner, path=f"{path}.properties[{name}]", checker=checker.field(name) if checker else None
        )
        if name in _META and (place.root or schema.get("x-kubernetes-embedded-resource")):
            where = replace(where, inside_meta=True)
            if place.root:
                where = replace(where, no_defaults=f"in top-level {name}")
        yield child, where
    if isinstance(schema.get("not"), Mapping):
        yield schema["not"], replace(inner, path=f"{path}.not", checker=None)
    for junctor in ("allOf", "oneOf", "anyOf"):
        for index, child in enumerate(schema.get(junctor) or ()):
            yield child, replace(inner, path=f"{path}.{junctor}[{index}]", checker=None)
    items = schema.get("items")
    if isinstance(items, Mapping):
        # Items of other lists can't be correlated with old ones.
        unlinked = place.unlinked or ("" if schema.get("x-kubernetes-list-type") == "map" else path)
        yield (
            items,
            replace(
                inner, path=f"{path}.items", unlinked=unlinked, checker=checker.item() if checker else None
            ),
        )


def _kinds(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    kind = schema.get("type") or ""
    map_type, list_type = schema.get("x-kubernetes-map-type"), schema.get("x-kubernetes-list-type")
    if map_type is not None and kind != "object":
        yield _wrong(f"{path}.type", kind, MAP_TYPE_OBJECT)
    if map_type is not None and map_type not in ("atomic", "granular"):
        yield status.not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))
    if list_type is not None and kind != "array":
        yield _wrong(f"{path}.type", kind, LIST_TYPE_ARRAY)
    elif list_type == "set" and isinstance(schema.get("items"), Mapping):
        items = schema["items"]
        inner = items.get("x-kubernetes-list-type")
        if items.get("type") == "array" and inner not in (None, "atomic"):
            yield status.invalid_value(f"{path}.items.x-kubernetes-list-type", inner, SET_OF_ATOMS)
        if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
            yield status.invalid_value(f"{path}.items.x-kubernetes-map-type", inner, SET_OF_ATOMS)
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        yield status.not_supported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))


def _wrong(path: str, actual: str, words: str) -> Cause:
    return status.invalid_value(path, actual, words) if actual else status.required(path, words)


def _list_map(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    if keys and list_type != "map":
        yield _wrong(f"{path}.x-kubernetes-list-type", list_type or "", KEYS_NEED_MAP)
    if list_type != "map":
        return
    if not keys:
        yield status.required(f"{path}.x-kubernetes-list-map-keys", MAP_NEEDS_KEYS)
    items = schema.get("items")
    if items is None:
        yield status.required(f"{path}.items", MAP_NEEDS_ITEMS)
    if not isinstance(items, Mapping):
        return
    if items.get("type") != "object":
        yield status.invalid_value(f"{path}.items.type", items.get("type") or "", MAP_OF_OBJECTS)
        return
    seen: set[str] = set()
    for key in keys:
        known = (items.get("properties") or {}).get(key)
        if known is None:
            yield status.invalid_value(f"{path}.x-kubernetes-list-map-keys", keys, UNKNOWN_KEY)
        elif known.get("type") in ("array", "object"):
            yield status.invalid_value(f"{path}.items.properties[{key}].type", "object", SCALAR_KEY)
        if key in seen:
            yield status.invalid_value(f"{path}.x-kubernetes-list-map-keys", keys, REPEATED_KEY)
        seen.add(key)


def _keys(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    list_type, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    if list_type not in ("set", "map") or not isinstance(items, Mapping):
        return
    if items.get("nullable"):
        yield status.forbidden_field(f"{path}.items.nullable", NULLABLE_ITEM.format(list_type))
    for key in (schema.get("x-kubernetes-list-map-keys") or ()) if list_type == "map" else ():
        known = (items.get("properties") or {}).get(key)
        if known is None:
            continue
        place = f"{path}.items.properties[{key}]"
        if key not in (items.get("required") or ()) and known.get("default") is None:
            yield status.required(f"{place}.default", OPTIONAL_KEY)
        if known.get("nullable"):
            yield status.forbidden_field(f"{place}.nullable", NULLABLE_KEY)


def _rule(rule: Mapping[str, Any], node: Node | None, path: str) -> Iterator[Cause]:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    expression, field = rule.get("messageExpression") or "", rule.get("fieldPath") or ""
    if not text.strip():
        yield status.required(f"{path}.rule", NO_RULE)
    elif message and not message.strip():
        yield status.invalid_value(f"{path}.message", message, NOT_EMPTY)
    elif _lines(message.strip()):
        yield status.invalid_value(f"{path}.message", message, ONE_LINE)
    elif _lines(text.strip()) and not message.strip():
        yield status.required(f"{path}.message", LINES_NEED_MESSAGE)
    if expression and not expression.strip():
        yield status.required(f"{path}.messageExpression", EMPTY_EXPRESSION)
    if rule.get("reason") is not None and rule["reason"] not in REASONS:
        yield status.not_supported(f"{path}.reason", rule["reason"], REASONS)
    if field and not field.strip():
        yield status.invalid_value(f"{path}.fieldPath", field, NOT_EMPTY)
    if _lines(field):
        yield status.invalid_value(f"{path}.fieldPath", field, ONE_LINE)
    if field and node is not None:
        try:
            resolve(field, node)
        except PathError:
            yield status.invalid_value(f"{path}.fieldPath", field, BAD_PATH)


def _lines(text: str) -> bool:
    return "\n" in text or "\r" in text
