"""A compiled expression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, permutations
from math import inf
from typing import Final, NamedTuple

from kubecel.errors import (
    COST_LIMIT_MESSAGE,
    WORK_LIMIT_MESSAGE,
    Abort,
    CostLimitExceeded,
    EvaluationError,
    Failure,
    Overrun,
    WorkLimitExceeded,
)
from kubecel.frame import Frame, Step
from kubecel.reads import Path, Reads
from kubecel.regex import Pattern
from kubecel.stack import deep_stack

DEFAULT_COST_LIMIT: Final = 1_000_000
DEFAULT_WORK_LIMIT: Final = 1_000_000
"""About a quarter of a second; see `frame`."""
MAX_ORDERS: Final = 5_000


class Outcome(NamedTuple):
    """The result: a ``value`` or an ``error``, the ``cost`` of the reference, and our ``work`` (see `frame`)."""

    value: object
    error: EvaluationError | None
    cost: int
    work: int = 0


class Program:
    """A compiled expression. Immutable; evaluations are independent of each other.

    ``reads`` are the paths of the input that can influence the outcome, None if a whole variable can; ``score_reads``
    the names passed to ``scores()``, None if they are not constant. ``compile_work`` is the work of compiling.
    """

    __slots__ = (
        "_deep",
        "_patterns",
        "_slots",
        "_step",
        "compile_work",
        "reads",
        "result_type",
        "score_reads",
        "text",
    )

    def __init__(
        self,
        *,
        text: str,
        result_type: str,
        step: Step,
        slots: int,
        patterns: Mapping[str, Pattern],
        reads: Reads,
        deep: bool,
        compile_work: int,
    ) -> None:
        self.text = text
        self.compile_work = compile_work
        self._patterns = patterns
        self.result_type = result_type
        self.reads: frozenset[Path] | None = reads.paths
        self.score_reads: frozenset[str] | None = reads.scores
        self._step = step
        self._slots = slots
        self._deep = deep

    def evaluate(
        self,
        variables: Mapping[str, object],
        *,
        context: object = None,
        cost_limit: int | None = DEFAULT_COST_LIMIT,
        work_limit: int = DEFAULT_WORK_LIMIT,
    ) -> Outcome:
        """Evaluate. Failures of the expression are in the outcome; ``context`` is the `ScoreSource` for ``scores()``.

        Cost or work above its limit ends the evaluation at once. Maps are iterated in insertion order.
        """
        limit = inf if cost_limit is None else cost_limit
        frame = Frame(variables, context, limit, self._slots, self._patterns, None, work_limit)
        return self._outcome(frame)

    def possible_costs(self, variables: Mapping[str, object], *, context: object = None) -> set[int]:
        """Return the costs for all iteration orders of maps.

        The reference iterates maps in random order, which affects the cost of loops that end early. The search ends
        after `MAX_ORDERS` evaluations, with the costs found so far.
        """
        costs: set[int] = set()
        choices = _Choices()
        for _ in range(MAX_ORDERS):
            frame = Frame(variables, context, DEFAULT_COST_LIMIT, self._slots, self._patterns, choices.order)
            costs.add(self._outcome(frame).cost)
            if not choices.advance():
                break
        return costs

    def _outcome(self, frame: Frame) -> Outcome:
        try:
            if self._deep:
                with deep_stack():
                    value = self._step(frame)
            else:
                value = self._step(frame)
            return Outcome(value, None, frame.cost, frame.work_limit - frame.fuse + frame.cost)
        except Failure as failure:
            error = EvaluationError(str(failure))
        except Overrun:
            if frame.cost > frame.cap:
                error = CostLimitExceeded(COST_LIMIT_MESSAGE)
            else:
                error = WorkLimitExceeded(WORK_LIMIT_MESSAGE.format(frame.work_limit))
        except Abort as abort:
            error = EvaluationError(str(abort))
        except RecursionError:
            error = EvaluationError("value nests too deeply")
        return Outcome(None, error, frame.cost, frame.work)

    def __repr__(self) -> str:
        return f"Program({self.text!r})"


class _Choices:
    """Enumerates all combinations of map orders, one per evaluation, like an odometer."""

    _LONGEST = 6

    def __init__(self) -> None:
        self._digits: list[int] = []
        self._sizes: list[int] = []
        self._position = 0

    def order(self, keys: Sequence[object]) -> Sequence[object]:
        orders = self._orders(keys)
        if self._position == len(self._digits):
            self._digits.append(0)
            self._sizes.append(len(orders))
        chosen = orders[self._digits[self._position]]
        self._position += 1
        return chosen

    def advance(self) -> bool:
        self._position = 0
        while self._digits:
            if self._digits[-1] + 1 < self._sizes[-1]:
                self._digits[-1] += 1
                return True
            self._digits.pop()
            self._sizes.pop()
        return False

    def _orders(self, keys: Sequence[object]) -> list[Sequence[object]]:
        if len(keys) <= self._LONGEST:
            return list(permutations(keys))
        return [*islice(_rotations(keys), 64)]


def _rotations(keys: Sequence[object]) -> Iterator[Sequence[object]]:
    """Return a sample of orders for a large map: every key first, forwards and backwards."""
    for start in range(len(keys)):
        turned = [*keys[start:], *keys[:start]]
        yield turned
        yield turned[::-1]
