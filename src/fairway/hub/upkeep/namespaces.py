"""Namespaces: when one is deleted, everything in it goes first."""

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any, Final

from fairway.hub.kinds.core import KUBERNETES
from fairway.hub.moments import timestamp
from fairway.hub.resource import Document
from fairway.hub.status import Refusal
from fairway.hub.storage.store import Change
from fairway.hub.upkeep.worker import Worker, decode

NAMESPACES: Final = "namespaces"
_STEP: Final = 500
"""Objects removed before others get their turn."""


class Namespaces(Worker[str]):
    manager = "namespace-controller"

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._ending: set[str] = set()

    def begin(self) -> None:
        for item in self.items(NAMESPACES):
            if b'"deletionTimestamp"' in item.raw:
                self._ending.add(item.key[2])
                self.add(item.key[2])

    def see(self, change: Change) -> None:
        if change.key[0] == NAMESPACES:
            if change.type == "DELETED":
                self._ending.discard(change.key[2])
            elif b'"deletionTimestamp"' in change.raw:
                self._ending.add(change.key[2])
                self.add(change.key[2])
        elif self._ending and change.key[1] in self._ending:
            self.add(change.key[1])

    async def work(self, item: str) -> None:
        namespace = self.document((NAMESPACES, "", item))
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        left = await self._empty(item)
        if left:
            await self._tell(item, namespace, left)
            return
        finalizers = [f for f in (namespace.get("spec") or {}).get("finalizers") or [] if f != KUBERNETES]
        await self.merge(
            (NAMESPACES, "", item),
            {"metadata": {"uid": namespace["metadata"]["uid"]}, "spec": {"finalizers": finalizers}},
            subresource="finalize",
        )

    async def _empty(self, name: str) -> dict[str, list[Document]]:
        """Ask for everything to go; what remains is held by finalizers or has time left."""
        done = 0
        for resource in self.store.resources():
            for item in self.items(resource, name):
                if b'"deletionTimestamp"' in item.raw:
                    continue
                await self.remove(item.key, uid=decode(item.raw)["metadata"]["uid"])
                done += 1
                if done % _STEP == 0:
                    await asyncio.sleep(0)
        left: dict[str, list[Document]] = {}
        for resource in self.store.resources():
            remaining = [decode(item.raw)["metadata"] for item in self.items(resource, name)]
            if remaining:
                left[resource] = remaining
        return left

    async def _tell(self, name: str, namespace: Document, left: dict[str, list[Document]]) -> None:
        listed = ", ".join(
            f"{_full(r)} has {len(found)} resource instances" for r, found in sorted(left.items())
        )
        held: dict[str, int] = {}
        for found in left.values():
            for metadata in found:
                for finalizer in metadata.get("finalizers") or ():
                    held[finalizer] = held.get(finalizer, 0) + 1
        holders = ", ".join(f"{f} in {count} resource instances" for f, count in sorted(held.items()))
        conditions = [
            _condition(
                "NamespaceDeletionDiscoveryFailure",
                "ResourcesDiscovered",
                "All resources successfully discovered",
                on=False,
            ),
            _condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
                on=False,
            ),
            _condition(
                "NamespaceDeletionContentFailure",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
                on=False,
            ),
            _condition(
                "NamespaceContentRemaining",
                "SomeResourcesRemain",
                f"Some resources are remaining: {listed}",
                on=True,
            ),
            _condition(
                "NamespaceFinalizersRemaining",
                "SomeFinalizersRemain",
                f"Some content in the namespace has finalizers remaining: {holders}",
                on=True,
            )
            if held
            else _condition(
                "NamespaceFinalizersRemaining",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
                on=False,
            ),
        ]
        before = {c["type"]: c for c in (namespace.get("status") or {}).get("conditions") or ()}
        now = timestamp(datetime.now(UTC))
        for condition in conditions:
            known = before.get(condition["type"], {})
            same = known.get("status") == condition["status"]
            condition["lastTransitionTime"] = known.get("lastTransitionTime", now) if same else now
        if [before.get(c["type"]) for c in conditions] != conditions:
            with contextlib.suppress(Refusal):
                await self.merge(
                    (NAMESPACES, "", name),
                    {"metadata": {"uid": namespace["metadata"]["uid"]}, "status": {"conditions": conditions}},
                    subresource="status",
                )


def _full(resource: str) -> str:
    return resource if "." in resource else f"{resource}."


def _condition(type_: str, reason: str, message: str, *, on: bool) -> Document:
    return {"type": type_, "status": "True" if on else "False", "reason": reason, "message": message}
