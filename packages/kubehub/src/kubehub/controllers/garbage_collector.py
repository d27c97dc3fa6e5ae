"""Garbage collection: deletes dependents by the propagation policy of their owner's deletion."""

import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kubehub.controllers.controller import Controller, ObjectMetadata, metadata_of
from kubehub.controllers.event_expiry import EVENTS
from kubehub.options import BACKGROUND, FOREGROUND, ORPHAN
from kubehub.resource import Document
from kubehub.status import Refusal
from kubehub.storage.store import Change, Key
from kubehub.writing.deletion import FOREGROUND_FINALIZER, ORPHAN_FINALIZER

INVALID_OWNER: Final = "OwnerRefInvalidNamespace"
INVALID_OWNER_MESSAGE: Final = (
    'ownerRef [{apiVersion}/{kind}, namespace: , name: {name}, uid: {uid}] does not exist in namespace ""'
)
REPORTER: Final = "garbage-collector-controller"

_OWNED: Final = b'"ownerReferences"'
_ENDING: Final = b'"deletionTimestamp"'


class GarbageCollector(Controller[Key]):
    """Indexes only objects with owners; for others it searches the encoded object for ``ownerReferences``."""

    manager = "generic-garbage-collector"

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._dependents: dict[str, set[Key]] = {}
        self._blocking: dict[str, set[Key]] = {}
        """The dependents by owner that a foreground deletion waits for."""
        self._owners: dict[Key, frozenset[str]] = {}
        self._waiting: set[str] = set()
        """Owners that wait for dependents, all of which were queued."""
        self._reported: set[tuple[Key, str]] = set()
        """Invalid owner references for which an event was written."""

    def resync(self) -> None:
        for resource in self.store.resources():
            if resource == EVENTS:
                continue
            for item in self.items(resource):
                # A search in the bytes: most objects have no owner, and decoding the metadata of all of them would take
                # seconds.
                if _OWNED in item.raw:
                    self._index(item.key, metadata_of(item.raw).owner_references)
                    self.enqueue(item.key)
                if _ENDING in item.raw:
                    self.enqueue(item.key)

    def on_change(self, change: Change) -> None:
        if change.key[0] == EVENTS:  # they expire, and kube-controller-manager doesn't collect them either
            return
        owned = _OWNED in change.raw
        if change.type == "DELETED":
            if self._dependents or self._waiting:
                uid = metadata_of(change.raw).uid
                self._waiting.discard(uid)
                for dependent in self._dependents.get(uid, ()):
                    self.enqueue(dependent)
            if owned:
                self._index(change.key, ())
                # An owner in foreground deletion may be waiting for this dependent.
                self._wake_owners(metadata_of(change.raw).owner_references, change.key)
            return
        if owned or change.key in self._owners:
            self._index(change.key, metadata_of(change.raw).owner_references if owned else ())
            self.enqueue(change.key)
            if change.previous is not None and _OWNED in change.previous:
                self._wake_owners(metadata_of(change.previous).owner_references, change.key)
        if _ENDING in change.raw:
            self.enqueue(change.key)

    def _index(self, key: Key, references: Sequence[Document]) -> None:
        blocked = {str(reference.get("uid")): False for reference in references}
        for reference in references:
            blocked[str(reference.get("uid"))] |= bool(reference.get("blockOwnerDeletion"))
        before = self._owners.get(key, frozenset())
        for uid in before - blocked.keys():
            _discard(self._dependents, uid, key)
            _discard(self._blocking, uid, key)
            self._reported.discard((key, uid))
        for uid, blocks in blocked.items():
            self._dependents.setdefault(uid, set()).add(key)
            if blocks:
                self._blocking.setdefault(uid, set()).add(key)
            else:
                _discard(self._blocking, uid, key)
        if blocked:
            self._owners[key] = frozenset(blocked)
        else:
            self._owners.pop(key, None)

    def _wake_owners(self, references: Iterable[Document], key: Key) -> None:
        for reference in references:
            owner = self._owner_key(reference, key)
            if owner is not None:
                self.enqueue(owner)

    def _owner_key(self, reference: Document, dependent: Key) -> Key | None:
        """Return the resource of an owner; None if the hub doesn't serve its kind, so nothing is known about the
        owner."""
        group, _, version = str(reference.get("apiVersion", "")).rpartition("/")
        resource = self.registry.of_kind(group, version, str(reference.get("kind", "")))
        if resource is None:
            return None
        return (resource.key, dependent[1] if resource.namespaced else "", str(reference.get("name", "")))

    async def reconcile(self, item: Key) -> None:
        stored = self.store.get(item)
        if stored is None:
            return
        metadata = metadata_of(stored.raw)
        if metadata.deletion_timestamp is not None:
            if ORPHAN_FINALIZER in metadata.finalizers:
                await self._orphan(item, metadata)
                return
            if FOREGROUND_FINALIZER in metadata.finalizers:
                await self._await_dependents(item, metadata)
                return
        if metadata.owner_references and metadata.deletion_timestamp is None:
            await self._attempt_to_delete(item, metadata)

    async def _attempt_to_delete(self, key: Key, metadata: ObjectMetadata) -> None:
        """Delete an object without owners; remove references to missing owners where another exists.

        An owner of an unknown kind may exist, and a cluster-scoped object can't have a namespaced owner: either
        reference protects the object, because the hub can't show that its owner is missing.
        """
        if not await self._has_resolvable_owners(key, metadata):
            return
        solid, lost, waiting = [], [], []
        for reference in metadata.owner_references:
            owner_key = self._owner_key(reference, key)
            # From the store, not from a cache of absent owners: kube-controller-manager's may be stale, so it asks the
            # API server once more before it deletes.
            owner = self.store.get(owner_key) if owner_key is not None else None
            head = metadata_of(owner.raw) if owner is not None else None
            if head is None or head.uid != reference.get("uid"):
                lost.append(reference)
            elif head.deletion_timestamp is not None and FOREGROUND_FINALIZER in head.finalizers:
                waiting.append(reference)
            else:
                solid.append(reference)
        if not lost and not waiting:
            return
        # Another owner exists, so only the references go, as one of them may wait for this object in its foreground
        # deletion.
        if solid:
            await self._patch_metadata(key, metadata, owners=solid)
        elif waiting and self._dependents.get(metadata.uid):
            if self._may_be_cyclic(metadata):
                # As in Kubernetes: two objects that own each other would wait for each other forever.
                unblocked = [{**owner, "blockOwnerDeletion": False} for owner in metadata.owner_references]
                await self._patch_metadata(key, metadata, owners=unblocked)
                return  # the resulting change queues the object again
            await self._collect(key, metadata, FOREGROUND)
        else:
            policy = BACKGROUND
            if ORPHAN_FINALIZER in metadata.finalizers:
                policy = ORPHAN
            elif FOREGROUND_FINALIZER in metadata.finalizers:
                policy = FOREGROUND
            await self._collect(key, metadata, policy)

    async def _has_resolvable_owners(self, key: Key, metadata: ObjectMetadata) -> bool:
        """Return whether the hub can look up every owner that the references name."""
        resolvable = True
        for reference in metadata.owner_references:
            owner_key = self._owner_key(reference, key)
            if owner_key is None:
                resolvable = False
                continue
            dependent, owner = self.resource(key[0]), self.resource(owner_key[0])
            if dependent is not None and owner is not None and owner.namespaced and not dependent.namespaced:
                resolvable = False
                await self._report_invalid_owner(key, metadata, reference)
        return resolvable

    async def _report_invalid_owner(self, key: Key, metadata: ObjectMetadata, reference: Document) -> None:
        about, events = self.resource(key[0]), self.resource(EVENTS)
        seen = (key, str(reference.get("uid")))
        if about is None or events is None or seen in self._reported:
            return
        self._reported.add(seen)
        now = self.writer.now()
        owner = {part: reference.get(part, "") for part in ("apiVersion", "kind", "name", "uid")}
        event: Document = {
            "metadata": {"name": f"{key[2]}.{time.time_ns():x}"},
            "involvedObject": {
                "kind": about.kind,
                "name": key[2],
                "uid": metadata.uid,
                "apiVersion": about.api_version,
            },
            "reason": INVALID_OWNER,
            "message": INVALID_OWNER_MESSAGE.format(**owner),
            "source": {"component": REPORTER},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": "Warning",
            "reportingComponent": REPORTER,
        }
        with contextlib.suppress(Refusal):
            await self.writer.create(events, "default", event, self.request())

    def _may_be_cyclic(self, metadata: ObjectMetadata) -> bool:
        """Return whether an owner and this object may wait for each other.

        It also matches some without a cycle; not blocking those does no harm.
        """
        if not any(reference.get("blockOwnerDeletion") for reference in metadata.owner_references):
            return False
        for dependent in self._dependents.get(metadata.uid, ()):
            stored = self.store.get(dependent)
            if stored is not None and _ENDING in stored.raw:
                head = metadata_of(stored.raw)
                if head.deletion_timestamp is not None and FOREGROUND_FINALIZER in head.finalizers:
                    return True
        return False

    async def _collect(self, key: Key, metadata: ObjectMetadata, propagation: str) -> None:
        """Delete the version that was examined: a concurrent write may add an owner, and queues the object again."""
        await self.delete(key, uid=metadata.uid, revision=metadata.resource_version, propagation=propagation)

    async def _patch_metadata(
        self,
        key: Key,
        metadata: ObjectMetadata,
        *,
        owners: list[Document] | None = None,
        finalizers: list[str] | None = None,
    ) -> None:
        patch: Document = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        if owners is not None:
            patch["ownerReferences"] = owners or None
        if finalizers is not None:
            patch["finalizers"] = finalizers or None
        await self.merge_patch(key, {"metadata": patch})

    async def _orphan(self, key: Key, metadata: ObjectMetadata) -> None:
        for dependent in list(self._dependents.get(metadata.uid, ())):
            stored = self.store.get(dependent)
            if stored is None:
                continue
            head = metadata_of(stored.raw)
            kept = [r for r in head.owner_references if r.get("uid") != metadata.uid]
            await self._patch_metadata(dependent, head, owners=kept)
        # Last: an owner that is deleted before all references to it are removed would take the remaining dependents
        # with it.
        kept_finalizers = [f for f in metadata.finalizers if f != ORPHAN_FINALIZER]
        await self._patch_metadata(key, metadata, finalizers=kept_finalizers)

    async def _await_dependents(self, key: Key, metadata: ObjectMetadata) -> None:
        """Queue all dependents once; later ones queue themselves. Checking a waiting owner costs the same for any
        number of dependents, because each changed dependent causes one check."""
        if metadata.uid not in self._waiting:
            self._waiting.add(metadata.uid)
            for dependent in self._dependents.get(metadata.uid, ()):
                self.enqueue(dependent)
        if not self._blocking.get(metadata.uid):
            kept = [f for f in metadata.finalizers if f != FOREGROUND_FINALIZER]
            await self._patch_metadata(key, metadata, finalizers=kept)


def _discard(index: dict[str, set[Key]], uid: str, key: Key) -> None:
    known = index.get(uid)
    if known is not None:
        known.discard(key)
        if not known:
            del index[uid]
