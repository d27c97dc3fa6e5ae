"""Reconcile objects of a hub by key, one at a time, with retries."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Generic, TypeVar

from kubewire.api.resource import T
from kubewire.client import Backoff, Batch, Informer, KubeError, WorkQueue

log: Final = logging.getLogger(__name__)

FAILED: Final = "%s: cannot reconcile %s, retrying: %s"
BROKE: Final = "%s: unexpected error; retrying"

K = TypeVar("K", bound=Hashable)


class ReconcileLoop(Generic[K]):
    """Calls ``reconcile`` with every key that is added. It returns seconds after which to call it again, or None."""

    def __init__(self, name: str, reconcile: Callable[[K], Awaitable[float | None]]) -> None:
        self._name, self._reconcile = name, reconcile
        self.queue: WorkQueue[K] = WorkQueue(backoff=Backoff(base=0.05, cap=5.0))

    def add(self, key: K) -> None:
        self.queue.add(key)

    @asynccontextmanager
    async def running(self, *informers: Informer[Any]) -> AsyncIterator[None]:
        """Run within the block, once the informers have synced."""
        async with AsyncExitStack() as stack:
            for informer in informers:
                await stack.enter_async_context(informer)
            for informer in informers:
                await informer.synced.wait()
            task = asyncio.create_task(self._run(), name=self._name)
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            async with self.queue.take() as key:
                try:
                    again = await self._reconcile(key)
                except KubeError as error:
                    log.debug(FAILED, self._name, key, error)
                    self.queue.add_rate_limited(key)
                except Exception:
                    log.exception(BROKE, self._name)
                    self.queue.add_rate_limited(key)
                else:
                    self.queue.forget(key)
                    if again is not None:
                        self.queue.add_after(key, delay=again)


def objects_of(batch: Batch[T]) -> list[T]:
    """Return the objects that changed, as they are now; deleted ones as they were."""
    return [change.object for change in batch.changes]
