"""Long computations in steps: generators that yield wherever the caller may do something else in between."""

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]

STRIDE: Final = 64
"""Items between two steps."""


def finish(steps: Steps[T]) -> T:
    """Do all steps at once, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def strides(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items, some at a time. A collection that changes between two steps must be copied before."""
    iterator = iter(items)
    while some := list(islice(iterator, STRIDE)):
        yield some
