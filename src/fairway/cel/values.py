"""Values of the language, as Python objects.

bool, int, float, str, bytes and None stand for themselves; lists are ``list``, ``tuple`` or `Concat`; a map with
only string keys may be a ``dict``, any other map is a `CelMap`. Types that Python lacks, or whose Python twin
behaves differently, have a class here. A library may add classes of its own by deriving from `Opaque`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from fairway.cel.errors import NO_SUCH_OVERLOAD, Failure, Overrun
from fairway.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Kind,
    Type,
    list_of,
    map_of,
    optional_of,
)

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1

LIST = list_of(DYN)
MAP = map_of(DYN, DYN)
OPTIONAL = optional_of(DYN)


class Uint(int):
    """An unsigned 64-bit integer: never the same type as ``int``, though possibly an equal number."""

    __slots__ = ()


class Opaque(ABC):
    """Base of the values a library adds. ``size`` is what an equality or traversal is charged for."""

    __slots__ = ()
    cel_type: ClassVar[Type]

    def size(self) -> int:
        return 1

    @abstractmethod
    def equals(self, other: object) -> bool:
        """Raises `Failure` when the reference has no answer for this pair."""


class TypeValue(Opaque):
    """A type as a value: ``type(1)``, ``int``."""

    __slots__ = ("type",)
    cel_type = TYPE

    def __init__(self, type_: Type) -> None:
        self.type = type_

    def equals(self, other: object) -> bool:
        return isinstance(other, TypeValue) and other.type.name == self.type.name

    def __repr__(self) -> str:
        return self.type.name


class Timestamp(Opaque):
    """An instant. ``zone`` is the UTC offset in seconds it was written with; it matters only for printing."""

    __slots__ = ("nanos", "seconds", "zone")
    cel_type = TIMESTAMP

    def __init__(self, seconds: int, nanos: int, zone: int = 0) -> None:
        self.seconds = seconds
        self.nanos = nanos
        self.zone = zone

    def equals(self, other: object) -> bool:
        return isinstance(other, Timestamp) and (self.seconds, self.nanos) == (other.seconds, other.nanos)


class Duration(Opaque):
    __slots__ = ("nanos",)
    cel_type = DURATION

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def equals(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanos == other.nanos


class Optional(Opaque):
    """``present`` is false for ``optional.none()``."""

    __slots__ = ("present", "value")
    cel_type = OPTIONAL

    def __init__(self, value: object = None, *, present: bool = True) -> None:
        self.value = value
        self.present = present

    def size(self) -> int:
        return size_of(self.value) if self.present else 1

    def equals(self, other: object) -> bool:
        if not isinstance(other, Optional) or self.present != other.present:
            return False
        return not self.present or equal(self.value, other.value)


NONE = Optional(present=False)


class Concat:
    """Two lists seen as one, so that adding lists costs the same whatever their length."""

    __slots__ = ("_left", "_right", "_size")

    def __init__(self, left: List, right: List) -> None:
        self._left = left
        self._right = right
        self._size = length(left) + length(right)

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
    """A list whose order means nothing: elements are known by the entries ``names`` of theirs, or by themselves if
    there are no names. Adding to it replaces elements with the same key."""

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
        """The elements of both with the same keys; None if there are others."""
        mine = {self._key(element): element for element in self}
        found: list[tuple[object, object]] = []
        for element in other:
            key = self._key(element)
            if key not in mine:
                return None
            found.append((mine[key], element))
        return iter(found)

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


class CelMap:
    """A map with keys of any type. Numbers that are equal across types find each other's entries."""

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
        # Every NaN is a key of its own.
        return "double", key if key == key else object()
    if key is None:
        return "null", None
    if isinstance(key, Timestamp):
        return "timestamp", (key.seconds, key.nanos, key.zone)
    if isinstance(key, Duration):
        return "duration", key.nanos
    # Lists, maps and the like are found again only by identity.
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
    """Where an entry for ``key`` may be, best first."""
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


_BY_CLASS: dict[type, Type] = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
    list: LIST,
    tuple: LIST,
    Concat: LIST,
    Keyed: LIST,
    dict: MAP,
    CelMap: MAP,
}


def type_of_value(value: object) -> Type:
    found = _BY_CLASS.get(type(value))
    if found is not None:
        return found
    if isinstance(value, Opaque):
        return value.cel_type
    raise Failure(f"unsupported conversion to ref.Val: ({type(value).__name__})")


def matches(type_: Type, value: object) -> bool:
    """Whether a function with this parameter takes the value; of a list or map only the first entry is looked at."""
    kind = type_.kind
    if kind is Kind.DYN or kind is Kind.PARAM:
        return True
    if type_of_value(value).name != type_.name:
        return False
    if isinstance(value, LISTS):
        for element in value:
            return matches(type_.params[0], element)
    elif isinstance(value, MAPS):
        for key, entry in value.items():
            return matches(type_.params[0], key) and matches(type_.params[1], entry)
    return True


def size_of(value: object) -> int:
    """The size that costs are computed from: characters, bytes, elements or entries; 1 for a scalar."""
    if isinstance(value, (str, list, dict, tuple, bytes, CelMap)):
        return len(value)
    if isinstance(value, Concat):
        return length(value)
    if isinstance(value, Opaque):
        return value.size()
    return 1


MAX_COMPARISONS: Final = 1_000_000
"""Elements one equality may look at. The cost of an equality counts only the outermost size, so values that share
parts could otherwise be compared forever at no cost."""

_SCALARS = frozenset({str, bool, bytes, type(None)})
_NUMBERS = frozenset({int, float, Uint})


def equal(left: object, right: object) -> bool:
    """``==``. Inside lists and maps a pair the reference cannot compare counts as equal."""
    kind = type(left)
    if kind is str or kind is bool or kind is bytes or left is None or right is None:
        return kind is type(right) and left == right
    if kind in _NUMBERS:
        return type(right) in _NUMBERS and _numbers_equal(left, right)
    if isinstance(left, Opaque):
        return left.equals(right)
    return _aggregates_equal(left, right)


def _numbers_equal(left: object, right: object) -> bool:
    if type(left) is float or type(right) is float:
        # The reference compares as doubles, except beyond the integer's range.
        if left != left or right != right:
            return False
        return compare_numbers(left, right) == 0
    return left == right


def compare_numbers(left: object, right: object) -> int:
    """-1, 0 or 1; mixed integers and doubles are compared as doubles, as the reference does."""
    if type(left) is float:
        if type(right) is float:
            return (left > right) - (left < right)
        return _compare_double(left, right)
    if type(right) is float:
        return -_compare_double(right, left)
    assert isinstance(left, int)
    assert isinstance(right, int)
    return (left > right) - (left < right)


def _compare_double(double: float, integer: object) -> int:
    low, high = (0.0, float(UINT_MAX)) if type(integer) is Uint else (float(INT_MIN), float(INT_MAX))
    if double < low:
        return -1
    if double > high:
        return 1
    assert isinstance(integer, int)
    other = float(integer)
    return (double > other) - (double < other)


def _aggregates_equal(left: object, right: object) -> bool:
    pending = [(left, right)]
    budget = MAX_COMPARISONS
    while pending:
        a, b = pending.pop()
        if isinstance(a, LISTS):
            if not isinstance(b, LISTS) or length(a) != length(b):
                return False
            budget -= length(a)
            if budget < 0:
                raise Overrun
            pairs: Iterator[tuple[object, object]] = zip(a, b, strict=True)
            if isinstance(a, Keyed):
                matched = a.pairs(b)
                if matched is None:
                    return False
                pairs = matched
        elif isinstance(a, MAPS):
            if not isinstance(b, MAPS) or len(a) != len(b):
                return False
            budget -= len(a)
            if budget < 0:
                raise Overrun
            found = []
            for key, value in a.items():
                other, present = find(b, key)
                if not present:
                    return False
                found.append((value, other))
            pairs = iter(found)
        else:
            try:
                if not equal(a, b):
                    return False
            except Failure:
                pass
            continue
        for x, y in pairs:
            if isinstance(x, (*LISTS, *MAPS)):
                pending.append((x, y))
                continue
            try:
                if not equal(x, y):
                    return False
            except Failure:
                continue
    return True


def find(map_: object, key: object) -> tuple[object, bool]:
    """The entry of a map, and whether there is one."""
    if isinstance(map_, CelMap):
        return map_.find(key)
    if type(key) is str:
        assert isinstance(map_, dict)
        value = map_.get(key, map_)
        return (None, False) if value is map_ else (value, True)
    return None, False


def compare(left: object, right: object) -> int:
    """Order of two values of one orderable type, or of two numbers; `Failure` for anything else."""
    a, b = type(left), type(right)
    if a in _NUMBERS and b in _NUMBERS:
        if left != left or right != right:
            raise Failure("NaN values cannot be ordered")
        return compare_numbers(left, right)
    if a is b:
        if isinstance(left, str) and isinstance(right, str):
            # Byte order of UTF-8 is code point order.
            return (left > right) - (left < right)
        if isinstance(left, bool) and isinstance(right, bool):
            return left - right
        if isinstance(left, bytes) and isinstance(right, bytes):
            return (left > right) - (left < right)
        if isinstance(left, Timestamp) and isinstance(right, Timestamp):
            x, y = (left.seconds, left.nanos), (right.seconds, right.nanos)
            return (x > y) - (x < y)
        if isinstance(left, Duration) and isinstance(right, Duration):
            return (left.nanos > right.nanos) - (left.nanos < right.nanos)
    raise Failure(NO_SUCH_OVERLOAD)


ORDERED: Final = (bool, int, float, str, bytes, Timestamp, Duration)


def index_of(key: object) -> int:
    """A list index; whole doubles and unsigned integers count as integers."""
    kind = type(key)
    if kind is int:
        assert isinstance(key, int)
        return key
    if kind is float:
        assert isinstance(key, float)
        if key.is_integer() and INT_MIN <= key <= INT_MAX:
            return int(key)
        raise Failure(f"unsupported index value {key} in list")
    if kind is Uint:
        assert isinstance(key, int)
        if key <= INT_MAX:
            return int(key)
        raise Failure(f"unsupported index value {key} in list")
    raise Failure(f"unsupported index type '{type_of_value(key).name}' in list")
