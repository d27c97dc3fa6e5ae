"""Interrupt plugin calls that take too long.

A call of a third-party plugin runs on the thread of the scheduler, so a loop that never ends would stop all scheduling.
The watchdog is one daemon thread that raises ``Stalled`` inside the calling thread once a call exceeds its limit: in
the main thread by the handler of a signal, elsewhere by CPython's asynchronous exceptions. Both are raised between two
byte codes. The signal also ends calls that wait in the operating system and handle signals meanwhile, as Python's own
do: sockets, locks, ``sleep``. Other native code is interrupted only when it returns.

The exception must not be raised outside the call. The watchdog sends it under a lock, and only while the call is
registered; the end of a call takes the same lock, and clears an exception that was sent but not raised yet.
"""

import ctypes
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, TypeVar
from weakref import WeakSet

from fairway.engine.fault import Stalled
from fairway.scheduling.coroutines import await_apart
from fairway.scheduling.guard import START_SECONDS

LIMIT_SECONDS: Final = 1.0
"""How long one call of a third-party plugin may take."""
COROUTINE_SECONDS: Final = 30.0
"""How long one coroutine of a third-party plugin may take, which usually waits for I/O."""
REPEAT_SECONDS: Final = 0.1
"""How long a plugin that catches the exception runs until the next one."""
SIGNAL: Final = signal.SIGURG
"""Ignored by default, and used by nothing else here: a late one does no harm."""

_Result = TypeVar("_Result")
_watchdogs: Final["WeakSet[Watchdog]"] = WeakSet()
"""Those whose calls the handler of the signal interrupts."""


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
        return self._watch(self.limit, call, args)

    def start(self, call: Callable[..., _Result], /, *args: Any) -> _Result:
        return self._watch(START_SECONDS, call, args)

    def _watch(self, limit: float, call: Callable[..., _Result], args: tuple[Any, ...]) -> _Result:
        thread = threading.get_ident()
        if thread in self._calls:  # a plugin that calls another one; the outer limit holds for both
            return call(*args)
        watched = _Call(thread, time.monotonic() + limit)
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

    async def watch_coroutine(
        self, coroutine: Coroutine[Any, Any, Any], /, *, left_behind: Callable[[], None]
    ) -> Any:
        """Return the result of the coroutine. Each of its steps, from one wait to the next, has the limit of a call.

        Raises Waited if the coroutine was interrupted while it waited, Stalled if a step was.
        """
        return await await_apart(
            coroutine, watch=self.watch, limit=self.coroutine_limit, left_behind=left_behind
        )

    def _begin(self, call: _Call) -> None:
        self._calls[call.thread] = call
        if self._asleep:
            if self not in _watchdogs and call.thread == threading.main_thread().ident:
                self._handle_signal()
            self._asleep = False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="plugin watchdog", daemon=True)
                self._thread.start()
            self._woken.set()

    def _end(self, call: _Call) -> None:
        # Under the lock, so that the watchdog cannot interrupt a call that has ended: the exception would be raised
        # in the scheduler's own code.
        with self._lock:
            self._calls.pop(call.thread, None)
            if call.interrupted and call.thread != threading.main_thread().ident:
                _send(call.thread, None)

    def _run(self) -> None:
        while True:
            self._woken.wait()
            self._woken.clear()
            while True:
                # Polls while calls run: a cycle may call plugins 100,000 times, too often for a timer each.
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
                # Again until the call returns, because a plugin may catch the exception.
                call.due = now + REPEAT_SECONDS
                # A signal also ends system calls of the main thread; other threads only get an exception
                # between two instructions.
                if call.thread == threading.main_thread().ident:
                    signal.pthread_kill(call.thread, SIGNAL)
                else:
                    _send(call.thread, Stalled)

    def _handle_signal(self) -> None:
        if signal.getsignal(SIGNAL) is not _interrupt_main:
            signal.signal(SIGNAL, _interrupt_main)
        _watchdogs.add(self)

    def has_interrupted(self, thread: int) -> bool:
        """Return whether the call that runs on a thread exceeded its limit."""
        call = self._calls.get(thread)
        return call is not None and call.interrupted


def _interrupt_main(_number: int, _frame: FrameType | None) -> None:
    thread = threading.get_ident()
    if any(watchdog.has_interrupted(thread) for watchdog in _watchdogs):
        raise Stalled


def _send(thread: int, error: type[BaseException] | None) -> None:
    """Schedule an exception in a thread; None cancels one that is not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )
