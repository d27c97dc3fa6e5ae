"""Lists and maps that Python lacks: concatenations, lists without an order, maps with keys of any type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kubecel.scalars import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, Uint

DEEPEST: Final = 32
"""Maximum nesting of concatenations, and so of the steps to find an element; deeper ones are copied."""


class Concat:
    """The concatenation of two lists without a copy, so that it takes constant time."""

    __slots__ = ("_depth", "_left", "_right", "_size")

    def __init__(self, left: List, right: List) -> None:
        self._left = left
        self._right = right
        self._size = length(left) + length(right)
        self._depth = added_depth(left, right)

    def __len__(self) -> int:
        return self._size if self._size <= INT_MAX else INT_MAX

    def __getitem__(self, index: int) -> object:
        node: List = self
        while isinstance(node, Concat):
            split = length(node._left)
            if index < split:
                node = node._left
            else:
                index -= split
                node = node._right
        return node[index]

    def __iter__(self) -> Iterator[object]:
        pending: list[List] = [self]
        while pending:
            node = pending.pop()
            if isinstance(node, Concat):
                pending.append(node._right)
                pending.append(node._left)
            else:
                yield from node


class Keyed(list[object]):
    """A list without an order. The fields ``names`` are the key of an element; without names, the element itself.

    Adding an element replaces the one with the same key.
    """

    __slots__ = ("names",)

    def __init__(self, elements: Iterable[object], names: tuple[str, ...] = ()) -> None:
        super().__init__(elements)
        self.names = names

    def _key(self, element: object) -> tuple[tuple[str, object], ...]:
        if not self.names:
            return (_slot(element),)
        return tuple(
            [_slot(find(element, name)[0] if isinstance(element, MAPS) else None) for name in self.names]
        )

    def pairs(self, other: Iterable[object]) -> Iterator[tuple[object, object]] | None:
        """Return the pairs of elements with the same keys; None if an element has no partner."""
        mine = {self._key(element): element for element in self}
        pairs: list[tuple[object, object]] = []
        for element in other:
            key = self._key(element)
            if key not in mine:
                return None
            pairs.append((mine[key], element))
        return iter(pairs)

    def merged(self, other: Iterable[object]) -> Keyed:
        places = {self._key(element): index for index, element in enumerate(self)}
        elements = [*self]
        for element in other:
            key = self._key(element)
            if key not in places:
                places[key] = len(elements)
                elements.append(element)
            elif self.names:
                elements[places[key]] = element
        return Keyed(elements, self.names)


List = list[object] | tuple[object, ...] | Concat
LISTS: Final = (list, tuple, Concat)


def length(value: List) -> int:
    return value._size if isinstance(value, Concat) else len(value)


def added_depth(left: List, right: List) -> int:
    """Return the nesting of the concatenation of two lists."""
    a = left._depth if isinstance(left, Concat) else 0
    b = right._depth if isinstance(right, Concat) else 0
    return 1 + (a if a > b else b)


def concatenated(left: List, right: List) -> List:
    if added_depth(left, right) > DEEPEST:
        return [*left, *right]
    return Concat(left, right)


class CelMap:
    """A map with keys of any type. Equal numbers of different types find the same entry."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[tuple[str, object], tuple[object, object]] = {}

    def put(self, key: object, value: object) -> None:
        self._entries[_slot(key)] = (key, value)

    def remove(self, key: object) -> None:
        self._entries.pop(_slot(key), None)

    def find(self, key: object) -> tuple[object, bool]:
        for slot in _slots(key):
            entry = self._entries.get(slot)
            if entry is not None:
                return entry[1], True
        return None, False

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[object]:
        for key, _ in self._entries.values():
            yield key

    def items(self) -> Iterator[tuple[object, object]]:
        yield from self._entries.values()


MAPS: Final = (dict, CelMap)


def _slot(key: object) -> tuple[str, object]:
    kind = type(key)
    if kind is str:
        return "string", key
    if kind is bool:
        return "bool", key
    if kind is int:
        return "int", key
    if kind is Uint:
        return "uint", key
    if kind is float:
        # A NaN equals no other key.
        return "double", key if key == key else object()
    if key is None:
        return "null", None
    if isinstance(key, Timestamp):
        return "timestamp", (key.seconds, key.nanos, key.zone)
    if isinstance(key, Duration):
        return "duration", key.nanos
    # Lists, maps and similar keys are found only by identity.
    return "identity", _Identity(key)


class _Identity:
    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _slots(key: object) -> Iterator[tuple[str, object]]:
    """Return the possible slots of an entry for ``key``, the preferred one first."""
    yield _slot(key)
    if type(key) is float:
        if key.is_integer():
            whole = int(key)
            if INT_MIN <= whole <= INT_MAX:
                yield "int", whole
            if 0 <= whole <= UINT_MAX:
                yield "uint", Uint(whole)
    elif type(key) is int:
        if key >= 0:
            yield "uint", key
    elif type(key) is Uint and key <= INT_MAX:
        yield "int", int(key)


def find(map_: object, key: object) -> tuple[object, bool]:
    """Return the entry of a map, and whether it exists."""
    if isinstance(map_, CelMap):
        return map_.find(key)
    if type(key) is str:
        assert isinstance(map_, dict)
        value = map_.get(key, map_)
        return (None, False) if value is map_ else (value, True)
    return None, False
