"""Shared informers: one per kind and selector, for all controllers of a process."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, cast

from fairway.kube import Client, Informer, Resource
from fairway.kube.resource import T

RELIST_SECONDS: Final = 3600.0
"""A periodic full list finds what a watch cannot deliver, such as a hub restored from a backup."""


class InformerFactory:
    """Request all informers before entering; they run while the block does. Those of ``start`` can begin and end in
    it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._informers: dict[str, Informer[Any]] = {}
        self._started: dict[str, asyncio.Task[None]] = {}
        self._followers: list[Callable[[Informer[Any]], None]] = []
        self._stopped = asyncio.Event()
        self._stack = AsyncExitStack()

    def of(self, resource: Resource[T], *, fields: str = "") -> Informer[T]:
        """``fields`` is a field selector; each selector has its own informer."""
        name = f"{resource}:{fields.replace('=', ':')}" if fields else str(resource)
        informer = self._informers.get(name)
        if informer is None:
            informer = Informer(self._client, resource, fields=fields, relist_after=RELIST_SECONDS)
            self._informers[name] = informer
        return cast("Informer[T]", informer)

    def start(self, resource: Resource[T]) -> Informer[T]:
        """Return a new informer that runs until ``stop``. Call it in the block."""
        informer = Informer(self._client, resource, relist_after=RELIST_SECONDS)
        name = str(resource)
        self._informers[name] = informer
        self._started[name] = asyncio.create_task(informer.run(), name=f"informer {resource}")
        for follow in self._followers:
            follow(informer)
        return informer

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
        while waiting := [each for each in self._informers.values() if not each.synced.is_set()]:
            self._stopped.clear()
            listed = asyncio.gather(*(each.synced.wait() for each in waiting))
            stopped = asyncio.ensure_future(self._stopped.wait())
            try:
                await asyncio.wait((listed, stopped), return_when=asyncio.FIRST_COMPLETED)
            finally:
                listed.cancel()
                stopped.cancel()

    @property
    def all(self) -> tuple[Informer[Any], ...]:
        return tuple(self._informers.values())

    @property
    def ready(self) -> bool:
        return all(informer.synced.is_set() for informer in self._informers.values())

    def waiting(self) -> list[str]:
        """Kinds that are not listed yet."""
        return [name for name, informer in self._informers.items() if not informer.synced.is_set()]

    def lag(self) -> dict[str, float]:
        """Seconds by kind for which the store may be behind the hub; infinite before the first list."""
        return {name: informer.lag for name, informer in self._informers.items()}

    def counts(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for informer in self._informers.values():
            found[informer.resource.kind] += len(informer.store)
        return found

    def unreadable(self) -> Counter[tuple[str, str]]:
        """Count objects with a field that cannot be decoded, by kind and field."""
        return Counter(
            (informer.resource.kind, field)
            for informer in self._informers.values()
            for fields in informer.unreadable.values()
            for field in {each.field for each in fields}
        )
