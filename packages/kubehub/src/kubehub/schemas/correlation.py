"""Correlation: find the old value that a new value replaces.

Fields and entries of maps replace those of the same name, items of a list with ``x-kubernetes-list-type: map`` those
with the same keys. Items of other lists have no old value, because their positions may change.

Faults of unchanged values are ignored on update (ratcheting), so that a stricter schema doesn't block stored objects.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kubehub.schema import MAP, Node

ABSENT: Final[Any] = object()
"""There is no old value to compare with."""

_SCALARS: Final = (str, int, float, bool)


def old_entry(old: Any, key: str) -> Any:
    return old.get(key, ABSENT) if type(old) is dict else ABSENT


class OldItems:
    """The items of an old list by their keys."""

    __slots__ = ("_items", "_keys")

    def __init__(self, node: Node, old: Any) -> None:
        self._keys = node.list_keys if node.list_type == MAP else ()
        self._items: dict[tuple[Any, ...], Any] = {}
        if self._keys and type(old) is list:
            for item in old:
                key = self._key(item)
                if key is not None:
                    self._items.setdefault(key, item)

    def find(self, item: Any) -> Any:
        if not self._items:
            return ABSENT
        key = self._key(item)
        return ABSENT if key is None else self._items.get(key, ABSENT)

    def _key(self, item: Any) -> tuple[Any, ...] | None:
        if type(item) is not dict:
            return None
        key: list[Any] = []
        for name in self._keys:
            value = item.get(name)
            if not isinstance(value, _SCALARS):
                return None
            key.append((type(value), value))
        return tuple(key)


def same(node: Node | None, new: Any, old: Any) -> bool:
    """Return whether the value is unchanged. Undeclared entries can't be correlated, so they count as changed."""
    if type(new) is not type(old):
        return False
    if type(new) is dict:
        if len(new) != len(old) or node is None:
            return False
        for key, value in new.items():
            child = node.child(key)
            if child is None or not _known(child) or key not in old or not same(child, value, old[key]):
                return False
        return True
    if type(new) is list:
        if len(new) != len(old):
            return False
        if node is None or node.list_type != MAP or not node.list_keys:
            return equal(new, old)
        items = OldItems(node, old)
        return all(same(node.items, item, items.find(item)) for item in new)
    return bool(new == old)


def _known(node: Node) -> bool:
    return bool(node.type or node.int_or_string or node.preserve_unknown)


def equal(left: Any, right: Any) -> bool:
    """Compare JSON values deeply; 1, 1.0 and true differ."""
    if type(left) is not type(right):
        return False
    if isinstance(left, Mapping):
        return len(left) == len(right) and all(
            key in right and equal(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, Sequence) and not isinstance(left, str):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)
