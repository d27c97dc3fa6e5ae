"""The standard conversions between types."""

from __future__ import annotations

from collections.abc import Callable

from kubecel import cost
from kubecel.declarations import CostRule, Function, Implementation, Overload
from kubecel.errors import Failure
from kubecel.instants import (
    format_duration,
    format_timestamp,
    parse_duration,
    parse_timestamp,
    timestamp_of,
)
from kubecel.libraries.operators import identity
from kubecel.numbers import (
    as_int,
    as_uint,
    int_of_double,
    parse_float64,
    parse_int64,
    parse_uint64,
    shortest,
    uint_of_double,
)
from kubecel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type

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


CONVERSIONS = (
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
