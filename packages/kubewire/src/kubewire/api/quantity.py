"""Kubernetes quantities: ``500m``, ``16Gi``, ``12e6``.

Two things make a faithful copy of the reference more than arithmetic. Its float depends on how a value was
written (``1500m`` is 1500×1e-3, one rounding), and its printed form depends on the notation it was read in.
So a quantity keeps the digits, the power of ten and the notation it was written with; comparison uses only the
value.

An agent, a pod or an expression may write any exponent of 32 bits. No operation here writes out more than
MAX_DIGITS digits, whatever the exponent: comparison decides by magnitude first, and a sum of far apart numbers
is rounded (`Quantity.__add__`).
"""

import math
import re
from dataclasses import dataclass, replace
from enum import Enum
from functools import total_ordering
from typing import Final


class Notation(Enum):
    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


class QuantityError(ValueError):
    """The text is not a quantity."""


class SuffixError(QuantityError):
    """The text has the form of a quantity, with letters or an exponent that mean nothing."""


NOT_A_NUMBER: Final = "does not start with a number"
UNKNOWN_SUFFIX: Final = "has the unknown suffix"
STRAY_CHARACTER: Final = "has a stray character"
TOO_LONG: Final = "is longer than 4,000 characters"
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

# Possessive: digits that one part has taken are never tried in the next, so that a mismatch takes linear time.
_SHAPE: Final = re.compile(r"([+-]?+)0*+([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?+[0-9]*+)", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)

MAX_TEXT: Final = 4000
"""Characters of a quantity. Kubernetes has no such limit; its arithmetic on longer ones takes quadratic time."""
MAX_DIGITS: Final = 4096
"""Digits of any number that is written out: all that MAX_TEXT allows, in billionths."""

_MIN_INT64: Final = -(2**63)
_MAX_INT64: Final = 2**63 - 1
_FAST_DIGITS: Final = 18  # always fit an int64
_NANO: Final = -9
_MAX_NUMBER_BITS: Final = MAX_TEXT * 10 // 3  # a decimal digit has 3.3 bits
_SHOWN_TEXT: Final = 64  # characters of a refused text in its message
_CLOSE: Final = 64  # powers of ten between two numbers that are simply aligned


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
        if len(text) > MAX_TEXT:
            raise QuantityError(f"quantity {_quoted(text)} {TOO_LONG}; {QUANTITY_REMEDY}")
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
            short = len(written) + len(fraction) <= _FAST_DIGITS
            if short and (scale >= _NANO or (scale := _int32(scale)) >= _NANO):
                shifted = written + fraction
                canonical = scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
                kept = text if canonical else ""
                return cls(_signed(int(shifted), negative), scale, notation, exact=True, text=kept)
        if not re.search("[0-9]", text[: len(text) - len(suffix)]):
            raise QuantityError(f"quantity {_quoted(text)} {NOT_A_NUMBER}; {QUANTITY_REMEDY}")
        return cls._of_large(whole + fraction, len(fraction), notation, power, negative=negative)

    @classmethod
    def _of_large(
        cls, written: str, places: int, notation: Notation, power: int, *, negative: bool
    ) -> "Quantity":
        """Rounded up to billionths and, in binary notation, capped at the largest int64, as the reference does."""
        if notation is not Notation.BINARY:
            digits, power = _in_billionths(written, power - places)
            return cls(_signed(digits, negative), power, notation, exact=False)
        digits = int(written or "0") << power
        if digits == 0:
            return cls(0, -places, notation, exact=False)
        digits, one = _scaled_up(digits, -places, _NANO), 10**-_NANO
        if digits > _MAX_INT64 * one:
            return cls(_signed(_MAX_INT64, negative), 0, notation, exact=False)
        if digits < one:
            notation = Notation.DECIMAL
        return cls(_signed(digits, negative), _NANO, notation, exact=False)

    @classmethod
    def _of_number(cls, number: float) -> "Quantity":
        if isinstance(number, bool) or (isinstance(number, float) and not math.isfinite(number)):
            raise QuantityError(f"{number} is not a quantity; {QUANTITY_REMEDY}")
        if isinstance(number, int) and number.bit_length() > _MAX_NUMBER_BITS:
            raise QuantityError(f"quantity {TOO_LONG}; {QUANTITY_REMEDY}")
        return cls.parse(repr(number))

    @classmethod
    def of_int(cls, value: int) -> "Quantity":
        """A plain integer, as CEL makes one when it is added to a quantity."""
        return cls(value, 0, Notation.EXPONENT, exact=True)

    @property
    def sign(self) -> int:
        return (self.digits > 0) - (self.digits < 0)

    def as_int(self) -> int | None:
        """None unless the quantity was *written* as a whole number that fits 64 bits: ``1.0`` is not one."""
        if not self.exact or self.power < 0:
            return None
        if self.digits and self.power > _FAST_DIGITS:
            return None
        value = self.digits and self.digits * 10**self.power
        return value if _MIN_INT64 <= value <= _MAX_INT64 else None

    def in_units(self, power: int, *, most: int) -> int:
        """In units of 10^``power``, rounded away from zero, at most ``most`` in magnitude."""
        size = abs(self.digits)
        if not size:
            return 0
        if _compare_sizes(size, self.power, most, power) >= 0:
            return _signed(most, self.digits < 0)
        return _signed(_scaled_up(size, self.power, power), self.digits < 0)

    def rounded_up(self, power: int) -> "Quantity":
        """Without digits below 10^``power``; rounded away from zero."""
        if self.power >= power or not self.digits:
            return self
        size = _scaled_up(abs(self.digits), self.power, power)
        return Quantity(_signed(size, self.digits < 0), power, self.notation, exact=self.exact)

    def approximate(self) -> float:
        try:
            base = float(self.digits)
        except OverflowError:
            base = math.inf * self.sign
        return base if self.power == 0 else base * _power_of_ten(self.power)

    def __add__(self, other: "Quantity") -> "Quantity":
        """Exact, unless the sum has more than MAX_DIGITS digits. Then the last digits are rounded such that the
        sum still compares with every quantity that `parse` returns as the exact sum does."""
        notation = other.notation if self.digits == 0 else self.notation
        if self.exact and other.exact:
            if other.digits == 0:
                return Quantity(self.digits, self.power, notation, exact=True)
            if self.digits == 0:
                return Quantity(other.digits, other.power, notation, exact=True)
        high, low = (self, other) if self.power >= other.power else (other, self)
        gap = high.power - low.power
        if gap > _CLOSE and gap + _digits_at_most(high.digits) > MAX_DIGITS:
            return _far_sum(high, low, notation)
        shifted = high.digits * 10**gap
        total = shifted + low.digits
        exact = self.exact and other.exact and _fits_int64(shifted) and _fits_int64(total)
        return Quantity(total, low.power, notation, exact=exact)

    def __sub__(self, other: "Quantity") -> "Quantity":
        if self.exact and other.exact and other.digits == _MIN_INT64:
            # The reference negates it in 64 bits, where it stays what it was; only an overflow makes it correct.
            wrapped = self + other
            return wrapped if wrapped.exact else self + replace(-other, exact=False)
        return self + -other

    def __neg__(self) -> "Quantity":
        return Quantity(-self.digits, self.power, self.notation, exact=self.exact)

    def compare(self, other: "Quantity") -> int:
        """-1, 0 or 1."""
        mine, theirs, gap = self.digits, other.digits, self.power - other.power
        if 0 < gap <= _CLOSE:
            mine *= 10**gap
        elif -_CLOSE <= gap < 0:
            theirs *= 10**-gap
        elif gap and self.sign == other.sign:
            return self.sign * _compare_sizes(abs(mine), self.power, abs(theirs), other.power)
        return (mine > theirs) - (mine < theirs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.compare(other) == 0

    def __lt__(self, other: "Quantity") -> bool:
        return self.compare(other) < 0

    def __hash__(self) -> int:
        digits, times = _without_tens(self.digits)
        return hash((digits, self.power + times if digits else 0))

    def __str__(self) -> str:
        return self.text or self._canonical()

    def _canonical(self) -> str:
        if self.digits == 0:
            return "0"
        notation = self.notation
        if notation is Notation.BINARY:
            whole = self._whole()
            if whole is not None and abs(whole) >= 1024:
                times = ((whole & -whole).bit_length() - 1) // 10
                return f"{whole >> times * 10}{_BINARY_SUFFIXES.get(times, '')}"
            # A binary suffix would round it, or would need its zeros written out.
            notation = Notation.EXPONENT if whole is None and self.power > 0 else Notation.DECIMAL
        number, times = _without_tens(self.digits)
        power = _int32(self.power + times)
        extra = power % 3
        number, power = number * 10**extra, _int32(power - extra)
        if notation is Notation.EXPONENT:
            return f"{number}e{power}" if power else str(number)
        # Beyond the suffixes the reference prints none, and so do we: this text is what its CEL sees.
        return f"{number}{_DECIMAL_SUFFIXES.get(power, '')}"

    def _whole(self) -> int | None:
        """None if it is a fraction, or too long."""
        if self.power >= 0:
            fits = self.power + _digits_at_most(self.digits) <= MAX_DIGITS
            return self.digits * 10**self.power if fits else None
        whole, rest = divmod(self.digits, 10**-self.power)
        return None if rest else whole


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
    written = int(exponent[1]) if exponent is not None else None
    if written is None or not _fits_int64(written):
        raise SuffixError(f"quantity {_quoted(text)} {UNKNOWN_SUFFIX} {_quoted(suffix)}; {QUANTITY_REMEDY}")
    return Notation.EXPONENT, _int32(written)


def _refusal(text: str) -> str:
    number = _NUMBER.match(text)
    if number is None:
        return f"quantity {_quoted(text)} {NOT_A_NUMBER}; {QUANTITY_REMEDY}"
    if (rest := text[number.end() :]).isalpha():
        return f"quantity {_quoted(text)} {UNKNOWN_SUFFIX} {_quoted(rest)}; {QUANTITY_REMEDY}"
    start = _SHAPE.match(text)
    at = start.end() if start else 0
    return f'quantity {_quoted(text)} {STRAY_CHARACTER} "{text[at]}" at position {at + 1}; {QUANTITY_REMEDY}'


def _quoted(text: str) -> str:
    return f'"{text}"' if len(text) <= _SHOWN_TEXT else f'"{text[:_SHOWN_TEXT]}…"'


def _signed(value: int, negative: bool) -> int:
    return -value if negative else value


def _int32(value: int) -> int:
    """The reference keeps powers in 32 bits, where larger ones wrap: ``1e4294967296`` is 1."""
    return (value + 2**31) % 2**32 - 2**31


def _fits_int64(value: int) -> bool:
    return _MIN_INT64 <= value <= _MAX_INT64


def _in_billionths(written: str, power: int) -> tuple[int, int]:
    """Digits and power of ``written`` × 10^``power``, rounded up to billionths. Its power is larger only where a
    billionth would need more than MAX_DIGITS digits."""
    significant = written.lstrip("0")
    if not significant:
        return 0, _int32(power)
    shift = power - _NANO
    if shift < 0:
        kept, dropped = significant[:shift], significant[shift:]
        return int(kept or "0") + (dropped.strip("0") != ""), _NANO
    if len(significant) + shift > MAX_DIGITS:
        return int(significant), power
    return int(significant) * 10**shift, _NANO


def _scaled_up(size: int, power: int, target: int) -> int:
    """``size`` × 10^``power`` in units of 10^``target``, rounded up. Neither may be far from the other."""
    unit: int = 10 ** abs(power - target)
    return size * unit if power >= target else -(-size // unit)


def _digits_at_most(number: int) -> int:
    """How many decimal digits an integer has, or one more."""
    return number.bit_length() * 30103 // 100000 + 1


def _compare_sizes(one: int, one_power: int, other: int, other_power: int) -> int:
    """Compare two positive numbers. Only those of about the same magnitude are aligned."""
    ahead = one_power + _digits_at_most(one) - other_power - _digits_at_most(other)
    if abs(ahead) > 1:
        return 1 if ahead > 0 else -1
    if one_power > other_power:
        one *= 10 ** (one_power - other_power)
    else:
        other *= 10 ** (other_power - one_power)
    return (one > other) - (one < other)


def _far_sum(high: Quantity, low: Quantity, notation: Notation) -> Quantity:
    """The first MAX_DIGITS digits of a sum, and a last digit 1 for what follows them, if anything does."""
    if not (high.digits and low.digits):
        largest = high if high.digits else low
        return Quantity(largest.digits, largest.power, notation, exact=False)
    top = max(term.power + _digits_at_most(term.digits) for term in (high, low))
    power = max(top - MAX_DIGITS, low.power)
    total, rest = 0, False
    for term in (high, low):
        if term.power >= power:
            total += term.digits * 10 ** (term.power - power)
        elif power - term.power > MAX_DIGITS + 1:
            total, rest = total - (term.digits < 0), True
        else:
            quotient, remainder = divmod(term.digits, 10 ** (power - term.power))
            total, rest = total + quotient, rest or remainder != 0
    return Quantity(total * 10 + rest, power - 1, notation, exact=False)


def _without_tens(number: int) -> tuple[int, int]:
    """The number without its trailing zeros, and how many there were."""
    if number % 10 or not number:
        return number, 0
    written = str(number)
    kept = written.rstrip("0")
    return int(kept), len(written) - len(kept)


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
