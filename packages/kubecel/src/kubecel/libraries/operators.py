"""The standard operators, each implemented once for all types; overloads are for the checker and costs."""

from __future__ import annotations

from kubecel import cost
from kubecel.containers import LISTS, MAPS, Keyed, concatenated, find, length
from kubecel.declarations import CostRule, Function, Implementation, Metered, Overload
from kubecel.errors import NO_SUCH_OVERLOAD, Failure
from kubecel.frame import Frame, Meter, charge_work, walk
from kubecel.instants import between, duration_of, shift
from kubecel.numbers import as_int, as_uint, divide, modulo, multiply
from kubecel.regex import pattern_for
from kubecel.scalars import Duration, Timestamp, TypeValue, Uint
from kubecel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    param,
    type_of,
)
from kubecel.values import compare, equal, size_of, type_of_value

_SHORT = 256
"""Maximum length of strings whose comparison is not charged as work."""

_A = param("A")
_B = param("B")
LIST_A = list_of(_A)
MAP_AB = map_of(_A, _B)


def add(left: object, right: object) -> object:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, int) and isinstance(right, int):
        return _integer(left, right, int(left) + int(right))
    if isinstance(left, float) and isinstance(right, float):
        return left + right
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left + right
    if isinstance(left, Keyed) and isinstance(right, LISTS):
        return left.merged(right)
    if isinstance(left, LISTS) and isinstance(right, LISTS):
        if not length(left):
            return right
        return concatenated(left, right) if length(right) else left
    if isinstance(left, Duration):
        if isinstance(right, Duration):
            return duration_of(left.nanos + right.nanos)
        if isinstance(right, Timestamp):
            return shift(right, left.nanos)
    if isinstance(left, Timestamp) and isinstance(right, Duration):
        return shift(left, right.nanos)
    raise Failure(NO_SUCH_OVERLOAD)


def subtract(left: object, right: object) -> object:
    if isinstance(left, int) and isinstance(right, int):
        return _integer(left, right, int(left) - int(right))
    if isinstance(left, float) and isinstance(right, float):
        return left - right
    if isinstance(left, Duration) and isinstance(right, Duration):
        return duration_of(left.nanos - right.nanos)
    if isinstance(left, Timestamp):
        if isinstance(right, Timestamp):
            return between(left, right)
        if isinstance(right, Duration):
            return shift(left, -right.nanos)
    raise Failure(NO_SUCH_OVERLOAD)


def _integer(left: int, right: int, result: int) -> int:
    """Return the result as the integer type of both operands."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return as_int(result)
        if kind is Uint:
            return as_uint(result)
    raise Failure(NO_SUCH_OVERLOAD)


def negate(value: object) -> object:
    if isinstance(value, float):
        return -value
    if type(value) is int:
        return as_int(-value)
    if isinstance(value, Duration):
        return duration_of(-value.nanos)
    raise Failure(NO_SUCH_OVERLOAD)


def logical_not(value: object) -> object:
    if isinstance(value, bool):
        return not value
    raise Failure(NO_SUCH_OVERLOAD)


def contained(meter: Meter, element: object, container: object) -> object:
    if isinstance(container, dict):
        return type(element) is str and element in container
    if isinstance(container, MAPS):
        return find(container, element)[1]
    if not isinstance(container, LISTS):
        raise Failure(NO_SUCH_OVERLOAD)
    if type(element) is str and type(container) is list and len(element) <= _SHORT:
        # A string equals only strings, so Python's search has the same result.
        charge_work(meter, len(container) >> 3)
        return element in container
    for candidate in walk(meter, container, length(container)):
        try:
            if equal(element, candidate, meter):
                return True
        except Failure:
            continue
    return False


def less(meter: Meter, left: object, right: object) -> object:
    return compare(left, right, meter) < 0


def less_equal(meter: Meter, left: object, right: object) -> object:
    return compare(left, right, meter) <= 0


def greater(meter: Meter, left: object, right: object) -> object:
    return compare(left, right, meter) > 0


def greater_equal(meter: Meter, left: object, right: object) -> object:
    return compare(left, right, meter) >= 0


def equals(meter: Meter, left: object, right: object) -> object:
    return equal(left, right, meter)


def size(value: object) -> object:
    if isinstance(value, (str, bytes, *LISTS, *MAPS)):
        return size_of(value)
    raise Failure(NO_SUCH_OVERLOAD)


def type_value(value: object) -> object:
    return TypeValue(type_of_value(value))


def identity(value: object) -> object:
    return value


def match(frame: Frame, text: object, pattern: object) -> object:
    if not isinstance(text, str) or not isinstance(pattern, str):
        raise Failure(NO_SUCH_OVERLOAD)
    return pattern_for(frame, pattern).matches(frame, text)


def _compiled(_: object) -> object:
    raise AssertionError("logical operators are compiled, not called")


def _binary(
    name: str, dispatch: Implementation | Metered, *signatures: tuple[str, Type, Type, Type, CostRule | None]
) -> Function:
    overloads = [Overload(id_, (a, b), result, cost=rule) for id_, a, b, result, rule in signatures]
    return Function(name, tuple(overloads), dispatch)


def _ordering(name: str, prefix: str, call: Implementation) -> Function:
    # The order matters: the first matching overload binds free type variables.
    signatures = (
        ("bool", BOOL, BOOL, None),
        ("int64", INT, INT, None),
        ("int64_double", INT, DOUBLE, None),
        ("int64_uint64", INT, UINT, None),
        ("uint64", UINT, UINT, None),
        ("uint64_double", UINT, DOUBLE, None),
        ("uint64_int64", UINT, INT, None),
        ("double", DOUBLE, DOUBLE, None),
        ("double_int64", DOUBLE, INT, None),
        ("double_uint64", DOUBLE, UINT, None),
        ("string", STRING, STRING, cost.equality),
        ("bytes", BYTES, BYTES, cost.equality),
        ("timestamp", TIMESTAMP, TIMESTAMP, None),
        ("duration", DURATION, DURATION, None),
    )
    return _binary(
        name, Metered(call), *[(f"{prefix}_{label}", a, b, BOOL, rule) for label, a, b, rule in signatures]
    )


OPERATORS = (
    Function("_?_:_", (Overload("conditional", (BOOL, _A, _A), _A),), _compiled),
    Function("_&&_", (Overload("logical_and", (BOOL, BOOL), BOOL),), _compiled),
    Function("_||_", (Overload("logical_or", (BOOL, BOOL), BOOL),), _compiled),
    Function("!_", (Overload("logical_not", (BOOL,), BOOL),), logical_not),
    Function("@not_strictly_false", (Overload("not_strictly_false", (BOOL,), BOOL),), _compiled),
    Function("_==_", (Overload("equals", (_A, _A), BOOL, cost=cost.equality),), Metered(equals)),
    Function("_!=_", (Overload("not_equals", (_A, _A), BOOL, cost=cost.equality),), _compiled),
    _binary(
        "_+_",
        add,
        ("add_bytes", BYTES, BYTES, BYTES, cost.concatenation),
        ("add_double", DOUBLE, DOUBLE, DOUBLE, None),
        ("add_duration_duration", DURATION, DURATION, DURATION, None),
        ("add_duration_timestamp", DURATION, TIMESTAMP, TIMESTAMP, None),
        ("add_timestamp_duration", TIMESTAMP, DURATION, TIMESTAMP, None),
        ("add_int64", INT, INT, INT, None),
        ("add_list", LIST_A, LIST_A, LIST_A, None),
        ("add_string", STRING, STRING, STRING, cost.concatenation),
        ("add_uint64", UINT, UINT, UINT, None),
    ),
    _binary(
        "_-_",
        subtract,
        ("subtract_double", DOUBLE, DOUBLE, DOUBLE, None),
        ("subtract_duration_duration", DURATION, DURATION, DURATION, None),
        ("subtract_int64", INT, INT, INT, None),
        ("subtract_timestamp_duration", TIMESTAMP, DURATION, TIMESTAMP, None),
        ("subtract_timestamp_timestamp", TIMESTAMP, TIMESTAMP, DURATION, None),
        ("subtract_uint64", UINT, UINT, UINT, None),
    ),
    _binary(
        "_*_",
        multiply,
        ("multiply_double", DOUBLE, DOUBLE, DOUBLE, None),
        ("multiply_int64", INT, INT, INT, None),
        ("multiply_uint64", UINT, UINT, UINT, None),
    ),
    _binary(
        "_/_",
        divide,
        ("divide_double", DOUBLE, DOUBLE, DOUBLE, None),
        ("divide_int64", INT, INT, INT, None),
        ("divide_uint64", UINT, UINT, UINT, None),
    ),
    _binary("_%_", modulo, ("modulo_int64", INT, INT, INT, None), ("modulo_uint64", UINT, UINT, UINT, None)),
    Function(
        "-_", (Overload("negate_double", (DOUBLE,), DOUBLE), Overload("negate_int64", (INT,), INT)), negate
    ),
    _ordering("_<_", "less", less),
    _ordering("_<=_", "less_equals", less_equal),
    _ordering("_>_", "greater", greater),
    _ordering("_>=_", "greater_equals", greater_equal),
    Function(
        "_[_]",
        (Overload("index_list", (LIST_A, INT), _A), Overload("index_map", (MAP_AB, _A), _B)),
        _compiled,
    ),
    _binary(
        "@in",
        Metered(contained),
        ("in_list", _A, LIST_A, BOOL, cost.containing_list),
        ("in_map", _A, MAP_AB, BOOL, None),
    ),
    Function(
        "size",
        (
            Overload("size_bytes", (BYTES,), INT),
            Overload("bytes_size", (BYTES,), INT, member=True),
            Overload("size_list", (LIST_A,), INT),
            Overload("list_size", (LIST_A,), INT, member=True),
            Overload("size_map", (MAP_AB,), INT),
            Overload("map_size", (MAP_AB,), INT, member=True),
            Overload("size_string", (STRING,), INT),
            Overload("string_size", (STRING,), INT, member=True),
        ),
        size,
    ),
    Function("type", (Overload("type", (_A,), type_of(_A)),), type_value),
    Function("dyn", (Overload("to_dyn", (_A,), DYN),), identity),
    Function(
        "matches",
        (
            Overload("matches", (STRING, STRING), BOOL, cost=cost.pattern_match),
            Overload("matches_string", (STRING, STRING), BOOL, member=True, cost=cost.pattern_match),
        ),
        Metered(match),
    ),
)
