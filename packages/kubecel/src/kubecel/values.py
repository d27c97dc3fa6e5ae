"""Values of the language, as Python objects.

bool, int, float, str, bytes and None represent themselves; lists are ``list``, ``tuple`` or `Concat`; a map with only
string keys may be a ``dict``, any other map is a `CelMap`. Types that Python lacks, or whose Python type behaves
differently, have a class in `scalars` or `containers`, or are `Optional`. Libraries add classes derived from
`Opaque`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubecel.containers import LISTS, MAPS, CelMap, Concat, Keyed, find, length
from kubecel.errors import NO_SUCH_OVERLOAD, Failure
from kubecel.frame import Meter, charge_work
from kubecel.scalars import INT_MAX, INT_MIN, UINT_MAX, Duration, Opaque, Timestamp, Uint
from kubecel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    UINT,
    Kind,
    Type,
    list_of,
    map_of,
    optional_of,
)

LIST = list_of(DYN)
MAP = map_of(DYN, DYN)
OPTIONAL = optional_of(DYN)


class Optional(Opaque):
    """``present`` is false for ``optional.none()``."""

    __slots__ = ("_size", "present", "value")
    cel_type = OPTIONAL

    def __init__(self, value: object = None, *, present: bool = True) -> None:
        self.value = value
        self.present = present
        self._size = size_of(value) if present else 1

    def size(self) -> int:
        return self._size

    def equals(self, other: object) -> bool:
        return equal(self, other, Meter())


NONE = Optional(present=False)


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
    known = _BY_CLASS.get(type(value))
    if known is not None:
        return known
    if isinstance(value, Opaque):
        return value.cel_type
    raise Failure(f"unsupported conversion to ref.Val: ({type(value).__name__})")


def matches(type_: Type, value: object) -> bool:
    """Return whether a parameter of this type accepts the value; of a list or map only the first entry is checked."""
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
    """Return the size for costs: characters, bytes, elements or entries; 1 for a scalar."""
    if isinstance(value, (str, list, dict, tuple, bytes, CelMap)):
        return len(value)
    if isinstance(value, Concat):
        return length(value)
    if isinstance(value, Opaque):
        return value.size()
    return 1


MAX_ELEMENTS: Final = 1_000_000
"""Maximum length of a list that a function creates, or reads as a whole."""
LONG_TEXT: Final = 2048
"""Characters compared per unit of work."""

_NUMBERS = frozenset({int, float, Uint})


def equal(left: object, right: object, meter: Meter) -> bool:
    """Compare as ``==`` does. Within lists and maps, a pair that the reference cannot compare counts as equal.

    The cost depends only on the outermost size, and values may share parts, so work is charged for every pair.
    """
    kind = type(left)
    if isinstance(left, (str, bytes)):
        if kind is not type(right):
            return False
        assert isinstance(right, (str, bytes))
        if len(left) > LONG_TEXT and len(left) == len(right):
            charge_work(meter, len(left) // LONG_TEXT)
        return left == right
    if kind is bool or left is None or right is None:
        return kind is type(right) and left == right
    if kind in _NUMBERS:
        return type(right) in _NUMBERS and _numbers_equal(left, right)
    if kind is Optional:
        return _optionals_equal(left, right, meter)
    if isinstance(left, Opaque):
        charge_work(meter, left.weight())
        return left.equals(right)
    return _aggregates_equal(left, right, meter)


def _optionals_equal(left: object, right: object, meter: Meter) -> bool:
    while isinstance(left, Optional):
        charge_work(meter, 1)
        if not isinstance(right, Optional) or left.present != right.present:
            return False
        if not left.present:
            return True
        left, right = left.value, right.value
    return equal(left, right, meter)


def _numbers_equal(left: object, right: object) -> bool:
    if type(left) is float or type(right) is float:
        # The reference compares as doubles, except outside the range of integers.
        if left != left or right != right:
            return False
        return compare_numbers(left, right) == 0
    return left == right


def compare_numbers(left: object, right: object) -> int:
    """Return -1, 0 or 1; an integer and a double are compared as doubles, as in the reference."""
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


def _aggregates_equal(left: object, right: object, meter: Meter) -> bool:
    pending = [(left, right)]
    while pending:
        a, b = pending.pop()
        if isinstance(a, LISTS):
            if not isinstance(b, LISTS) or length(a) != length(b):
                return False
            charge_work(meter, 2 + length(a) * (8 if isinstance(a, Keyed) else 1))
            pairs: Iterator[tuple[object, object]] = zip(a, b, strict=True)
            if isinstance(a, Keyed):
                matched = a.pairs(b)
                if matched is None:
                    return False
                pairs = matched
        elif isinstance(a, MAPS):
            if not isinstance(b, MAPS) or len(a) != len(b):
                return False
            charge_work(meter, 2 + 3 * len(a))
            entries = []
            for key, value in a.items():
                other, present = find(b, key)
                if not present:
                    return False
                entries.append((value, other))
            pairs = iter(entries)
        else:
            try:
                if not equal(a, b, meter):
                    return False
            except Failure:
                pass
            continue
        for x, y in pairs:
            if isinstance(x, (*LISTS, *MAPS)):
                pending.append((x, y))
                continue
            try:
                if not equal(x, y, meter):
                    return False
            except Failure:
                continue
    return True


def compare(left: object, right: object, meter: Meter) -> int:
    """Order two values of one orderable type, or two numbers. Raise `Failure` for other pairs."""
    a, b = type(left), type(right)
    if a in _NUMBERS and b in _NUMBERS:
        if left != left or right != right:
            raise Failure("NaN values cannot be ordered")
        return compare_numbers(left, right)
    if a is b:
        if isinstance(left, str) and isinstance(right, str):
            if len(left) > LONG_TEXT:
                charge_work(meter, min(len(left), len(right)) // LONG_TEXT)
            # Byte order of UTF-8 is code point order.
            return (left > right) - (left < right)
        if isinstance(left, bool) and isinstance(right, bool):
            return left - right
        if isinstance(left, bytes) and isinstance(right, bytes):
            if len(left) > LONG_TEXT:
                charge_work(meter, min(len(left), len(right)) // LONG_TEXT)
            return (left > right) - (left < right)
        if isinstance(left, Timestamp) and isinstance(right, Timestamp):
            x, y = (left.seconds, left.nanos), (right.seconds, right.nanos)
            return (x > y) - (x < y)
        if isinstance(left, Duration) and isinstance(right, Duration):
            return (left.nanos > right.nanos) - (left.nanos < right.nanos)
    raise Failure(NO_SUCH_OVERLOAD)


ORDERED: Final = (bool, int, float, str, bytes, Timestamp, Duration)


def index_of(key: object) -> int:
    """Return a list index; whole doubles and unsigned integers are accepted."""
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
