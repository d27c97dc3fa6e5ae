"""Values as Go prints them.

Kubernetes' messages quote strings and print numbers as Go does, and clients and tests compare these messages.
"""

from collections.abc import Mapping
from decimal import Decimal
from math import inf
from typing import Any, Final

from kubecel.numbers import shortest
from kubewire.api.selector import quote

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1

_JSON_ESCAPES: Final = str.maketrans(
    {chr(code): f"\\u{code:04x}" for code in (*range(0x20), ord("<"), ord(">"), ord("&"), 0x2028, 0x2029)}
    | {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)


def to_double(value: float) -> float:
    """Convert to a double, however large."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def format_number(value: float) -> str:
    if isinstance(value, int) and INT64_MIN <= value <= INT64_MAX:
        return str(value)
    return shortest(to_double(value))


def _json_number(value: float) -> str:
    """Print the shortest digits that identify the number, with an exponent below 1e-6 and from 1e21."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    if not isinstance(exponent, int):
        return shortest(value)
    minus = "-" if sign else ""
    point = len(digits) + exponent - 1
    if value == 0:
        return f"{minus}0"
    if -6 <= point < 21:
        return minus + format(Decimal((0, digits, exponent)), "f")
    text = "".join(map(str, digits))
    mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
    return f"{minus}{mantissa}e{'-' if point < 0 else '+'}{abs(point)}"


def json_text(value: Any) -> str:
    """Print as JSON with sorted keys."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value.translate(_JSON_ESCAPES)}"'
    if isinstance(value, int) and INT64_MIN <= value <= INT64_MAX:
        return str(value)
    if isinstance(value, int | float):
        return _json_number(to_double(value))
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json_text(k)}:{json_text(value[k])}" for k in sorted(value)) + "}"
    return "[" + ",".join(map(json_text, value)) + "]"


def format_value(value: object) -> str:
    """Print a value for a message: a string quoted, a number plain, anything else as JSON."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return format_number(value)
    return json_text(value)


def format_plain(value: Any) -> str:
    """Print as ``%v`` does: ``map[a:1 b:[x y]]``, keys sorted."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case float():
            return format_number(value)
        case dict():
            return f"map[{' '.join(f'{key}:{format_plain(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(map(format_plain, value))}]"
        case _:
            return str(value)


def format_literal(value: Any) -> str:
    """Print as ``%#v`` does: a Go literal."""
    match value:
        case None:
            return "interface {}(nil)"
        case str():
            return quote(value)
        case dict():
            inner = ", ".join(f"{quote(key)}:{format_literal(value[key])}" for key in sorted(value))
            return f"map[string]interface {{}}{{{inner}}}"
        case list():
            return f"[]interface {{}}{{{', '.join(map(format_literal, value))}}}"
        case _:
            return format_plain(value)


def type_name(value: Any) -> str:
    match value:
        case None:
            return "<nil>"
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case dict():
            return "map[string]interface {}"
        case _:
            return "[]interface {}"
