"""A higher recursion limit for deeply nested expressions.

The frames are pure Python and so on the heap, which makes a higher limit safe. It is restored after the last deep
expression.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

FRAMES: Final = 12_000


class _Room:
    users = 0
    usual = 0


@contextmanager
def deep_stack() -> Iterator[None]:
    if _Room.users == 0:
        _Room.usual = sys.getrecursionlimit()
        if _Room.usual < FRAMES:
            sys.setrecursionlimit(FRAMES)
    _Room.users += 1
    try:
        yield
    finally:
        _Room.users -= 1
        if _Room.users == 0 and sys.getrecursionlimit() == FRAMES:
            sys.setrecursionlimit(_Room.usual)
