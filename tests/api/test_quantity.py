"""Quantities against answers recorded from Kubernetes (apimachinery 0.36.3), and against exact arithmetic."""

import json
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api import Quantity, QuantityError, quantity_float
from fairway.api.quantity import NOT_A_NUMBER, QUANTITY_REMEDY, STRAY_CHARACTER, TOO_EXTREME, UNKNOWN_SUFFIX

GOLDEN = Path(__file__).parents[1] / "golden" / "quantity.jsonl"
RECORDED = Path(__file__).parent / "recorded" / "quantities.jsonl"


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def answer(quantity: Quantity) -> dict[str, Any]:
    bits = struct.unpack(">Q", struct.pack(">d", quantity.approximate()))[0]
    found = {"bits": f"{bits:x}", "str": str(quantity), "sign": quantity.sign}
    if (whole := quantity.as_int()) is not None:
        found["int"] = str(whole)
    return found


def parsed(text: str) -> Quantity | None:
    try:
        return Quantity.parse(text)
    except QuantityError:
        return None


@pytest.mark.parametrize("row", rows(GOLDEN), ids=lambda row: row["text"])
def test_golden_value(row: dict[str, Any]) -> None:
    quantity = parsed(row["text"])
    assert (quantity is not None) is row["valid"]
    if quantity is not None:
        wanted = float(row["float"])  # large ones are written without a point
        assert quantity.approximate() == wanted
        assert quantity_float(row["text"]) == wanted


@pytest.mark.parametrize("row", rows(RECORDED), ids=lambda row: f"{row['left']} {row['right']}")
def test_recorded_answers(row: dict[str, Any]) -> None:
    left, right = parsed(row["left"]), parsed(row["right"])
    assert (answer(left) if left else None) == row["leftAnswer"]
    assert (answer(right) if right else None) == row["rightAnswer"]
    if left is not None and right is not None:
        assert answer(left + right) == row["sum"]
        assert answer(left - right) == row["difference"]
        assert answer(left + Quantity.of_int(7)) == row["plusSeven"]
        assert (left > right) - (left < right) == row["order"]
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


@given(exact_quantities, exact_quantities)
def test_arithmetic_and_order_are_exact(left: tuple[str, Fraction], right: tuple[str, Fraction]) -> None:
    a, b = Quantity.parse(left[0]), Quantity.parse(right[0])
    assert a.value == left[1]
    assert (a + b).value == left[1] + right[1]
    assert (a - b).value == left[1] - right[1]
    assert (-a).value == -left[1]
    assert (a < b) is (left[1] < right[1])
    assert (a == b) is (left[1] == right[1])
    if a == b:
        assert hash(a) == hash(b)


@given(exact_quantities)
def test_printing_keeps_the_value(pair: tuple[str, Fraction]) -> None:
    assert Quantity.parse(str(Quantity.parse(pair[0]))).value == pair[1]


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=14, min_value=-(10**6), max_value=10**6),
    st.sampled_from(["", "m", "k", "Ki", "Gi"]),
)
def test_rounds_away_from_zero_to_nano(number: Any, suffix: str) -> None:
    text = f"{number:f}"
    exact = Fraction(text) * SUFFIXES[suffix]
    value = Quantity.parse(text + suffix).value
    assert (value * 10**9).denominator == 1
    assert abs(exact) <= abs(value) < abs(exact) + Fraction(1, 10**9)


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=12))
def test_fast_path_agrees(text: str) -> None:
    quantity = parsed(text)
    if quantity is None:
        with pytest.raises(QuantityError):
            quantity_float(text)
    else:
        assert repr(quantity_float(text)) == repr(quantity.approximate())


@pytest.mark.parametrize(
    ("number", "text"), [(4, "4"), (0, "0"), (-3, "-3"), (1.5, "1500m"), (1e21, "1e+21")]
)
def test_bare_json_numbers(number: float, text: str) -> None:
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
        ("1e200000", TOO_EXTREME),
        ("1" * 5000, TOO_EXTREME),
        ("", "empty"),
        (True, "True is not a quantity"),
        (float("nan"), "nan is not a quantity"),
    ],
)
def test_refusals_say_what_is_wrong_and_what_is_right(text: str | float, refusal: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert refusal in str(caught.value)
    assert str(caught.value).endswith(QUANTITY_REMEDY)


def test_equality_with_other_types() -> None:
    assert Quantity.parse("1") != 1
