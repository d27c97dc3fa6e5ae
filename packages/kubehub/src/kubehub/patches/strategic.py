"""Strategic merge patch: a merge patch that merges lists by their keys.

Only built-in kinds support it. ``$patch``, ``$retainKeys``, ``$setElementOrder/…`` and
``$deleteFromPrimitiveList/…`` are directives; they are not written to the object.
"""

from collections import deque
from typing import Any, Final

from kubehub.go_format import format_plain, type_name
from kubehub.patches.jsonpatch import json_kind, misfit_refusal
from kubehub.patches.merge import copy_json
from kubehub.resource import Document
from kubehub.schema import OBJECT, Node
from kubehub.status import Refusal, bad_request

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_FROM: Final = "$deleteFromPrimitiveList"
SET_ORDER: Final = "$setElementOrder"
DELETE, REPLACE, MERGE = "delete", "replace", "merge"

UNDECODABLE: Final = "json: cannot unmarshal {0} into Go value of type map[string]interface {{}}"
BAD_DELETE_FROM: Final = "invalid patch format of primitive list"
BAD_RETAIN_KEYS: Final = "invalid patch format of retainKeys"
BAD_SET_ORDER: Final = "invalid patch format of setElementOrder list"
NO_MERGE_KEY: Final = "map: {0} does not contain declared merge key: {1}"
WRONG_TYPE: Final = "expected a {0}, but received a {1}"
UNKNOWN_DIRECTIVE: Final = "unknown patch type: {0} in map: {1}"
MERGE_DIRECTIVE: Final = "merging lists cannot yet be specified in the patch"
MIXED_LIST: Final = "list element types are not identical: {0}"
EMPTY_LISTS: Final = "no elements in any of the given slices"
NO_TYPE: Final = "%!s(<nil>)"
NO_KEY_DECLARED: Final = "cannot merge lists without merge key for {0}"
WRONG_ORDER: Final = "The order in patch list:\n{0}\n doesn't match $setElementOrder list:\n{1}\n"
NOT_A_STRUCT: Final = "merging an object in json but data type is not struct, instead is: {0}"
NO_FIELD: Final = "unable to find api field in struct {0} for the json field {1}"


def _patch_refusal(message: str) -> Refusal:
    """kube-apiserver answers most faults of a patch with a 500 without a reason."""
    return Refusal(code=500, reason="", message=message)


def apply(document: Document, patch: Any, node: Node) -> Document:
    """Return the patched document, which shares nothing with the given ones. ``patch`` is the decoded, unchecked
    body. Raises Refusal."""
    if patch is None:
        patch = {}
    if not isinstance(patch, dict):
        raise bad_request(UNDECODABLE.format(json_kind(patch)))
    return _merge(copy_json(document), copy_json(patch), node)


def _merge(original: Document, patch: Document, node: Node | None) -> Document:
    """Merge two maps. Both are copies and may be modified."""
    if DIRECTIVE in patch:
        return _replace(patch)
    _retain_keys(original, patch)
    _set_orders(original, patch, node)
    for key in sorted(
        patch, key=lambda key: not key.startswith(DELETE_FROM)
    ):  # the patch may add again what it deletes
        value, name, deletes = patch[key], key, key.startswith(DELETE_FROM)
        if deletes:
            name = _directive_list(key, DELETE_FROM, BAD_DELETE_FROM)
        if value is None:
            original.pop(name, None)
            continue
        current = original.get(name)
        if isinstance(current, dict) and isinstance(value, dict):
            child = _child(node, name)
            if child is not None and REPLACE in child.strategies:
                original[name] = value
            else:
                original[name] = _merge(current, value, child)
        elif isinstance(current, list) and isinstance(value, list):
            original[name] = _merge_list(current, value, _child(node, name), deletes=deletes)
        elif not deletes:
            _discard_nulls(value)
            kept, keep = _drop_directives(value)
            if keep:
                original[name] = kept
            else:
                original.pop(name, None)
    return original


def _replace(patch: Document) -> Document:
    directive = patch[DIRECTIVE]
    if directive == REPLACE:
        del patch[DIRECTIVE]
        return patch
    if directive == DELETE:
        return {}
    raise _unknown_directive(directive, patch)


def _unknown_directive(directive: Any, patch: Document) -> Refusal:
    if isinstance(directive, str):
        shown = directive
    else:
        shown = f"%!s({type_name(directive)}={format_plain(directive)})" if directive is not None else NO_TYPE
    return _patch_refusal(UNKNOWN_DIRECTIVE.format(shown, format_plain(patch)))


def _child(node: Node | None, name: str) -> Node | None:
    if node is None:
        return None
    child = node.properties.get(name)
    if child is None:
        if node.type != OBJECT or node.additional is not None:
            raise _patch_refusal(NOT_A_STRUCT.format("map" if node.type == OBJECT else node.type))
        if node.properties:
            raise _patch_refusal(NO_FIELD.format(node.name.rpartition(".")[2], f'"{name}"'))
    return child


def _directive_list(key: str, prefix: str, fault: str) -> str:
    """Return the list that a list directive refers to."""
    before, slash, name = key.partition("/")
    if before != prefix or not slash:
        raise bad_request(fault)
    return name


def _retain_keys(original: Document, patch: Document) -> None:
    """Keep only the listed keys of the original; the patch must have no others."""
    if RETAIN_KEYS not in patch:
        return
    retained = patch.pop(RETAIN_KEYS)
    if not isinstance(retained, list):
        raise bad_request(BAD_RETAIN_KEYS)
    names = {key for key in retained if isinstance(key, str)}
    for key, value in patch.items():
        if value is not None and not key.startswith((DELETE_FROM, SET_ORDER)) and key not in names:
            raise bad_request(BAD_RETAIN_KEYS)
    for key in original.keys() - names:
        del original[key]


def _set_orders(original: Document, patch: Document, node: Node | None) -> None:
    """Merge the lists whose order the patch sets, and remove them from the patch."""
    for key in [key for key in patch if key.startswith(SET_ORDER)]:
        order = _as_list(patch.pop(key))
        name = _directive_list(key, SET_ORDER, BAD_SET_ORDER)
        current, changes = original.get(name), patch.get(name)
        current = _as_list(current) if name in original else None
        changes = _as_list(changes) if name in patch else None
        child = _child(node, name)
        merge_key = child.merge_key if child is not None else ""
        _check_order(changes or [], order, merge_key)
        if current is not None and changes is not None:
            merged = _merge_list(current, changes, child, deletes=False)
        elif changes is not None:
            merged = _drop_directives(changes)[0]
        elif current is not None:
            merged = current
        else:
            continue
        _item_type(current or [], changes or [])
        original[name] = _reorder(merged, order, current or [], merge_key)
        patch.pop(name, None)


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong_type([], value)
    return value


def _wrong_type(expected: Any, value: Any) -> Refusal:
    shown = NO_TYPE if value is None else type_name(value)
    return _patch_refusal(WRONG_TYPE.format(type_name(expected), shown))


def _check_order(changes: list[Any], order: list[Any], merge_key: str) -> None:
    """Require that the patch lists its items in the order that it sets, except for deleted ones."""
    if not changes or not order:
        return
    items = iter([item for item in changes if not (merge_key and _deletes(item))])
    item = next(items, None)
    for wanted in order:
        while isinstance(item, dict) and DIRECTIVE in item:
            item = next(items, None)
        if item is None:
            return
        if _key(item, merge_key) == _key(wanted, merge_key):
            item = next(items, None)
    if item is not None:
        raise _patch_refusal(WRONG_ORDER.format(format_plain(changes), format_plain(order)))


def _deletes(item: Any) -> bool:
    if not isinstance(item, dict):
        raise _wrong_type({}, item)
    return item.get(DIRECTIVE) == DELETE


def _key(item: Any, merge_key: str) -> Any:
    """Return the identity of an item, including its type, because 1 is not true."""
    if not merge_key:
        if isinstance(item, dict | list):
            raise bad_request(BAD_SET_ORDER)  # these have no identity, and need none
        return type(item), item
    if not isinstance(item, dict):
        raise _wrong_type({}, item)
    if merge_key not in item or isinstance(item[merge_key], dict | list):
        raise _patch_refusal(NO_MERGE_KEY.format(format_plain(item), merge_key))
    return type(item[merge_key]), item[merge_key]


def _item_type(*lists: list[Any]) -> type:
    """Check that all items of a list have one type."""
    item_type: type | None = None
    for items in lists:
        for item in items:
            if item_type is None:
                if isinstance(item, list):
                    raise misfit_refusal()
                item_type = type(item)
            elif type(item) is not item_type:
                raise _patch_refusal(MIXED_LIST.format(format_plain(list(lists))))
    if item_type is None:
        raise _patch_refusal(EMPTY_LISTS)
    return item_type


def _merge_list(current: list[Any], patch: list[Any], node: Node | None, *, deletes: bool) -> list[Any]:
    if not deletes and (node is None or MERGE not in node.strategies):
        return patch
    if not current and not patch:
        return current
    if _item_type(current, patch) is not dict:
        if deletes:
            gone = {_key(item, "") for item in patch}
            return [item for item in current if _key(item, "") not in gone]
        distinct = {_key(item, ""): item for item in [*current, *patch]}
        return _reorder(list(distinct.values()), patch, current, "")
    merge_key = node.merge_key if node is not None else ""
    if not merge_key:
        raise _patch_refusal(NO_KEY_DECLARED.format("struct"))
    current, patch = _apply_directives(current, patch, merge_key)
    merged = list(current)
    places = {}
    for place, item in reversed(list(enumerate(merged))):
        if merge_key in item:
            places[_key(item, merge_key)] = place
    for item in patch:
        key = _key(item, merge_key)
        if key in places:
            merged[places[key]] = _merge(merged[places[key]], item, node.items if node is not None else None)
        else:
            places[key] = len(merged)
            merged.append(item)
    return _reorder(merged, patch, current, merge_key)


def _apply_directives(current: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Return both lists after the directive items were processed."""
    plain_items = []
    replaced = False
    gone = set()
    for item in patch:
        match item.get(DIRECTIVE) if DIRECTIVE in item else "":
            case "":
                plain_items.append(item)
            case "delete":
                gone.add(_key(item, merge_key))
            case "replace":
                replaced = True
            case "merge":
                raise _patch_refusal(MERGE_DIRECTIVE)
            case other:
                raise _unknown_directive(other, item)
    if replaced:
        return plain_items, []
    return [one for one in current if merge_key not in one or _key(one, merge_key) not in gone], plain_items


def _reorder(merged: list[Any], order: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Return the items of ``order`` in that order; the others in live order, each before the first of those that
    follows it in the live list."""
    ranks: dict[Any, int] = {}
    for rank, item in enumerate(order):
        ranks.setdefault(_key(item, merge_key), rank)
    places: dict[Any, int] = {}
    for place, item in enumerate(live):
        places.setdefault(_key(item, merge_key), place)
    keyed = [(_key(item, merge_key), item) for item in merged]
    first = sorted((k for k in keyed if k[0] in ranks), key=lambda k: ranks[k[0]])
    rest = deque(sorted((k for k in keyed if k[0] not in ranks), key=lambda k: places.get(k[0], -1)))
    result: list[Any] = []
    for key, item in first:
        turn = places.get(key)
        while rest and turn is not None and rest[0][0] in places and places[rest[0][0]] < turn:
            result.append(rest.popleft()[1])
        result.append(item)
    return [*result, *(item for _, item in rest)]


def _discard_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for name in [name for name, inner in value.items() if inner is None]:
            del value[name]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            _discard_nulls(inner)


def _drop_directives(value: Any) -> tuple[Any, bool]:
    """Return the value to write and whether to write it; directives are not written."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return None, False
        kept = {name: _drop_directives(inner) for name, inner in value.items()}
        return {name: inner for name, (inner, keep) in kept.items() if keep}, True
    if isinstance(value, list):
        return [inner for inner, keep in map(_drop_directives, value) if keep], True
    return value, True
