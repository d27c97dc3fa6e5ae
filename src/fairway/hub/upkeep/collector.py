"""Garbage collection: what is left without an owner goes, in the way the deletion of the owner asked for."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from fairway.hub.options import BACKGROUND, FOREGROUND, ORPHAN
from fairway.hub.resource import Document
from fairway.hub.storage.store import Change, Key
from fairway.hub.upkeep.worker import Worker
from fairway.hub.writing.removals import FOREGROUND_FINALIZER, ORPHAN_FINALIZER

_OWNED: Final = b'"ownerReferences"'
_ENDING: Final = b'"deletionTimestamp"'


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None
    finalizers: list[str] = msgspec.field(default_factory=list)
    owner_references: list[dict[str, Any]] = msgspec.field(default_factory=list)


class _Head(msgspec.Struct, gc=False):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_head = msgspec.json.Decoder(_Head).decode


class Collector(Worker[Key]):
    """Knows only the objects that have owners; who has none costs a search for a word in its bytes."""

    manager = "generic-garbage-collector"

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._dependents: dict[str, set[Key]] = {}
        self._owners: dict[Key, frozenset[str]] = {}

    def begin(self) -> None:
        for resource in self.store.resources():
            for item in self.items(resource):
                if _OWNED in item.raw:
                    self._index(item.key, _owner_uids(item.raw))
                    self.add(item.key)
                if _ENDING in item.raw:
                    self.add(item.key)

    def see(self, change: Change) -> None:
        owned = _OWNED in change.raw
        if change.type == "DELETED":
            if self._dependents:
                for dependent in self._dependents.get(_head(change.raw).metadata.uid, ()):
                    self.add(dependent)
            if owned:
                self._index(change.key, frozenset())
                # An owner that waits for its dependents may be waiting for this one.
                self._wake_owners(_head(change.raw).metadata.owner_references, change.key)
            return
        if owned or change.key in self._owners:
            self._index(change.key, _owner_uids(change.raw) if owned else frozenset())
            self.add(change.key)
            if change.previous is not None and _OWNED in change.previous:
                self._wake_owners(_head(change.previous).metadata.owner_references, change.key)
        if _ENDING in change.raw:
            self.add(change.key)

    def _index(self, key: Key, uids: frozenset[str]) -> None:
        before = self._owners.get(key, frozenset())
        for uid in before - uids:
            known = self._dependents[uid]
            known.discard(key)
            if not known:
                del self._dependents[uid]
        for uid in uids - before:
            self._dependents.setdefault(uid, set()).add(key)
        if uids:
            self._owners[key] = uids
        else:
            self._owners.pop(key, None)

    def _wake_owners(self, references: Iterable[Document], key: Key) -> None:
        for reference in references:
            owner = self._owner_key(reference, key)
            if owner is not None:
                self.add(owner)

    def _owner_key(self, reference: Document, dependent: Key) -> Key | None:
        """None when the hub doesn't serve such a kind: nothing is known of that owner then."""
        group, _, version = str(reference.get("apiVersion", "")).rpartition("/")
        resource = self.registry.of_kind(group, version, str(reference.get("kind", "")))
        if resource is None:
            return None
        return (resource.key, dependent[1] if resource.namespaced else "", str(reference.get("name", "")))

    async def work(self, item: Key) -> None:
        stored = self.store.get(item)
        if stored is None:
            return
        metadata = _head(stored.raw).metadata
        if metadata.deletion_timestamp is not None:
            if ORPHAN_FINALIZER in metadata.finalizers:
                await self._orphan(item, metadata)
                return
            if FOREGROUND_FINALIZER in metadata.finalizers:
                await self._await_dependents(item, metadata)
                return
        if metadata.owner_references and metadata.deletion_timestamp is None:
            await self._judge(item, metadata)

    async def _judge(self, key: Key, metadata: _Metadata) -> None:
        """Delete what has no owner left; forget owners that are gone where another remains."""
        solid, lost, waiting = [], [], []
        for reference in metadata.owner_references:
            owner_key = self._owner_key(reference, key)
            if owner_key is None:
                solid.append(reference)
                continue
            owner = self.store.get(owner_key)
            head = _head(owner.raw).metadata if owner is not None else None
            if head is None or head.uid != reference.get("uid"):
                lost.append(reference)
            elif (
                head.deletion_timestamp is not None
                and FOREGROUND_FINALIZER in head.finalizers
                and reference.get("blockOwnerDeletion")
            ):
                waiting.append(reference)
            else:
                solid.append(reference)
        if not lost and not waiting:
            return
        if solid:
            await self._rewrite(key, metadata.uid, owners=solid)
        elif waiting and self._dependents.get(metadata.uid):
            await self.remove(key, uid=metadata.uid, propagation=FOREGROUND)
        else:
            policy = BACKGROUND
            if ORPHAN_FINALIZER in metadata.finalizers:
                policy = ORPHAN
            elif FOREGROUND_FINALIZER in metadata.finalizers:
                policy = FOREGROUND
            await self.remove(key, uid=metadata.uid, propagation=policy)

    async def _rewrite(
        self, key: Key, uid: str, *, owners: list[Document] | None = None, finalizers: list[str] | None = None
    ) -> None:
        patch: Document = {"uid": uid}
        if owners is not None:
            patch["ownerReferences"] = owners or None
        if finalizers is not None:
            patch["finalizers"] = finalizers or None
        await self.merge(key, {"metadata": patch})

    async def _orphan(self, key: Key, metadata: _Metadata) -> None:
        for dependent in list(self._dependents.get(metadata.uid, ())):
            stored = self.store.get(dependent)
            if stored is None:
                continue
            head = _head(stored.raw).metadata
            kept = [r for r in head.owner_references if r.get("uid") != metadata.uid]
            await self._rewrite(dependent, head.uid, owners=kept)
        kept_finalizers = [f for f in metadata.finalizers if f != ORPHAN_FINALIZER]
        await self._rewrite(key, metadata.uid, finalizers=kept_finalizers)

    async def _await_dependents(self, key: Key, metadata: _Metadata) -> None:
        blocking = 0
        for dependent in list(self._dependents.get(metadata.uid, ())):
            stored = self.store.get(dependent)
            if stored is None:
                continue
            head = _head(stored.raw).metadata
            blocking += any(
                r.get("uid") == metadata.uid and r.get("blockOwnerDeletion") for r in head.owner_references
            )
            if head.deletion_timestamp is None:
                self.add(dependent)
        if not blocking:
            kept = [f for f in metadata.finalizers if f != FOREGROUND_FINALIZER]
            await self._rewrite(key, metadata.uid, finalizers=kept)


def _owner_uids(raw: bytes) -> frozenset[str]:
    return frozenset(str(r.get("uid")) for r in _head(raw).metadata.owner_references)
