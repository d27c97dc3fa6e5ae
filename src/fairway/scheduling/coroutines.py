"""Await a coroutine of a plugin so that neither can cancel the other's caller, and neither can keep the other waiting.

The coroutine runs in a task of its own: what it does to the current task concerns only itself. A coroutine that ignores
its cancellation is left behind: it is never resumed, and never closed, because closing it would run its code again.
"""

import asyncio
import ctypes
import inspect
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final

from fairway.engine.fault import Stalled

UNWIND_SECONDS: Final = 1.0
"""How long a cancelled coroutine may clean up."""


class Waited(Stalled):
    """Raised for a coroutine that exceeded its limit."""


async def await_apart(
    coroutine: Coroutine[Any, Any, Any],
    *,
    watch: Callable[..., Any],
    limit: float | None,
    left_behind: Callable[[], None],
) -> Any:
    """Return the result of the coroutine. ``watch`` calls each of its steps, from one wait to the next.

    Raises Waited after ``limit`` seconds. Calls ``left_behind`` if this is cancelled and the coroutine does not end.
    """
    steps = _Steps(coroutine, watch)
    task = asyncio.create_task(steps.run())
    try:
        await asyncio.wait((task,), timeout=limit)
    except asyncio.CancelledError:
        await _end(task, steps, left_behind)
        raise
    if not task.done():
        await _end(task, steps, lambda: None)
        raise Waited
    return steps.result()


async def _end(task: asyncio.Task[None], steps: "_Steps", left_behind: Callable[[], None]) -> None:
    task.cancel()
    try:
        await asyncio.wait((task,), timeout=UNWIND_SECONDS)
    finally:  # also if this is cancelled again
        if not task.done():
            steps.abandoned = True
            task.cancel()
            left_behind()


class _Steps:
    __slots__ = ("_coroutine", "_error", "_value", "_watch", "abandoned")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], watch: Callable[..., Any]) -> None:
        self._coroutine, self._watch = coroutine, watch
        self._value: Any = None
        self._error: BaseException | None = (
            Stalled()
        )  # a task that is cancelled before it starts runs nothing
        self.abandoned = False

    async def run(self) -> None:
        """Never raises: an asyncio task that raises SystemExit ends the process."""
        try:
            self._value = await self
            self._error = None
        except BaseException as error:
            self._error = error
        if inspect.getcoroutinestate(self._coroutine) == inspect.CORO_SUSPENDED:
            _keep_forever(self._coroutine)

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[..., Any] = self._coroutine.send
        sent: Any = None
        while True:
            try:
                waits_for = self._watch(step, sent)
            except StopIteration as end:
                return end.value
            try:
                step, sent = self._coroutine.send, (yield waits_for)
            except BaseException as error:
                if self.abandoned or isinstance(error, GeneratorExit):
                    return None
                step, sent = self._coroutine.throw, error


def _keep_forever(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Keep the coroutine until the process has ended. Its plugin is in quarantine, so that there are few."""
    # A list is not enough: Python empties modules when it exits, which would close the coroutine. A plugin that catches
    # everything and waits again would then loop forever, because every wait fails without a running event loop.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(coroutine))
