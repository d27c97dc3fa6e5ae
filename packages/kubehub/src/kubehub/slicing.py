"""Run long computations in slices, between which the event loop serves other requests.

Writes validate and merge documents with recursive functions, which can't await. For a large document these run in a
thread that alternates with the event loop: one of the two always waits for the other, so they share data without
locks. The thread hands over where the computation calls ``checkpoint``, which functions without shared state do for
each part of a document. The store may have changed by then: a write based on an older state conflicts and is
retried.
"""

import asyncio
import threading
import time
from asyncio import events
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import copy_context
from typing import Any, Final, Generic, TypeVar

SLICE: Final = 0.0025
"""Seconds of a slice."""

T = TypeVar("T")


class _Local(threading.local):
    step: "_Step | None" = None


_local: Final = _Local()
_steps: Final[set["_Step"]] = set()


def checkpoint() -> None:
    """Hand over to the event loop if the slice is used up. Raises CancelledError if the client disconnected."""
    if _steps and (step := _local.step) is not None:
        step.check()


async def in_slices(
    work: Coroutine[Any, Any, T],
    *,
    yield_loop: Callable[[], Awaitable[None]],
    clock: Callable[[], float] = time.perf_counter,
) -> T:
    """Await ``work``, with its computation up to the first await in slices; ``yield_loop`` is awaited between them."""
    loop = asyncio.get_running_loop()
    if loop.get_debug():
        return await work  # asyncio's debug mode forbids calls from another thread
    step = _Step(work, loop, clock)
    step.start()
    try:
        while not step.run_slice():
            await yield_loop()
    except BaseException:
        step.cancel()
        raise
    if isinstance(step.error, StopIteration):
        return step.error.value  # type: ignore[no-any-return]
    if step.error is not None:
        raise step.error
    return await _Remainder(work, step.awaited)


class _Step(threading.Thread):
    """The computation of a coroutine up to its first await."""

    def __init__(
        self, work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop, clock: Callable[[], float]
    ) -> None:
        super().__init__(name="fairway-slices", daemon=True)
        self._work, self._loop, self._clock = work, loop, clock
        self._context = copy_context()
        self._resumed, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._until, self._cancelled, self._done = 0.0, False, False
        self.awaited: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        self._resumed.acquire()
        _local.step = self
        # Objects that the computation passes to the event loop, such as futures, belong to that loop.
        events._set_running_loop(self._loop)
        try:
            self.awaited = self._context.run(self._work.send, None)
        except BaseException as error:
            self.error = error
        finally:
            events._set_running_loop(None)
            self._done = True
            self._paused.release()

    def run_slice(self) -> bool:
        """Compute for a slice while the event loop waits; returns whether the step is done."""
        _steps.add(self)
        try:
            self._until = self._clock() + SLICE
            self._resumed.release()
            self._paused.acquire()
        finally:
            _steps.discard(self)
        return self._done

    def cancel(self) -> None:
        self._cancelled = True
        while not self._done:
            self.run_slice()

    def check(self) -> None:
        if self._cancelled:
            raise asyncio.CancelledError
        if self._clock() >= self._until:
            self._paused.release()
            self._resumed.acquire()
            if self._cancelled:
                raise asyncio.CancelledError


class _Remainder(Generic[T]):
    """A coroutine from its first await on."""

    def __init__(self, work: Coroutine[Any, Any, T], awaited: Any) -> None:
        self._work, self._awaited = work, awaited

    def __await__(self) -> Generator[Any, Any, T]:
        awaited = self._awaited
        while True:
            try:
                try:
                    yield awaited
                except BaseException as error:
                    awaited = self._work.throw(error)
                else:
                    awaited = self._work.send(None)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
