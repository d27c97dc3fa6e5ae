"""Interrupt plugin calls that take too long.

A call of a third-party plugin runs on the thread of the scheduler, so a loop that never ends would stop all scheduling.
The watchdog is one daemon thread that raises ``Stalled`` inside the calling thread once a call exceeds its limit
(CPython's asynchronous exceptions). They are raised between two byte codes: a loop in Python is interrupted, a call of
native code only when it returns.

The exception must not be raised outside the call. The watchdog sends it under a lock, and only while the call is
registered; the end of a call takes the same lock, and clears an exception that was sent but not raised yet.
"""

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fairway.scheduling.guard import Stalled, Waited

LIMIT_SECONDS: Final = 1.0
"""How long one call of a third-party plugin may take."""
COROUTINE_SECONDS: Final = 30.0
"""How long one coroutine of a third-party plugin may take, which usually waits for I/O."""
REPEAT_SECONDS: Final = 0.1
"""How long a plugin that catches the exception runs until the next one."""

_Result = TypeVar("_Result")


@dataclass(slots=True, eq=False)
class _Call:
    thread: int
    due: float
    interrupted: bool = False


class Watchdog:
    """Watches the calls of one process. The thread starts with the first call, and sleeps while there are none."""

    def __init__(self, *, limit: float = LIMIT_SECONDS, coroutine_limit: float = COROUTINE_SECONDS) -> None:
        self.limit, self.coroutine_limit = limit, coroutine_limit
        self._lock = threading.Lock()
        self._calls: dict[int, _Call] = {}
        """The outermost watched call of each thread."""
        self._woken = threading.Event()
        self._asleep = True
        self._thread: threading.Thread | None = None

    def watch(self, call: Callable[..., _Result], /, *args: Any) -> _Result:
        """Return the result of the call. Raises Stalled if the call was interrupted."""
        thread = threading.get_ident()
        if thread in self._calls:  # a plugin that calls another one; the outer limit holds for both
            return call(*args)
        watched = _Call(thread, time.monotonic() + self.limit)
        try:
            try:
                self._begin(watched)
                result = call(*args)
            finally:
                self._end(watched)
        except Stalled:
            self._end(watched)  # the exception may have been raised at the beginning of the first attempt
            raise
        if watched.interrupted:  # the plugin caught it, or had just returned
            raise Stalled
        return result

    async def watch_coroutine(self, coroutine: Coroutine[Any, Any, Any], /) -> Any:
        """Return the result of the coroutine. Each of its steps, from one wait to the next, has the limit of a call.

        Raises Waited if the coroutine was interrupted while it waited, Stalled if a step was.
        """
        try:
            async with asyncio.timeout(self.coroutine_limit) as timer:
                return await _WatchedSteps(coroutine, self)
        except TimeoutError:
            if timer.expired():
                raise Waited from None
            raise

    def _begin(self, call: _Call) -> None:
        self._calls[call.thread] = call
        if self._asleep:
            self._asleep = False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="plugin watchdog", daemon=True)
                self._thread.start()
            self._woken.set()

    def _end(self, call: _Call) -> None:
        with self._lock:
            self._calls.pop(call.thread, None)
            if call.interrupted:
                _send(call.thread, None)

    def _run(self) -> None:
        while True:
            self._woken.wait()
            self._woken.clear()
            while True:
                time.sleep(min(self.limit / 4, REPEAT_SECONDS))
                with self._lock:
                    self._interrupt(time.monotonic())
                if not self._calls:
                    break
            # A call that begins from here on wakes the thread; one that began just before was not watched yet.
            self._asleep = True
            if self._calls:
                self._woken.set()

    def _interrupt(self, now: float) -> None:
        for call in tuple(self._calls.values()):
            if call.due <= now:
                call.interrupted = True
                call.due = now + REPEAT_SECONDS
                _send(call.thread, Stalled)


class _WatchedSteps:
    __slots__ = ("_coroutine", "_watchdog")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], watchdog: Watchdog) -> None:
        self._coroutine, self._watchdog = coroutine, watchdog

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[..., Any] = self._coroutine.send
        given: Any = None
        while True:
            try:
                waits_for = self._watchdog.watch(step, given)
            except StopIteration as end:
                return end.value
            try:
                step, given = self._coroutine.send, (yield waits_for)
            except BaseException as error:
                step, given = self._coroutine.throw, error


def _send(thread: int, error: type[BaseException] | None) -> None:
    """Schedule an exception in a thread; None cancels one that is not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )
