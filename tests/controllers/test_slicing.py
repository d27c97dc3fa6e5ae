"""Long computations leave the event loop to other tasks."""

import asyncio

import pytest

from clocks import ManualClock
from fairway.controllers.runtime.slicing import SLICE_SECONDS, in_slices
from fairway.hosts.steps import STRIDE, Steps, finish, strides


def counting(count: int, clock: ManualClock) -> Steps[int]:
    for _ in range(count):
        clock.advance(2 * SLICE_SECONDS)
        yield
    return count


async def test_other_tasks_get_a_turn_after_each_slice() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    clock = ManualClock()
    assert await in_slices(counting(10, clock), clock=clock) == 10
    task.cancel()
    assert turns == 10


async def test_error_of_a_computation_in_slices_is_raised() -> None:
    def broken() -> Steps[None]:
        yield
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await in_slices(broken(), clock=ManualClock())


def test_steps_done_at_once_return_the_same() -> None:
    assert finish(counting(3, ManualClock())) == 3


def test_strides_have_all_items_in_order() -> None:
    slices = list(strides(range(2 * STRIDE + 1)))
    assert [len(part) for part in slices] == [STRIDE, STRIDE, 1]
    assert [item for part in slices for item in part] == list(range(2 * STRIDE + 1))
