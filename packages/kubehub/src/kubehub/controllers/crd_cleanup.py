"""Deletes the objects of a deleted CRD, removes its finalizer, and re-evaluates CRDs that wait for its names."""

from typing import Any

from kubehub.controllers.controller import Controller, decode
from kubehub.crd import definitions
from kubehub.crd.kind import DEFINITIONS, FINALIZER
from kubehub.storage.store import Change


class CrdCleanup(Controller[str]):
    manager = "crd-finalizer"

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._waiting: set[str] = set()
        """CRDs that aren't established, perhaps because another CRD has their names."""

    def resync(self) -> None:
        for item in self.items(DEFINITIONS):
            self._track(item.key[2], item.raw)

    def on_change(self, change: Change) -> None:
        if change.key[0] == DEFINITIONS:
            if change.type == "DELETED":
                self._waiting.discard(change.key[2])
                for name in self._waiting:
                    self.enqueue(name)
            else:
                self._track(change.key[2], change.raw)
        elif change.type == "DELETED" and self.store.count(change.key[0]) == 0:
            self.enqueue(change.key[0])

    def _track(self, name: str, raw: bytes) -> None:
        if b'"deletionTimestamp"' in raw:
            self.enqueue(name)
        if definitions.is_established(decode(raw)):
            self._waiting.discard(name)
        else:
            self._waiting.add(name)

    async def reconcile(self, item: str) -> None:
        definition = self.document((DEFINITIONS, "", item))
        if definition is None:
            return
        if not definition["metadata"].get("deletionTimestamp"):
            if not definitions.is_established(definition):
                # An update re-evaluates the names; it must change something, or the hub would skip it.
                await self.merge_patch(
                    (DEFINITIONS, "", item), {"status": {"conditions": None}}, subresource="status"
                )
            return
        finalizers = definition["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers:
            return
        for stored in self.items(item):
            if b'"deletionTimestamp"' not in stored.raw:
                await self.delete(stored.key, uid=decode(stored.raw)["metadata"]["uid"])
        if self.store.count(item) == 0:
            await self.merge_patch(
                (DEFINITIONS, "", item),
                {
                    "metadata": {
                        "uid": definition["metadata"]["uid"],
                        "finalizers": [f for f in finalizers if f != FINALIZER] or None,
                    }
                },
            )
