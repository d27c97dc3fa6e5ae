"""Function calls: the evaluation of arguments, the charges, and the selection of the overload.

A call with a failed argument fails with its error. Unary and binary calls evaluate all arguments and charge all the
same; other calls stop at the failure, and charge only if it was the last argument. This is part of the reference's
cost.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kubecel import cost
from kubecel.cost import FAILED
from kubecel.declarations import CostRule, Function, Implementation, Metered, MeteredCost, Overload
from kubecel.errors import NO_SUCH_OVERLOAD, Failure, Overrun
from kubecel.frame import Frame, Step, charge, charge_call, charge_work
from kubecel.types import Kind, Type
from kubecel.values import matches
from kubecel.work import WorkRule

# Costs that depend only on the arguments are charged before the call, so that a limit prevents the work.
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


def implementation(
    function: Function, candidates: tuple[Overload, ...]
) -> tuple[Implementation | Metered, bool]:
    """Return the implementation, and whether it is charged as a variadic call."""
    if function.dispatch is not None:
        return function.dispatch, False
    if len(candidates) == 1 and candidates[0].call is not None:
        return _guarded(candidates[0], candidates[0].call), candidates[0].variadic
    return Metered(_dispatching(function)), True


def rule_of(function: Function, candidates: tuple[Overload, ...]) -> CostRule | None:
    if len(candidates) == 1 and candidates[0].cost is not None:
        return candidates[0].cost
    return function.cost


def _guarded(overload: Overload, call: Implementation | Metered) -> Implementation | Metered:
    """Check the types of arguments at run time, because dynamic values are not checked before."""
    checks = [
        (index, param)
        for index, param in enumerate(overload.params)
        if param.kind not in (Kind.DYN, Kind.PARAM)
    ]
    if not checks:
        return call
    message = f"{NO_SUCH_OVERLOAD}: {overload.id}"
    metered = call.call if isinstance(call, Metered) else None
    plain = None if isinstance(call, Metered) else call

    def guarded(*args: object) -> object:
        for index, param in checks:
            if not matches(param, args[index]):
                raise Failure(message)
        assert plain is not None
        return plain(*args)

    def guarded_metered(frame: Frame, *args: object) -> object:
        for index, param in checks:
            if not matches(param, args[index]):
                raise Failure(message)
        assert metered is not None
        return metered(frame, *args)

    return guarded if metered is None else Metered(guarded_metered)


def _dispatching(function: Function) -> Callable[..., object]:
    bound = [(overload.params, overload.call) for overload in function.overloads if overload.call is not None]
    message = f"{NO_SUCH_OVERLOAD}: {function.name}"

    def dispatch(frame: Frame, *args: object) -> object:
        for params, call in bound:
            if len(params) == len(args) and _all_match(params, args):
                return call.call(frame, *args) if isinstance(call, Metered) else call(*args)
        raise Failure(message)

    return dispatch


def _all_match(params: tuple[Type, ...], args: tuple[object, ...]) -> bool:
    return all(map(matches, params, args))


def compile_call(
    steps: list[Step],
    run: Implementation | Metered,
    rule: CostRule | None,
    *,
    variadic: bool,
    work: WorkRule | None = None,
) -> Step:
    """Compile a call. ``work`` is charged in addition to that of a metered implementation; None is a plain step."""
    if rule is None and work is None and not variadic and 1 <= len(steps) <= 2:
        return _plain_unary(steps[0], run) if len(steps) == 1 else _plain_binary(steps[0], steps[1], run)
    settle = _settle(rule if steps else None, run, work)
    if variadic or len(steps) > 2:
        return _many(steps, settle, rule)
    if not steps:
        return _nullary(settle)
    if len(steps) == 1:
        return _unary(steps[0], settle, rule)
    return _binary(steps[0], steps[1], settle, rule)


Settle = Callable[..., object]


def _usual(_args: tuple[Any, ...]) -> int:
    return 2


def _settle(rule: CostRule | None, run: Implementation | Metered, work: WorkRule | None) -> Settle:
    """Return a function that runs ``run`` and charges for it."""
    weigh = work or _usual
    metered = run.call if isinstance(run, Metered) else None
    plain = None if isinstance(run, Metered) else run

    if rule is None or rule in _BEFOREHAND:

        def beforehand(frame: Frame, *args: object) -> object:
            charge_call(frame, 1 if rule is None else rule(args, None), weigh(args))
            return plain(*args) if plain is not None else metered(frame, *args)  # type: ignore[misc]

        return beforehand
    charged = rule

    def afterwards(frame: Frame, *args: object) -> object:
        charge_work(frame, weigh(args))
        try:
            result = plain(*args) if plain is not None else metered(frame, *args)  # type: ignore[misc]
        except Failure:
            # A failed call is charged as well, or an expression that fails on purpose would be free.
            charge_call(frame, _amount(frame, charged, args, FAILED), 0)
            raise
        charge_call(frame, _amount(frame, charged, args, result), 0)
        return result

    return afterwards


def _plain_unary(step: Step, run: Implementation | Metered) -> Step:
    """Compile a unary operator that costs one step: the most frequent case, so it makes no other call."""
    metered = run.call if isinstance(run, Metered) else None
    plain = None if isinstance(run, Metered) else run

    def call(frame: Frame) -> object:
        try:
            value = step(frame)
        except Failure:
            charge(frame, 1)
            raise
        total = frame.cost + 1
        if total > frame.limit:
            frame.cost = int(frame.limit) + 1
            raise Overrun
        frame.cost = total
        return plain(value) if plain is not None else metered(frame, value)  # type: ignore[misc]

    return call


def _plain_binary(left: Step, right: Step, run: Implementation | Metered) -> Step:
    metered = run.call if isinstance(run, Metered) else None
    plain = None if isinstance(run, Metered) else run

    def call(frame: Frame) -> object:
        try:
            a = left(frame)
        except Failure:
            # The reference evaluates all arguments of a strict call even after one has failed, and charges for them.
            with suppress(Failure):
                right(frame)
            charge(frame, 1)
            raise
        try:
            b = right(frame)
        except Failure:
            charge(frame, 1)
            raise
        total = frame.cost + 1
        if total > frame.limit:
            frame.cost = int(frame.limit) + 1
            raise Overrun
        frame.cost = total
        return plain(a, b) if plain is not None else metered(frame, a, b)  # type: ignore[misc]

    return call


def _amount(frame: Frame, rule: CostRule, args: tuple[Any, ...], result: object) -> int:
    return rule.rule(frame, args, result) if isinstance(rule, MeteredCost) else rule(args, result)


def _failed(frame: Frame, rule: CostRule | None, *args: object) -> None:
    if rule is None:
        charge(frame, 1)
    else:
        charge_call(frame, _amount(frame, rule, args, FAILED), 1)


def _nullary(settle: Settle) -> Step:
    def call(frame: Frame) -> object:
        return settle(frame)

    return call


def _unary(step: Step, settle: Settle, rule: CostRule | None) -> Step:
    def call(frame: Frame) -> object:
        try:
            value = step(frame)
        except Failure:
            _failed(frame, rule, FAILED)
            raise
        return settle(frame, value)

    return call


def _binary(left: Step, right: Step, settle: Settle, rule: CostRule | None) -> Step:
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


def _many(steps: list[Step], settle: Settle, rule: CostRule | None) -> Step:
    last = len(steps) - 1

    def call(frame: Frame) -> object:
        args: list[object] = []
        for index, step in enumerate(steps):
            try:
                args.append(step(frame))
            except Failure:
                # With three or more arguments, the reference charges for the call only if it got as far as the last
                # one.
                if index == last:
                    _failed(frame, rule, *args, FAILED)
                raise
        return settle(frame, *args)

    return call
