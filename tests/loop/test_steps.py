"""The count of steps notices what holds the event loop, and nothing else."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from fairway.controllers.runtime.slicing import in_slices
from fairway.hosts.steps import Steps, strides
from loop.clocks import SlowClock
from loop.steps import CLUSTERS, Longest, check_bounded, longest_call, longest_callback


def linear(size: int) -> int:
    return sum(number % 7 for number in range(size))


def quadratic(size: int) -> int:
    return sum(linear(size) for _ in range(size))


def test_lines_iterations_and_calls_are_counted() -> None:
    few, many = longest_call(partial(linear, 100)).steps, longest_call(partial(linear, 200)).steps
    assert 1.8 < many / few < 2.2
    assert longest_call(partial(linear, 50), partial(linear, 100), partial(linear, 0)).steps == few


def test_callbacks_of_all_tasks_are_counted_one_by_one() -> None:
    async def work(*, pauses: bool) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(part(pauses=pauses))

    async def part(*, pauses: bool) -> None:
        for _ in range(10):
            linear(100)
            if pauses:
                await asyncio.sleep(0)

    whole, sliced = (longest_callback(work(pauses=pauses)) for pauses in (False, True))
    assert "linear" in whole.burden
    assert 7 < whole.steps / sliced.steps < 11


def test_computation_in_slices_is_as_long_as_its_longest_step() -> None:
    def steps(size: int) -> Steps[None]:
        for some in strides(range(size)):
            linear(len(some))
            yield

    def longest(size: int) -> Longest:
        return longest_callback(in_slices(steps(size), clock=SlowClock()))

    assert longest(1_000).steps < 1.1 * longest(100).steps


@pytest.mark.parametrize(
    ("work", "limit", "reason"),
    [(quadratic, 200, "superlinear"), (linear, 10 * CLUSTERS, "more than")],
    ids=["superlinear", "long at the largest size"],
)
def test_unbounded_family_is_named_with_its_function(
    work: Callable[[int], int], limit: int, reason: str
) -> None:
    with pytest.raises(AssertionError, match=rf"{reason}.*linear"):
        check_bounded(lambda size: longest_call(lambda: work(size)), sizes=(50, 200), limit=limit)


def test_family_that_is_short_at_the_largest_size_passes() -> None:
    check_bounded(lambda size: longest_call(lambda: linear(size)), sizes=(100, 200), limit=CLUSTERS)
