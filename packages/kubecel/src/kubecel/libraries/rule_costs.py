"""Costs of functions in validation rules, which differ from those in other expressions."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any, Final

from kubecel import cost
from kubecel.containers import LISTS, MAPS, length
from kubecel.cost import PER_CHARACTER, Rule
from kubecel.declarations import Function, Library, MeteredCost
from kubecel.frame import Meter, walk
from kubecel.libraries.network import Cidr
from kubecel.values import size_of

_NAME_PATTERN: Final = 32
"""A quarter of the assumed size of the patterns of named formats."""


def _nominal(_args: tuple[Any, ...], _result: object) -> int:
    return 1


def _traversal_cost(meter: Meter, args: tuple[Any, ...], _result: object) -> int:
    """Return the sum of the sizes of all parts of the first argument; each part is charged, also a shared one."""
    total = 0
    pending = [args[0]]
    while pending:
        value = pending.pop()
        if isinstance(value, (str, bytes)):
            total += int(len(value) * PER_CHARACTER)
        elif isinstance(value, LISTS):
            pending += walk(meter, value, length(value), 2)
        elif isinstance(value, MAPS):
            for key, entry in walk(meter, value.items(), len(value), 4):
                pending += (key, entry)
        else:
            total += 1
    return total


_walk: Final = MeteredCost(_traversal_cost)


def _twice(args: tuple[Any, ...], _result: object) -> int:
    return ceil(size_of(args[0]) * 2 * PER_CHARACTER)


def _joined(_args: tuple[Any, ...], result: object) -> int:
    return ceil(size_of(result) * 2 * PER_CHARACTER)


def _ip(args: tuple[Any, ...], result: object) -> int:
    return 1 if isinstance(args[0], Cidr) else cost.first_argument(args, result)


def _contains_ip(args: tuple[Any, ...], _result: object) -> int:
    parsed = cost.traversal(size_of(args[1])) if isinstance(args[1], str) else 0
    return cost.traversal(2 * size_of(args[0])) + parsed


def _contains_cidr(args: tuple[Any, ...], result: object) -> int:
    return _contains_ip(args, result) + cost.traversal(size_of(args[0])) + 1


def _validate(args: tuple[Any, ...], _result: object) -> int:
    return ceil((1.0 + size_of(args[1])) * PER_CHARACTER) * _NAME_PATTERN


_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _walk),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), cost.first_argument),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), cost.first_argument
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _twice),
    **dict.fromkeys(("find", "findAll"), cost.pattern_match),
    **dict.fromkeys(("charAt", "reverse"), _nominal),
    "containsCIDR": _contains_cidr,
    "containsIP": _contains_ip,
    "ip": _ip,
    "join": _joined,
    "validate": _validate,
}


def recosted(library: Library) -> Library:
    return replace(library, functions=tuple([_recosted(function) for function in library.functions]))


def _recosted(function: Function) -> Function:
    rule = _RULES.get(function.name)
    if rule is None:
        return function
    overloads = tuple([replace(overload, cost=rule) for overload in function.overloads])
    return replace(function, overloads=overloads, cost=rule)
