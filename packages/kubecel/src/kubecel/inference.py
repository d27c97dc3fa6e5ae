"""Type variables and their bindings.

A trail records the bindings, so that undoing a failed attempt takes time proportional to its bindings.
"""

from __future__ import annotations

from kubecel.types import DYN, Kind, Type, param

_NULLABLE = frozenset({Kind.OPAQUE, Kind.STRUCT, Kind.DURATION, Kind.TIMESTAMP})
_WILD = frozenset({Kind.DYN, Kind.ERROR})
_CONTAINERS = frozenset({Kind.OPAQUE, Kind.LIST, Kind.MAP})


class Inference:
    def __init__(self) -> None:
        self._bound: dict[Type, Type] = {}
        self._trail: list[tuple[Type, Type | None]] = []
        self._count = 0

    def fresh(self) -> Type:
        self._count += 1
        return param(f"_var{self._count - 1}")

    def assign(self, left: Type, right: Type) -> bool:
        """Unify two types: bind variables and return true, or bind none and return false."""
        return self.assign_all((left,), (right,))

    def assign_all(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        self._trail.clear()
        if self._all_assignable(left, right):
            return True
        while self._trail:
            variable, before = self._trail.pop()
            if before is None:
                del self._bound[variable]
            else:
                self._bound[variable] = before
        return False

    def substitute(self, type_: Type, *, free_to_dyn: bool = False) -> Type:
        if not type_.open:
            return type_
        if type_.kind is Kind.PARAM:
            bound = self._bound.get(type_)
            if bound is not None:
                return self.substitute(bound, free_to_dyn=free_to_dyn)
            return DYN if free_to_dyn else type_
        params = tuple([self.substitute(inner, free_to_dyn=free_to_dyn) for inner in type_.params])
        return Type(type_.kind, type_.name, params)

    def more_general(self, left: Type, right: Type) -> Type:
        return left if _no_more_specific(left, right) else right

    def _bind(self, variable: Type, type_: Type) -> None:
        self._trail.append((variable, self._bound.get(variable)))
        self._bound[variable] = type_

    def _all_assignable(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        if len(left) != len(right):
            return False
        return all(map(self._assignable, left, right))

    def _assignable(self, left: Type, right: Type) -> bool:
        if right.kind is Kind.PARAM:
            valid, known = self._substitution(left, right)
            if valid:
                return True
            if known:
                return False
        if left.kind is Kind.PARAM:
            return self._substitution(right, left)[0]
        if left.kind in _WILD or right.kind in _WILD:
            return True
        if left.kind is Kind.NULL:
            return right.kind in _NULLABLE or right.kind is Kind.NULL
        if right.kind is Kind.NULL:
            return left.kind in _NULLABLE
        if left.kind is Kind.TYPE:
            return right.kind is Kind.TYPE
        if left.kind in _CONTAINERS:
            return (
                left.kind is right.kind
                and left.name == right.name
                and self._all_assignable(left.params, right.params)
            )
        return left.kind is right.kind and left.name == right.name

    def _substitution(self, type_: Type, variable: Type) -> tuple[bool, bool]:
        """Return whether ``type_`` can be bound to ``variable``, and whether the variable was bound before."""
        if type_ == variable:
            return True, True
        bound = self._bound.get(variable)
        if bound is not None:
            if type_ == bound:
                return True, True
            if self._assignable(type_, bound):
                general = self.more_general(type_, bound)
                if self._absent(variable, general):
                    self._bind(variable, general)
                return True, True
            return False, True
        if self._absent(variable, type_):
            self._bind(variable, type_)
            return True, False
        return False, False

    def _absent(self, variable: Type, within: Type) -> bool:
        """Return whether ``variable`` does not occur in ``within``."""
        if not within.open:
            return True
        if variable == within:
            return False
        if within.kind is Kind.PARAM:
            bound = self._bound.get(within)
            return bound is None or self._absent(variable, bound)
        return all(self._absent(variable, inner) for inner in within.params)


def _no_more_specific(left: Type, right: Type) -> bool:
    if left.kind is Kind.DYN or left.kind is Kind.PARAM:
        return True
    if right.kind is Kind.DYN or right.kind is Kind.PARAM or left.kind is not right.kind:
        return False
    if left.kind is Kind.TYPE:
        return True
    if left.kind in _CONTAINERS:
        if left.name != right.name or len(left.params) != len(right.params):
            return False
        return all(map(_no_more_specific, left.params, right.params))
    return left == right
