"""Shared informers: one per kind and selector, for all controllers of a process."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, cast

from kubewire.api.resource import T
from kubewire.client import Client, Informer, Resource

RELIST_SECONDS: Final = 3600.0
"""A periodic full list finds what a watch cannot deliver, such as a hub restored from a backup."""


class InformerFactory:
    """Informers run while the block does; one that is requested in the block begins at once. Those of ``start`` can end
    in it, too."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._informers: dict[str, Informer[Any]] = {}
        self._started: dict[str, asyncio.Task[None]] = {}
        self._followers: list[Callable[[Informer[Any]], None]] = []
        self._stopped = asyncio.Event()
        self._stack = AsyncExitStack()
        self._entered = False

    def of(self, resource: Resource[T], *, fields: str = "") -> Informer[T]:
        """``fields`` is a field selector; each selector has its own informer."""
        name = f"{resource}:{fields.replace('=', ':')}" if fields else str(resource)
        informer = self._informers.get(name)
        if informer is None:
            informer = Informer(self._client, resource, fields=fields, relist_after=RELIST_SECONDS)
            self._informers[name] = informer
            if self._entered:
                self._run(name, informer)
        return cast("Informer[T]", informer)

    def start(self, resource: Resource[T]) -> Informer[T]:
        """Return a new informer that runs until ``stop``. Call it in the block."""
        informer = Informer(self._client, resource, relist_after=RELIST_SECONDS)
        name = str(resource)
        self._informers[name] = informer
        self._run(name, informer)
        return informer

    def _run(self, name: str, informer: Informer[Any]) -> None:
        self._started[name] = asyncio.create_task(informer.run(), name=f"informer {informer.resource}")
        for follow in self._followers:
            follow(informer)

    def stop(self, resource: Resource[Any]) -> None:
        """End an informer of ``start``."""
        del self._informers[str(resource)]
        self._started.pop(str(resource)).cancel()
        self._stopped.set()

    def follow(self, follow: Callable[[Informer[Any]], None]) -> None:
        """Call a function with every informer, those of ``start`` included."""
        self._followers.append(follow)
        for informer in self.all:
            follow(informer)

    async def __aenter__(self) -> "InformerFactory":
        for informer in self._informers.values():
            await self._stack.enter_async_context(informer)
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        tasks = list(self._started.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def synced(self) -> None:
        """Wait for the first list of every informer."""
        # Again after each ``stop``: an informer that was stopped never becomes synced, and its event would be awaited
        # forever.
        while waiting := [informer for informer in self._informers.values() if not informer.synced.is_set()]:
            self._stopped.clear()
            # Not a gather: one that is cancelled while nothing awaits it logs a traceback.
            listed = asyncio.ensure_future(_listed(waiting))
            stopped = asyncio.ensure_future(self._stopped.wait())
            try:
                await asyncio.wait((listed, stopped), return_when=asyncio.FIRST_COMPLETED)
            finally:
                listed.cancel()
                stopped.cancel()

    @property
    def all(self) -> tuple[Informer[Any], ...]:
        return tuple(self._informers.values())

    def waiting(self) -> list[str]:
        """Return the kinds that are not listed yet."""
        return [name for name, informer in self._informers.items() if not informer.synced.is_set()]

    def lag(self) -> dict[str, float]:
        """Return the seconds by kind for which the store may be behind the hub; infinite before the first list."""
        return {name: informer.lag for name, informer in self._informers.items()}

    def counts(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for informer in self._informers.values():
            counts[informer.resource.kind] += len(informer.store)
        return counts

    def unreadable(self) -> Counter[tuple[str, str]]:
        """Count objects with a field that cannot be decoded, by kind and field."""
        return Counter(
            (informer.resource.kind, field)
            for informer in self._informers.values()
            for fields in informer.unreadable.values()
            for field in {unreadable.field for unreadable in fields}
        )


async def _listed(informers: Iterable[Informer[Any]]) -> None:
    for informer in informers:
        await informer.synced.wait()
