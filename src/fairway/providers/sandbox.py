"""Sandboxes: run a provider's code so that it cannot block others.

A provider may raise, hang, or block its thread forever. In a sandbox every call has a deadline. A call that misses it
is cancelled and abandoned, and until it has ended no other call starts: a hundred hanging readings are one thread, not
a hundred. Third-party code gets a thread with its own event loop; the thread is a daemon, as are the threads it starts,
so none keeps the process alive.

A sandbox does not help against native code that holds the interpreter's lock.
"""

import abc
import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from fairway.providers.daemon_threads import DaemonThreads
from fairway.providers.message_format import describe
from fairway.providers.provider import Provider, ProviderError, Wake

TIMED_OUT: Final = "Timeout"
BUSY: Final = "Busy"
CLOSED: Final = "Closed"
TOO_LATE: Final = "timed out after {seconds:g} s"
STILL_BUSY: Final = "still running a call that should have ended within {seconds:g} s"
GAVE_UP: Final = "it cancelled itself"
ENDED: Final = "its running() context ended early{why}"

CLOSING_SECONDS: Final = 2.0

_Result = TypeVar("_Result")
_Answer = Callable[[Any, BaseException | None], None]


class Sandbox(abc.ABC):
    """Runs the code of one provider: ``open``, then calls one after another, then ``close``."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._work: asyncio.Future[Any] | None = None
        self._deadline = 0.0
        self._host: asyncio.Future[Any] | None = None

    async def open(self, wake: Wake, *, deadline: float) -> None:
        """Raises ProviderError, and the provider's own errors."""
        self._check_idle()
        self._deadline = deadline
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._host = self._begin(lambda: self._host_provider(wake, opened))
        self._host.add_done_callback(lambda host: _propagate(host, opened))
        try:
            await self._wait(opened, deadline)
        except ProviderError:
            self._cancel(self._host)
            self._work = self._host
            raise

    async def call(self, make: Callable[[], Awaitable[_Result]], *, deadline: float) -> _Result:
        """Raises ProviderError on a timeout, and the provider's own errors."""
        self._check_idle()
        if self._host is not None and self._host.done():
            error = None if self._host.cancelled() else self._host.exception()
            why = f": {describe(error)}" if error is not None else ""
            raise ProviderError(ENDED.format(why=why), reason=CLOSED)
        self._deadline = deadline
        work = self._begin(make)
        try:
            result: _Result = await self._wait(work, deadline)
        except BaseException:
            # Third-party code may ignore its cancellation. It is remembered, and the next call fails as busy instead of
            # running the same code twice at the same time.
            if not work.done():
                self._work = work
                self._cancel(work)
            raise
        return result

    @property
    def closed(self) -> bool:
        """Whether it must be opened before the next call."""
        return self._host is None or self._host.done()

    async def close(self) -> None:
        """Cancel running code, and wait at most CLOSING_SECONDS."""
        host, self._host = self._host, None
        if self._work is not None and not self._work.done():
            self._cancel(self._work)
        if host is not None and not host.done():
            self._cancel(host)
            await asyncio.wait({host}, timeout=CLOSING_SECONDS)

    def _check_idle(self) -> None:
        if self._work is not None and not self._work.done():
            raise ProviderError(STILL_BUSY.format(seconds=self._deadline), reason=BUSY)
        self._work = None

    async def _wait(self, work: "asyncio.Future[_Result]", deadline: float) -> _Result:
        # ``wait`` does not cancel ``work`` on a timeout, and does not wait for code that ignores a cancellation, as
        # ``wait_for`` does.
        done, _ = await asyncio.wait({work}, timeout=deadline)
        if not done:
            raise ProviderError(TOO_LATE.format(seconds=deadline), reason=TIMED_OUT)
        if work.cancelled():  #  by itself; CancelledError here would look like a cancelled caller
            raise ProviderError(GAVE_UP)
        return work.result()

    async def _host_provider(self, wake: Wake, opened: "asyncio.Future[Any]") -> None:
        """Enter and exit the context manager in the same task, as asyncio requires."""
        async with self._provider.running(wake):
            self._end_opening(opened)
            await asyncio.Event().wait()

    @abc.abstractmethod
    def _begin(self, make: Callable[[], Awaitable[Any]]) -> "asyncio.Future[Any]":
        """Return a future of the caller's loop."""

    @abc.abstractmethod
    def _cancel(self, work: "asyncio.Future[Any]") -> None: ...

    @abc.abstractmethod
    def _end_opening(self, opened: "asyncio.Future[Any]") -> None: ...


class InlineSandbox(Sandbox):
    """Runs in the caller's loop: for built-in providers, which do not block."""

    def _begin(self, make: Callable[[], Awaitable[Any]]) -> "asyncio.Future[Any]":
        return asyncio.ensure_future(_await_result(make))

    def _cancel(self, work: "asyncio.Future[Any]") -> None:
        work.cancel()
        work.add_done_callback(_ignore_exception)

    def _end_opening(self, opened: "asyncio.Future[Any]") -> None:
        if not opened.done():
            opened.set_result(None)


class ThreadSandbox(Sandbox):
    """Runs in a daemon thread, which starts with the first call and ends after ``close``."""

    def __init__(self, provider: Provider) -> None:
        super().__init__(provider)
        self._inside: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[asyncio.Future[Any], asyncio.Task[None]] = {}

    async def close(self) -> None:
        await super().close()
        inside, self._inside = self._inside, None
        if inside is not None:
            inside.call_soon_threadsafe(inside.stop)

    def _begin(self, make: Callable[[], Awaitable[Any]]) -> "asyncio.Future[Any]":
        outside = asyncio.get_running_loop()
        inside = self._inside or self._start_thread()
        answer: asyncio.Future[Any] = outside.create_future()

        def resolve(result: object, error: BaseException | None) -> None:
            with suppress(RuntimeError):  #  the caller's loop is closed
                outside.call_soon_threadsafe(_set_result, answer, result, error)

        def on_done(task: asyncio.Task[None]) -> None:
            self._tasks.pop(answer, None)
            if task.cancelled():  #  before it started, so that it did not report
                resolve(None, asyncio.CancelledError())

        def begin() -> None:
            task = self._tasks[answer] = inside.create_task(_report(make, resolve))
            task.add_done_callback(on_done)

        inside.call_soon_threadsafe(begin)
        return answer

    def _start_thread(self) -> asyncio.AbstractEventLoop:
        inside = self._inside = asyncio.new_event_loop()
        name = f"provider {self._provider.name}"
        # asyncio's own executor joins its threads at exit, so a blocked provider would keep the process from stopping.
        inside.set_default_executor(DaemonThreads(name=f"{name}, handed on", busy=_busy))
        threading.Thread(target=_run, args=(inside,), name=name, daemon=True).start()
        return inside

    def _cancel(self, work: "asyncio.Future[Any]") -> None:
        inside = self._inside
        work.add_done_callback(_ignore_exception)

        def cancel() -> None:
            task = self._tasks.get(work)
            if task is not None:
                task.cancel()

        if inside is not None:
            inside.call_soon_threadsafe(cancel)

    def _end_opening(self, opened: "asyncio.Future[Any]") -> None:
        with suppress(RuntimeError):
            opened.get_loop().call_soon_threadsafe(_set_result, opened, None, None)


def _busy(words: str) -> ProviderError:
    return ProviderError(words, reason=BUSY)


def sandbox_for(provider: Provider) -> Sandbox:
    return ThreadSandbox(provider) if provider.isolated else InlineSandbox(provider)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=CLOSING_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _await_result(make: Callable[[], Awaitable[_Result]]) -> _Result:
    return await make()


async def _report(make: Callable[[], Awaitable[Any]], resolve: _Answer) -> None:
    try:
        result = await make()
    except BaseException as error:  #  including SystemExit: the call ends, the thread does not
        resolve(None, error)
    else:
        resolve(result, None)


def _set_result(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, Exception):
        future.set_exception(error)
    elif isinstance(error, asyncio.CancelledError):
        future.cancel()
    else:
        future.set_exception(ProviderError(describe(error)))


def _propagate(host: "asyncio.Future[Any]", opened: "asyncio.Future[Any]") -> None:
    """End opening with the result of the host, if the host ended first."""
    if opened.done():
        _ignore_exception(host)
    elif host.cancelled():
        opened.cancel()
    elif (error := host.exception()) is not None:
        opened.set_exception(error)
        _ignore_exception(opened)
    else:
        opened.set_exception(ProviderError(ENDED.format(why=""), reason=CLOSED))
        _ignore_exception(opened)


def _ignore_exception(future: "asyncio.Future[Any]") -> None:
    """Mark the exception as retrieved, so that asyncio does not log it."""
    if future.done() and not future.cancelled():
        future.exception()
