"""Arithmetic with 64-bit limits, and numbers as text in the reference's notation."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from kubecel.errors import (
    DIVISION_BY_ZERO,
    INT_OVERFLOW,
    MODULUS_BY_ZERO,
    NO_SUCH_OVERLOAD,
    UINT_OVERFLOW,
    Failure,
)
from kubecel.scalars import INT_MAX, INT_MIN, UINT_MAX, Uint

_INT = re.compile(r"[+-]?[0-9]+")
_UINT = re.compile(r"[0-9]+")
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_HEX_DIGITS = r"[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*"
_DECIMAL = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEX = re.compile(
    rf"[+-]?0[xX](?:_?{_HEX_DIGITS}(?:\.(?:{_HEX_DIGITS})?)?|\.{_HEX_DIGITS})[pP][+-]?{_DIGITS}"
)
_SPECIAL = re.compile(r"(?:[+-]?inf(?:inity)?|nan)", re.IGNORECASE)


def as_int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise Failure(INT_OVERFLOW)


def as_uint(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise Failure(UINT_OVERFLOW)


def divide(left: object, right: object) -> object:
    a, b = type(left), type(right)
    if a is not b:
        raise Failure(NO_SUCH_OVERLOAD)
    if isinstance(left, float) and isinstance(right, float):
        return _float_quotient(left, right)
    if isinstance(left, int) and isinstance(right, int) and a in (int, Uint):
        if right == 0:
            raise Failure(DIVISION_BY_ZERO)
        # Rounds towards zero, as 64-bit division does.
        quotient = abs(int(left)) // abs(int(right))
        if a is Uint:
            return Uint(quotient)
        return as_int(quotient if (left < 0) == (right < 0) else -quotient)
    raise Failure(NO_SUCH_OVERLOAD)


def _float_quotient(left: float, right: float) -> float:
    if right != 0.0:
        return left / right
    if left == 0.0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: object, right: object) -> object:
    a = type(left)
    if a is not type(right) or a not in (int, Uint):
        raise Failure(NO_SUCH_OVERLOAD)
    assert isinstance(left, int)
    assert isinstance(right, int)
    if right == 0:
        raise Failure(MODULUS_BY_ZERO)
    if a is int and left == INT_MIN and right == -1:
        raise Failure(INT_OVERFLOW)
    remainder = abs(int(left)) % abs(int(right))
    return Uint(remainder) if a is Uint else (-remainder if left < 0 else remainder)


def multiply(left: object, right: object) -> object:
    a = type(left)
    if a is type(right):
        if isinstance(left, float) and isinstance(right, float):
            return left * right
        if a is int or a is Uint:
            assert isinstance(left, int)
            assert isinstance(right, int)
            product = int(left) * int(right)
            return as_int(product) if a is int else as_uint(product)
    raise Failure(NO_SUCH_OVERLOAD)


def int_of_double(value: float) -> int:
    if math.isnan(value) or not -9.223372036854775808e18 < value < 9.223372036854775808e18:
        raise Failure(INT_OVERFLOW)
    return int(value)


def uint_of_double(value: float) -> Uint:
    if math.isnan(value) or not 0 <= value < 18446744073709551616.0:
        raise Failure(UINT_OVERFLOW)
    return Uint(int(value))


def parse_int64(text: str) -> int | None:
    if not _INT.fullmatch(text):
        return None
    digits = text.lstrip("+-0")
    if len(digits) > 19:
        return None
    value = int(digits or "0")
    if text[0] == "-":
        value = -value
    return value if INT_MIN <= value <= INT_MAX else None


def parse_uint64(text: str) -> Uint | None:
    if not _UINT.fullmatch(text):
        return None
    digits = text.lstrip("0")
    if len(digits) > 20:
        return None
    value = int(digits or "0")
    return Uint(value) if value <= UINT_MAX else None


def parse_float64(text: str) -> float | None:
    if _SPECIAL.fullmatch(text):
        return float(text)
    if _DECIMAL.fullmatch(text):
        value = float(text.replace("_", ""))
    elif _HEX.fullmatch(text):
        value = _hex_float(text)
    else:
        return None
    return None if math.isinf(value) else value


def _hex_float(text: str) -> float:
    try:
        return float.fromhex(text.replace("_", ""))
    except (ValueError, OverflowError):
        return math.inf


def positional(value: float) -> str:
    """Format with the fewest digits that identify the double, without an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = format(Decimal(repr(value)), "f")
    return text[:-2] if text.endswith(".0") else text


def shortest(value: float) -> str:
    """Format with the fewest digits that identify the double, with an exponent from a million or below 1/10000."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    point = len(digits) + exponent - 1
    if value != 0 and (point < -4 or point >= 6):
        mantissa = "".join(map(str, digits))
        head = mantissa[0] + ("." + mantissa[1:] if len(mantissa) > 1 else "")
        return f"{'-' if sign else ''}{head}e{'-' if point < 0 else '+'}{abs(point):02d}"
    return positional(value)
