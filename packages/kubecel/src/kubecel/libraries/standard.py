"""The standard library: operators, conversions, string tests, and the calendar."""

from __future__ import annotations

from kubecel import cost
from kubecel.declarations import CostRule, Function, Implementation, Library, Overload
from kubecel.libraries.calendar import accessors
from kubecel.libraries.conversions import CONVERSIONS
from kubecel.libraries.operators import LIST_A, MAP_AB, OPERATORS
from kubecel.types import BOOL, BYTES, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, TYPE, UINT


def _string_test(name: str, call: Implementation, rule: CostRule) -> Function:
    return Function(name, (Overload(f"{name}_string", (STRING, STRING), BOOL, call, member=True, cost=rule),))


_STRINGS = (
    _string_test("contains", lambda text, part: part in text, cost.substring_search),
    _string_test("startsWith", str.startswith, cost.second_argument),
    _string_test("endsWith", str.endswith, cost.second_argument),
)


STANDARD = Library(
    "standard",
    (*OPERATORS, *CONVERSIONS, *_STRINGS, *accessors()),
    (
        BOOL, BYTES, DOUBLE, DURATION, INT, LIST_A, MAP_AB, NULL, STRING, TIMESTAMP, TYPE, UINT,
    ),
)  # fmt: skip
