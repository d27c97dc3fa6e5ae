"""Quantities, compared with recorded results of Kubernetes (apimachinery 0.36.3) and with exact arithmetic."""

import json
import math
import struct
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from every import every
from kubewire.api.quantity import (
    MAX_DIGITS,
    NOT_A_NUMBER,
    QUANTITY_REMEDY,
    STRAY_CHARACTER,
    TOO_LONG,
    UNKNOWN_SUFFIX,
    Quantity,
    QuantityError,
    quantity_float,
)

GOLDEN = Path(__file__).parents[4] / "tests" / "golden" / "quantity.jsonl"
RECORDED = Path(__file__).parent / "recorded" / "quantities.jsonl"


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def answer(quantity: Quantity) -> dict[str, Any]:
    bits = struct.unpack(">Q", struct.pack(">d", quantity.approximate()))[0]
    content = {"bits": f"{bits:x}", "str": str(quantity), "sign": quantity.sign}
    if (whole := quantity.as_int()) is not None:
        content["int"] = str(whole)
    return content


def parsed(text: str) -> Quantity | None:
    try:
        return Quantity.parse(text)
    except QuantityError:
        return None


@every("row", rows(GOLDEN), ids=lambda row: row["text"])
def test_quantity_matches_golden_value(row: dict[str, Any]) -> None:
    quantity = parsed(row["text"])
    assert (quantity is not None) is row["valid"]
    if quantity is not None:
        wanted = float(row["float"])  # large quantities have no decimal point
        assert quantity.approximate() == wanted
        assert quantity_float(row["text"]) == wanted


@every("row", rows(RECORDED), ids=lambda row: f"{row['left']} {row['right']}")
def test_quantity_matches_recorded_answers(row: dict[str, Any]) -> None:
    left, right = parsed(row["left"]), parsed(row["right"])
    assert (answer(left) if left else None) == row["leftAnswer"]
    assert (answer(right) if right else None) == row["rightAnswer"]
    if left is not None and right is not None:
        results = {"sum": left + right, "difference": left - right, "plusSeven": left + Quantity.of_int(7)}
        for name in results.keys() & row.keys():  # sums of more than 300 digits are not recorded
            assert answer(results[name]) == row[name]
        assert left.compare(right) == row["order"]
        assert (left == right) is (row["order"] == 0)


SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(1000),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "Ki": Fraction(2**10),
    "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
}  # fmt: skip

exact_quantities = st.builds(
    lambda digits, suffix: (f"{digits}{suffix}", digits * SUFFIXES[suffix]),
    st.integers(-(10**6), 10**6),
    st.sampled_from(sorted(SUFFIXES)),
)


def value(quantity: Quantity) -> Fraction:
    return Fraction(quantity.digits) * Fraction(10) ** quantity.power


@given(exact_quantities, exact_quantities)
def test_quantity_arithmetic_and_order_are_exact(
    left: tuple[str, Fraction], right: tuple[str, Fraction]
) -> None:
    a, b = Quantity.parse(left[0]), Quantity.parse(right[0])
    assert value(a) == left[1]
    assert value(a + b) == left[1] + right[1]
    assert value(a - b) == left[1] - right[1]
    assert value(-a) == -left[1]
    assert (a < b) is (left[1] < right[1])
    assert (a == b) is (left[1] == right[1])
    if a == b:
        assert hash(a) == hash(b)


@given(exact_quantities)
def test_quantity_survives_printing(pair: tuple[str, Fraction]) -> None:
    assert value(Quantity.parse(str(Quantity.parse(pair[0])))) == pair[1]


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=14, min_value=-(10**6), max_value=10**6),
    st.sampled_from(["", "m", "k", "Ki", "Gi"]),
)
def test_quantity_rounds_away_from_zero_to_nano(number: Any, suffix: str) -> None:
    text = f"{number:f}"
    exact = Fraction(text) * SUFFIXES[suffix]
    rounded = value(Quantity.parse(text + suffix))
    assert (rounded * 10**9).denominator == 1
    assert abs(exact) <= abs(rounded) < abs(exact) + Fraction(1, 10**9)


def numbers(*, digits: int, exponent: int) -> st.SearchStrategy[str]:
    return st.builds(
        "{}{}e{}".format,
        st.sampled_from(["", "-"]),
        st.from_regex(rf"[0-9]{{1,{digits}}}(\.[0-9]{{0,{digits}}})?", fullmatch=True),
        st.integers(-exponent, exponent),
    )


def in_billionths(text: str) -> int:
    """Computed exactly and rounded away from zero."""
    number, exponent = text.lstrip("-").split("e")
    whole, _, fraction = number.partition(".")
    power = int(exponent) - len(fraction) + 9
    unit: int = 10 ** abs(power)
    size = int(whole + fraction) * unit if power >= 0 else -(-int(whole + fraction) // unit)
    return -size if text.startswith("-") else size


def away_from_zero(number: Fraction) -> int:
    return math.ceil(number) if number > 0 else math.floor(number)


def order(one: int, other: int) -> int:
    return (one > other) - (one < other)


@given(
    numbers(digits=30, exponent=5000), numbers(digits=30, exponent=5000), numbers(digits=30, exponent=5000)
)
@example("1e5000", "-1e-9", "1e5000")
@example("1e5000", "1e0", "1e5000")
def test_sums_of_quantities_far_apart_compare_exactly(one: str, other: str, third: str) -> None:
    a, b, c = Quantity.parse(one), Quantity.parse(other), Quantity.parse(third)
    exact = {text: in_billionths(text) for text in (one, other, third)}
    assert a.compare(b) == order(exact[one], exact[other])
    assert (a + b).compare(c) == order(exact[one] + exact[other], exact[third])
    assert (a - b).compare(c) == order(exact[one] - exact[other], exact[third])
    assert (a == b) <= (hash(a) == hash(b))
    assert abs((a + b).digits) < 10 ** (MAX_DIGITS + 3)


@given(numbers(digits=40, exponent=20))
def test_quantity_in_units_rounds_away_from_zero_and_is_capped(text: str) -> None:
    exact, most = in_billionths(text), 10**24
    assert Quantity.parse(text).in_units(-9, most=most) == max(-most, min(most, exact))
    thousandths = Quantity.parse(text).in_units(-3, most=most)
    assert thousandths == max(-most, min(most, away_from_zero(Fraction(exact, 10**6))))


EXTREME = (
    "1e99999", "-1e99999", "1.99999999999999999999e99999", "1e2147483647", "10e2147483647", "1e-2147483648",
    "1.5e-2147483648", "0e2147483647", "0.00000000000000000000e2147483647", "0e-2147483648", "1e4294967297",
    "123456789012345678901e2147483640", "9" * 3999, "9" * 3998 + "E", "." + "0" * 3998 + "1", "1" + "0" * 3990 + "Ei",
    "1e-5", "1Ki", "7", "-3m", "0",
)  # fmt: skip


def largest_allocation(operation: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        operation()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", EXTREME, ids=lambda text: text[:30])
def test_huge_quantity_exponents_are_never_expanded(text: str) -> None:
    """10^99999 alone would take 41 kB."""
    others = [Quantity.parse(text) for text in EXTREME]

    def operate() -> None:
        a = Quantity.parse(text)
        str(a), hash(a), -a, a.as_int(), a.approximate(), quantity_float(text)
        a.in_units(-9, most=10**40), a.in_units(0, most=2**63)
        for b in others:
            total, difference = a + b, a - b
            str(total), hash(difference), total < difference, total - a == b

    assert largest_allocation(operate) < 40_000


@pytest.mark.parametrize(
    "text",
    ["0" * 3999 + "x", "9" * 3999 + "x", "0." + "0" * 3997 + "x", "1" + "e" * 3998 + "x", "1" * 1_000_000],
)
def test_long_invalid_quantity_is_rejected_in_one_pass(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert len(str(caught.value)) < 400


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=12))
def test_fast_quantity_parser_agrees_with_the_exact_one(text: str) -> None:
    quantity = parsed(text)
    if quantity is None:
        with pytest.raises(QuantityError):
            quantity_float(text)
    else:
        assert repr(quantity_float(text)) == repr(quantity.approximate())


@pytest.mark.parametrize(
    ("number", "text"), [(4, "4"), (0, "0"), (-3, "-3"), (1.5, "1500m"), (1e21, "1e+21")]
)
def test_quantity_accepts_json_numbers(number: float, text: str) -> None:
    assert str(Quantity.parse(number)) == text
    assert quantity_float(number) == number


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("abc", NOT_A_NUMBER),
        (" 1", NOT_A_NUMBER),
        (".e-20", NOT_A_NUMBER),
        ("1K", f'{UNKNOWN_SUFFIX} "K"'),
        ("100mi", f'{UNKNOWN_SUFFIX} "mi"'),
        ("16GB", f'{UNKNOWN_SUFFIX} "GB"'),
        ("1.2.3", f'{STRAY_CHARACTER} "." at position 4'),
        ("1 ", f'{STRAY_CHARACTER} " " at position 2'),
        ("1" * 5000, TOO_LONG),
        ("", "empty"),
        (True, "True is not a quantity"),
        (float("nan"), "nan is not a quantity"),
    ],
)
def test_invalid_quantity_error_names_fault_and_remedy(text: str | float, refusal: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert refusal in str(caught.value)
    assert str(caught.value).endswith(QUANTITY_REMEDY)


def test_quantity_differs_from_other_types() -> None:
    assert Quantity.parse("1") != 1
