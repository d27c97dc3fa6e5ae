"""Kubernetes' list functions: sums, extremes, order and search."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubecel.containers import List, length
from kubecel.declarations import Function, Library, Metered, Overload
from kubecel.errors import NO_SUCH_OVERLOAD, Failure, Overrun
from kubecel.frame import Meter, walk
from kubecel.libraries.operators import add
from kubecel.scalars import Duration, Uint
from kubecel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type, list_of, param
from kubecel.values import MAX_ELEMENTS, ORDERED, compare, equal

EMPTY = "{} called on empty list"

_COMPARABLE = {
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "bool": BOOL,
    "duration": DURATION,
    "timestamp": TIMESTAMP,
    "string": STRING,
    "bytes": BYTES,
}
_ZEROS: dict[str, tuple[Type, object]] = {
    "int": (INT, 0),
    "uint": (UINT, Uint(0)),
    "double": (DOUBLE, 0.0),
    "duration": (DURATION, Duration(0)),
}


def _charge_length(meter: Meter, values: List) -> Iterator[object]:
    """Charge work by length, and limit the length: the cost of these functions does not depend on it."""
    if length(values) > MAX_ELEMENTS:
        raise Overrun
    return walk(meter, values, length(values), 2)


def _is_sorted(meter: Meter, values: List) -> object:
    previous: object = None
    started = False
    for value in _charge_length(meter, values):
        if not isinstance(value, ORDERED):
            raise Failure(NO_SUCH_OVERLOAD)
        if started and _compared(previous, value, meter) > 0:
            return False
        previous, started = value, True
    return True


def _compared(left: object, right: object, meter: Meter) -> int:
    """Compare; return 0 for values without an order, as in the reference."""
    try:
        return compare(left, right, meter)
    except Failure:
        return 0


def _sum(zero: object) -> Metered:
    def total(meter: Meter, values: List) -> object:
        result = zero
        for value in _charge_length(meter, values):
            result = add(result, value)
        return result

    return Metered(total)


def _extreme(name: str, prefer: int) -> Metered:
    def extreme(meter: Meter, values: List) -> object:
        best: object = None
        started = False
        for value in _charge_length(meter, values):
            if not isinstance(value, ORDERED):
                raise Failure(NO_SUCH_OVERLOAD)
            if not started or _compared(best, value, meter) == prefer:
                best, started = value, True
        if not started:
            raise Failure(EMPTY.format(name))
        return best

    return Metered(extreme)


def _index_of(meter: Meter, values: List, item: object) -> object:
    return _search(meter, enumerate(_charge_length(meter, values)), item)


def _last_index_of(meter: Meter, values: List, item: object) -> object:
    backwards = list(_charge_length(meter, values))[::-1]
    last = len(backwards) - 1
    return _search(meter, ((last - i, value) for i, value in enumerate(backwards)), item)


def _search(meter: Meter, candidates: Iterator[tuple[int, object]], item: object) -> int:
    for index, value in candidates:
        try:
            if equal(value, item, meter):
                return index
        except Failure:
            continue
    return -1


def _per_type(name: str, result: Callable[[Type], Type], call: Metered, suffix: str | None) -> Function:
    overloads = [
        Overload(
            f"list_{label}_{suffix or f'{name}_{label}'}", (list_of(type_),), result(type_), call, member=True
        )
        for label, type_ in _COMPARABLE.items()
    ]
    return Function(name, tuple(overloads))


_A = param("A")

LISTS = Library(
    "kubernetes.lists",
    (
        _per_type("isSorted", lambda _: BOOL, Metered(_is_sorted), "is_sorted_bool"),
        _per_type("max", lambda type_: type_, _extreme("max", -1), None),
        _per_type("min", lambda type_: type_, _extreme("min", 1), None),
        Function(
            "sum",
            tuple(
                [
                    Overload(f"list_{label}_sum_{label}", (list_of(type_),), type_, _sum(zero), member=True)
                    for label, (type_, zero) in _ZEROS.items()
                ]
            ),
        ),
        Function(
            "indexOf",
            (Overload("list_a_index_of_int", (list_of(_A), _A), INT, Metered(_index_of), member=True),),
        ),
        Function(
            "lastIndexOf",
            (
                Overload(
                    "list_a_last_index_of_int", (list_of(_A), _A), INT, Metered(_last_index_of), member=True
                ),
            ),
        ),
    ),
)
