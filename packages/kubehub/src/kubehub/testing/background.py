"""Run an asynchronous context manager in a thread with its own event loop, for tests that block."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def background(manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter an asynchronous context manager from synchronous code, such as fixtures of a session.

    It runs on an event loop in its own thread, independent of the caller's.
    """
    loop = asyncio.new_event_loop()
    entered: Future[T] = Future()
    leave = asyncio.Event()

    async def hold() -> None:
        try:
            async with manager as value:
                entered.set_result(value)
                await leave.wait()
        except BaseException as error:
            if entered.done():
                raise
            entered.set_exception(error)

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(hold())

    with ThreadPoolExecutor(1, thread_name_prefix=threading.current_thread().name) as pool:
        ended = pool.submit(run)
        try:
            yield entered.result()
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed already if entering failed
                loop.call_soon_threadsafe(leave.set)
            ended.result()
