"""Delete what a cluster that is being removed has in its namespace: its add-ons first, then its works.

An add-on may still need its works, for example to run a Job before it is deleted, so no work is deleted before the last
add-on is. Within a kind, objects with a lower ``open-cluster-management.io/cleanup-priority`` are deleted first, and
the next ones once these are deleted, as in OCM. An object with a finalizer remains until its owner, usually the
cluster's agent, has removed it.

Nothing is remembered: each step lists what is left on the hub, so a new leader continues where the last one stopped.
Only metadata is listed, in pages, and a step deletes a limited number of objects: a namespace may contain thousands of
large works, and other clusters wait for the same workers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from fairway.api.resources import MANAGED_CLUSTER_ADD_ONS, MANIFEST_WORKS
from fairway.controllers.runtime.writer import Writer
from kubewire.api.meta import ObjectMeta
from kubewire.client import Client, Conflict, NotFound, Resource

ORDER: Final[tuple[Resource[Any], ...]] = (MANAGED_CLUSTER_ADD_ONS, MANIFEST_WORKS)
PRIORITY: Final = "open-cluster-management.io/cleanup-priority"
HIGHEST: Final = 100
LONGEST_NUMBER: Final = 19
"""Digits of the largest number that OCM reads."""
DELETED_AT_ONCE: Final = 200
"""Objects that one step deletes; at a few milliseconds each, a step holds a worker for about a second."""


@dataclass(slots=True)
class Remaining:
    """What is left of the first kind that has objects left."""

    resource: Resource[Any]
    count: int = 0
    held: int = 0
    """Objects with finalizers."""
    priority: int = HIGHEST
    next: list[ObjectMeta] = field(default_factory=list)
    """Objects of the lowest priority that are not being deleted yet, at most as many as a step deletes."""
    undeleted: int = 0
    """Objects that are not being deleted yet, of any priority."""

    def add(self, metas: Iterable[ObjectMeta]) -> None:
        for meta in metas:
            self.count += 1
            self.held += bool(meta.finalizers)
            self.undeleted += meta.deletionTimestamp is None
            # Also of objects that are being deleted: the next priority waits until they are deleted.
            priority = priority_of(meta)
            if priority < self.priority or self.count == 1:
                self.priority = priority
                self.next.clear()
            if (
                priority == self.priority
                and meta.deletionTimestamp is None
                and len(self.next) < DELETED_AT_ONCE
            ):
                self.next.append(meta)


def priority_of(meta: ObjectMeta) -> int:
    """The object's priority; 0 if it has none, or one that is no number from 0 to 100."""
    text = meta.annotations.get(PRIORITY, "").removeprefix("+")
    if not (text.isascii() and text.isdecimal()) or len(text) > LONGEST_NUMBER:
        return 0
    priority = int(text)
    return priority if priority <= HIGHEST else 0


class NamespaceCleanup:
    def __init__(self, client: Client, writer: Writer) -> None:
        self._client, self._writer = client, writer

    async def step(self, cluster: str) -> Remaining | None:
        """Delete the next objects, and return what was left before; None if nothing was. Raise KubeErrors."""
        for resource in ORDER:
            # Listed from the hub, not from a watch: an add-on that was created a moment ago may need its works.
            remaining = await self._remaining(resource, cluster)
            if remaining.count:
                await self._delete(remaining)
                return remaining
        return None

    async def _remaining(self, resource: Resource[Any], cluster: str) -> Remaining:
        remaining = Remaining(resource)
        try:
            async for page in self._client.metadata_pages(resource, namespace=cluster):
                remaining.add(page)
        except NotFound:
            return Remaining(resource)  # the hub does not serve this kind
        return remaining

    async def _delete(self, remaining: Remaining) -> None:
        if not remaining.next:
            return
        async with self._writer.batch():
            for meta in remaining.next:
                try:
                    await self._writer.delete(remaining.resource, meta, any_version=True)
                except (NotFound, Conflict):
                    continue  # deleted meanwhile, or replaced by an object that the next step finds
