"""Limit the time of many requests with one timer.

``asyncio.timeout_at`` creates and cancels a timer for each request, which costs several microseconds of CPU time.
Nearly all requests end long before their deadline, so one timer for the earliest deadline is enough.
"""

import asyncio
from types import TracebackType
from typing import Final

NO_TASK: Final = "a deadline needs a running task"


class Deadlines:
    """The limits of all tasks, and the timer of the earliest one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.pending: set[Limit] = set()
        self.timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        timer, self.timer = self.timer, None
        if timer is not None:
            timer.cancel()

    def schedule(self, when: float) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.loop.call_at(when, self._expire)

    def _expire(self) -> None:
        assert self.timer is not None
        now, self.timer = self.timer.when(), None
        for limit in [each for each in self.pending if each.when <= now]:
            self.pending.discard(limit)
            limit.expire()
        if self.pending:
            self.schedule(min(limit.when for limit in self.pending))


class Limit:
    """Use it in ``with``: raises TimeoutError in the task at ``when``, in the time of the loop.

    Cancels the task at the deadline, and turns that cancellation into a TimeoutError, as asyncio.Timeout does.
    """

    __slots__ = ("_cancelling", "_deadlines", "_expired", "_task", "when")

    def __init__(self, deadlines: Deadlines, when: float) -> None:
        task = asyncio.current_task(deadlines.loop)  # without it, asyncio asks the kernel for the process id
        if task is None:
            raise RuntimeError(NO_TASK)
        self._deadlines, self.when, self._expired = deadlines, when, False
        self._task, self._cancelling = task, task.cancelling()

    def __enter__(self) -> None:
        deadlines = self._deadlines
        deadlines.pending.add(self)
        if deadlines.timer is None or self.when < deadlines.timer.when():
            deadlines.schedule(self.when)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadlines.pending.discard(self)
        # Another cancellation of the same task takes precedence.
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        self._expired = True
        self._task.cancel()
