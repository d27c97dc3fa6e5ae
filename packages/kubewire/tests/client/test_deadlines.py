"""Deadlines of many tasks with one timer."""

import asyncio

import pytest

from kubewire.client.deadlines import Deadlines, Limit


async def wait(deadlines: Deadlines, seconds: float) -> None:
    with Limit(deadlines, deadlines.loop.time() + seconds):
        await asyncio.Event().wait()


async def test_tasks_time_out_in_the_order_of_their_deadlines() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    ended: list[int] = []

    async def timed(number: int, seconds: float) -> None:
        with pytest.raises(TimeoutError):
            await wait(deadlines, seconds)
        ended.append(number)

    await asyncio.gather(timed(3, 0.03), timed(1, -1), timed(2, 0.01), timed(1, 0))
    assert ended == [1, 1, 2, 3]
    assert not deadlines.pending


async def test_onetimer_serves_all_tasks() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    tasks = [asyncio.create_task(wait(deadlines, 60 + number)) for number in range(3)]
    while len(deadlines.pending) < 3:
        await asyncio.sleep(0)
    first = deadlines.timer
    tasks.append(asyncio.create_task(wait(deadlines, 90)))
    while len(deadlines.pending) < 4:
        await asyncio.sleep(0)
    assert deadlines.timer is first
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    deadlines.close()
    assert first is not None
    assert first.cancelled()


async def test_task_that_ends_in_time_is_not_cancelled() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    with Limit(deadlines, deadlines.loop.time()):
        pass
    with pytest.raises(TimeoutError):
        await wait(deadlines, 0)
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_cancellation_takes_precedence_over_a_deadline() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())

    async def cancelled_meanwhile() -> None:
        task = asyncio.current_task()
        assert task is not None
        with Limit(deadlines, deadlines.loop.time()):
            try:
                await asyncio.Event().wait()
            finally:
                task.cancel()

    task = asyncio.create_task(cancelled_meanwhile())
    await asyncio.wait({task})
    assert task.cancelled()


async def test_deadline_needs_a_task() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    raised: asyncio.Future[bool] = deadlines.loop.create_future()

    def outside() -> None:
        with pytest.raises(RuntimeError, match="needs a running task"):
            Limit(deadlines, 0)
        raised.set_result(True)

    deadlines.loop.call_soon(outside)
    assert await raised
