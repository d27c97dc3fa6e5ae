"""Macros: calls that the parser replaces by comprehensions before the check.

The expansion is observable, in positions of type errors and in costs, so it is that of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kubecel.syntax import (
    Call,
    Comprehension,
    CreateList,
    CreateMap,
    CreateStruct,
    Entry,
    Expr,
    Field,
    Ident,
    Literal,
    Select,
)

ACCUMULATOR = "@result"
LEGACY_ACCUMULATOR = "__result__"
UNUSED_VARIABLE = "#unused"

NOT_A_NAME = "argument must be a simple name"
NOT_AN_IDENTIFIER = "argument is not an identifier"
INVALID_HAS = "invalid argument to has() macro"
MAP_INSERT = "cel.@mapInsert"
OPTIONAL_NAME = "{}() variable name must be a simple identifier"


class MacroError(Exception):
    """The call has the name and arity of a macro, but invalid arguments."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


class Numbering(Protocol):
    def next_id(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Builder:
    """Creates the nodes of an expansion, with the position of the macro's call."""

    numbering: Numbering
    offset: int

    def literal(self, value: object) -> Literal:
        return Literal(self.numbering.next_id(), self.offset, value)

    def ident(self, name: str) -> Ident:
        return Ident(self.numbering.next_id(), self.offset, name)

    def list(self, *elements: Expr) -> CreateList:
        return CreateList(self.numbering.next_id(), self.offset, elements)

    def call(self, function: str, *args: Expr, target: Expr | None = None) -> Call:
        return Call(self.numbering.next_id(), self.offset, function, args, target)

    def fold(
        self,
        macro: str,
        *,
        over: Expr,
        variable: str,
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
        accumulator: str = ACCUMULATOR,
        second: str = "",
    ) -> Comprehension:
        return Comprehension(
            self.numbering.next_id(),
            self.offset,
            macro,
            over,
            variable,
            accumulator,
            init,
            condition,
            step,
            result,
            second,
        )

    def map(self) -> CreateMap:
        return CreateMap(self.numbering.next_id(), self.offset, ())

    def copy(self, node: Expr) -> Expr:
        """Copy an expression with new ids and the same positions."""
        fresh = self.numbering.next_id
        match node:
            case Literal() | Ident():
                return replace(node, id=fresh())
            case Select():
                return replace(node, id=fresh(), operand=self.copy(node.operand))
            case Call():
                target = None if node.target is None else self.copy(node.target)
                return replace(node, id=fresh(), target=target, args=self._copies(node.args))
            case CreateList():
                return replace(node, id=fresh(), elements=self._copies(node.elements))
            case CreateMap():
                entries = [
                    Entry(fresh(), e.offset, self.copy(e.key), self.copy(e.value), e.optional)
                    for e in node.entries
                ]
                return replace(node, id=fresh(), entries=tuple(entries))
            case CreateStruct():
                fields = [
                    Field(fresh(), f.offset, f.name, self.copy(f.value), f.optional) for f in node.fields
                ]
                return replace(node, id=fresh(), fields=tuple(fields))
            case Comprehension():
                return replace(
                    node,
                    id=fresh(),
                    range=self.copy(node.range),
                    init=self.copy(node.init),
                    condition=self.copy(node.condition),
                    step=self.copy(node.step),
                    result=self.copy(node.result),
                )

    def _copies(self, nodes: tuple[Expr, ...]) -> tuple[Expr, ...]:
        copies = []
        for node in nodes:
            copies.append(self.copy(node))  # noqa: PERF401 - a comprehension would add a stack frame per level
        return tuple(copies)


Expander = Callable[[Builder, Expr, Sequence[Expr]], Expr]


def _name(arg: Expr, message: str) -> str:
    if not isinstance(arg, Ident):
        raise MacroError(arg.offset, message)
    if arg.name in (ACCUMULATOR, LEGACY_ACCUMULATOR):
        raise MacroError(arg.offset, "iteration variable overwrites accumulator variable")
    return arg.name


def expand_has(build: Builder, arg: Expr) -> Expr:
    if not isinstance(arg, Select) or arg.test:
        raise MacroError(arg.offset, INVALID_HAS)
    return Select(build.numbering.next_id(), build.offset, arg.operand, arg.field, test=True)


def _names(args: Sequence[Expr]) -> tuple[str, str]:
    """Return the one or two variables of a macro: all arguments but the last."""
    first = _name(args[0], NOT_A_NAME)
    if len(args) == 2:
        return first, ""
    second = _name(args[1], NOT_A_NAME)
    if first == second:
        raise MacroError(args[1].offset, f"duplicate variable name: {first}")
    return first, second


def _all(build: Builder, target: Expr, args: Sequence[Expr]) -> Expr:
    name, second = _names(args)
    return build.fold(
        "all",
        over=target,
        variable=name,
        second=second,
        init=build.literal(True),
        condition=build.call("@not_strictly_false", build.ident(ACCUMULATOR)),
        step=build.call("_&&_", build.ident(ACCUMULATOR), args[-1]),
        result=build.ident(ACCUMULATOR),
    )


def _exists(build: Builder, target: Expr, args: Sequence[Expr]) -> Expr:
    name, second = _names(args)
    return build.fold(
        "exists",
        over=target,
        variable=name,
        second=second,
        init=build.literal(False),
        condition=build.call("@not_strictly_false", build.call("!_", build.ident(ACCUMULATOR))),
        step=build.call("_||_", build.ident(ACCUMULATOR), args[-1]),
        result=build.ident(ACCUMULATOR),
    )


def _exists_one(build: Builder, target: Expr, args: Sequence[Expr]) -> Expr:
    name, second = _names(args)
    increment = build.call("_+_", build.ident(ACCUMULATOR), build.literal(1))
    return build.fold(
        "exists_one",
        over=target,
        variable=name,
        second=second,
        init=build.literal(0),
        condition=build.literal(True),
        step=build.call("_?_:_", args[-1], increment, build.ident(ACCUMULATOR)),
        result=build.call("_==_", build.ident(ACCUMULATOR), build.literal(1)),
    )


def _map(build: Builder, target: Expr, args: Sequence[Expr]) -> Expr:
    name = _name(args[0], NOT_AN_IDENTIFIER)
    step: Expr = build.call("_+_", build.ident(ACCUMULATOR), build.list(args[-1]))
    if len(args) == 3:
        step = build.call("_?_:_", args[1], step, build.ident(ACCUMULATOR))
    return _collect(build, "map" if len(args) == 2 else "filter", target, name, step)


def _filter(build: Builder, target: Expr, args: Sequence[Expr]) -> Expr:
    name = _name(args[0], NOT_AN_IDENTIFIER)
    append = build.call("_+_", build.ident(ACCUMULATOR), build.list(args[0]))
    step = build.call("_?_:_", args[1], append, build.ident(ACCUMULATOR))
    return _collect(build, "filter", target, name, step)


def _collect(build: Builder, macro: str, target: Expr, name: str, step: Expr) -> Expr:
    return build.fold(
        macro,
        over=target,
        variable=name,
        init=build.list(),
        condition=build.literal(True),
        step=step,
        result=build.ident(ACCUMULATOR),
    )


def _transform_list(build: Builder, target: Expr, args: Sequence[Expr]) -> Expr:
    step = build.call("_+_", build.ident(ACCUMULATOR), build.list(args[-1]))
    return _transformed(build, "map" if len(args) == 3 else "filter", target, args, step)


def _transform_map(build: Builder, target: Expr, args: Sequence[Expr]) -> Expr:
    step = build.call(MAP_INSERT, build.ident(ACCUMULATOR), build.ident(_names(args[:3])[0]), args[-1])
    return _transformed(build, "transform_map", target, args, step)


def _transform_entry(build: Builder, target: Expr, args: Sequence[Expr]) -> Expr:
    step = build.call(MAP_INSERT, build.ident(ACCUMULATOR), args[-1])
    return _transformed(build, "transform_map", target, args, step)


def _transformed(build: Builder, macro: str, target: Expr, args: Sequence[Expr], step: Expr) -> Expr:
    name, second = _names(args[:3])
    if len(args) == 4:
        step = build.call("_?_:_", args[2], step, build.ident(ACCUMULATOR))
    return build.fold(
        macro,
        over=target,
        variable=name,
        second=second,
        init=build.map() if macro == "transform_map" else build.list(),
        condition=build.literal(True),
        step=step,
        result=build.ident(ACCUMULATOR),
    )


def _bind(build: Builder, target: Expr, name: str, body: Expr) -> Expr:
    """Evaluate ``body`` with ``name`` lazily bound to the value of the optional."""
    return build.fold(
        "bind",
        over=build.list(),
        variable=UNUSED_VARIABLE,
        accumulator=name,
        init=build.call("value", target=build.copy(target)),
        condition=build.literal(False),
        step=build.ident(name),
        result=body,
    )


def _opt_map(build: Builder, target: Expr, args: Sequence[Expr]) -> Expr:
    if not isinstance(args[0], Ident):
        raise MacroError(args[0].offset, OPTIONAL_NAME.format("optMap"))
    present = build.call("hasValue", target=target)
    mapped = build.call("optional.of", _bind(build, target, args[0].name, args[1]))
    return build.call("_?_:_", present, mapped, build.call("optional.none"))


def _opt_flat_map(build: Builder, target: Expr, args: Sequence[Expr]) -> Expr:
    if not isinstance(args[0], Ident):
        raise MacroError(args[0].offset, OPTIONAL_NAME.format("optFlatMap"))
    present = build.call("hasValue", target=target)
    return build.call(
        "_?_:_", present, _bind(build, target, args[0].name, args[1]), build.call("optional.none")
    )


RECEIVER_MACROS: dict[tuple[str, int], Expander] = {
    ("all", 2): _all,
    ("exists", 2): _exists,
    ("exists_one", 2): _exists_one,
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
}

TWO_VARIABLE_MACROS: dict[tuple[str, int], Expander] = {
    ("all", 3): _all,
    ("exists", 3): _exists,
    ("exists_one", 3): _exists_one,
    ("existsOne", 3): _exists_one,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_entry,
    ("transformMapEntry", 4): _transform_entry,
}
"""Macros of dialects with ``two_variables``."""
