"""Counts what the event loop does without a pause, so that a test can bound it on any machine, however busy.

A *step* is a line of Python that runs, an iteration, a call or a return: 50 ms are about 500,000 of them. C code counts
as the step that calls it, whatever it does: ``make bench-loop`` measures that.

A *family* is the worst input of one place, by size. It is bounded if the longest callback, extrapolated from two sizes
to the largest one that Fairway is made for, is shorter than 50 ms:

    def longest(nodes: int) -> Longest:
        return longest_callback(start_term(nodes))

    check_bounded(longest, sizes=(50, 200), limit=NODES)
"""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Final
from unittest.mock import patch

CLUSTERS: Final = 100_000
NODES: Final = 5_000
"""The largest fleets that Fairway is made for."""
MOST_STEPS: Final = 500_000
"""Steps of 50 ms; measured: 10 to 14 million of them take a second."""
BURDENED: Final = 3
"""Functions that a failure names."""


@dataclass(slots=True)
class Steps:
    """The steps of one piece of work."""

    by_code: Counter[CodeType] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return self.by_code.total()

    def trace(self, frame: FrameType, _event: str, _argument: object) -> Any:
        self.by_code[frame.f_code] += 1
        return self.trace

    def burden(self) -> str:
        """Name the functions with the most steps."""
        longest = self.by_code.most_common(BURDENED)
        return ", ".join(f"{code.co_qualname} {count:,}" for code, count in longest)


@dataclass(frozen=True, slots=True)
class Longest:
    """The longest piece of work between two turns of the loop."""

    steps: int
    burden: str


@contextmanager
def counting(steps: Steps) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(steps.trace)
    try:
        yield
    finally:
        sys.settrace(before)


def longest_call(*calls: Callable[[], object]) -> Longest:
    """Run synchronous functions, each of which is one callback, and return the longest."""
    longest = Steps()
    for call in calls:
        steps = Steps()
        with counting(steps):
            call()
        longest = max(longest, steps, key=lambda steps: steps.count)
    return Longest(longest.count, longest.burden())


def longest_callback(coroutine: Coroutine[Any, Any, object]) -> Longest:
    """Run a coroutine on a new event loop, and return the longest callback of it and of all that it starts."""
    longest = Steps()
    run, thread = asyncio.Handle._run, threading.get_ident()

    def run_counted(handle: asyncio.Handle) -> None:
        nonlocal longest
        if threading.get_ident() != thread:
            # Hubs of other tests run on loops in threads of this process. Traced, they took the interpreter's lock for
            # minutes.
            run(handle)
            return
        steps = Steps()
        with counting(steps):
            run(handle)
        if steps.count > longest.count:
            longest = steps

    with patch.object(asyncio.Handle, "_run", run_counted):
        asyncio.run(coroutine)
    return Longest(longest.count, longest.burden())


def check_bounded(measure: Callable[[int], Longest], *, sizes: tuple[int, int], limit: int) -> None:
    """Check that work does not grow faster than its input, and that it is short at the largest size."""
    small, large = sizes
    few, many = measure(small), measure(large)
    growth = max(0.0, (many.steps - few.steps) / (large - small))
    expected = many.steps + growth * (limit - large)
    text = (
        f"{few.steps:,} steps at {small:,}, {many.steps:,} at {large:,}; the most at {large:,}: {many.burden}"
    )
    # Twice the size may cost twice as much, and a bit more because small inputs take shorter paths.
    assert many.steps <= 1.25 * max(few.steps, MOST_STEPS // 100) * large / small, f"superlinear: {text}"
    assert expected <= MOST_STEPS, f"{expected:,.0f} steps at {limit:,}, more than {MOST_STEPS:,}: {text}"
