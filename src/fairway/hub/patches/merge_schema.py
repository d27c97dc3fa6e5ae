"""Atoms: how a value is owned and merged, compiled once from a schema node.

A node says what a field may hold; an schema says only what field ownership asks: is this a scalar, a list or a map, is
it owned as a whole or piece by piece, and by which keys are the pieces told apart. A value nobody described (unknown
fields that are preserved, free-form objects) has an schema too: maps piece by piece, lists as a whole.
"""

from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from fairway.hub.patches import fieldset
from fairway.hub.schema import (
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
    """An item that can't be told apart from the others of its list."""


@dataclass(slots=True, kw_only=True, eq=False)
class MergeSchema:
    """Up to three answers, one for each kind of value. Cyclic where the schema is; only read once compiled."""

    scalar: str = ""
    """Empty when no scalar is welcome."""
    is_list: bool = False
    whole_list: bool = True
    """Owned as a whole; otherwise a set, or a list of maps when there are ``keys``."""
    keys: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    """Of the keys that an item may leave out."""
    item: "MergeSchema | None" = None
    is_map: bool = False
    whole_map: bool = False
    fields: dict[str, "MergeSchema"] = field(default_factory=dict)
    rest: "MergeSchema | None" = None
    """Fields without a name in the schema; None when there mustn't be any."""
    strict: bool = True
    """False where Python's ``==`` is too kind: it takes True for 1, and nothing rules one of them out."""

    @property
    def free(self) -> bool:
        """Nothing is known of this map's fields."""
        return self.rest is FREE and not self.fields

    def child(self, name: str) -> "MergeSchema":
        return self.fields.get(name) or self.rest or FREE

    def element(self, item: Any) -> str:
        """The path element of an item of this set or list of maps. Raises BadItem."""
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
"""Owned as a whole, whatever it is."""
ANY.item = ANY.rest = ANY
FREE: Final = MergeSchema(scalar=UNTYPED, is_list=True, item=ANY, is_map=True, strict=False)
"""Not described: maps piece by piece, the rest as a whole."""
FREE.rest = FREE

_SCALARS: Final = {name: MergeSchema(scalar=name) for name in (NUMERIC, TEXT, TRUTH, UNTYPED)}

_compiled: WeakKeyDictionary[Node, MergeSchema] = WeakKeyDictionary()
_roots: WeakKeyDictionary[Node, MergeSchema] = WeakKeyDictionary()


def of(node: Node) -> MergeSchema:
    """The schema of a whole object: every one has apiVersion, kind and metadata, whether its schema says so or not."""
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
    """``preserve`` is inherited: below a place that keeps unknown fields all places do. ``memo`` is for those."""
    scalar = _scalar(node)
    if scalar is not None:
        return scalar
    preserve = preserve or node.preserve_unknown
    known = memo.get(node) if preserve else _compiled.get(node)
    if known is not None:
        return known
    schema = MergeSchema(strict=False)  # until all of it is known, as it may hold itself
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
    """The shared schema of what has no parts."""
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
        # Built-in lists that say nothing of apply are merged like strategic merge patch does.
        schema.whole_list, schema.keys = False, (node.merge_key,) if node.merge_key else ()
    if schema.keys and node.items is not None:
        properties = node.items.properties
        schema.defaults = {
            name: properties[name].default
            for name in schema.keys
            if name in properties and properties[name].default is not None
        }
