"""The declarations of a library: functions with typed overloads, and names of types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubecel.frame import Meter
from kubecel.types import Kind, Type

Implementation = Callable[..., object]
CostRule = Callable[[tuple[Any, ...], object], int]
"""Returns the cost for arguments and result. A failed one is replaced by an object of size 1."""


@dataclass(frozen=True, slots=True)
class Metered:
    """An implementation that charges for its work itself: it takes a `Meter` before its arguments."""

    call: Implementation


@dataclass(frozen=True, slots=True)
class MeteredCost:
    """A cost whose computation is charged as work, because it depends on all parts of an argument."""

    rule: Callable[[Meter, tuple[Any, ...], object], int]

    def __call__(self, args: tuple[Any, ...], result: object) -> int:
        return self.rule(Meter(), args, result)


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature.

    ``call`` is None for functions that the compiler implements. ``variadic`` overloads stop at the first failed
    argument, without a charge; others evaluate every argument and always charge.
    """

    id: str
    params: tuple[Type, ...]
    result: Type
    call: Implementation | Metered | None = None
    member: bool = False
    variadic: bool = False
    cost: CostRule | None = None
    type_params: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names: dict[str, None] = {}
        for type_ in (*self.params, self.result):
            _collect(type_, names)
        object.__setattr__(self, "type_params", tuple(names))


def _collect(type_: Type, names: dict[str, None]) -> None:
    if type_.kind is Kind.PARAM:
        names[type_.name] = None
    for inner in type_.params:
        _collect(inner, names)


@dataclass(frozen=True, slots=True)
class Function:
    """A function. ``dispatch`` implements all overloads and checks its arguments itself.

    ``cost`` applies to all overloads, also if the overload is selected at run time.
    """

    name: str
    overloads: tuple[Overload, ...]
    dispatch: Implementation | Metered | None = None
    cost: CostRule | None = None

    def merge(self, other: Function) -> Function:
        return Function(
            self.name,
            self.overloads + other.overloads,
            self.dispatch or other.dispatch,
            self.cost or other.cost,
        )


@dataclass(frozen=True, slots=True)
class Library:
    """A set of functions. ``types`` are the types that expressions can name."""

    name: str
    functions: tuple[Function, ...] = ()
    types: tuple[Type, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Differences between the uses of the language in Kubernetes.

    ``uniform``: the elements of a list literal, and the keys and values of a map literal, are of one type,
    unless they are arguments of ``format``.
    ``mixed_numbers``: numbers of different types can be compared; otherwise the reference allows it only once a
    comprehension.
    ``checked_constants``: an invalid constant duration, timestamp or pattern is a compile error.
    ``free_constants``: lists and maps of constants are created once, without cost.
    ``two_variables``: macros with index and element, or key and value, exist.
    """

    uniform: bool = False
    mixed_numbers: bool = False
    checked_constants: bool = False
    free_constants: bool = False
    two_variables: bool = False


Structs = Mapping[str, Mapping[str, Type]]
"""The fields of struct types, by the name of the type."""


@dataclass(frozen=True, slots=True)
class Declarations:
    """The declarations of an environment."""

    functions: Mapping[str, Function]
    types: Mapping[str, Type]
    variables: Mapping[str, Type]
    structs: Structs = field(default_factory=dict)
    dialect: Dialect = Dialect()


def declare(
    libraries: tuple[Library, ...],
    variables: Mapping[str, Type],
    structs: Structs | None = None,
    dialect: Dialect | None = None,
) -> Declarations:
    functions: dict[str, Function] = {}
    types: dict[str, Type] = {}
    for library in libraries:
        for function in library.functions:
            known = functions.get(function.name)
            functions[function.name] = function if known is None else known.merge(function)
        for type_ in library.types:
            types[type_.name] = type_
    return Declarations(functions, types, dict(variables), structs or {}, dialect or Dialect())
