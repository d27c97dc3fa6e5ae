"""Processes that run until they are told to stop: Ctrl-C and SIGTERM end the work in order, a second one at once."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def listening() -> Iterator[asyncio.Event]:
    """An event that is set by the first signal; the next one does what it does to any program."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def heed() -> None:
        stop.set()
        unlisten()

    def unlisten() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, heed)
    try:
        yield stop
    finally:
        unlisten()


async def until(stop: asyncio.Event, work: Coroutine[Any, Any, None], *, on_stop: Callable[[], None]) -> None:
    """Runs ``work`` until it ends, or is cancelled because of ``stop``. Raises what it raises."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            on_stop()
    finally:
        stopping.cancel()
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
