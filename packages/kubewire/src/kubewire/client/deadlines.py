"""Limit the time of many requests with one timer.

``asyncio.timeout_at`` creates and cancels a timer for each request, which costs several microseconds of CPU time.
Nearly all requests end long before their deadline, so one timer for the earliest deadline is enough.
"""

import asyncio
from types import TracebackType


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
        # By the timer's time, not the clock's, so that limits expire in the order of their deadlines.
        for limit in [limit for limit in self.pending if limit.when <= now]:
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
            raise RuntimeError("a deadline needs a running task")
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
        # The timer stays: it fires once, finds nothing due and moves to the next deadline. Cancelling it here would
        # cost what this module saves.
        self._deadlines.pending.discard(self)
        # Another cancellation of the same task takes precedence.
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        self._expired = True
        self._task.cancel()
