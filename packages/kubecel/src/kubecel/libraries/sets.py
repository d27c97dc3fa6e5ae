"""Lists as sets: ``sets.contains``, ``sets.equivalent`` and ``sets.intersects``."""

from __future__ import annotations

from kubecel import cost
from kubecel.containers import List, length
from kubecel.declarations import Function, Implementation, Library, Metered, Overload
from kubecel.errors import Failure
from kubecel.frame import Meter, walk
from kubecel.types import BOOL, list_of, param
from kubecel.values import equal


def _has(meter: Meter, values: List, item: object) -> bool:
    failure: Failure | None = None
    for value in walk(meter, values, length(values)):
        try:
            if equal(value, item, meter):
                return True
        except Failure as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return False


def _contains(meter: Meter, values: List, others: List) -> bool:
    return all(_has(meter, values, other) for other in walk(meter, others, length(others), 2))


def _equivalent(meter: Meter, values: List, others: List) -> bool:
    return _contains(meter, values, others) and _contains(meter, others, values)


def _intersects(meter: Meter, values: List, others: List) -> bool:
    for value in walk(meter, values, length(values), 2):
        try:
            if _has(meter, others, value):
                return True
        except Failure:
            continue
    return False


_T = list_of(param("T"))


def _function(name: str, call: Implementation, rule: cost.Rule) -> Function:
    overload = Overload(f"list_sets_{name}_list", (_T, _T), BOOL, Metered(call), cost=rule)
    return Function(f"sets.{name}", (overload,))


SETS = Library(
    "sets",
    (
        _function("contains", _contains, cost.every_pair),
        _function("equivalent", _equivalent, cost.every_pair_twice),
        _function("intersects", _intersects, cost.every_pair),
    ),
)
