"""Search for an order in which all operations could have happened, each between its call and its return.

This is the search of Wing and Gong: it tries every operation that may come first, then each that may come next. An
operation may come next if no remaining one returned before it was called. Lowe's cache keeps it fast: the same set of
operations with the same resulting state is tried only once.

Operations with an unknown result are optional: they may come between their call and their end, or never. Their end is
infinite if they may still happen later. Each of those doubles the work.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

S = TypeVar("S", bound=Hashable)
C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[C]):
    call: C
    begun: float
    ended: float = math.inf
    optional: bool = False


Step = Callable[[S, C], Iterable[S]]
"""The states in which a call could leave a state, given its result; none if it can't have had that result."""


def order(operations: Sequence[Operation[C]], *, initial: S, step: Step[S, C]) -> list[Operation[C]] | None:
    """Return an order that explains all operations, or None. Optional ones may be missing in it."""
    search = _Search(sorted(operations, key=lambda operation: operation.begun), step)
    tried: set[tuple[int, S]] = set()
    path: list[int] = []
    past = [0]
    choices = [search.next(0, initial)]
    while choices:
        if search.complete(past[-1]):
            return [search.ranked[at] for at in path]
        for at, state in choices[-1]:
            done = search.after(past[-1], at)
            if (done, state) not in tried:
                tried.add((done, state))
                path.append(at)
                past.append(done)
                choices.append(search.next(done, state))
                break
        else:
            choices.pop()
            past.pop()
            if path:
                path.pop()
    return None


class _Search(Generic[S, C]):
    """Sets of operations are the bits of a number; a bit is set if the operation is done or cannot happen any more."""

    def __init__(self, ranked: Sequence[Operation[C]], step: Step[S, C]) -> None:
        self.ranked, self._step = ranked, step
        self._required = sum(1 << at for at, operation in enumerate(ranked) if not operation.optional)
        self._optional = [at for at, operation in enumerate(ranked) if operation.optional]

    def complete(self, done: int) -> bool:
        return done & self._required == self._required

    def after(self, done: int, at: int) -> int:
        """Mark operations that ended before the call of a done operation as impossible."""
        begun = self.ranked[at].begun
        for other in self._optional:
            if other >= at:
                break
            if self.ranked[other].ended < begun:
                done |= 1 << other
        return done | 1 << at

    def next(self, done: int, state: S) -> Iterator[tuple[int, S]]:
        """Yield the operations that may come next, with the remaining ones; the earliest to return first."""
        left: list[int] = []
        deadline = math.inf
        for at, operation in enumerate(self.ranked):
            if operation.begun > deadline:
                break
            if not done >> at & 1:
                left.append(at)
                if not operation.optional:
                    deadline = min(deadline, operation.ended)
        for at in sorted(left, key=lambda at: self.ranked[at].ended):
            for reached in self._step(state, self.ranked[at].call):
                # Of an operation that may be left out, only what it changes matters.
                if not self.ranked[at].optional or reached != state:
                    yield at, reached


# A register that is changed by comparing and setting, as an object of a hub is


AccessKind = Literal["read", "create", "swap", "write", "delete"]
Result = Literal["done", "exists", "conflict", "absent", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One request about one object. Values are unique, so a value identifies its version."""

    kind: AccessKind
    result: Result = "done"
    value: str | None = None
    """Written, or read; None read is an object that isn't there."""
    expected: str | None = None
    """What a swap or a deletion is conditional on; a deletion without it takes any."""


def register(value: str | None, access: Access) -> Iterable[str | None]:
    """The Step of a register; None is absence."""
    outcome, after = _outcome(value, access)
    if access.result == "unknown":
        return (after,) if outcome == "done" else ()
    if access.kind == "read":
        return (value,) if access.value == value else ()
    return (after,) if access.result == outcome else ()


def _outcome(value: str | None, access: Access) -> tuple[Result, str | None]:
    match access.kind:
        case "read":
            return "done", value
        case "create":
            return ("exists", value) if value is not None else ("done", access.value)
        case "swap" | "write" | "delete" if value is None:
            return "absent", None
        case "swap" if value != access.expected:
            return "conflict", value
        case "delete" if access.expected not in (None, value):
            return "conflict", value
        case "delete":
            return "done", None
        case _:
            return "done", access.value
