"""Compile a checked syntax tree to closures, each a function of the frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import TypeAlias

from kubecel import cost
from kubecel.aggregates import build_map, compile_constant_list, compile_list, compile_map_literal
from kubecel.attributes import (
    BAD_QUALIFIER,
    KEY_TYPES,
    Attribute,
    Qualifier,
    compile_attribute,
    compile_resolution,
)
from kubecel.calls import compile_call, implementation, rule_of
from kubecel.checker import Checked
from kubecel.declarations import CostRule, Metered
from kubecel.errors import NO_SUCH_OVERLOAD, Failure, Overrun
from kubecel.folds import (
    compile_all,
    compile_bind,
    compile_bound,
    compile_exists,
    compile_exists_one,
    compile_filter,
    compile_map,
    compile_pairs,
    compile_transform_map,
    compile_unpacked,
)
from kubecel.frame import Frame, Meter, Step, charge, charge_work
from kubecel.libraries.regex import CONSTANT_PATTERN_FUNCTIONS, PATTERN_FUNCTIONS
from kubecel.libraries.scores import scores
from kubecel.regex import Pattern, compile_pattern, compile_work
from kubecel.scalars import TypeValue
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
    children,
)
from kubecel.values import Optional, equal, size_of, type_of_value
from kubecel.work import PRICES, work_of

PATTERN_MEMORY = 4
"""Factor on the work of a constant pattern, which stays in memory as long as the program."""
_SHORT_TEXT = 40
"""Maximum length of a text whose comparison costs about as much as its work."""
_INDEXING = frozenset({"_[_]", "_[?_]", "_?._"})


class InvalidConstant(Exception):
    """A constant in the expression is invalid where it is used."""


@dataclass(frozen=True, slots=True)
class _Iteration:
    slot: int


@dataclass(frozen=True, slots=True)
class _Lazy:
    slot: int
    init: Step


_Local: TypeAlias = _Iteration | _Lazy


@dataclass(frozen=True, slots=True)
class Compiled:
    """The closure of an expression, the number of slots of its frames, and its constant patterns."""

    step: Step
    slots: int
    patterns: Mapping[str, Pattern]


def compile_expression(checked: Checked, meter: Meter, *, free_constants: bool = False) -> Compiled:
    compiler = _Compiler(checked, meter, free_constants=free_constants)
    step = compiler.compile(checked.root)
    return Compiled(step, compiler.slots, compiler.patterns)


_FREE_CALLS = frozenset({"_&&_", "_||_", "_?_:_", "or", "orValue"})
_FREE_REGION = 16
"""Maximum number of connected nodes without cost that are not charged as work."""


def free_regions(root: Expr) -> dict[int, int]:
    """Return the work of large regions without cost (literals and logic between them), by the id of their root."""
    charged: dict[int, int] = {}
    sizes: dict[int, int] = {}
    pending: list[tuple[Expr, bool]] = [(root, False)]
    while pending:
        node, visited = pending.pop()
        if not visited:
            pending.append((node, True))
            pending.extend((child, False) for child in children(node))
            continue
        if isinstance(node, Literal):
            sizes[node.id] = 1
        elif isinstance(node, Call) and node.function in _FREE_CALLS:
            size = 1 + sum(sizes.get(child.id, 0) for child in children(node))
            if size > _FREE_REGION:
                charged[node.id] = size
            else:
                sizes[node.id] = size
    return charged


class _Compiler:
    def __init__(self, checked: Checked, meter: Meter, *, free_constants: bool) -> None:
        self._checked = checked
        self._meter = meter
        self.patterns: dict[str, Pattern] = {}
        self._charged = free_regions(checked.root)
        self._free_constants = free_constants
        self._locals: list[tuple[str, _Local]] = []
        self.slots = 0

    def compile(self, node: Expr) -> Step:
        match node:
            case Literal():
                return _constant(node.value)
            case Ident() | Select():
                named = self._checked.type_names.get(node.id)
                if named is not None:
                    return _constant(TypeValue(named))
                return compile_attribute(self._attribute(node), tested=isinstance(node, Select) and node.test)
            case Call():
                return self._call(node)
            case CreateList():
                return self._list(node)
            case CreateMap():
                return self._map(node)
            case Comprehension():
                return self._fold(node)
            case CreateStruct():
                raise AssertionError("the checker rejects messages")

    # --- attributes ------------------------------------------------------------------------------------------

    def _attribute(self, node: Expr) -> Attribute:
        """Return the node as an attribute; another expression becomes the base of a new attribute."""
        match node:
            case Ident() if node.id not in self._checked.type_names:
                return self._name(node)
            case Select() if node.id not in self._checked.type_names:
                if node.id in self._checked.names:
                    return Attribute(variable=self._checked.names[node.id])
                return self._attribute(node.operand).qualify(Qualifier(key=node.field, test=node.test))
            case Call() if node.function in _INDEXING and node.target is None:
                operand, index = node.args
                attribute = self._attribute(operand)
                return attribute.qualify(self._qualifier(index, optional=node.function != "_[_]"))
            case Call() if node.function == "_?_:_" and node.target is None:
                condition, truthy, falsy = node.args
                return Attribute(
                    condition=self._weighed(node, self.compile(condition)),
                    truthy=self._attribute(truthy),
                    falsy=self._attribute(falsy),
                )
            case _:
                return Attribute(base=self.compile(node))

    def _name(self, node: Ident) -> Attribute:
        if node.id in self._checked.names:
            variable = self._checked.names[node.id]
            return Attribute(variable=variable, free=any(name == variable for name, _ in self._locals))
        for name, local in reversed(self._locals):
            if name == node.name:
                if isinstance(local, _Iteration):
                    return Attribute(slot=local.slot)
                return Attribute(base=compile_bound(local.slot, local.init))
        raise AssertionError(f"the checker resolved {node.name}")

    def _qualifier(self, index: Expr, *, optional: bool) -> Qualifier:
        if isinstance(index, Literal) or index.id in self._checked.type_names:
            key = index.value if isinstance(index, Literal) else None
            if not isinstance(key, KEY_TYPES):
                kind = type_of_value(key).name if isinstance(index, Literal) else "type"
                raise InvalidConstant(BAD_QUALIFIER.format(kind))
            return Qualifier(key=key, optional=optional)
        if self._is_attribute(index):
            return Qualifier(dynamic=compile_resolution(self._attribute(index)), optional=optional)
        return Qualifier(dynamic=self.compile(index), optional=optional)

    def _is_attribute(self, node: Expr) -> bool:
        if isinstance(node, Call):
            return node.target is None and (node.function in _INDEXING or node.function == "_?_:_")
        return isinstance(node, (Ident, Select)) and node.id not in self._checked.type_names

    # --- calls -----------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Step:
        if self._is_attribute(node):
            return compile_attribute(self._attribute(node))
        function = self._checked.functions[node.id]
        candidates = self._checked.overloads[node.id]
        operands = node.args
        if node.target is not None and candidates[0].member:
            operands = (node.target, *node.args)
        if function.name == "_&&_":
            return self._weighed(node, _junction(self._compiled(operands), decisive=False))
        if function.name == "_||_":
            return self._weighed(node, _junction(self._compiled(operands), decisive=True))
        if function.name in ("_==_", "_!=_"):
            return self._equality(operands, negated=function.name == "_!=_")
        if function.name in ("or", "orValue"):
            left, right = self._compiled(operands)
            return self._weighed(node, _fallback(left, right, unwrap=function.name == "orValue"))
        if function.name == "scores":
            cluster, name = self._compiled(operands)
            return _scores(cluster, name, function.cost)
        run, variadic = implementation(function, candidates)
        if function.name in PATTERN_FUNCTIONS and len(operands) > 1:
            pattern = operands[1]
            if isinstance(pattern, Literal) and isinstance(pattern.value, str):
                required = function.name in CONSTANT_PATTERN_FUNCTIONS
                self._pattern(pattern.value, required=required)
                variadic = variadic or required
        rule = rule_of(function, candidates)
        work = work_of(function, candidates)
        return compile_call(self._compiled(operands), run, rule, variadic=variadic, work=work)

    def _pattern(self, text: str, *, required: bool) -> None:
        """Compile a constant pattern once. An invalid one that is not ``required`` fails when it is used."""
        if text in self.patterns:
            return
        # Charged before it is compiled: a pattern of a few hundred characters can need seconds and hundreds of
        # megabytes.
        charge_work(self._meter, PATTERN_MEMORY * compile_work(text))
        try:
            self.patterns[text] = compile_pattern(text)
        except Failure as failure:
            if required:
                raise InvalidConstant(str(failure)) from None

    def _weighed(self, node: Expr, step: Step) -> Step:
        work = self._charged.get(node.id)
        if work is None:
            return step

        def weighed(frame: Frame) -> object:
            charge_work(frame, work)
            return step(frame)

        return weighed

    def _compiled(self, nodes: tuple[Expr, ...]) -> list[Step]:
        steps = []
        for node in nodes:
            steps.append(self.compile(node))  # noqa: PERF401 - a comprehension would add a stack frame per level
        return steps

    def _equality(self, operands: tuple[Expr, ...], *, negated: bool) -> Step:
        left, right = operands
        if isinstance(right, Literal) and isinstance(right.value, str) and len(right.value) <= _SHORT_TEXT:
            return _text_equality(self.compile(left), right.value, negated=negated)
        run = Metered(_different if negated else _same)
        work = PRICES["_==_"]
        return compile_call(self._compiled(operands), run, cost.equality, variadic=False, work=work)

    # --- aggregates ------------------------------------------------------------------------------------------

    def _list(self, node: CreateList) -> Step:
        if not node.optional and all(isinstance(element, Literal) for element in node.elements):
            values: list[object] = [
                element.value for element in node.elements if isinstance(element, Literal)
            ]
            # One list for all evaluations, as no CEL function changes its arguments. Its cost is charged in each, as by
            # the reference.
            return _constant(values) if self._free_constants else compile_constant_list(values)
        return compile_list(self._compiled(node.elements), node.optional)

    def _map(self, node: CreateMap) -> Step:
        parts = [part for entry in node.entries for part in (entry.key, entry.value)]
        if self._free_constants and all(isinstance(part, Literal) for part in parts):
            literals = [part.value for part in parts if isinstance(part, Literal)]
            if not any(
                entry.optional or isinstance(key, bytes)
                for entry, key in zip(node.entries, literals[::2], strict=True)
            ):
                return _constant(
                    build_map([(k, v, True) for k, v in zip(literals[::2], literals[1::2], strict=True)])
                )
        keys = self._compiled(tuple([entry.key for entry in node.entries]))
        values = self._compiled(tuple([entry.value for entry in node.entries]))
        optional = [entry.optional for entry in node.entries]
        return compile_map_literal(list(zip(keys, values, optional, strict=True)))

    # --- comprehensions --------------------------------------------------------------------------------------

    def _fold(self, node: Comprehension) -> Step:
        over = self.compile(node.range)
        slot = self.slots
        # A slot per comprehension, never reused: nested ones are alive together, and a frame is a list of a known
        # length.
        self.slots += 1
        if node.macro == "bind":
            init = self.compile(node.init)
            return compile_bind(over, slot, self._within(node.accumulator, _Lazy(slot, init), node.result))
        step = node.step
        assert isinstance(step, Call)
        if node.second:
            over = compile_pairs(over)
        if node.macro in ("all", "exists"):
            predicate = self._body(node, slot, step.args[1])
            return (compile_all if node.macro == "all" else compile_exists)(over, slot, predicate)
        if node.macro == "exists_one":
            return compile_exists_one(over, slot, self._body(node, slot, step.args[0]))
        if node.macro == "transform_map":
            return self._transform_map(node, over, slot, step)
        if node.macro == "map":
            return compile_map(over, slot, self._body(node, slot, _appended(step)))
        predicate = self._body(node, slot, step.args[0])
        append = step.args[1]
        assert isinstance(append, Call)
        return compile_filter(over, slot, predicate, self._body(node, slot, _appended(append)))

    def _transform_map(self, node: Comprehension, over: Step, slot: int, step: Call) -> Step:
        predicate: Step | None = None
        if step.function == "_?_:_":
            predicate = self._body(node, slot, step.args[0])
            insert = step.args[1]
            assert isinstance(insert, Call)
            step = insert
        key = self._body(node, slot, step.args[1]) if len(step.args) == 3 else None
        return compile_transform_map(over, slot, predicate, key, self._body(node, slot, step.args[-1]))

    def _body(self, node: Comprehension, slot: int, body: Expr) -> Step:
        """Compile the part that is evaluated for every element."""
        if not node.second:
            return self._within(node.variable, _Iteration(slot), body)
        first, second = self.slots, self.slots + 1
        self.slots += 2
        self._locals.append((node.variable, _Iteration(first)))
        step = self._within(node.second, _Iteration(second), body)
        self._locals.pop()
        return compile_unpacked(slot, first, second, step)

    def _within(self, name: str, local: _Local, node: Expr) -> Step:
        self._locals.append((name, local))
        step = self.compile(node)
        self._locals.pop()
        return step


def _appended(append: Call) -> Expr:
    created = append.args[1]
    assert isinstance(created, CreateList)
    return created.elements[0]


def _constant(value: object) -> Step:
    return lambda _: value


def _junction(terms: list[Step], *, decisive: bool) -> Step:
    """Compile ``&&`` (False is decisive) or ``||`` (True): a decisive term hides failures of the others."""
    neutral = not decisive

    def evaluate(frame: Frame) -> object:
        failure: Failure | None = None
        for term in terms:
            try:
                value = term(frame)
            except Failure as error:
                failure = failure or error
                continue
            if value is decisive:
                return decisive
            if value is not neutral:
                failure = failure or Failure(NO_SUCH_OVERLOAD)
        if failure is not None:
            raise failure
        return neutral

    return evaluate


def _same(meter: Meter, left: object, right: object) -> object:
    return equal(left, right, meter)


def _different(meter: Meter, left: object, right: object) -> object:
    """Return the result of ``!=``, which is true for a pair that ``==`` cannot compare."""
    try:
        return not equal(left, right, meter)
    except Failure:
        return True


def _text_equality(left: Step, text: str, *, negated: bool) -> Step:
    """Compile a comparison with a constant string, the most frequent expression."""
    width = len(text)
    costs = tuple([ceil(size * cost.PER_CHARACTER) for size in range(width + 1)])
    failed = costs[min(1, width)]

    def evaluate(frame: Frame) -> object:
        try:
            value = left(frame)
        except Failure:
            charge(frame, failed)
            raise
        size = len(value) if isinstance(value, str) else size_of(value)
        total = frame.cost = frame.cost + costs[size if size < width else width]
        if total > frame.limit:
            raise Overrun
        if isinstance(value, str):
            return (value == text) is not negated
        return _different(frame, value, text) if negated else equal(value, text, frame)

    return evaluate


def _fallback(left: Step, right: Step, *, unwrap: bool) -> Step:
    """Compile ``or`` or ``orValue``: without cost, and the alternative is evaluated only if needed."""

    def evaluate(frame: Frame) -> object:
        value = left(frame)
        if not isinstance(value, Optional):
            raise Failure(NO_SUCH_OVERLOAD)
        if not value.present:
            return right(frame)
        return value.value if unwrap else value

    return evaluate


def _scores(cluster: Step, name: Step, rule: CostRule | None) -> Step:
    """Compile ``scores()``: a binary call that uses the context of the frame."""

    def run(frame: Frame, a: object, b: object) -> object:
        items = scores(frame.context, a, b)
        charge_work(frame, 2 * len(items))
        return items

    return compile_call([cluster, name], Metered(run), rule, variadic=False)
