"""Stop long-running commands on Ctrl-C and SIGTERM: the first signal stops in order, the second at once."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def listening() -> Iterator[asyncio.Event]:
    """Yield an event that the first signal sets; the second signal has its default effect."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def handle() -> None:
        stop.set()
        remove_handlers()

    def remove_handlers() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, handle)
    try:
        yield stop
    finally:
        remove_handlers()


async def until(stop: asyncio.Event, work: Coroutine[Any, Any, None], *, on_stop: Callable[[], None]) -> None:
    """Run ``work`` until it ends or ``stop`` is set. Raises the exceptions of ``work``."""
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
