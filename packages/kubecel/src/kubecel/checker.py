"""Infer the type of every node, and the candidate overloads of every call.

Most inputs are dynamic, so a call often has several candidates. They must be the same as in the reference, because they
determine the cost of the call and whether its arguments are evaluated after a failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubecel.declarations import Declarations, Function, Overload
from kubecel.frame import Meter, charge_work
from kubecel.inference import Inference
from kubecel.source import Issue
from kubecel.syntax import (
    Call,
    Comprehension,
    CreateList,
    CreateMap,
    CreateStruct,
    Expr,
    Ident,
    Literal,
    Select,
)
from kubecel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    Kind,
    Type,
    describe,
    describe_call,
    list_of,
    map_of,
    optional_of,
    type_of,
)
from kubecel.values import type_of_value

UNDECLARED = "undeclared reference to '{}' (in container '')"
TYPE_MISMATCH = "expected type '{}' but found '{}'"
MAX_TYPE_SIZE = 2_000
TYPE_TOO_LARGE = f"the type of this expression has more than {MAX_TYPE_SIZE} parts"

# Comparisons between different number types. The reference hides them from the checker only until the first
# comprehension. Existing expressions rely on the comparisons that this permits.
_CROSS_TYPE_SUFFIXES = (
    "int64_double",
    "int64_uint64",
    "uint64_double",
    "uint64_int64",
    "double_int64",
    "double_uint64",
)


@dataclass(frozen=True, slots=True)
class Checked:
    """Results by node id: candidate ``overloads`` of calls, ``types`` of nodes, variables of resolved ``names``."""

    root: Expr
    types: Mapping[int, Type]
    overloads: Mapping[int, tuple[Overload, ...]]
    functions: Mapping[int, Function]
    names: Mapping[int, str]
    type_names: Mapping[int, Type]

    @property
    def result_type(self) -> Type:
        return self.types[self.root.id]


NODE_WORK = 30
"""Units of work (see `frame`) to check one node, in addition to the size of its type."""


def check(root: Expr, declarations: Declarations, meter: Meter | None = None) -> tuple[Checked, list[Issue]]:
    checker = _Checker(declarations, meter or Meter())
    checker.check(root)
    finished = {
        id_: checker.inference.substitute(type_, free_to_dyn=True) for id_, type_ in checker.types.items()
    }
    checked = Checked(root, finished, checker.overloads, checker.functions, checker.names, checker.type_names)
    return checked, checker.issues


class _Checker:
    def __init__(self, declarations: Declarations, meter: Meter) -> None:
        self._declarations = declarations
        self._meter = meter
        self._scopes: list[dict[str, Type]] = []
        self._cross_type_comparisons = declarations.dialect.mixed_numbers
        self.inference = Inference()
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, tuple[Overload, ...]] = {}
        self.functions: dict[int, Function] = {}
        self.names: dict[int, str] = {}
        self.type_names: dict[int, Type] = {}
        self.issues: list[Issue] = []

    def check(self, node: Expr) -> Type:
        match node:
            case Literal():
                type_ = type_of_value(node.value)
            case Ident():
                type_ = self._ident(node)
            case Select():
                type_ = self._select(node)
            case Call():
                type_ = self._call(node)
            case CreateList():
                type_ = self._list(node)
            case CreateMap():
                type_ = self._map(node)
            case CreateStruct():
                type_ = self._struct(node)
            case Comprehension():
                type_ = self._comprehension(node)
        if type_.size > MAX_TYPE_SIZE:
            # Types that contain themselves repeatedly grow exponentially.
            self._report(node.offset, TYPE_TOO_LARGE)
            type_ = ERROR
        if not isinstance(node, Literal):
            charge_work(self._meter, NODE_WORK + type_.size)
        self.types[node.id] = type_
        return type_

    def _report(self, node_offset: int, message: str) -> None:
        self.issues.append(Issue(node_offset, message))

    # --- names -----------------------------------------------------------------------------------------------

    def _local(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            declared = scope.get(name)
            if declared is not None:
                return declared
        return None

    def _global(self, node: Expr, name: str) -> Type | None:
        declared = self._declarations.variables.get(name)
        if declared is not None:
            self.names[node.id] = name
            return declared
        named = self._declarations.types.get(name)
        if named is not None:
            self.type_names[node.id] = named
            return type_of(named)
        return None

    def _ident(self, node: Ident) -> Type:
        # A leading dot means the root scope, so it skips the variables of comprehensions.
        if not node.name.startswith("."):
            local = self._local(node.name)
            if local is not None:
                return local
        declared = self._global(node, node.name.lstrip("."))
        if declared is None:
            self._report(node.offset, UNDECLARED.format(node.name))
            return ERROR
        return declared

    def _qualified(self, node: Expr) -> str | None:
        """Return ``a.b.c`` as one name, unless its root is a local variable."""
        parts: list[str] = []
        while isinstance(node, Select) and not node.test:
            parts.append(node.field)
            node = node.operand
        if not isinstance(node, Ident):
            return None
        if not node.name.startswith(".") and self._local(node.name) is not None:
            return None
        parts.append(node.name.lstrip("."))
        return ".".join(reversed(parts))

    # --- selection -------------------------------------------------------------------------------------------

    def _select(self, node: Select) -> Type:
        if not node.test:
            name = self._qualified(node)
            if name is not None:
                # ``a.b.c`` may be one declared name, which precedes a selection from ``a.b``.
                declared = self._global(node, name)
                if declared is not None:
                    return declared
        result = self._field(node, node.operand, node.field, optional=False)
        return BOOL if node.test else self.inference.substitute(result)

    def _field(self, node: Expr, operand: Expr, field: str, *, optional: bool) -> Type:
        target = self.inference.substitute(self.check(operand))
        unwrapped, was_optional = _unwrap(target)
        result = DYN
        match unwrapped.kind:
            case Kind.MAP:
                result = unwrapped.params[1]
            case Kind.PARAM:
                # A field of a free type: nothing else may narrow it later, or earlier nodes would have been checked
                # with another type.
                self.inference.assign(DYN, unwrapped)
            case Kind.DYN | Kind.ERROR:
                pass
            case Kind.STRUCT:
                known = self._declarations.structs.get(unwrapped.name, {}).get(field)
                if known is None:
                    self._report(node.offset, f"undefined field '{field}'")
                result = known or ERROR
            case _:
                self._report(node.offset, f"type '{describe(unwrapped)}' does not support field selection")
        return optional_of(result) if was_optional or optional else result

    # --- calls -----------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            operand, field = node.args
            assert isinstance(field, Literal)
            result = self._field(node, operand, str(field.value), optional=True)
            return self.inference.substitute(result)
        for arg in node.args:
            self.check(arg)
        if node.target is None:
            function = self._declarations.functions.get(node.function.lstrip("."))
            if function is None:
                self._report(node.offset, UNDECLARED.format(node.function))
                return ERROR
            return self._resolve(node, function, target=None)
        prefix = _dotted(node.target)
        if prefix is not None:
            function = self._declarations.functions.get(f"{prefix.lstrip('.')}.{node.function}")
            if function is not None:
                return self._resolve(node, function, target=None)
        self.check(node.target)
        function = self._declarations.functions.get(node.function)
        if function is None:
            self._report(node.offset, UNDECLARED.format(node.function))
            return ERROR
        return self._resolve(node, function, target=node.target)

    def _resolve(self, node: Call, function: Function, *, target: Expr | None) -> Type:
        operands = node.args if target is None else (target, *node.args)
        args = tuple([self.types[operand.id] for operand in operands])
        if function.name in ("_&&_", "_||_"):
            return self._logical(node, function, args)
        result: Type | None = None
        matching: list[Overload] = []
        for overload in function.overloads:
            if overload.member != (target is not None) or len(overload.params) != len(args):
                continue
            if not self._cross_type_comparisons and overload.id.endswith(_CROSS_TYPE_SUFFIXES):
                continue
            params, returned = overload.params, overload.result
            if overload.type_params:
                # New type variables per overload and call: `[1] + [2]` and `['a'] + ['b']` in one expression must not
                # bind each other.
                fresh = {name: self.inference.fresh() for name in overload.type_params}
                params = tuple([_instantiate(param, fresh) for param in params])
                returned = _instantiate(returned, fresh)
            # All candidates are tried, also after a match: with dynamic arguments several remain, and cost depends on
            # which.
            if not self.inference.assign_all(args, params):
                continue
            matching.append(overload)
            returned = self.inference.substitute(returned)
            if result is None:
                result = returned
            elif result.kind is not Kind.DYN and result != returned:
                result = DYN
        if result is None:
            shown = tuple([self.inference.substitute(arg, free_to_dyn=True) for arg in args])
            signature = describe_call(shown, member=target is not None)
            self._report(
                node.offset, f"found no matching overload for '{function.name}' applied to '{signature}'"
            )
            return ERROR
        self.overloads[node.id] = tuple(matching)
        self.functions[node.id] = function
        return result

    def _logical(self, node: Call, function: Function, args: tuple[Type, ...]) -> Type:
        failed = False
        for operand, arg in zip(node.args, args, strict=True):
            if not self.inference.assign(arg, BOOL):
                self._report(operand.offset, TYPE_MISMATCH.format("bool", describe(arg)))
                failed = True
        self.functions[node.id] = function
        self.overloads[node.id] = function.overloads
        return ERROR if failed else BOOL

    # --- aggregates ------------------------------------------------------------------------------------------

    def _list(self, node: CreateList) -> Type:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            type_ = self.check(element)
            if index in node.optional:
                type_ = self._optional_entry(element, type_)
            joined = self._join(joined, type_)
        return list_of(self.inference.fresh() if joined is None else joined)

    def _map(self, node: CreateMap) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            keys = self._join(keys, self.check(entry.key))
            type_ = self.check(entry.value)
            if entry.optional:
                type_ = self._optional_entry(entry.value, type_)
            values = self._join(values, type_)
        if keys is None or values is None:
            return map_of(self.inference.fresh(), self.inference.fresh())
        return map_of(keys, values)

    def _optional_entry(self, node: Expr, type_: Type) -> Type:
        unwrapped, was_optional = _unwrap(type_)
        if not was_optional and unwrapped.kind is not Kind.DYN:
            expected = describe(optional_of(unwrapped))
            self._report(node.offset, TYPE_MISMATCH.format(expected, describe(unwrapped)))
        return unwrapped

    def _join(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self.inference.assign(previous, current):
            return self.inference.more_general(previous, current)
        return DYN

    def _struct(self, node: CreateStruct) -> Type:
        named = self._declarations.types.get(node.name.lstrip("."))
        if named is None:
            self._report(node.offset, UNDECLARED.format(node.name))
        else:
            self._report(node.offset, f"'{named.name}' is not a message type")
        for field in node.fields:
            self.check(field.value)
        return ERROR

    # --- comprehensions --------------------------------------------------------------------------------------

    def _comprehension(self, node: Comprehension) -> Type:
        self.check(node.range)
        accumulator = self.check(node.init)
        range_type = self.inference.substitute(self.types[node.range.id])
        # Set after the range is checked, and never reset: see ``_CROSS_TYPE_SUFFIXES``.
        self._cross_type_comparisons = True
        second = DYN
        match range_type.kind:
            case Kind.LIST | Kind.MAP:
                variable, second = range_type.params[0], range_type.params[-1]
                if node.second and range_type.kind is Kind.LIST:
                    variable = INT
            case Kind.DYN | Kind.ERROR | Kind.PARAM:
                self.inference.assign(DYN, range_type)
                variable = DYN
            case _:
                self._report(
                    node.range.offset,
                    f"expression of type '{describe(range_type)}' cannot be range of a comprehension "
                    "(must be list, map, or dynamic)",
                )
                variable = second = ERROR
        # Two scopes: ``result`` sees the accumulator, but not the variable of the iteration.
        self._scopes.append({node.accumulator: accumulator})
        self._scopes.append({node.variable: variable} | ({node.second: second} if node.second else {}))
        self.check(node.condition)
        self._assert(node.condition, BOOL)
        self.check(node.step)
        self._assert(node.step, accumulator)
        self._scopes.pop()
        result = self.check(node.result)
        self._scopes.pop()
        return self.inference.substitute(result)

    def _assert(self, node: Expr, expected: Type) -> None:
        actual = self.types[node.id]
        if not self.inference.assign(expected, actual):
            self._report(node.offset, TYPE_MISMATCH.format(describe(expected), describe(actual)))


def _unwrap(type_: Type) -> tuple[Type, bool]:
    if type_.kind is Kind.OPAQUE and type_.name == "optional_type":
        return type_.params[0], True
    return type_, False


def _dotted(node: Expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, Select) and not node.test:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    parts.append(node.name)
    return ".".join(reversed(parts))


def _instantiate(type_: Type, fresh: Mapping[str, Type]) -> Type:
    if not type_.open:
        return type_
    if type_.kind is Kind.PARAM:
        return fresh[type_.name]
    return Type(type_.kind, type_.name, tuple([_instantiate(inner, fresh) for inner in type_.params]))
