"""When what was written arrives at a watch of our own: by then everybody can have it.

Every event counts, so this is also how many writes a hub has taken: it tells each one that changed something.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic

from fairway.kube import Client, Resource
from fairway.kube.resource import KubeStruct, T
from fairway.kube.watch import Stream

PATIENCE_SECONDS = 180.0
_LONG = 3600.0


class Unseen(Exception):
    """What should have come has not, or the watch has ended."""


@dataclass(frozen=True, slots=True)
class Sighting(Generic[T]):
    at: float
    """Of the monotonic clock."""
    kind: str
    """ADDED, MODIFIED or DELETED."""
    object: T


class Sightings(Generic[T]):
    def __init__(self) -> None:
        self.all: list[Sighting[T]] = []
        self._ended = ""
        self._news = asyncio.Event()

    async def between(self, began: int, ended: int) -> int:
        """How many there were after one resource version and up to another; waits until all of them have come.

        By when they came nobody could count: a watch may be seconds late. Raises Unseen.
        """
        await self.first(lambda found: _version(found) >= ended)
        return sum(began < _version(each.object) <= ended for each in self.all)

    async def first(self, holds: Callable[[T], bool], *, since: int = 0) -> Sighting[T]:
        """Of those after the first ``since``; waits for it. Raises Unseen."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    for each in self.all[since:]:
                        if each.kind != "DELETED" and holds(each.object):
                            return each
                    since = len(self.all)
                    if self._ended:
                        raise Unseen(self._ended)
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            last = self.all[-1].object if self.all else "nothing"
            raise Unseen(f"not within {PATIENCE_SECONDS:g} s; the last that came was {last}") from None

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


def _version(found: KubeStruct) -> int:
    return int(found.metadata.resourceVersion)


@asynccontextmanager
async def watched(
    client: Client, resource: Resource[T], *, namespace: str | None = None, name: str = ""
) -> AsyncIterator[Sightings[T]]:
    """From now to the end of the block. ``name`` is that of the only objects to look at."""
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
