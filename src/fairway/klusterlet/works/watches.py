"""Watch applied objects for changes.

One metadata-only watch per kind and namespace with applied objects. Objects beyond the limit of watches, or where
watching is not allowed, are checked when their work is reconciled anyway.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from fairway.klusterlet.works.objects import ObjectId, ObjectVersion, Target
from kubewire.client import Batch, Client, Deleted, Informer, Resource

log: Final = logging.getLogger(__name__)

TOO_MANY: Final = "limit of %d watches reached: changes of %s in %r are found at the next resync"

Changed = Callable[[str], None]
"""Called with the name of the work that contains a changed object."""


@dataclass(frozen=True, slots=True)
class _Place:
    group: str
    resource: str
    namespace: str


class Watches:
    def __init__(self, client: Client, *, changed: Changed, most: int) -> None:
        self._client, self._changed, self._most = client, changed, most
        self._works: dict[ObjectId, set[str]] = {}
        self._objects: dict[str, frozenset[ObjectId]] = {}
        self._tasks: dict[_Place, asyncio.Task[None]] = {}
        self._known: dict[tuple[str, ObjectId], str] = {}

    def set_targets(self, work: str, targets: Iterable[Target]) -> None:
        """Replace the work's watched objects."""
        wanted = {target.identity: target for target in targets}
        before = self._objects.get(work, frozenset())
        self._objects[work] = frozenset(wanted)
        if not wanted:
            del self._objects[work]
        for identity in before - wanted.keys():
            self._known.pop((work, identity), None)
            self._works[identity].discard(work)
            if not self._works[identity]:
                del self._works[identity]
        for identity, target in wanted.items():
            self._works.setdefault(identity, set()).add(work)
            self._watch(target)
        if before - wanted.keys():
            self._stop_unused()

    def set_versions(self, work: str, versions: Mapping[ObjectId, str]) -> None:
        """Set the versions that the work has read, whose events are ignored."""
        self._known.update(((work, identity), version) for identity, version in versions.items())

    async def stop(self) -> None:
        tasks = tuple(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

    def _watch(self, target: Target) -> None:
        place = _place(target.identity)
        if place in self._tasks:
            return
        # One watch per kind and namespace: works in a thousand namespaces would make the agent hold a thousand
        # connections. Beyond the limit, the resync finds what changed.
        if len(self._tasks) >= self._most:
            log.debug(TOO_MANY, self._most, target.resource, target.namespace)
            return
        informer = Informer(self._client, target.resource, namespace=target.namespace or None)
        informer.subscribe(lambda batch: self._on_change(target.resource, batch))
        self._tasks[place] = asyncio.create_task(informer.run(), name=f"watch of applied {target.resource}")

    def _stop_unused(self) -> None:
        needed = {_place(identity) for identity in self._works}
        for place in self._tasks.keys() - needed:
            self._tasks.pop(place).cancel()

    def _on_change(self, resource: Resource[ObjectVersion], batch: Batch[ObjectVersion]) -> None:
        for change in batch.changes:
            meta = change.object.metadata
            identity = ObjectId(
                group=resource.group, resource=resource.plural, namespace=meta.namespace, name=meta.name
            )
            for work in tuple(self._works.get(identity, ())):
                known = self._known.get((work, identity))
                # The first list of a watch and the agent's own writes come with the version that the reconcile has just
                # read.
                if isinstance(change, Deleted) or known != meta.resourceVersion:
                    self._changed(work)


def _place(identity: ObjectId) -> _Place:
    return _Place(identity.group, identity.resource, identity.namespace)
