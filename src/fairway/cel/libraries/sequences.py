"""The lists extension: parts, order and repetitions of lists.

What a call makes is paid for after it is made, so lengths are limited besides.
"""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any, Final

from fairway.cel.containers import LISTS, List, length
from fairway.cel.cost import CREATE_LIST
from fairway.cel.declarations import Function, Library, Overload
from fairway.cel.errors import NO_SUCH_OVERLOAD, Failure, Overrun
from fairway.cel.macros import MAP_INSERT
from fairway.cel.types import (
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
from fairway.cel.values import MAX_COMPARISONS, ORDERED, compare, equal, size_of

NEGATIVE_SLICE: Final = "cannot slice({}, {}), negative indexes not supported"
REVERSED_SLICE: Final = "cannot slice({}, {}), start index must be less than or equal to end index"
SLICE_BEYOND: Final = "cannot slice({}, {}), list is length {}"
NEGATIVE_DEPTH: Final = "level must be non-negative"
MAX_DEPTH: Final = 100

_COMPARABLE: Final = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)


def _slice(values: List, start: int, end: int) -> object:
    if start < 0 or end < 0:
        raise Failure(NEGATIVE_SLICE.format(start, end))
    if start > end:
        raise Failure(REVERSED_SLICE.format(start, end))
    if length(values) < end:
        raise Failure(SLICE_BEYOND.format(start, end, length(values)))
    if end - start > MAX_COMPARISONS:
        raise Overrun
    return [values[index] for index in range(start, end)]


def _flatten(values: List, depth: int = 1) -> object:
    if depth < 0:
        raise Failure(NEGATIVE_DEPTH)
    out: list[object] = []
    _append(values, min(depth, MAX_DEPTH), out)
    return out


def _append(values: List, depth: int, out: list[object]) -> None:
    for value in values:
        if depth and isinstance(value, LISTS):
            _append(value, depth - 1, out)
        else:
            out.append(value)
        if len(out) > MAX_COMPARISONS:
            raise Overrun


def _range(count: int) -> object:
    if count > MAX_COMPARISONS:
        raise Overrun
    return list(range(count))


def _reverse(values: List) -> object:
    return _listed(values)[::-1]


def _distinct(values: List) -> object:
    out: list[object] = []
    for value in _listed(values):
        if not any(_alike(value, known) for known in out):
            out.append(value)
        if len(out) * len(out) > MAX_COMPARISONS:
            raise Overrun
    return out


def _alike(left: object, right: object) -> bool:
    try:
        return equal(left, right)
    except Failure:
        return False


def _sort(values: List) -> object:
    listed = _listed(values)
    if any(not isinstance(value, ORDERED) for value in listed):
        raise Failure(NO_SUCH_OVERLOAD)
    return sorted(listed, key=cmp_to_key(compare))


def _listed(values: List) -> list[object]:
    if length(values) > MAX_COMPARISONS:
        raise Overrun
    return list(values)


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
            (Overload("list_slice", (_T, INT, INT), _T, _slice, member=True, variadic=True, cost=_made),),
        ),
        Function(
            "flatten",
            (
                Overload("list_flatten", (list_of(_T),), _T, _flatten, member=True, cost=_flattened),
                Overload(
                    "list_flatten_int",
                    (list_of(DYN), INT),
                    list_of(DYN),
                    _flatten,
                    member=True,
                    cost=_flattened,
                ),
            ),
        ),
        Function("lists.range", (Overload("lists_range", (INT,), list_of(INT), _range, cost=_made),)),
        Function("reverse", (Overload("list_reverse", (_T,), _T, _reverse, member=True, cost=_made),)),
        Function(
            "distinct", (Overload("list_distinct", (_T,), _T, _distinct, member=True, cost=_quadratic),)
        ),
        Function(
            "sort",
            tuple(
                [
                    Overload(
                        f"list_{each.name}_sort",
                        (list_of(each),),
                        list_of(each),
                        _sort,
                        member=True,
                        cost=_quadratic,
                    )
                    for each in _COMPARABLE
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
        # What macros that make maps are checked as; they are compiled, not called.
        Function(
            MAP_INSERT,
            (
                Overload("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP),
                Overload("@mapInsert_map_map", (_MAP, _MAP), _MAP),
            ),
        ),
    ),
)
