"""Record the arrival of written objects at a watch.

Every write that changes an object causes an event, so the events also count the writes of a hub.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic

from kubewire.api.resource import KubeStruct, T
from kubewire.client import Client, Resource
from kubewire.client.watch import Stream

PATIENCE_SECONDS = 180.0
_LONG = 3600.0


class Unseen(Exception):
    """An expected event did not arrive, or the watch ended."""


@dataclass(frozen=True, slots=True)
class Sighting(Generic[T]):
    at: float
    """Arrival on the monotonic clock."""
    kind: str
    """ADDED, MODIFIED or DELETED."""
    object: T


class Sightings(Generic[T]):
    def __init__(self) -> None:
        self.all: list[Sighting[T]] = []
        self._ended = ""
        self._news = asyncio.Event()

    async def between(self, began: int, ended: int) -> int:
        """Wait for all events after one resource version up to another, and return their number. Raise Unseen.

        Times cannot delimit them, because a watch may be seconds late.
        """
        await self.first(lambda object_: _version(object_) >= ended)
        return sum(began < _version(sighting.object) <= ended for sighting in self.all)

    async def first(self, holds: Callable[[T], bool], *, since: int = 0) -> Sighting[T]:
        """Wait for the first matching event after the first ``since`` ones. Raise Unseen."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    for sighting in self.all[since:]:
                        if sighting.kind != "DELETED" and holds(sighting.object):
                            return sighting
                    since = len(self.all)
                    if self._ended:
                        raise Unseen(self._ended)
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            last = self.all[-1].object if self.all else "nothing"
            raise Unseen(f"not within {PATIENCE_SECONDS:g} s; the last event was {last}") from None

    async def follow(self, stream: Stream[T]) -> None:
        try:
            async for events in stream:
                at = time.monotonic()
                self.all.extend(Sighting(at, event.type, event.object) for event in events)
                self._news.set()
            self._ended = "the watch has ended"
        except Exception as error:
            self._ended = f"the watch broke: {error}"
        self._news.set()


def _version(object_: KubeStruct) -> int:
    return int(object_.metadata.resourceVersion)


@asynccontextmanager
async def watched(
    client: Client, resource: Resource[T], *, namespace: str | None = None, name: str = ""
) -> AsyncIterator[Sightings[T]]:
    """Watch within the block; ``name`` restricts the watch to objects of this name."""
    seen: Sightings[T] = Sightings()
    version = await client.newest(resource, namespace=namespace)
    async with client.stream(
        resource,
        namespace=namespace,
        fields=f"metadata.name={name}" if name else "",
        resource_version=version,
        bookmarks=False,
        timeout=_LONG,
    ) as stream:
        following = asyncio.create_task(seen.follow(stream))
        try:
            yield seen
        finally:
            following.cancel()
            await asyncio.wait([following])
