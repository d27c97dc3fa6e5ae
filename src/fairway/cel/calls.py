"""Function calls: when arguments are evaluated, what is charged, and which overload runs.

A call with a failed argument fails with that argument, but what else happens is part of the cost: unary and binary
calls evaluate all arguments and charge; the others stop at the failure and charge only if it was the last argument.
"""

from __future__ import annotations

from collections.abc import Callable

from fairway.cel import cost
from fairway.cel.cost import FAILED
from fairway.cel.declarations import CostRule, Function, Implementation, Overload
from fairway.cel.errors import NO_SUCH_OVERLOAD, Failure
from fairway.cel.frame import Frame, Step, charge, charge_units
from fairway.cel.types import Kind, Type
from fairway.cel.values import matches

# Rules that need only the arguments are charged before the work is done, so that a limit prevents the work.
_BEFOREHAND = frozenset(
    {
        cost.concatenation,
        cost.containing_list,
        cost.equality,
        cost.every_pair,
        cost.every_pair_twice,
        cost.first_argument,
        cost.pattern_match,
        cost.second_argument,
        cost.substring_search,
    }
)


def implementation(function: Function, candidates: tuple[Overload, ...]) -> tuple[Implementation, bool]:
    """What to run, and whether it counts as a call of many arguments."""
    if function.dispatch is not None:
        return function.dispatch, False
    if len(candidates) == 1 and candidates[0].call is not None:
        return _guarded(candidates[0], candidates[0].call), candidates[0].variadic
    return _dispatching(function), True


def rule_of(function: Function, candidates: tuple[Overload, ...]) -> CostRule | None:
    if len(candidates) == 1 and candidates[0].cost is not None:
        return candidates[0].cost
    return function.cost


def _guarded(overload: Overload, call: Implementation) -> Implementation:
    """Dynamic values reach a function unchecked, so the types are looked at when it is called."""
    checks = [
        (index, param)
        for index, param in enumerate(overload.params)
        if param.kind not in (Kind.DYN, Kind.PARAM)
    ]
    if not checks:
        return call
    message = f"{NO_SUCH_OVERLOAD}: {overload.id}"

    def guarded(*args: object) -> object:
        for index, param in checks:
            if not matches(param, args[index]):
                raise Failure(message)
        return call(*args)

    return guarded


def _dispatching(function: Function) -> Implementation:
    bound = [(overload.params, overload.call) for overload in function.overloads if overload.call is not None]
    message = f"{NO_SUCH_OVERLOAD}: {function.name}"

    def dispatch(*args: object) -> object:
        for params, call in bound:
            if len(params) == len(args) and _all_match(params, args):
                return call(*args)
        raise Failure(message)

    return dispatch


def _all_match(params: tuple[Type, ...], args: tuple[object, ...]) -> bool:
    return all(map(matches, params, args))


def compile_call(steps: list[Step], run: Implementation, rule: CostRule | None, *, variadic: bool) -> Step:
    if variadic or len(steps) > 2:
        return _many(steps, run, rule)
    if not steps:
        return _nullary(run)
    if len(steps) == 1:
        return _unary(steps[0], run, rule)
    return _binary(steps[0], steps[1], run, rule)


def _settle(rule: CostRule | None, run: Implementation) -> Callable[..., object]:
    """Runs the function and charges for it."""
    if rule is None:

        def plain(frame: Frame, *args: object) -> object:
            charge_units(frame, 1)
            return run(*args)

        return plain
    charged = rule
    if rule in _BEFOREHAND:

        def beforehand(frame: Frame, *args: object) -> object:
            charge(frame, charged(args, None))
            return run(*args)

        return beforehand

    def afterwards(frame: Frame, *args: object) -> object:
        try:
            result = run(*args)
        except Failure:
            charge(frame, charged(args, FAILED))
            raise
        charge(frame, charged(args, result))
        return result

    return afterwards


def _failed(frame: Frame, rule: CostRule | None, *args: object) -> None:
    charge(frame, 1 if rule is None else rule(args, FAILED))


def _nullary(run: Implementation) -> Step:
    def call(frame: Frame) -> object:
        charge_units(frame, 1)
        return run()

    return call


def _unary(step: Step, run: Implementation, rule: CostRule | None) -> Step:
    settle = _settle(rule, run)

    def call(frame: Frame) -> object:
        try:
            value = step(frame)
        except Failure:
            _failed(frame, rule, FAILED)
            raise
        return settle(frame, value)

    return call


def _binary(left: Step, right: Step, run: Implementation, rule: CostRule | None) -> Step:
    settle = _settle(rule, run)

    def call(frame: Frame) -> object:
        try:
            a = left(frame)
        except Failure:
            try:
                b = right(frame)
            except Failure:
                b = FAILED
            _failed(frame, rule, FAILED, b)
            raise
        try:
            b = right(frame)
        except Failure:
            _failed(frame, rule, a, FAILED)
            raise
        return settle(frame, a, b)

    return call


def _many(steps: list[Step], run: Implementation, rule: CostRule | None) -> Step:
    settle = _settle(rule, run)
    last = len(steps) - 1

    def call(frame: Frame) -> object:
        args: list[object] = []
        for index, step in enumerate(steps):
            try:
                args.append(step(frame))
            except Failure:
                if index == last:
                    _failed(frame, rule, *args, FAILED)
                raise
        return settle(frame, *args)

    return call
