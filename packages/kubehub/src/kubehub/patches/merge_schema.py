"""Merge schemas: how a value is owned and merged, compiled once from a schema node.

A node defines what a field may contain; a merge schema only what field ownership needs: whether it is a scalar, a list
or a map, atomic or granular, and by which keys items are identified. Values without a schema (preserved unknown
fields, free-form objects) have one, too: granular maps, atomic lists.
"""

from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from kubehub.patches import fieldset
from kubehub.schema import (
    ARRAY,
    ATOMIC,
    BOOLEAN,
    INTEGER,
    MAP,
    NUMBER,
    OBJECT,
    SET,
    STRING,
    Node,
    object_meta,
)

NUMERIC: Final = "numeric"
TEXT: Final = "string"
TRUTH: Final = "boolean"
UNTYPED: Final = "untyped"

QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
RAW_EXTENSION: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"
INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

NULL_ITEM: Final = "associative list with keys may not have a null element"
ITEM_NOT_MAP: Final = "associative list with keys may not have non-map elements"
NO_KEYS: Final = (
    "associative list with keys has an element that omits all key fields [{keys}] "
    "(and doesn't have default values for any key fields)"
)
MAP_IN_SET: Final = "associative list without keys has an element that's a map type"
LIST_IN_SET: Final = "not supported: associative list with lists as elements"
NULL_IN_SET: Final = "associative list without keys has an element that's an explicit null"


class BadItem(ValueError):
    """An item without a unique identity in its list."""


@dataclass(slots=True, kw_only=True, eq=False)
class MergeSchema:
    """Up to three answers, one per type of value. Cyclic where the schema is; immutable once compiled."""

    scalar: str = ""
    """Empty when scalars aren't allowed."""
    is_list: bool = False
    whole_list: bool = True
    """Atomic; otherwise a set, or a list of maps when there are ``keys``."""
    keys: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    """Defaults of keys that an item may omit."""
    item: "MergeSchema | None" = None
    is_map: bool = False
    whole_map: bool = False
    fields: dict[str, "MergeSchema"] = field(default_factory=dict)
    rest: "MergeSchema | None" = None
    """The schema of undeclared fields; None when they aren't allowed."""
    strict: bool = True
    """False where Python's ``==`` is too lenient: True equals 1, and both types are possible."""

    @property
    def free(self) -> bool:
        """Whether the map has no declared fields."""
        return self.rest is FREE and not self.fields

    def child(self, name: str) -> "MergeSchema":
        return self.fields.get(name) or self.rest or FREE

    def element(self, item: Any) -> str:
        """Return the path element of an item of this set or list of maps. Raises BadItem."""
        if self.keys:
            if item is None:
                raise BadItem(NULL_ITEM)
            if not isinstance(item, dict):
                raise BadItem(ITEM_NOT_MAP)
            values = {}
            for name in self.keys:
                if name in item:
                    values[name] = item[name]
                elif name in self.defaults:
                    values[name] = self.defaults[name]
            if not values:
                raise BadItem(NO_KEYS.format(keys=" ".join(f'"{name}"' for name in self.keys)))
            return fieldset.key(values)
        if item is None:
            raise BadItem(NULL_IN_SET)
        if isinstance(item, dict):
            raise BadItem(MAP_IN_SET)
        if isinstance(item, list):
            raise BadItem(LIST_IN_SET)
        return fieldset.value(item)


ANY: Final = MergeSchema(scalar=UNTYPED, is_list=True, is_map=True, whole_map=True, strict=False)
"""Atomic, whatever its type."""
ANY.item = ANY.rest = ANY
FREE: Final = MergeSchema(scalar=UNTYPED, is_list=True, item=ANY, is_map=True, strict=False)
"""Without a schema: granular maps, everything else atomic."""
FREE.rest = FREE

_SCALARS: Final = {name: MergeSchema(scalar=name) for name in (NUMERIC, TEXT, TRUTH, UNTYPED)}

_compiled: WeakKeyDictionary[Node, MergeSchema] = WeakKeyDictionary()
_roots: WeakKeyDictionary[Node, MergeSchema] = WeakKeyDictionary()


def of(node: Node) -> MergeSchema:
    """Return the merge schema of an object: all have apiVersion, kind and metadata, declared or not."""
    schema = _roots.get(node)
    if schema is None:
        schema = _roots[node] = _object(node, False, {})
    return schema


def _object(node: Node, preserve: bool, memo: dict[Node, MergeSchema]) -> MergeSchema:
    preserve = preserve or node.preserve_unknown
    described = _compile(node, preserve, memo)
    metadata = node.properties.get("metadata")
    known = metadata is not None and "managedFields" in metadata.properties
    rest = described.rest if node.additional is not None else None
    return MergeSchema(
        is_map=True,
        fields={
            **described.fields,
            "apiVersion": _SCALARS[TEXT],
            "kind": _SCALARS[TEXT],
            "metadata": described.fields["metadata"] if known else _compile(object_meta(), False, {}),
        },
        rest=FREE if preserve else rest,
        whole_map=described.whole_map,
        strict=described.strict,
    )


def _part(node: Node, preserve: bool, memo: dict[Node, MergeSchema]) -> MergeSchema:
    return _object(node, preserve, memo) if node.embedded else _compile(node, preserve, memo)


def _compile(node: Node, preserve: bool, memo: dict[Node, MergeSchema]) -> MergeSchema:
    """``preserve`` is inherited: everything below a place that preserves unknown fields does, too. ``memo`` caches
    those."""
    scalar = _scalar(node)
    if scalar is not None:
        return scalar
    preserve = preserve or node.preserve_unknown
    known = memo.get(node) if preserve else _compiled.get(node)
    if known is not None:
        return known
    schema = MergeSchema(strict=False)  # registered before it is complete, because it may contain itself
    if preserve:
        memo[node] = schema
    else:
        _compiled[node] = schema
    if not node.type:
        schema.scalar = UNTYPED
    if node.type in ("", OBJECT):
        _as_map(schema, node, preserve, memo)
    if node.type in ("", ARRAY):
        _as_list(schema, node, preserve, memo)
    parts = [*schema.fields.values(), schema.rest, schema.item]
    described = [part for part in parts if part is not None]
    schema.strict = node.int_or_string or (bool(node.type) and all(part.strict for part in described))
    return schema


def _scalar(node: Node) -> MergeSchema | None:
    """Return the shared schema of a value without parts."""
    if node.name == RAW_EXTENSION:
        return ANY
    if node.name in (QUANTITY, INT_OR_STRING):
        return _SCALARS[UNTYPED]
    if node.type in (INTEGER, NUMBER):
        return _SCALARS[NUMERIC]
    if node.type == BOOLEAN:
        return _SCALARS[TRUTH]
    if node.type == STRING:
        return _SCALARS[TEXT if node.raw.get("format", "") in ("", "byte") else UNTYPED]
    return None


def _as_map(schema: MergeSchema, node: Node, preserve: bool, memo: dict[Node, MergeSchema]) -> None:
    schema.is_map = True
    schema.whole_map = node.map_type == ATOMIC
    for name, child in node.properties.items():
        schema.fields[name] = _part(child, preserve, memo)
    if node.additional is not None:
        schema.rest = _part(node.additional, preserve, memo)
    elif preserve or not node.properties:
        schema.rest = FREE


def _as_list(schema: MergeSchema, node: Node, preserve: bool, memo: dict[Node, MergeSchema]) -> None:
    schema.is_list = True
    schema.item = _part(node.items, preserve, memo) if node.items is not None else ANY
    if node.list_type == MAP:
        schema.whole_list, schema.keys = False, node.list_keys
    elif node.list_type == SET:
        schema.whole_list = False
    elif "merge" in node.strategies and "x-kubernetes-list-type" not in node.raw:
        # Built-in lists without list type are merged as by strategic merge patch.
        schema.whole_list, schema.keys = False, (node.merge_key,) if node.merge_key else ()
    if schema.keys and node.items is not None:
        properties = node.items.properties
        schema.defaults = {
            name: properties[name].default
            for name in schema.keys
            if name in properties and properties[name].default is not None
        }
