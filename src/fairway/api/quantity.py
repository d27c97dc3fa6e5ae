"""Kubernetes quantities: ``500m``, ``16Gi``, ``12e6``.

Two things make a faithful copy of the reference more than arithmetic. Its float depends on how a value was
written (``1500m`` is 1500×1e-3, one rounding), and its printed form depends on the notation it was read in.
So a quantity keeps the digits, the power of ten and the notation it came with; comparison looks only at the
value.
"""

import math
import re
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import total_ordering
from typing import Final


class Notation(Enum):
    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


class QuantityError(ValueError):
    """The text is not a quantity."""


NOT_A_NUMBER: Final = "does not start with a number"
UNKNOWN_SUFFIX: Final = "has the unknown suffix"
STRAY_CHARACTER: Final = "has a stray character"
TOO_EXTREME: Final = "is too long or its exponent too large"
QUANTITY_REMEDY: Final = (
    "write digits and one suffix of n u m k M G T P E Ki Mi Gi Ti Pi Ei or e<power>, "
    'like "500m", "16Gi" or "2.5"'
)

_DECIMAL_POWERS: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_POWERS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES: Final = {power: suffix for suffix, power in _DECIMAL_POWERS.items()}
_BINARY_SUFFIXES: Final = {0: "", **{power // 10: suffix for suffix, power in _BINARY_POWERS.items()}}

_SHAPE: Final = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)

_MAX_INT64: Final = 2**63 - 1
_FAST_DIGITS: Final = 18  # what always fits an int64
_NANO: Final = -9
# The reference would spend minutes on such values; no resource has them.
_MAX_TEXT: Final = 4000
_MAX_EXPONENT: Final = 100_000


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    digits: int
    power: int
    """The value is ``digits`` × 10^``power``."""
    notation: Notation
    exact: bool
    """Held as an int64 in the reference. Only such quantities can be integers in CEL."""
    text: str = ""
    """As read, when that already is the canonical form."""

    @classmethod
    def parse(cls, text: str | int | float) -> "Quantity":
        if not isinstance(text, str):
            return cls._of_number(text)
        if text == "0":
            return cls(0, 0, Notation.DECIMAL, exact=True, text="0")
        if not text:
            raise QuantityError(f"an empty text is not a quantity; {QUANTITY_REMEDY}")
        if len(text) > _MAX_TEXT:
            raise QuantityError(f'quantity "{text[:20]}…" {TOO_EXTREME}; {QUANTITY_REMEDY}')
        shape = _SHAPE.fullmatch(text)
        if shape is None:
            raise QuantityError(_refusal(text))
        sign, whole, fraction, suffix = shape.groups(default="")
        notation, power = _interpret(text, suffix)
        negative = sign == "-"
        written = whole or "0"
        if notation is Notation.BINARY:
            fast = not fraction and len(written) + power * 3 // 10 < 15
            if fast:
                value = int(written)
                kept = text if value & 7 else ""
                return cls(_signed(value << power, negative), 0, notation, exact=True, text=kept)
        else:
            scale = power - len(fraction)
            if len(written) + len(fraction) <= _FAST_DIGITS and scale >= _NANO:
                shifted = written + fraction
                canonical = scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
                kept = text if canonical else ""
                return cls(_signed(int(shifted), negative), scale, notation, exact=True, text=kept)
        if not re.search("[0-9]", text[: len(text) - len(suffix)]):
            raise QuantityError(f'quantity "{text}" {NOT_A_NUMBER}; {QUANTITY_REMEDY}')
        return cls._of_large(whole + fraction, len(fraction), notation, power, negative=negative)

    @classmethod
    def _of_large(
        cls, written: str, places: int, notation: Notation, power: int, *, negative: bool
    ) -> "Quantity":
        digits = int(written or "0")
        if notation is Notation.BINARY:
            digits <<= power
            power = 0
        power -= places
        if digits == 0:
            return cls(0, power, notation, exact=False)
        digits = _round_up(digits, power, _NANO)
        power = _NANO
        one = 10**-_NANO
        if notation is Notation.BINARY and digits > _MAX_INT64 * one:
            digits, power = _MAX_INT64, 0
        elif notation is Notation.BINARY and digits < one:
            notation = Notation.DECIMAL
        return cls(_signed(digits, negative), power, notation, exact=False)

    @classmethod
    def _of_number(cls, number: float) -> "Quantity":
        if isinstance(number, bool) or not math.isfinite(number):
            raise QuantityError(f"{number} is not a quantity; {QUANTITY_REMEDY}")
        return cls.parse(repr(number))

    @classmethod
    def of_int(cls, value: int) -> "Quantity":
        """A plain integer, as CEL makes one when it is added to a quantity."""
        return cls(value, 0, Notation.EXPONENT, exact=True)

    @property
    def value(self) -> Fraction:
        return Fraction(self.digits * 10 ** max(self.power, 0), 10 ** max(-self.power, 0))

    @property
    def sign(self) -> int:
        return (self.digits > 0) - (self.digits < 0)

    def as_int(self) -> int | None:
        """None unless the quantity was *written* as a whole number that fits 64 bits: ``1.0`` is not one."""
        if not self.exact or self.power < 0:
            return None
        value = self.digits * 10**self.power
        return value if -_MAX_INT64 - 1 <= value <= _MAX_INT64 else None

    def approximate(self) -> float:
        try:
            base = float(self.digits)
        except OverflowError:
            base = math.inf * self.sign
        return base if self.power == 0 else base * _power_of_ten(self.power)

    def __add__(self, other: "Quantity") -> "Quantity":
        notation = other.notation if self.digits == 0 else self.notation
        if self.exact and other.exact:
            if other.digits == 0:
                return Quantity(self.digits, self.power, notation, exact=True)
            if self.digits == 0:
                return Quantity(other.digits, other.power, notation, exact=True)
        power = min(self.power, other.power)
        mine = self.digits * 10 ** (self.power - power)
        theirs = other.digits * 10 ** (other.power - power)
        exact = self.exact and other.exact and max(abs(mine), abs(theirs), abs(mine + theirs)) <= _MAX_INT64
        return Quantity(mine + theirs, power, notation, exact=exact)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return self + Quantity(-other.digits, other.power, other.notation, exact=other.exact)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.digits, self.power, self.notation, exact=self.exact)

    def _aligned(self, other: "Quantity") -> tuple[int, int]:
        power = min(self.power, other.power)
        return self.digits * 10 ** (self.power - power), other.digits * 10 ** (other.power - power)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        mine, theirs = self._aligned(other)
        return mine == theirs

    def __lt__(self, other: "Quantity") -> bool:
        mine, theirs = self._aligned(other)
        return mine < theirs

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return self.text or self._canonical()

    def _canonical(self) -> str:
        if self.digits == 0:
            return "0"
        notation = self.notation
        if notation is Notation.BINARY:
            if self.power < 0 and self.digits % 10**-self.power:
                notation = Notation.DECIMAL  # a binary suffix could only show it rounded
            else:
                whole = self.digits * 10**self.power if self.power >= 0 else self.digits // 10**-self.power
                if abs(whole) >= 1024:
                    number, times = _without_factor(whole, 1024)
                    return f"{number}{_BINARY_SUFFIXES.get(times, '')}"
                notation = Notation.DECIMAL
        number, times = _without_factor(self.digits, 10)
        power = self.power + times
        number *= 10 ** (power % 3)
        power -= power % 3
        if notation is Notation.EXPONENT:
            return f"{number}e{power}" if power else str(number)
        # Beyond the suffixes the reference prints none, and so do we: this text is what its CEL sees.
        return f"{number}{_DECIMAL_SUFFIXES.get(power, '')}"


def quantity_float(text: str | int | float) -> float:
    """``Quantity.parse(text).approximate()``, several times quicker for the texts clusters really report."""
    if type(text) is str and text.isascii():
        if text.isdigit():
            if len(text) <= _FAST_DIGITS:
                return float(text)
        elif text[-1:] == "i":
            number = text[:-2]
            power = _BINARY_POWERS.get(text[-2:])
            if power is not None and number.isdigit() and len(number) + power * 3 // 10 < 15:
                return float(int(number) << power)
        elif (ten := _FAST_TENS.get(text[-1:])) is not None:
            number = text[:-1]
            if number.isdigit() and len(number) <= _FAST_DIGITS:
                return float(number) * ten
    return Quantity.parse(text).approximate()


_FAST_TENS: Final = {suffix: float(f"1e{power}") for suffix, power in _DECIMAL_POWERS.items() if suffix}


def _interpret(text: str, suffix: str) -> tuple[Notation, int]:
    if (power := _DECIMAL_POWERS.get(suffix)) is not None:
        return Notation.DECIMAL, power
    if (power := _BINARY_POWERS.get(suffix)) is not None:
        return Notation.BINARY, power
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        raise QuantityError(f'quantity "{text}" {UNKNOWN_SUFFIX} "{suffix}"; {QUANTITY_REMEDY}')
    power = int(exponent[1])
    if abs(power) > _MAX_EXPONENT:
        raise QuantityError(f'quantity "{text}" {TOO_EXTREME}; {QUANTITY_REMEDY}')
    return Notation.EXPONENT, power


def _refusal(text: str) -> str:
    number = _NUMBER.match(text)
    if number is None:
        return f'quantity "{text}" {NOT_A_NUMBER}; {QUANTITY_REMEDY}'
    if (rest := text[number.end() :]).isalpha():
        return f'quantity "{text}" {UNKNOWN_SUFFIX} "{rest}"; {QUANTITY_REMEDY}'
    start = _SHAPE.match(text)
    at = start.end() if start else 0
    return f'quantity "{text}" {STRAY_CHARACTER} "{text[at]}" at position {at + 1}; {QUANTITY_REMEDY}'


def _signed(value: int, negative: bool) -> int:
    return -value if negative else value


def _round_up(digits: int, power: int, target: int) -> int:
    """Positive ``digits`` × 10^``power`` in units of 10^``target``."""
    unit: int = 10 ** abs(power - target)
    return digits * unit if power >= target else -(-digits // unit)


def _without_factor(number: int, factor: int) -> tuple[int, int]:
    times = 0
    while number % factor == 0:
        number //= factor
        times += 1
    return number, times


def _power_of_ten(power: int) -> float:
    """As Go computes it: from two table entries, which is not always the nearest double."""
    if power < -323:
        return 0.0
    if power > 308:
        return math.inf
    high, low = divmod(abs(power), 32)
    if power >= 0:
        return float(f"1e{high * 32}") * float(f"1e{low}")
    return float(f"1e-{high * 32}") / float(f"1e{low}")
