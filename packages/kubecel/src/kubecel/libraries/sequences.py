"""The lists extension: slices, order and distinct elements of lists.

The cost of a result is charged after it is created; work is charged before, and lengths are limited.
"""

from __future__ import annotations

from functools import cmp_to_key
from itertools import islice
from typing import Any, Final

from kubecel.containers import LISTS, List, length
from kubecel.cost import CREATE_LIST
from kubecel.declarations import Function, Library, Metered, Overload
from kubecel.errors import NO_SUCH_OVERLOAD, Failure, Overrun
from kubecel.frame import Meter, charge_work, walk
from kubecel.macros import MAP_INSERT
from kubecel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    list_of,
    map_of,
    param,
)
from kubecel.values import MAX_ELEMENTS, ORDERED, compare, equal, size_of

NEGATIVE_SLICE: Final = "cannot slice({}, {}), negative indexes not supported"
REVERSED_SLICE: Final = "cannot slice({}, {}), start index must be less than or equal to end index"
SLICE_BEYOND: Final = "cannot slice({}, {}), list is length {}"
NEGATIVE_DEPTH: Final = "level must be non-negative"
MAX_DEPTH: Final = 100

_COPIED: Final = 4
"""Elements copied per unit of work, as a power of two."""

_COMPARABLE: Final = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)


def _slice(meter: Meter, values: List, start: int, end: int) -> object:
    if start < 0 or end < 0:
        raise Failure(NEGATIVE_SLICE.format(start, end))
    if start > end:
        raise Failure(REVERSED_SLICE.format(start, end))
    if length(values) < end:
        raise Failure(SLICE_BEYOND.format(start, end, length(values)))
    if isinstance(values, (list, tuple)):
        charge_work(meter, (end - start) >> _COPIED)
        return list(values[start:end])
    _check_length(meter, end)
    return list(islice(values, start, end))


def _flatten(meter: Meter, values: List, depth: int = 1) -> object:
    if depth < 0:
        raise Failure(NEGATIVE_DEPTH)
    out: list[object] = []
    _append(meter, values, min(depth, MAX_DEPTH), out)
    return out


def _append(meter: Meter, values: List, depth: int, out: list[object]) -> None:
    if len(out) + length(values) > MAX_ELEMENTS:
        raise Overrun
    for value in walk(meter, values, length(values)):
        if depth and isinstance(value, LISTS):
            charge_work(meter, 4)
            _append(meter, value, depth - 1, out)
        else:
            out.append(value)


def _range(meter: Meter, count: int) -> object:
    if count > MAX_ELEMENTS:
        raise Overrun
    charge_work(meter, max(count, 0) >> _COPIED)
    return list(range(count))


def _reverse(meter: Meter, values: List) -> object:
    return _listed(meter, values)[::-1]


def _distinct(meter: Meter, values: List) -> object:
    listed = _listed(meter, values)
    charge_work(meter, len(listed))
    if all(type(value) is str for value in listed):
        return list(dict.fromkeys(listed))
    out: list[object] = []
    for value in listed:
        for known in walk(meter, out, len(out)):
            if _alike(value, known, meter):
                break
        else:
            out.append(value)
    return out


def _alike(left: object, right: object, meter: Meter) -> bool:
    try:
        return equal(left, right, meter)
    except Failure:
        return False


def _sort(meter: Meter, values: List) -> object:
    listed = _listed(meter, values)
    charge_work(meter, len(listed))
    if any(not isinstance(value, ORDERED) for value in listed):
        raise Failure(NO_SUCH_OVERLOAD)

    def compared(left: object, right: object) -> int:
        charge_work(meter, 3)
        return compare(left, right, meter)

    return sorted(listed, key=cmp_to_key(compared))


def _listed(meter: Meter, values: List) -> list[object]:
    _check_length(meter, length(values))
    return list(values)


def _check_length(meter: Meter, count: int) -> None:
    """Check the length of a list, and charge for it."""
    if count > MAX_ELEMENTS:
        raise Overrun
    charge_work(meter, count >> _COPIED)


def _made(_args: tuple[Any, ...], result: object) -> int:
    return 1 + size_of(result) + CREATE_LIST


def _flattened(args: tuple[Any, ...], _result: object) -> int:
    depth = args[1] if len(args) == 2 and isinstance(args[1], int) else 1
    return 1 + size_of(args[0]) * max(depth, 0) + CREATE_LIST


def _quadratic(args: tuple[Any, ...], _result: object) -> int:
    return 1 + 2 * size_of(args[0]) ** 2 + CREATE_LIST


_T = list_of(param("T"))

SEQUENCES = Library(
    "lists",
    (
        Function(
            "slice",
            (
                Overload(
                    "list_slice", (_T, INT, INT), _T, Metered(_slice), member=True, variadic=True, cost=_made
                ),
            ),
        ),
        Function(
            "flatten",
            (
                Overload("list_flatten", (list_of(_T),), _T, Metered(_flatten), member=True, cost=_flattened),
                Overload(
                    "list_flatten_int",
                    (list_of(DYN), INT),
                    list_of(DYN),
                    Metered(_flatten),
                    member=True,
                    cost=_flattened,
                ),
            ),
        ),
        Function(
            "lists.range", (Overload("lists_range", (INT,), list_of(INT), Metered(_range), cost=_made),)
        ),
        Function(
            "reverse", (Overload("list_reverse", (_T,), _T, Metered(_reverse), member=True, cost=_made),)
        ),
        Function(
            "distinct",
            (Overload("list_distinct", (_T,), _T, Metered(_distinct), member=True, cost=_quadratic),),
        ),
        Function(
            "sort",
            tuple(
                [
                    Overload(
                        f"list_{element.name}_sort",
                        (list_of(element),),
                        list_of(element),
                        Metered(_sort),
                        member=True,
                        cost=_quadratic,
                    )
                    for element in _COMPARABLE
                ]
            ),
        ),
    ),
)

_K, _V = param("K"), param("V")
_MAP = map_of(_K, _V)

ENTRIES = Library(
    "entries",
    (
        # For the check of macros that create maps; they are compiled, not called.
        Function(
            MAP_INSERT,
            (
                Overload("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP),
                Overload("@mapInsert_map_map", (_MAP, _MAP), _MAP),
            ),
        ),
    ),
)
