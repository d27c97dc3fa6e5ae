"""Merge values by their merge schema, remove fields, and adapt field sets to a changed schema."""

from typing import Any

from kubehub.patches.fieldset import LEAF, SELF, FieldSet
from kubehub.patches.merge_schema import FREE, BadItem, MergeSchema
from kubehub.patches.ownership import ABSENT, kind_of
from kubehub.slicing import checkpoint


def copy_json(value: Any) -> Any:
    """Copy a JSON value."""
    if isinstance(value, dict):
        checkpoint()
        return {name: copy_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [copy_json(inner) for inner in value]
    return value


def merge_values(schema: MergeSchema, live: Any, applied: Any) -> Any:
    """Merge values: applied ones win, none is removed. The result shares nothing with either."""
    if applied is ABSENT or live is ABSENT:
        return copy_json(live if applied is ABSENT else applied)
    kind = kind_of(schema, applied)
    if kind == "map" and not schema.whole_map:
        one = live if isinstance(live, dict) else {}
        other = applied if isinstance(applied, dict) else {}
        if one or other:
            names = [*one, *(name for name in other if name not in one)]
            return {
                name: merge_values(schema.child(name), one.get(name, ABSENT), other.get(name, ABSENT))
                for name in names
            }
    elif kind == "list" and not schema.whole_list:
        items = live if isinstance(live, list) else []
        others = applied if isinstance(applied, list) else []
        if items or others:
            return _merge_items(schema, items, others)
    return copy_json(applied)


def _merge_items(schema: MergeSchema, live: list[Any], applied: list[Any]) -> list[Any]:
    """Merge lists: applied items in their order, and each live item behind the one that it followed."""
    item = schema.item or FREE
    elements = [schema.element(one) for one in live]
    others = {schema.element(one): one for one in applied}
    ones: dict[str, Any] = {}
    for element, one in zip(elements, live, strict=True):
        ones[element] = None if element in ones else one  # applied items replace duplicate live ones
    order = list(others)
    shared = iter([element for element in order if element in ones])
    awaited = next(shared, None)
    result: list[Any] = []
    done: set[str] = set()

    def take_live(element: str) -> None:
        done.add(element)
        result.append(merge_values(item, ones.get(element, ABSENT), others[element]))

    left = right = 0
    while left < len(elements) or right < len(order):
        if left < len(elements) and right < len(order):
            element = elements[left]
            if element == order[right]:
                take_live(element)
                left, right, awaited = left + 1, right + 1, next(shared, None)
                continue
            if element in others and awaited is not None and awaited != element:
                left += 1
                continue
        if left < len(elements):
            element = elements[left]
            if element not in others:
                result.append(copy_json(live[left]))
                left += 1
                continue
            if element in done:
                left += 1
        if right < len(order):
            element = order[right]
            take_live(element)
            right += 1
            if awaited == element:
                awaited = next(shared, None)
    return result


def remove_fields(schema: MergeSchema, value: Any, gone: FieldSet) -> Any:
    """Remove the fields and items of the set; emptied values become null. Shares unchanged parts."""
    kind = kind_of(schema, value)
    if kind == "scalar":
        return value
    if kind == "list":
        if not isinstance(value, list) or schema.whole_list:
            return None
        return _remove_items(schema, value, gone) or None
    if not isinstance(value, dict) or schema.whole_map:
        return None
    remaining: dict[str, Any] = {}
    for name, inner in value.items():
        below = gone.get("f:" + name)
        if below is None:
            remaining[name] = inner
        elif below and SELF not in below:
            remaining[name] = remove_fields(schema.child(name), inner, below)
    return remaining or None


def _remove_items(schema: MergeSchema, value: list[Any], gone: FieldSet) -> list[Any]:
    remaining: list[Any] = []
    for inner in value:
        try:
            below = gone.get(schema.element(inner))
        except BadItem:
            below = None
        if below is None:
            remaining.append(inner)
        elif below and SELF not in below:
            remaining.append(remove_fields(schema.item or FREE, inner, below))
    return remaining


def with_containers(schema: MergeSchema | None, fields: FieldSet) -> FieldSet:
    """Add to the set every field of the schema that contains one of the set's paths."""
    made: FieldSet = {}
    for name, inner in fields.items():
        if not inner:
            made[name] = inner
            continue
        child: MergeSchema | None = None
        named = False
        if schema is not None and name[0] == "f" and schema.is_map:
            named = name[2:] in schema.fields
            child = schema.fields.get(name[2:], schema.rest)
        elif schema is not None and name[0] == "k" and schema.is_list:
            child = schema.item
        below = with_containers(child, inner)
        made[name] = {SELF: LEAF, **below} if named else below
    return made


def adapt_to_schema(schema: MergeSchema, fields: FieldSet) -> FieldSet:
    """Adapt a set to a changed schema: the owner of a part of a now atomic value owns the whole. Returns the same
    object when nothing changes."""
    adapted: FieldSet | None = None
    for name, inner in fields.items():
        if not inner:
            continue
        child = schema.fields.get(name[2:], schema.rest) if schema.is_map else schema.item
        if child is None:
            continue
        child_fields = _adapt(child, inner)
        if child_fields is not inner:
            adapted = dict(fields) if adapted is None else adapted
            adapted[name] = child_fields
    return fields if adapted is None else adapted


def _adapt(schema: MergeSchema, fields: FieldSet) -> FieldSet:
    if schema.is_map:
        if schema.free:
            return fields
        return LEAF if schema.whole_map else adapt_to_schema(schema, fields)
    if schema.scalar:
        return fields
    return LEAF if schema.whole_list else adapt_to_schema(schema, fields)
