"""The work of functions, in addition to the charges of metered ones.

A unit is a plain step, about a quarter of a microsecond (see `frame`). The prices were measured: ``python -m
benchmarks.cel`` prints the real time per unit of every function, for small and large arguments. Functions not listed
here have the price of a usual call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kubecel.containers import DEEPEST, LISTS, Concat, added_depth, length
from kubecel.declarations import Function, Overload
from kubecel.scalars import Opaque
from kubecel.types import Kind

WorkRule = Callable[[tuple[Any, ...]], int]

USUAL: Final = 4
"""A call of a library function, which checks the types of its arguments and creates one or two values."""
COPIED: Final = 8
"""Characters copied per unit, and allocated per unit, as powers of two."""


def _size(value: object) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    return length(value) if isinstance(value, LISTS) else 1


def per_character(base: int, shift: int) -> WorkRule:
    """Return the price: ``base``, and one unit per ``2 ** shift`` characters of the first argument."""

    def rule(args: tuple[Any, ...]) -> int:
        return base + (_size(args[0]) >> shift)

    return rule


def per_both(base: int, shift: int) -> WorkRule:
    """Return the price: ``base``, and one unit per ``2 ** shift`` characters of the first two arguments."""

    def rule(args: tuple[Any, ...]) -> int:
        return base + (_size(args[0]) + _size(args[1]) >> shift)

    return rule


def constant(base: int) -> WorkRule:
    return lambda _args: base


def addition(args: tuple[Any, ...]) -> int:
    left, right = args
    if isinstance(left, LISTS) and isinstance(right, LISTS):
        if isinstance(left, Concat) or isinstance(right, Concat):
            copied = added_depth(left, right) > DEEPEST
            return 3 + (length(left) + length(right) >> 3 if copied else 0)
        return 3 + (0 if type(left) is list else 8 * (length(left) + length(right)))
    return 2 + (_size(left) + _size(right) >> COPIED)


def _comparison(args: tuple[Any, ...]) -> int:
    """Return the work of comparing two values of a library."""
    return 6 + (args[0].weight() if isinstance(args[0], Opaque) else 0)


def search_work(text: int, part: int) -> int:
    """Return the maximum work of searching ``part`` characters in ``text`` characters.

    Python takes quadratic time for a short part in a short text, and linear time for long ones.
    """
    if text < _ADAPTIVE:
        return (text * min(part, _SHORT_PART) >> 9) + (text >> COPIED)
    return text >> 6


def _search(args: tuple[Any, ...]) -> int:
    if isinstance(args[0], str):
        return 4 + search_work(_size(args[0]), _size(args[1]))
    return 4


def _calendar(args: tuple[Any, ...]) -> int:
    return 20 if len(args) == 1 else 40 + (_size(args[1]) >> COPIED)


def url_work(text: object) -> int:
    """Return the work of parsing a URL twice and formatting it."""
    if not isinstance(text, str):
        return USUAL
    simple = text.isascii() and "%" not in text and URL_CHARACTERS.issuperset(text)
    return 40 + (len(text) >> 3 if simple else 2 * len(text))


def _url(args: tuple[Any, ...]) -> int:
    return url_work(args[0])


def _query(args: tuple[Any, ...]) -> int:
    raw = getattr(getattr(args[0], "url", None), "raw_query", "")
    return 4 + (2 * len(raw) if "%" in raw else len(raw))


def _url_part(args: tuple[Any, ...]) -> int:
    return 4 + (len(getattr(args[0], "text", "")) >> 3)


def _validation(args: tuple[Any, ...]) -> int:
    if getattr(args[0], "name", "") == "URI":
        return url_work(args[1])
    return 12 + (_size(args[1]) >> 2)


def _parsing(args: tuple[Any, ...]) -> int:
    """Return the work of parsing JSON; deeply nested text uses a slower parser."""
    text = args[0]
    if not isinstance(text, str):
        return USUAL
    nested = text.count("[") + text.count("{") > _DEEP_JSON
    return 12 + (4 * len(text) if nested else len(text) >> 1)


_ADAPTIVE: Final = 30_000
_SHORT_PART: Final = 100
"""Minimum length of a text, and of a part, that Python searches in linear time."""
_DEEP_JSON: Final = 400
URL_CHARACTERS: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@?#"
)
"""Characters that are not escaped in any part of a URL."""

_CONVERSION: Final = per_character(6, 4)

PRICES: Final[dict[str, WorkRule]] = {
    "_+_": addition,
    "_==_": constant(2),
    "_!=_": constant(2),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), constant(2)),
    "@in": constant(2),
    **dict.fromkeys(("bool", "double", "int", "uint"), _CONVERSION),
    "bytes": per_character(4, COPIED),
    "string": per_character(12, COPIED - 1),
    "duration": per_character(20, 0),
    "timestamp": per_character(20, 5),
    **dict.fromkeys(
        (
            "getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek", "getHours",
            "getMinutes", "getSeconds", "getMilliseconds",
        ),
        _calendar,
    ),
    **dict.fromkeys(("contains", "indexOf", "lastIndexOf"), _search),
    **dict.fromkeys(("startsWith", "endsWith"), per_both(4, COPIED)),
    **dict.fromkeys(("charAt", "substring", "trim", "reverse"), per_character(4, COPIED)),
    **dict.fromkeys(("lowerAscii", "upperAscii", "strings.quote"), per_character(4, 6)),
    "parseJSON": _parsing,
    **dict.fromkeys(("url", "isURL"), _url),
    **dict.fromkeys(("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath"), _url_part),
    "getQuery": _query,
    **dict.fromkeys(("ip", "isIP", "ip.isCanonical", "cidr", "isCIDR"), per_character(30, 5)),
    "containsIP": constant(40),
    "containsCIDR": constant(40),
    "masked": constant(16),
    **dict.fromkeys(("quantity", "isQuantity"), per_character(24, 4)),
    **dict.fromkeys(("isGreaterThan", "isLessThan", "compareTo"), _comparison),
    **dict.fromkeys(("add", "sub", "asInteger", "isInteger", "asApproximateFloat", "sign"), constant(16)),
    **dict.fromkeys(("semver", "isSemver"), per_character(16, 0)),
    "validate": _validation,
    "check": constant(1000),
}  # fmt: skip

_PLAIN: Final = frozenset({"!_", "-_", "_-_", "_*_", "_/_", "_%_", "size", "type", "dyn"})
"""Operators with the work of a plain step."""
_SCALARS: Final = frozenset({Kind.BOOL, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.DURATION, Kind.TIMESTAMP})
_BY_TYPE: Final = frozenset({"_+_", "_<_", "_<=_", "_>_", "_>=_"})
"""Operators with the work of a plain step for scalars."""

_usual: Final = constant(USUAL)


def work_of(function: Function, candidates: tuple[Overload, ...]) -> WorkRule | None:
    """Return the price of a call; None for a plain step."""
    if function.name in _PLAIN:
        return None
    if (
        function.name in _BY_TYPE
        and len(candidates) == 1
        and all(param.kind in _SCALARS for param in candidates[0].params)
    ):
        return None
    return PRICES.get(function.name, _usual)
