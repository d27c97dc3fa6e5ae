"""Deletes the content of a deleted namespace, then the namespace.

The remaining objects are counted once, and then change by change: each may wait for a finalizer, and counting all
whenever one changes would be quadratic.
"""

import asyncio
import contextlib
from collections import Counter
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from kubehub.controllers.controller import Controller, metadata_of
from kubehub.flowcontrol.yielding import Yielder
from kubehub.kinds.core import KUBERNETES
from kubehub.resource import Document
from kubehub.status import Refusal
from kubehub.storage.store import Change, Key
from kubewire.api.meta import format_time

NAMESPACES: Final = "namespaces"
_ENDING: Final = b'"deletionTimestamp"'
_AT_ONCE: Final = 32
"""Objects that are deleted together, so that one commit covers them all."""


class Contents:
    """The remaining objects of one namespace, by resource and by finalizer."""

    def __init__(self) -> None:
        self.resources: Counter[str] = Counter()
        self.finalizers: Counter[str] = Counter()
        self.undeleted: dict[Key, str] = {}
        """The uids of objects that are yet to be deleted."""
        self.counted = False
        self._held: dict[Key, list[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def put(self, key: Key, raw: bytes) -> None:
        metadata = metadata_of(raw)
        self.drop(key)
        self._held[key] = metadata.finalizers
        self.resources[key[0]] += 1
        self.finalizers.update(metadata.finalizers)
        if metadata.deletion_timestamp is None:
            self.undeleted[key] = metadata.uid

    def drop(self, key: Key) -> None:
        held = self._held.pop(key, None)
        if held is None:
            return
        self.undeleted.pop(key, None)
        for counter, names in ((self.resources, (key[0],)), (self.finalizers, held)):
            for name in names:
                counter[name] -= 1
                if not counter[name]:
                    del counter[name]


class NamespaceController(Controller[str]):
    manager = "namespace-controller"

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._ending: dict[str, Contents] = {}

    def resync(self) -> None:
        for item in self.items(NAMESPACES):
            self._track(item.key[2], item.raw)

    def on_change(self, change: Change) -> None:
        if change.key[0] == NAMESPACES:
            if change.type == "DELETED":
                self._ending.pop(change.key[2], None)
            else:
                self._track(change.key[2], change.raw)
        elif self._ending and (contents := self._ending.get(change.key[1])) is not None:
            if change.type == "DELETED":
                contents.drop(change.key)
            else:
                contents.put(change.key, change.raw)
            self.enqueue(change.key[1])

    def _track(self, name: str, raw: bytes) -> None:
        if _ENDING in raw:
            self._ending.setdefault(name, Contents())
            self.enqueue(name)

    async def reconcile(self, item: str) -> None:
        namespace = self.document((NAMESPACES, "", item))
        contents = self._ending.get(item)
        if namespace is None or contents is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        # Counted once when the deletion starts, and then kept by the changes: kube-controller-manager lists all kinds
        # again every few seconds.
        if not contents.counted:
            await self._count(item, contents)
        await self._delete(contents)
        if contents:
            await self._update_conditions(item, namespace, contents)
            return
        finalizers = [f for f in (namespace.get("spec") or {}).get("finalizers") or [] if f != KUBERNETES]
        await self.merge_patch(
            (NAMESPACES, "", item),
            {"metadata": {"uid": namespace["metadata"]["uid"]}, "spec": {"finalizers": finalizers}},
            subresource="finalize",
        )

    async def _count(self, name: str, contents: Contents) -> None:
        """Count the objects. Changes meanwhile are counted as well, so each object counts as it is stored by now."""
        yielder = Yielder()
        for resource in self.store.resources():
            for listed in self.items(resource, name):
                item = self.store.get(listed.key)
                if item is not None:
                    contents.put(item.key, item.raw)
                await yielder.step()
        contents.counted = True

    async def _delete(self, contents: Contents) -> None:
        """Delete everything; what remains waits for finalizers or a grace period."""
        while contents.undeleted:
            several = list(islice(contents.undeleted.items(), _AT_ONCE))
            await asyncio.gather(*(self.delete(key, uid=uid) for key, uid in several))
            # A replaced object is listed again under its new uid; any other is done.
            for key, uid in several:
                if contents.undeleted.get(key) == uid:
                    del contents.undeleted[key]

    async def _update_conditions(self, name: str, namespace: Document, contents: Contents) -> None:
        listed = ", ".join(
            f"{_qualified(r)} has {count} resource instances"
            for r, count in sorted(contents.resources.items())
        )
        held = contents.finalizers
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
        now = format_time(datetime.now(UTC))
        for condition in conditions:
            known = before.get(condition["type"], {})
            same = known.get("status") == condition["status"]
            condition["lastTransitionTime"] = known.get("lastTransitionTime", now) if same else now
        if [before.get(c["type"]) for c in conditions] != conditions:
            with contextlib.suppress(Refusal):
                await self.merge_patch(
                    (NAMESPACES, "", name),
                    {"metadata": {"uid": namespace["metadata"]["uid"]}, "status": {"conditions": conditions}},
                    subresource="status",
                )


def _qualified(resource: str) -> str:
    return resource if "." in resource else f"{resource}."


def _condition(type_: str, reason: str, message: str, *, on: bool) -> Document:
    return {"type": type_, "status": "True" if on else "False", "reason": reason, "message": message}
