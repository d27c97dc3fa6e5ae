"""Daemon threads for ``asyncio.to_thread`` in a provider's code.

Python waits at exit for the threads of its default executor. A blocking request without a timeout would keep a stopped
process alive.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

MAX_THREADS: Final = 8
"""Every reading may start another blocking call, and hung calls must not fill the process."""
ALL_BUSY: Final = "all {count} threads of the provider are busy"

P = ParamSpec("P")
R = TypeVar("R")


class DaemonThreads(ThreadPoolExecutor):
    """Subclass of ThreadPoolExecutor because an event loop accepts no other executor; the inherited pool is unused."""

    def __init__(self, *, name: str, busy: Callable[[str], Exception]) -> None:
        """``busy`` creates the error for calls that arrive while all threads are busy."""
        super().__init__(max_workers=1)
        self._name, self._busy = name, busy
        self._free = threading.Semaphore(MAX_THREADS)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        future: Future[R] = Future()
        if not self._free.acquire(blocking=False):
            future.set_exception(self._busy(ALL_BUSY.format(count=MAX_THREADS)))
            return future

        def work() -> None:
            try:
                _run(future, lambda: fn(*args, **kwargs))
            finally:
                self._free.release()

        threading.Thread(target=work, name=self._name, daemon=True).start()
        return future


def _run(future: "Future[Any]", work: Callable[[], object]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  #  delivered to the awaiting code
        future.set_exception(error)
    else:
        future.set_result(result)
