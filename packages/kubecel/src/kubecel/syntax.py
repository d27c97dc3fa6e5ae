"""The syntax tree. Every node has an ``id`` unique in its tree, and the offset, in code points, of its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Literal:
    id: int
    offset: int
    value: object


@dataclass(frozen=True, slots=True)
class Ident:
    id: int
    offset: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """``operand.field``; with ``test`` it is ``has(operand.field)``."""

    id: int
    offset: int
    operand: Expr
    field: str
    test: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function or operator. ``&&`` and ``||`` have all operands of a chain."""

    id: int
    offset: int
    function: str
    args: tuple[Expr, ...]
    target: Expr | None = None


@dataclass(frozen=True, slots=True)
class CreateList:
    id: int
    offset: int
    elements: tuple[Expr, ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Entry:
    id: int
    offset: int
    key: Expr
    value: Expr
    optional: bool


@dataclass(frozen=True, slots=True)
class CreateMap:
    id: int
    offset: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Field:
    id: int
    offset: int
    name: str
    value: Expr
    optional: bool


@dataclass(frozen=True, slots=True)
class CreateStruct:
    id: int
    offset: int
    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Comprehension:
    """The expansion of a macro: fold ``range`` into ``accumulator``.

    ``macro`` is the name of the macro, so that the compiler can create a loop instead of interpreting the fold. With a
    ``second`` variable, the first is the index or key, and the second the element or value.
    """

    id: int
    offset: int
    macro: str
    range: Expr
    variable: str
    accumulator: str
    init: Expr
    condition: Expr
    step: Expr
    result: Expr
    second: str = ""


Expr: TypeAlias = Literal | Ident | Select | Call | CreateList | CreateMap | CreateStruct | Comprehension


def children(node: Expr) -> tuple[Expr, ...]:
    """Return the direct sub-expressions in evaluation order."""
    match node:
        case Literal() | Ident():
            return ()
        case Select():
            return (node.operand,)
        case Call():
            return node.args if node.target is None else (node.target, *node.args)
        case CreateList():
            return node.elements
        case CreateMap():
            return tuple(part for entry in node.entries for part in (entry.key, entry.value))
        case CreateStruct():
            return tuple(field.value for field in node.fields)
        case Comprehension():
            return (node.range, node.init, node.condition, node.step, node.result)
