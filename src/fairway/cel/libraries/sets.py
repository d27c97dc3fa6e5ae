"""Lists taken as sets: ``sets.contains``, ``sets.equivalent`` and ``sets.intersects``."""

from __future__ import annotations

from fairway.cel import cost
from fairway.cel.containers import List
from fairway.cel.declarations import Function, Implementation, Library, Overload
from fairway.cel.errors import Failure
from fairway.cel.types import BOOL, list_of, param
from fairway.cel.values import equal


def _has(values: List, item: object) -> bool:
    failure: Failure | None = None
    for value in values:
        try:
            if equal(value, item):
                return True
        except Failure as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return False


def _contains(values: List, others: List) -> bool:
    return all(_has(values, other) for other in others)


def _equivalent(values: List, others: List) -> bool:
    return _contains(values, others) and _contains(others, values)


def _intersects(values: List, others: List) -> bool:
    for value in values:
        try:
            if _has(others, value):
                return True
        except Failure:
            continue
    return False


_T = list_of(param("T"))


def _function(name: str, call: Implementation, rule: cost.Rule) -> Function:
    return Function(f"sets.{name}", (Overload(f"list_sets_{name}_list", (_T, _T), BOOL, call, cost=rule),))


SETS = Library(
    "sets",
    (
        _function("contains", _contains, cost.every_pair),
        _function("equivalent", _equivalent, cost.every_pair_twice),
        _function("intersects", _intersects, cost.every_pair),
    ),
)
