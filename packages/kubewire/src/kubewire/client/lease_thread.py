"""Lease requests on a separate thread, with its own event loop and client.

A leader whose event loop is busy must not lose its Lease: renewals do not wait for the controllers. Only the
interpreter's lock can delay them, while a single call into C holds it.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, TypeVar

from kubewire.client.connection import Connection
from kubewire.client.lease import HubLease
from kubewire.client.rest import Client

T = TypeVar("T")

NAME: Final = "fairway-leases"


class LeaseThread:
    """Use it in ``async with``. Leases made by ``lease`` may be used only within ``run``."""

    def __init__(self, connection: Connection, *, field_manager: str) -> None:
        self._connection, self._field_manager = connection, field_manager
        self._ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, Client]] = Future()
        self._ended: Future[None] = Future()
        # A daemon thread, so that it does not keep the process alive if the main thread ends within the block.
        self._thread = threading.Thread(target=self._main, name=NAME, daemon=True)

    async def __aenter__(self) -> "LeaseThread":
        self._thread.start()
        self._loop, self._stop, self._client = await asyncio.wrap_future(self._ready)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.shield(asyncio.wrap_future(self._ended))

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
        finally:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        async with Client(self._connection, field_manager=self._field_manager) as client:
            stop = asyncio.Event()
            self._ready.set_result((asyncio.get_running_loop(), stop, client))
            await stop.wait()

    def lease(self, *, namespace: str, name: str) -> HubLease:
        return HubLease(self._client, namespace=namespace, name=name)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the thread and return its result. Cancelling this cancels it."""
        if asyncio.get_running_loop() is self._loop:
            return await work
        if self._ended.done():
            work.close()
            raise RuntimeError("the lease thread has stopped")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
