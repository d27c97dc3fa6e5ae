"""The standard library: operators, conversions, strings, and the calendar.

Operators are implemented once for all their types; the overloads exist for the checker and for costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fairway.cel import cost
from fairway.cel.declarations import CostRule, Function, Implementation, Library, Overload
from fairway.cel.errors import NO_SUCH_OVERLOAD, Failure, Overrun
from fairway.cel.instants import (
    Calendar,
    between,
    duration_of,
    format_duration,
    format_timestamp,
    in_zone,
    parse_duration,
    parse_timestamp,
    shift,
    timestamp_of,
)
from fairway.cel.numbers import (
    as_int,
    as_uint,
    divide,
    int_of_double,
    modulo,
    multiply,
    parse_float64,
    parse_int64,
    parse_uint64,
    shortest,
    uint_of_double,
)
from fairway.cel.regex import compile_pattern
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
    Type,
    list_of,
    map_of,
    param,
    type_of,
)
from fairway.cel.values import (
    LISTS,
    MAPS,
    MAX_COMPARISONS,
    Concat,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    compare,
    equal,
    find,
    length,
    size_of,
    type_of_value,
)

_A = param("A")
_B = param("B")
_LIST_A = list_of(_A)
_MAP_AB = map_of(_A, _B)


# --- operators ---------------------------------------------------------------------------------------------------


def add(left: object, right: object) -> object:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, int) and isinstance(right, int):
        return _integer(left, right, int(left) + int(right))
    if isinstance(left, float) and isinstance(right, float):
        return left + right
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left + right
    if isinstance(left, LISTS) and isinstance(right, LISTS):
        if not length(left):
            return right
        return Concat(left, right) if length(right) else left
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
    """The result as the integer type both operands have."""
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


def contained(element: object, container: object) -> object:
    if isinstance(container, dict):
        return type(element) is str and element in container
    if isinstance(container, MAPS):
        return find(container, element)[1]
    if not isinstance(container, LISTS):
        raise Failure(NO_SUCH_OVERLOAD)
    if length(container) > MAX_COMPARISONS:
        raise Overrun
    for candidate in container:
        try:
            if equal(element, candidate):
                return True
        except Failure:
            continue
    return False


def less(left: object, right: object) -> object:
    return compare(left, right) < 0


def less_equal(left: object, right: object) -> object:
    return compare(left, right) <= 0


def greater(left: object, right: object) -> object:
    return compare(left, right) > 0


def greater_equal(left: object, right: object) -> object:
    return compare(left, right) >= 0


def size(value: object) -> object:
    if isinstance(value, (str, bytes, *LISTS, *MAPS)):
        return size_of(value)
    raise Failure(NO_SUCH_OVERLOAD)


def type_value(value: object) -> object:
    return TypeValue(type_of_value(value))


def identity(value: object) -> object:
    return value


def match(text: object, pattern: object) -> object:
    if not isinstance(text, str) or not isinstance(pattern, str):
        raise Failure(NO_SUCH_OVERLOAD)
    return compile_pattern(pattern).matches(text)


def _compiled(_: object) -> object:
    raise AssertionError("logical operators are compiled, not called")


def _binary(
    name: str, dispatch: Implementation, *signatures: tuple[str, Type, Type, Type, CostRule | None]
) -> Function:
    overloads = [Overload(id_, (a, b), result, cost=rule) for id_, a, b, result, rule in signatures]
    return Function(name, tuple(overloads), dispatch)


def _ordering(name: str, prefix: str, dispatch: Implementation) -> Function:
    # The order matters: the first overload that fits decides what a free type variable becomes.
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
        name, dispatch, *[(f"{prefix}_{label}", a, b, BOOL, rule) for label, a, b, rule in signatures]
    )


_OPERATORS = (
    Function("_?_:_", (Overload("conditional", (BOOL, _A, _A), _A),), _compiled),
    Function("_&&_", (Overload("logical_and", (BOOL, BOOL), BOOL),), _compiled),
    Function("_||_", (Overload("logical_or", (BOOL, BOOL), BOOL),), _compiled),
    Function("!_", (Overload("logical_not", (BOOL,), BOOL),), logical_not),
    Function("@not_strictly_false", (Overload("not_strictly_false", (BOOL,), BOOL),), _compiled),
    Function("_==_", (Overload("equals", (_A, _A), BOOL, cost=cost.equality),), equal),
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
        ("add_list", _LIST_A, _LIST_A, _LIST_A, None),
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
    _binary(
        "_%_",
        modulo,
        ("modulo_int64", INT, INT, INT, None),
        ("modulo_uint64", UINT, UINT, UINT, None),
    ),
    Function(
        "-_",
        (Overload("negate_double", (DOUBLE,), DOUBLE), Overload("negate_int64", (INT,), INT)),
        negate,
    ),
    _ordering("_<_", "less", less),
    _ordering("_<=_", "less_equals", less_equal),
    _ordering("_>_", "greater", greater),
    _ordering("_>=_", "greater_equals", greater_equal),
    Function(
        "_[_]",
        (Overload("index_list", (_LIST_A, INT), _A), Overload("index_map", (_MAP_AB, _A), _B)),
        _compiled,
    ),
    _binary(
        "@in",
        contained,
        ("in_list", _A, _LIST_A, BOOL, cost.containing_list),
        ("in_map", _A, _MAP_AB, BOOL, None),
    ),
    Function(
        "size",
        (
            Overload("size_bytes", (BYTES,), INT),
            Overload("bytes_size", (BYTES,), INT, member=True),
            Overload("size_list", (_LIST_A,), INT),
            Overload("list_size", (_LIST_A,), INT, member=True),
            Overload("size_map", (_MAP_AB,), INT),
            Overload("map_size", (_MAP_AB,), INT, member=True),
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
        match,
    ),
)


# --- conversions -------------------------------------------------------------------------------------------------

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _conversion_error(target: str) -> Failure:
    return Failure(f"type conversion error from 'string' to '{target}'")


def _string_to_bool(text: str) -> object:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _conversion_error("bool")


def _parsed(parse: Callable[[str], object], target: str) -> Implementation:
    def convert(text: str) -> object:
        value = parse(text)
        if value is None:
            raise _conversion_error(target)
        return value

    return convert


def _bytes_to_string(value: bytes) -> object:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise Failure("invalid UTF-8 in bytes, cannot convert to string") from None


def _encode(text: str) -> object:
    return text.encode("utf-8", "surrogateescape")


def _bool_to_string(value: bool) -> object:
    return "true" if value else "false"


def _conversion(
    name: str, result: Type, *sources: tuple[str, Type, Implementation, CostRule | None]
) -> Function:
    overloads = [Overload(id_, (source,), result, call, cost=rule) for id_, source, call, rule in sources]
    return Function(name, tuple(overloads))


_CONVERSIONS = (
    _conversion(
        "bool",
        BOOL,
        ("bool_to_bool", BOOL, identity, None),
        ("string_to_bool", STRING, _string_to_bool, None),
    ),
    _conversion(
        "bytes",
        BYTES,
        ("bytes_to_bytes", BYTES, identity, None),
        ("string_to_bytes", STRING, _encode, cost.first_argument),
    ),
    _conversion(
        "double",
        DOUBLE,
        ("double_to_double", DOUBLE, identity, None),
        ("int64_to_double", INT, float, None),
        ("string_to_double", STRING, _parsed(parse_float64, "double"), None),
        ("uint64_to_double", UINT, float, None),
    ),
    _conversion(
        "duration",
        DURATION,
        ("duration_to_duration", DURATION, identity, None),
        ("string_to_duration", STRING, _parsed(parse_duration, DURATION.name), None),
    ),
    _conversion(
        "int",
        INT,
        ("int64_to_int64", INT, identity, None),
        ("double_to_int64", DOUBLE, int_of_double, None),
        ("duration_to_int64", DURATION, lambda value: value.nanos, None),
        ("string_to_int64", STRING, _parsed(parse_int64, "int"), None),
        ("timestamp_to_int64", TIMESTAMP, lambda value: value.seconds, None),
        ("uint64_to_int64", UINT, lambda value: as_int(int(value)), None),
    ),
    _conversion(
        "string",
        STRING,
        ("string_to_string", STRING, identity, None),
        ("bool_to_string", BOOL, _bool_to_string, None),
        ("bytes_to_string", BYTES, _bytes_to_string, cost.first_argument),
        ("double_to_string", DOUBLE, shortest, None),
        ("duration_to_string", DURATION, format_duration, None),
        ("int64_to_string", INT, str, None),
        ("timestamp_to_string", TIMESTAMP, format_timestamp, None),
        ("uint64_to_string", UINT, lambda value: str(int(value)), None),
    ),
    _conversion(
        "timestamp",
        TIMESTAMP,
        ("timestamp_to_timestamp", TIMESTAMP, identity, None),
        ("int64_to_timestamp", INT, lambda value: timestamp_of(value, 0), None),
        ("string_to_timestamp", STRING, _parsed(parse_timestamp, TIMESTAMP.name), None),
    ),
    _conversion(
        "uint",
        UINT,
        ("uint64_to_uint64", UINT, identity, None),
        ("double_to_uint64", DOUBLE, uint_of_double, None),
        ("int64_to_uint64", INT, as_uint, None),
        ("string_to_uint64", STRING, _parsed(parse_uint64, "uint"), None),
    ),
)


# --- strings -----------------------------------------------------------------------------------------------------


def _string_test(name: str, call: Implementation, rule: CostRule) -> Function:
    return Function(name, (Overload(f"{name}_string", (STRING, STRING), BOOL, call, member=True, cost=rule),))


_STRINGS = (
    _string_test("contains", lambda text, part: part in text, cost.substring_search),
    _string_test("startsWith", str.startswith, cost.second_argument),
    _string_test("endsWith", str.endswith, cost.second_argument),
)


# --- calendar ----------------------------------------------------------------------------------------------------


def _truncated(unit: int) -> Implementation:
    def units(value: Duration) -> object:
        whole = abs(value.nanos) // unit
        return -whole if value.nanos < 0 else whole

    return units


def _accessor(
    name: str,
    stem: str,
    read: Callable[[Calendar, Timestamp], int],
    duration: tuple[str, Implementation] | None = None,
) -> Function:
    def in_utc(value: Timestamp) -> object:
        return read(in_zone(value, "UTC"), value)

    def zoned(value: Timestamp, zone: str) -> object:
        return read(in_zone(value, zone), value)

    overloads = [
        Overload(f"timestamp_to_{stem}", (TIMESTAMP,), INT, in_utc, member=True),
        Overload(f"timestamp_to_{stem}_with_tz", (TIMESTAMP, STRING), INT, zoned, member=True),
    ]
    if duration is not None:
        overloads.append(Overload(duration[0], (DURATION,), INT, duration[1], member=True))
    return Function(name, tuple(overloads))


def _accessors() -> Iterator[Function]:
    yield _accessor("getFullYear", "year", lambda c, _: c.year)
    yield _accessor("getMonth", "month", lambda c, _: c.month - 1)
    yield _accessor("getDayOfYear", "day_of_year", lambda c, _: c.day_of_year)
    yield _accessor("getDayOfMonth", "day_of_month", lambda c, _: c.day - 1)
    yield _accessor("getDate", "day_of_month_1_based", lambda c, _: c.day)
    yield _accessor("getDayOfWeek", "day_of_week", lambda c, _: c.day_of_week)
    yield _accessor("getHours", "hours", lambda c, _: c.hour, ("duration_to_hours", _truncated(3600 * 10**9)))
    yield _accessor(
        "getMinutes", "minutes", lambda c, _: c.minute, ("duration_to_minutes", _truncated(60 * 10**9))
    )
    yield _accessor(
        "getSeconds", "seconds", lambda c, _: c.second, ("duration_to_seconds", _truncated(10**9))
    )
    yield _accessor(
        "getMilliseconds",
        "milliseconds",
        lambda _, value: value.nanos // 10**6,
        ("duration_to_milliseconds", _truncated(10**6)),
    )


STANDARD = Library(
    "standard",
    (*_OPERATORS, *_CONVERSIONS, *_STRINGS, *_accessors()),
    (
        BOOL, BYTES, DOUBLE, DURATION, INT, _LIST_A, _MAP_AB, NULL, STRING, TIMESTAMP, TYPE, UINT,
    ),
)  # fmt: skip
