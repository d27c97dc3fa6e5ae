"""The fields that a value contains, the differences of two values, and whether a value fits its merge schema.

All three walk a merge schema and a value together and return field sets (or complaints). ``differences`` is on the
path of every write, so it descends only where ``==`` finds two parts unequal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubehub.go_format import format_literal, format_plain, type_name
from kubehub.patches import fieldset
from kubehub.patches.fieldset import LEAF, SELF, FieldSet
from kubehub.patches.merge_schema import FREE, NUMERIC, TEXT, TRUTH, BadItem, MergeSchema
from kubehub.slicing import checkpoint

NOT_DECLARED: Final = "field not declared in schema"
EXPECTED_MAP: Final = "expected map, got &{{{0}}}"
EXPECTED_LIST: Final = "expected list, got &{{{0}}}"
EXPECTED_NUMBER: Final = "expected numeric (int or float), got {0}"
EXPECTED_TEXT: Final = "expected string, got &value.valueUnstructured{{Value:{0}}}"
EXPECTED_TRUTH: Final = "expected boolean, got &{{{0}}}"
EXPECTED_SCALAR: Final = "expected any scalar, got &{{{0}}}"
DUPLICATE_ITEM: Final = "duplicate entries for key {0}"
BAD_ITEM: Final = "element {0}: {1}"

ABSENT: Final = object()
_SCALAR, _LIST, _MAP = "scalar", "list", "map"


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """``path`` is printed as Kubernetes does."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class Differences:
    """Three disjoint sets."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    def without(self, ignored: FieldSet) -> "Differences":
        if not ignored:
            return self
        return Differences(
            fieldset.prune(self.added, ignored),
            fieldset.prune(self.modified, ignored),
            fieldset.prune(self.removed, ignored),
        )

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


def json_equal(left: Any, right: Any) -> bool:
    """Compare as JSON: 1 equals 1.0, but not true."""
    if left is right:
        return True
    # In Python, True == 1.
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and len(left) == len(right)
            and all(name in right and json_equal(value, right[name]) for name, value in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)


def kind_of(schema: MergeSchema, value: Any) -> str:
    """Return the type of the merge schema that applies to a value; for null, the first one."""
    if isinstance(value, dict):
        if schema.is_map:
            return _MAP
    elif isinstance(value, list):
        if schema.is_list:
            return _LIST
    elif value is not None and schema.scalar:
        return _SCALAR
    return _MAP if schema.is_map else _SCALAR if schema.scalar else _LIST


def differences(
    schema: MergeSchema,
    left: Mapping[str, Any],
    right: Mapping[str, Any],
    *,
    skipped: Mapping[str, Any] | None = None,
) -> Differences:
    """Return the differences between two objects. ``skipped`` maps names of fields to the names below that are
    skipped, or to None for the whole field."""
    added: FieldSet = {}
    modified: FieldSet = {}
    removed: FieldSet = {}
    _differ_in_map(schema, left, right, added, modified, removed, skipped or {})
    return Differences(added, modified, removed)


_NONE_SKIPPED: Final[Mapping[str, Any]] = {}


def _differ_in_map(
    schema: MergeSchema,
    left: Mapping[str, Any],
    right: Mapping[str, Any],
    added: FieldSet,
    modified: FieldSet,
    removed: FieldSet,
    skipped: Mapping[str, Any] = _NONE_SKIPPED,
) -> None:
    fields, rest = schema.fields, schema.rest or FREE
    for name, one in left.items():
        other = right.get(name, ABSENT)
        if one is other:
            continue
        child = fields.get(name, rest)
        if skipped and name in skipped:
            inside = skipped[name]
            if inside is not None:
                _differ_skipping(child, "f:" + name, one, other, added, modified, removed, inside)
        elif other is ABSENT:
            removed["f:" + name] = _all_fields(child, one)
        # ``!=`` is C code and settles nearly all values; the exact comparison only decides between equal numbers of two
        # types.
        elif one != other or not (child.strict or json_equal(one, other)):
            _differ(child, "f:" + name, one, other, added, modified, removed)
    for name, other in right.items():
        if name in left:
            continue
        child = fields.get(name, rest)
        if skipped and name in skipped:
            inside = skipped[name]
            if inside is not None:
                _differ_skipping(child, "f:" + name, ABSENT, other, added, modified, removed, inside)
        else:
            added["f:" + name] = _all_fields(child, other)


def _differ_skipping(
    schema: MergeSchema,
    name: str,
    left: Any,
    right: Any,
    added: FieldSet,
    modified: FieldSet,
    removed: FieldSet,
    skipped: Mapping[str, Any],
) -> None:
    """Compare maps partly; the map itself is no path."""
    inner: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
    one = left if isinstance(left, dict) else {}
    other = right if isinstance(right, dict) else {}
    _differ_in_map(schema, one, other, *inner, skipped)
    for into, part in zip((added, modified, removed), inner, strict=True):
        if part:
            into[name] = part


def _differ(
    schema: MergeSchema,
    name: str,
    left: Any,
    right: Any,
    added: FieldSet,
    modified: FieldSet,
    removed: FieldSet,
) -> None:
    """Compare two unequal values; values of different types differ as a whole."""
    checkpoint()
    as_left, as_right = kind_of(schema, left), kind_of(schema, right)
    # As structured-merge-diff: a value that changes its type is removed as the one and added as the other.
    for kind in (as_left,) if as_left == as_right else (as_left, as_right):
        inner: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
        if kind is _MAP and not schema.whole_map:
            one = left if isinstance(left, dict) else {}
            other = right if isinstance(right, dict) else {}
            if one or other:
                _differ_in_map(schema, one, other, *inner)
            else:
                modified[name] = LEAF
                continue
        elif kind is _LIST and not schema.whole_list:
            items = left if isinstance(left, list) else []
            others = right if isinstance(right, list) else []
            if items or others:
                _differ_in_list(schema, items, others, *inner)
            else:
                modified[name] = LEAF
                continue
        else:
            modified[name] = LEAF
            continue
        for into, part in zip((added, modified, removed), inner, strict=True):
            if part:
                into[name] = {SELF: LEAF, **part} if name in into else part


def _differ_in_list(
    schema: MergeSchema,
    left: list[Any],
    right: list[Any],
    added: FieldSet,
    modified: FieldSet,
    removed: FieldSet,
) -> None:
    lefts, rights = _by_element(schema, left), _by_element(schema, right)
    item = schema.item or FREE
    # By key, not by position: an applier owns list items by their keys, and a reordered list changes no owner.
    for element in [*lefts, *(e for e in rights if e not in lefts)]:
        ones, others = lefts.get(element, []), rights.get(element, [])
        # Duplicate keys occur in stored objects from before validation; an ambiguous item is compared and owned as a
        # whole.
        if len(ones) > 1 and len(others) > 1:
            if not json_equal(ones, others):
                modified[element] = LEAF
        elif len(ones) > 1:
            removed[element] = LEAF
            if others:
                added[element] = _all_fields(item, others[0])
        elif len(others) > 1:
            added[element] = LEAF
            if ones:
                removed[element] = _all_fields(item, ones[0])
        elif not others:
            removed[element] = _all_fields(item, ones[0])
        elif not ones:
            added[element] = _all_fields(item, others[0])
        elif ones[0] != others[0] or not (item.strict or json_equal(ones[0], others[0])):
            _differ(item, element, ones[0], others[0], added, modified, removed)


def _by_element(schema: MergeSchema, items: list[Any]) -> dict[str, list[Any]]:
    """Return the items by path element, without ambiguous ones, which validation rejects."""
    by_element: dict[str, list[Any]] = {}
    for item in items:
        try:
            by_element.setdefault(schema.element(item), []).append(item)
        except BadItem:
            continue
    return by_element


def _all_fields(schema: MergeSchema, value: Any) -> FieldSet:
    """Return the set of an added or removed value: each of its places, itself included."""
    checkpoint()
    if isinstance(value, dict):
        if not value or schema.whole_map or not schema.is_map:
            return LEAF
        fields, rest = schema.fields, schema.rest or FREE
        owned: FieldSet = {SELF: LEAF}
        for name, inner in value.items():
            owned["f:" + name] = _all_fields(fields.get(name, rest), inner)
        return owned
    if isinstance(value, list) and value and schema.is_list and not schema.whole_list:
        item = schema.item or FREE
        owned = {SELF: LEAF}
        for element, items in _by_element(schema, value).items():
            owned[element] = _all_fields(item, items[0]) if len(items) == 1 else LEAF
        return owned
    return LEAF


def applied_fields(schema: MergeSchema, value: Mapping[str, Any]) -> FieldSet:
    """Return the paths that an applied object owns: leaves, items, and undeclared fields."""
    owned: FieldSet = {}
    named, rest = schema.fields, schema.rest or FREE
    for name, inner in value.items():
        checkpoint()
        child = named.get(name)
        itself, below = _owned_fields(child or rest, inner)
        if itself or child is None or inner is None or inner == {}:
            # Empty and null values own their own path, or an applier could not remove them again.
            owned["f:" + name] = {SELF: LEAF, **below} if below else LEAF
        elif below:
            owned["f:" + name] = below
    return owned


def _owned_fields(schema: MergeSchema, value: Any) -> tuple[bool, FieldSet]:
    """Return whether the place itself is owned, and the paths below it."""
    kind = kind_of(schema, value)
    if kind is _SCALAR or (schema.whole_map if kind is _MAP else schema.whole_list):
        return True, LEAF
    if isinstance(value, dict):
        return False, applied_fields(schema, value)
    if not isinstance(value, list):
        return False, LEAF
    owned: FieldSet = {}
    item = schema.item or FREE
    for element, items in _by_element(schema, value).items():
        below = _owned_fields(item, items[0])[1] if len(items) == 1 else LEAF
        owned[element] = {SELF: LEAF, **below} if below else LEAF
    return False, owned


def schema_faults(schema: MergeSchema, value: Any, path: str = "") -> list[SchemaFault]:
    """Return why a value doesn't fit; items of sets and keyed lists must be unique."""
    checkpoint()
    kind = kind_of(schema, value)
    if value is None:
        return []
    if kind is _SCALAR:
        message = _scalar_fault(schema.scalar, value)
        return [SchemaFault(path, message)] if message else []
    if kind is _MAP:
        if not isinstance(value, dict):
            return [SchemaFault(path, EXPECTED_MAP.format(format_plain(value)))]
        return _map_faults(schema, value, path)
    if not isinstance(value, list):
        return [SchemaFault(path, EXPECTED_LIST.format(format_plain(value)))]
    return _list_faults(schema, value, path)


def _map_faults(schema: MergeSchema, value: Mapping[str, Any], path: str) -> list[SchemaFault]:
    faults: list[SchemaFault] = []
    for name, inner in value.items():
        child = schema.fields.get(name, schema.rest)
        if child is None:
            return [*faults, SchemaFault(f"{path}.{name}", NOT_DECLARED)]
        faults += schema_faults(child, inner, f"{path}.{name}")
    return faults


def _list_faults(schema: MergeSchema, value: list[Any], path: str) -> list[SchemaFault]:
    faults: list[SchemaFault] = []
    seen: set[str] = set()
    item = schema.item or FREE
    for index, inner in enumerate(value):
        if schema.whole_list:
            shown = f"[{index}]"
        else:
            try:
                element = schema.element(inner)
            except BadItem as error:
                return [*faults, SchemaFault(path, BAD_ITEM.format(index, error))]
            shown = fieldset.format_path((element,))
            if element in seen:
                faults.append(SchemaFault(path, DUPLICATE_ITEM.format(shown)))
            seen.add(element)
        faults += schema_faults(item, inner, path + shown)
    return faults


def _scalar_fault(scalar: str, value: Any) -> str:
    truth, number = isinstance(value, bool), isinstance(value, int | float)
    if scalar == NUMERIC:
        return EXPECTED_NUMBER.format(type_name(value)) if truth or not number else ""
    if scalar == TEXT:
        return "" if isinstance(value, str) else EXPECTED_TEXT.format(format_literal(value))
    if scalar == TRUTH:
        return "" if truth else EXPECTED_TRUTH.format(format_plain(value))
    return EXPECTED_SCALAR.format(format_plain(value)) if isinstance(value, dict | list) else ""
