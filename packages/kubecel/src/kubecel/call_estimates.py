"""Estimate the maximum cost of one call without its arguments, and the size of its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from kubecel.cost import CREATE_LIST, PER_CHARACTER, PER_PATTERN_CHARACTER
from kubecel.extent import MOST, UNKNOWN, Extent, capped, fixed, scaled
from kubecel.types import Kind, Type

_FORMAT_SIZE: Final = 64
_NAME_PATTERN_SIZE: Final = 128
_ADDRESS: Final = Extent(4, 16)


@dataclass(frozen=True, slots=True)
class Operand:
    """``element`` is the size of a list's elements; ``literal`` the value of a constant."""

    type: Type
    size: Extent | None
    element: Extent | None = None
    literal: object = None

    @property
    def extent(self) -> Extent:
        return self.size or UNKNOWN

    def number(self, default: int) -> int:
        return max(self.literal, 0) if type(self.literal) is int else default


@dataclass(frozen=True, slots=True)
class CallEstimate:
    cost: int
    size: Extent | None = None


Arguments = Sequence[Operand]
_Rule = Callable[[str, Operand | None, Arguments], CallEstimate | None]


def estimate_call(function: str, overload: str, target: Operand | None, args: Arguments) -> CallEstimate:
    rule = _RULES.get(function)
    estimate = None if rule is None else rule(overload, target, args)
    return estimate or _standard(overload, target, args)


def _standard(overload: str, target: Operand | None, args: Arguments) -> CallEstimate:
    match overload:
        case "string_format" if target is not None:
            return CallEstimate(_traversal(target.extent))
        case "string_to_bytes":
            size = args[0].extent
            return CallEstimate(_traversal(size), Extent(size.least, capped(size.most * 4)))
        case "bytes_to_string":
            size = args[0].extent
            return CallEstimate(_traversal(size), Extent(size.least // 4, size.most))
        case "strings_quote":
            size = args[0].extent
            return CallEstimate(_traversal(size), Extent(size.least + 2, capped(size.most * 2 + 2)))
        case "startsWith_string" | "endsWith_string":
            return CallEstimate(_traversal(args[0].extent))
        case "in_list":
            return CallEstimate(args[1].extent.most)
        case "matches_string" if target is not None:
            return CallEstimate(_matching(target, args[0]))
        case "contains_string" if target is not None:
            return CallEstimate(capped(_traversal(target.extent) * _traversal(args[0].extent)))
        case "logical_and" | "logical_or":
            return CallEstimate(0)
        case "add_list":
            return CallEstimate(1, args[0].extent.plus(args[1].extent))
        case "add_string" | "add_bytes":
            size = args[0].extent.plus(args[1].extent)
            return CallEstimate(_traversal(size), size)
    if overload in _COMPARISONS:
        return CallEstimate(scaled(min(args[0].extent.most, args[1].extent.most), PER_CHARACTER))
    return CallEstimate(1)


_COMPARISONS: Final = frozenset({"equals", "not_equals"}) | {
    f"{order}_{kind}"
    for order in ("less", "greater", "less_equals", "greater_equals")
    for kind in ("string", "bytes")
}


def _traversal(size: Extent) -> int:
    return scaled(size.most, PER_CHARACTER)


def _matching(text: Operand, pattern: Operand) -> int:
    # One more than the length, because an empty text is matched, too.
    walk = scaled(capped(text.extent.most + 1), PER_CHARACTER)
    return capped(walk * scaled(pattern.extent.most, PER_PATTERN_CHARACTER))


# --- Kubernetes' own rules ---------------------------------------------------------------------------------------


def _nominal(_overload: str, _target: Operand | None, _args: Arguments) -> CallEstimate:
    return CallEstimate(1)


def _over_list(_overload: str, target: Operand | None, _args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    if not target.type.params:
        return CallEstimate(_traversal(target.extent))
    cost = 1
    if target.type.params[0].kind in (Kind.STRING, Kind.BYTES):
        cost += _traversal(target.element or UNKNOWN)
    return CallEstimate(capped(target.extent.most * cost))


def _parsing(_overload: str, _target: Operand | None, args: Arguments) -> CallEstimate:
    return CallEstimate(_traversal(args[0].extent))


def _parsing_url(_overload: str, _target: Operand | None, args: Arguments) -> CallEstimate:
    return CallEstimate(_traversal(args[0].extent), args[0].extent)


def _transform(_overload: str, target: Operand | None, _args: Arguments) -> CallEstimate | None:
    return None if target is None else CallEstimate(_traversal(target.extent), target.extent)


def _replace(_overload: str, target: Operand | None, args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    text, old, new = target.extent, args[0].extent, args[1].extent
    most, kept_most = ceil(text.most / old.least) if old.least else 0, 0
    if old.least == 0:
        most, kept_most = capped(text.most + 1), text.most
    elif new.most <= old.least:
        most, kept_most = 0, text.most
    least, kept_least = ceil(text.least / old.most) if old.most else 0, 0
    if old.most == 0:
        least, kept_least = capped(text.least + 1), text.least
    elif old.most <= new.least:
        least, kept_least = 0, text.least
    size = Extent(least, most).times(new).plus(Extent(kept_least, kept_most))
    return CallEstimate(scaled(text.most, 2 * PER_CHARACTER), size)


def _split(_overload: str, target: Operand | None, args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    most = target.extent.most
    if len(args) > 1 and type(args[1].literal) is int:
        most = args[1].literal % (1 << 64)
    return CallEstimate(scaled(target.extent.most, 2 * PER_CHARACTER), Extent(0, most))


def _join(_overload: str, target: Operand | None, args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    count = target.extent
    size = count.times(target.element or UNKNOWN)
    if args:
        separators = Extent(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(args[0].extent.times(separators))
    return CallEstimate(_traversal(size), size)


def _find(_overload: str, target: Operand | None, args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    return CallEstimate(_matching(target, args[0]), Extent(0, target.extent.most))


def _ip(overload: str, _target: Operand | None, args: Arguments) -> CallEstimate | None:
    if overload == "cidr_ip":
        return CallEstimate(1)
    return CallEstimate(_traversal(args[0].extent)) if args else None


def _canonical(_overload: str, _target: Operand | None, args: Arguments) -> CallEstimate:
    return CallEstimate(scaled(args[0].extent.most, 2 * PER_CHARACTER))


def _contains_ip(overload: str, _target: Operand | None, args: Arguments) -> CallEstimate:
    cost = _traversal(_ADDRESS.plus(_ADDRESS))
    return CallEstimate(capped(cost + (_traversal(args[0].extent) if overload.endswith("_string") else 0)))


def _contains_cidr(overload: str, target: Operand | None, args: Arguments) -> CallEstimate:
    return CallEstimate(capped(_contains_ip(overload, target, args).cost + _traversal(_ADDRESS) + 1))


def _validate(_overload: str, _target: Operand | None, args: Arguments) -> CallEstimate:
    cost = scaled(_traversal(args[0].extent), _NAME_PATTERN_SIZE * PER_PATTERN_CHARACTER)
    return CallEstimate(cost)


def _equality(_overload: str, _target: Operand | None, args: Arguments) -> CallEstimate | None:
    left, right = args
    if left.type != right.type:
        return None
    match left.type.name:
        case "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver":
            return CallEstimate(1)
        case "kubernetes.NamedFormat":
            return CallEstimate(scaled(_FORMAT_SIZE, PER_CHARACTER))
        case "kubernetes.URL":
            return CallEstimate(_traversal(right.size or fixed(1)))
    return None


# --- extensions --------------------------------------------------------------------------------------------------


def _made(factor: float, size: Extent) -> CallEstimate:
    return CallEstimate(capped(scaled(size.most, factor) + 1 + CREATE_LIST), size)


def _pairs(overload: str, _target: Operand | None, args: Arguments) -> CallEstimate:
    factor = 2 if overload == "list_sets_equivalent_list" else 1
    return CallEstimate(capped(scaled(args[0].extent.times(args[1].extent).most, factor) + 1))


def _slice(_overload: str, target: Operand | None, args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    start, end = args[0].number(0), args[1].number(target.extent.most)
    return _made(1, fixed((end - start) % (1 << 64)))


def _flatten(_overload: str, target: Operand | None, args: Arguments) -> CallEstimate | None:
    return None if target is None else _made(args[0].number(MOST) if args else 1, target.extent)


def _range(_overload: str, _target: Operand | None, args: Arguments) -> CallEstimate:
    return _made(1, fixed(args[0].number(MOST)))


def _reverse(overload: str, target: Operand | None, _args: Arguments) -> CallEstimate | None:
    return None if target is None or overload != "list_reverse" else _made(1, target.extent)


def _distinct(_overload: str, target: Operand | None, _args: Arguments) -> CallEstimate | None:
    return None if target is None else _made(2, target.extent.times(target.extent))


def _sort(overload: str, target: Operand | None, _args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    textual = overload in ("list_string_sort", "list_bytes_sort")
    return _made(2 + PER_CHARACTER if textual else 2, target.extent.times(target.extent))


_NOMINAL: Final = [
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "format.named",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
]

_RULES: Final[dict[str, _Rule]] = {
    **dict.fromkeys(_NOMINAL, _nominal),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _over_list),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _transform),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _parsing),
    **dict.fromkeys(("sets.contains", "sets.equivalent", "sets.intersects"), _pairs),
    **dict.fromkeys(("find", "findAll"), _find),
    "_==_": _equality,
    "containsCIDR": _contains_cidr,
    "containsIP": _contains_ip,
    "distinct": _distinct,
    "flatten": _flatten,
    "ip": _ip,
    "ip.isCanonical": _canonical,
    "join": _join,
    "lists.range": _range,
    "replace": _replace,
    "reverse": _reverse,
    "slice": _slice,
    "sort": _sort,
    "split": _split,
    "url": _parsing_url,
    "validate": _validate,
}
