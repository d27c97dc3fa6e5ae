"""``x-kubernetes-list-type``: items of a set, and keys of a list that is a map, are unique."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kubehub import status
from kubehub.go_format import json_text
from kubehub.schema import MAP, SET, Node
from kubehub.schemas.reachability import Reach
from kubehub.slicing import checkpoint
from kubehub.status import Cause

NOT_AN_OBJECT: Final = "must be an object for an array of list-type map"


def wanted(node: Node) -> bool:
    return node.items is not None and node.list_type in (SET, MAP)


def duplicates(node: Node, value: Any, path: str, reach: Reach) -> Iterator[Cause]:
    """``reach`` contains the nodes that lead to the ``wanted`` ones."""
    checkpoint()
    if type(value) is dict:
        for key, child in value.items():
            named = node.properties.get(key)
            if named is not None and id(named) in reach:
                yield from duplicates(named, child, f"{path}.{key}" if path else key, reach)
            elif named is None and node.additional is not None and id(node.additional) in reach:
                yield from duplicates(node.additional, child, f"{path}[{key}]", reach)
    elif type(value) is list:
        if node.list_type == SET:
            for index in _repeated(value):
                yield status.duplicate(f"{path}[{index}]", value[index])
        elif node.list_type == MAP:
            yield from _repeated_keys(node.list_keys, value, path)
        if node.items is not None and id(node.items) in reach:
            for index, item in enumerate(value):
                yield from duplicates(node.items, item, f"{path}[{index}]", reach)


def _repeated(values: Sequence[Any]) -> Iterator[int]:
    """Return the index of each repeated value."""
    times: dict[tuple[type, Any], int] = {}
    for index, value in enumerate(values):
        key = (type(value), json_text(value) if isinstance(value, dict | list) else value)
        times[key] = times.get(key, 0) + 1
        if times[key] == 2:
            yield index


def _repeated_keys(names: tuple[str, ...], values: Sequence[Any], path: str) -> Iterator[Cause]:
    if _are_unique_strings(names, values):
        return
    keys: list[dict[str, Any]] = []
    for index, value in enumerate(values):
        if value is not None and type(value) is not dict:
            yield status.invalid_value(f"{path}[{index}]", value, NOT_AN_OBJECT)
            return
        keys.append({name: value[name] for name in names if name in value} if value else {})
    for index in _repeated(keys):
        yield status.duplicate(f"{path}[{index}]", keys[index])


def _are_unique_strings(names: tuple[str, ...], values: Sequence[Any]) -> bool:
    """Return whether all keys are present, are strings, and differ: the common case, checked quickly."""
    try:
        keys = {tuple([value[name] for name in names]) for value in values}
    except (KeyError, TypeError):
        return False
    return len(keys) == len(values) and all(type(part) is str for key in keys for part in key)
