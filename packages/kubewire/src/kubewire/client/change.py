"""Batches of changes that an informer delivers: objects added, updated and deleted."""

import asyncio
from collections.abc import Iterable
from typing import Generic

from msgspec import Struct

from kubewire.api.resource import Key, T, key_of

# Structs, because there is one per event, and a frozen dataclass takes ten times as long to create. All three have
# ``object``: most handlers need it whatever the change is.


class Added(Struct, Generic[T], frozen=True, gc=False):
    object: T


class Updated(Struct, Generic[T], frozen=True, gc=False):
    old: T
    object: T


class Deleted(Struct, Generic[T], frozen=True, gc=False):
    """``object`` is the last known state."""

    object: T


Change = Added[T] | Updated[T] | Deleted[T]


class Batch(Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """Changes in the order to apply them.

    Within an ``epoch`` an object only ever gets newer. A new epoch begins when the hub's history went back, as after a
    restored backup: this batch, which is ``listed``, leads from the state before to the hub's current one, and its
    objects may be older. ``listed`` batches come from a full list; they also contain only differences, which may be
    none.
    """

    changes: tuple[Change[T], ...]
    epoch: int
    listed: bool
    resource_version: str


def difference(old: T | None, new: T | None) -> Iterable[Change[T]]:
    """Return the changes from one state of a key to another. An object that was recreated under the same name is two
    changes."""
    if old is None:
        return () if new is None else (Added(new),)
    if new is None:
        return (Deleted(old),)
    if old.metadata.uid != new.metadata.uid:
        return (Deleted(old), Added(new))
    return (Updated(old, new),)


class PendingChanges(Generic[T]):
    """Pending changes for a slow reader: several changes of a key become one.

    So a slow reader costs memory once per object, and never sees outdated states.
    """

    def __init__(self) -> None:
        self._states: dict[Key, tuple[T | None, T | None]] = {}
        self._latest: Batch[T] | None = None
        self._listed = False
        self._there = asyncio.Event()

    def add(self, batch: Batch[T]) -> None:
        for change in batch.changes:
            match change:
                case Added(new):
                    self._merge(key_of(new), None, new)
                case Updated(old, new):
                    self._merge(key_of(new), old, new)
                case Deleted(old):
                    self._merge(key_of(old), old, None)
        self._latest = batch
        self._listed |= batch.listed
        self._there.set()

    def _merge(self, key: Key, old: T | None, new: T | None) -> None:
        known = self._states.get(key)
        self._states[key] = (old if known is None else known[0], new)

    async def take(self) -> Batch[T]:
        """Wait for changes, and return them."""
        await self._there.wait()
        self._there.clear()
        assert self._latest is not None
        changes: list[Change[T]] = []
        for old, new in self._states.values():
            changes.extend(difference(old, new))
        taken = Batch(
            changes=tuple(changes),
            epoch=self._latest.epoch,
            listed=self._listed,
            resource_version=self._latest.resource_version,
        )
        self._states.clear()
        self._listed = False
        return taken
