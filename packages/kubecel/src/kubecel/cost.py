"""The cost of evaluation steps.

The numbers are those of the reference, because a cost limit decides whether an expensive expression matches. As there,
sizes are multiplied as doubles and rounded up (0.7 → 1, 7.0…1 → 8).
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, Final

from kubecel.values import size_of

SELECT: Final = 1
CREATE_LIST: Final = 10
CREATE_MAP: Final = 30
PER_CHARACTER: Final = 0.1
PER_PATTERN_CHARACTER: Final = 0.25

Rule = Callable[[tuple[Any, ...], object], int]

FAILED: Final = object()
"""Replaces a failed argument or result."""


def traversal(size: int) -> int:
    return ceil(size * PER_CHARACTER)


def equality(args: tuple[Any, ...], _result: object) -> int:
    return ceil(min(size_of(args[0]), size_of(args[1])) * PER_CHARACTER)


def first_argument(args: tuple[Any, ...], _result: object) -> int:
    return traversal(size_of(args[0]))


def second_argument(args: tuple[Any, ...], _result: object) -> int:
    return traversal(size_of(args[1]))


def containing_list(args: tuple[Any, ...], _result: object) -> int:
    return size_of(args[1])


def concatenation(args: tuple[Any, ...], _result: object) -> int:
    return traversal(size_of(args[0]) + size_of(args[1]))


def substring_search(args: tuple[Any, ...], _result: object) -> int:
    return traversal(size_of(args[0])) * traversal(size_of(args[1]))


def every_pair(args: tuple[Any, ...], _result: object) -> int:
    return 1 + size_of(args[0]) * size_of(args[1])


def every_pair_twice(args: tuple[Any, ...], _result: object) -> int:
    return 1 + 2 * size_of(args[0]) * size_of(args[1])


def pattern_match(args: tuple[Any, ...], _result: object) -> int:
    text = ceil((1.0 + size_of(args[0])) * PER_CHARACTER)
    return text * ceil(size_of(args[1]) * PER_PATTERN_CHARACTER)
