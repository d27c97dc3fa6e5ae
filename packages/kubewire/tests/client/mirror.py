"""A copy built from an informer's changes, which rejects impossible ones."""

import asyncio
from collections.abc import Callable
from typing import Generic

from kubewire.api.resource import Key, KubeStruct, T, key_of
from kubewire.client.change import Added, Batch, Deleted, Updated

PATIENCE = 120.0
"""Seconds after which a test that waits for something has failed."""


def version_of(obj: KubeStruct) -> int:
    return int(obj.metadata.resourceVersion)


class Mirror(Generic[T]):
    """A handler. Breaks of the promises are kept in ``broken``, for an exception would only be logged."""

    def __init__(self) -> None:
        self.store: dict[Key, T] = {}
        self.batches: list[Batch[T]] = []
        self.broken: list[str] = []
        self._newest: dict[Key, int] = {}
        self._news = asyncio.Event()

    def __call__(self, batch: Batch[T]) -> None:
        previous = self.batches[-1].epoch if self.batches else 0
        if batch.epoch < previous:
            self.broken.append(f"epoch {batch.epoch} after {previous}")
        if batch.epoch != previous:
            self._newest.clear()
            if not batch.listed:
                self.broken.append("a new epoch without a list")
        self.batches.append(batch)
        for change in batch.changes:
            match change:
                case Added(new):
                    if key_of(new) in self.store:
                        self.broken.append(f"{key_of(new)} was added twice")
                    self._take(new)
                case Updated(old, new):
                    if self.store.get(key_of(new)) is not old:
                        self.broken.append(f"{key_of(new)} was not what the update says")
                    self._take(new)
                case Deleted(gone):
                    if self.store.pop(key_of(gone), None) is None:
                        self.broken.append(f"{key_of(gone)} was deleted twice")
                    if batch.epoch == previous:
                        self._age(gone)
        self._news.set()

    def _take(self, obj: T) -> None:
        self.store[key_of(obj)] = obj
        self._age(obj)

    def _age(self, obj: T) -> None:
        newest = self._newest.get(key_of(obj), 0)
        if version_of(obj) < newest:
            self.broken.append(f"{key_of(obj)} went from version {newest} to {version_of(obj)}")
        self._newest[key_of(obj)] = version_of(obj)

    def versions(self) -> dict[str, tuple[str, str]]:
        return {
            obj.metadata.name: (obj.metadata.uid, obj.metadata.resourceVersion) for obj in self.store.values()
        }

    async def until(self, holds: Callable[[], bool]) -> None:
        """Looks again after every batch."""
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._news.clear()
                await self._news.wait()
