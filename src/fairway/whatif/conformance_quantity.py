"""Runs recorded quantities: is the text one, and which float does the reference make of it?"""

from collections.abc import Iterable, Iterator

from fairway.api.quantity import Quantity, QuantityError, quantity_float
from fairway.whatif.conformance import Result, Row
from fairway.whatif.differences import differences


def run(rows: Iterable[Row], /) -> Iterator[Result]:
    for row in rows:
        text = row["text"]
        expected: Row = {"valid": row["valid"]}
        if row["valid"]:
            # JSON has one kind of number, so a large float may have been written like an integer.
            expected["float"] = expected["quick float"] = float(row["float"])
        yield Result(name=repr(text), differences=tuple(differences(expected, _answer(text))))


def _answer(text: str) -> Row:
    try:
        value = Quantity.parse(text).approximate()
    except QuantityError:
        return {"valid": False}
    # The fleet reads quantities by a shorter way, which must not be another answer.
    return {"valid": True, "float": value, "quick float": quantity_float(text)}
