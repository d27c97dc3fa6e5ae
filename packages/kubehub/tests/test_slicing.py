"""Sliced computations: the event loop runs between slices, and the result is unchanged."""

import asyncio
from itertools import count

import pytest

from kubehub.slicing import checkpoint, in_slices

PARTS = 20


class Computation:
    """Parts of work, each of which takes a slice."""

    def __init__(self) -> None:
        self.done = self.passes = 0
        self._time = count()

    def compute(self) -> int:
        for _ in range(PARTS):
            checkpoint()
            self.done += 1
        return self.done

    async def yield_loop(self) -> None:
        self.passes += 1
        await asyncio.sleep(0)

    async def run(self, work: "asyncio._CoroutineLike[int]") -> int:
        return await in_slices(work, yield_loop=self.yield_loop, clock=lambda: next(self._time))  # type: ignore[arg-type]


async def test_event_loop_runs_at_each_checkpoint() -> None:
    made = Computation()

    async def work() -> int:
        return made.compute()

    assert await made.run(work()) == PARTS
    assert made.passes == PARTS


async def test_awaits_after_the_computation_run_on_the_event_loop() -> None:
    made, loop = Computation(), asyncio.get_running_loop()

    async def work() -> int:
        made.compute()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        loop.call_soon(future.set_result, 7)
        return await future + await asyncio.sleep(0, 1)

    assert await made.run(work()) == 8


@pytest.mark.parametrize("awaited", [False, True])
async def test_errors_of_sliced_work_are_raised_at_its_await(awaited: bool) -> None:
    made = Computation()

    async def work() -> int:
        made.compute()
        if awaited:
            await asyncio.sleep(0)
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        await made.run(work())


async def test_cancelled_sliced_work_stops_at_the_next_checkpoint() -> None:
    made = Computation()

    async def work() -> int:
        return made.compute()

    task = asyncio.create_task(made.run(work()))
    while made.passes < 3:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert made.done < PARTS


def test_checkpoint_without_slices_does_nothing() -> None:
    assert Computation().compute() == PARTS
