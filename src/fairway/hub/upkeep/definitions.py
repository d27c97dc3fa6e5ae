"""Custom resource definitions: their objects go before they do, and then their names are free for others."""

from fairway.hub.kinds.definitions import DEFINITIONS, FINALIZER
from fairway.hub.schemas import crds
from fairway.hub.storage.store import Change
from fairway.hub.upkeep.worker import Worker, decode


class Definitions(Worker[str]):
    manager = "crd-finalizer"

    def begin(self) -> None:
        for item in self.items(DEFINITIONS):
            if b'"deletionTimestamp"' in item.raw:
                self.add(item.key[2])

    def see(self, change: Change) -> None:
        if change.key[0] == DEFINITIONS:
            if change.type == "DELETED":
                # Names it held may be what another waits for.
                for item in self.items(DEFINITIONS):
                    self.add(item.key[2])
            elif b'"deletionTimestamp"' in change.raw:
                self.add(change.key[2])
        elif change.type == "DELETED" and self.store.count(change.key[0]) == 0:
            self.add(change.key[0])

    async def work(self, item: str) -> None:
        definition = self.document((DEFINITIONS, "", item))
        if definition is None:
            return
        if not definition["metadata"].get("deletionTimestamp"):
            if not crds.established(definition):
                await self.merge((DEFINITIONS, "", item), {}, subresource="status")
            return
        finalizers = definition["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers:
            return
        for each in self.items(item):
            if b'"deletionTimestamp"' not in each.raw:
                await self.remove(each.key, uid=decode(each.raw)["metadata"]["uid"])
        if self.store.count(item) == 0:
            await self.merge(
                (DEFINITIONS, "", item),
                {
                    "metadata": {
                        "uid": definition["metadata"]["uid"],
                        "finalizers": [f for f in finalizers if f != FINALIZER] or None,
                    }
                },
            )
