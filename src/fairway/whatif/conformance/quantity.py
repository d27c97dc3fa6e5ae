"""Run recorded quantities and compare validity and float value."""

from collections.abc import Iterable, Iterator
from functools import partial

from fairway.whatif.conformance.differences import Difference, differences
from fairway.whatif.conformance.recording import Result, Row, compared_result
from kubewire.api.quantity import Quantity, QuantityError, quantity_float


def run(rows: Iterable[Row], /) -> Iterator[Result]:
    for row in rows:
        text = row["text"]
        expected: Row = {"valid": row["valid"]}
        if row["valid"]:
            # JSON has one kind of number, so a large float may have been written like an integer.
            expected["float"] = expected["quick float"] = float(row["float"])
        yield compared_result(repr(text), partial(_compare, text, expected))


def _compare(text: str, expected: Row) -> Iterator[Difference]:
    return differences(expected, _answer(text))


def _answer(text: str) -> Row:
    try:
        value = Quantity.parse(text).approximate()
    except QuantityError:
        return {"valid": False}
    # The fleet parses quantities by a faster path, whose results must be the same.
    return {"valid": True, "float": value, "quick float": quantity_float(text)}
