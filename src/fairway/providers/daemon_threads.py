"""Daemon threads for ``asyncio.to_thread`` in a provider's code.

Python waits at exit for the threads of its default executor. A blocking request without a timeout would keep a stopped
process alive.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

MOST: Final = 8
"""At a time: what hangs is handed on anew by every reading, and must not fill the process."""
ALL_BUSY: Final = "all {count} threads of the provider are busy"

P = ParamSpec("P")
R = TypeVar("R")


class DaemonThreads(ThreadPoolExecutor):
    """An event loop takes nothing else for its executor; of what is inherited nothing is used."""

    def __init__(self, *, name: str, busy: Callable[[str], Exception], most: int = MOST) -> None:
        """``busy`` makes the error for what comes when all are."""
        super().__init__(max_workers=1)
        self._name, self._busy, self._most = name, busy, most
        self._free = threading.Semaphore(most)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        future: Future[R] = Future()
        if not self._free.acquire(blocking=False):
            future.set_exception(self._busy(ALL_BUSY.format(count=self._most)))
            return future

        def work() -> None:
            try:
                _do(future, lambda: fn(*args, **kwargs))
            finally:
                self._free.release()

        threading.Thread(target=work, name=self._name, daemon=True).start()
        return future


def _do(future: "Future[Any]", work: Callable[[], object]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # whoever awaits it is told
        future.set_exception(error)
    else:
        future.set_result(result)
