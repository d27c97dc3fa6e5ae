"""The AppliedManifestWork of a work: records which objects exist on the managed cluster for it.

An object is recorded before it is created. So an agent that dies in between leaves no unknown object, and the next
agent can continue or remove what was applied.

A record's name has the hash of the hub's address, as OCM's. When the address changes, each work gets another record,
and the *former* one is known by the agent's ID or by the work's UID, which no other hub has.
"""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Final

from fairway.api.resources import APPLIED_MANIFEST_WORKS
from fairway.api.work import (
    APPLIED_MANIFEST_WORK_FINALIZER,
    AppliedManifestWork,
    AppliedResource,
    ManifestWork,
)
from fairway.klusterlet.works.ownership import sorted_entries
from kubewire.api.encoding import encode
from kubewire.api.meta import format_time
from kubewire.client import AlreadyExists, Client, Conflict, Connection, NotFound, Patch

MANAGER: Final = "fairway-works"


WORK_UID: Final = "fairway.dev/manifestwork-uid"
"""Annotation: UID of the ManifestWork on its hub."""


def hub_hash(hub: Connection) -> str:
    """Hash of a hub's address as the kubeconfig has it, which identifies the hub on managed clusters."""
    return hashlib.sha256((hub.host or hub.server).encode()).hexdigest()


class AppliedWorks:
    """AppliedManifestWorks of one hub. ``agent`` is the ID of the agent that manages them."""

    def __init__(self, client: Client, *, hub: str, agent: str) -> None:
        self._client = client
        self.hub, self.agent = hub, agent

    def name_of(self, work: str) -> str:
        return f"{self.hub}-{work}"

    def is_ours(self, record: AppliedManifestWork) -> bool:
        # The hash was the agent's ID in records of agents that had no ID of their own.
        return record.spec.hubHash == self.hub and record.spec.agentID in ("", self.agent, self.hub)

    def is_former(self, record: AppliedManifestWork, work: ManifestWork | None) -> bool:
        """Whether this agent created the record for another address of the hub. ``work`` is the one of its name."""
        if record.spec.hubHash == self.hub:
            return False
        uid = record.metadata.annotations.get(WORK_UID)
        return record.spec.agentID == self.agent or (work is not None and uid == work.metadata.uid)

    async def get(self, work: str) -> AppliedManifestWork | None:
        return await self.read(self.name_of(work))

    async def read(self, name: str) -> AppliedManifestWork | None:
        try:
            return await self._client.get(APPLIED_MANIFEST_WORKS, name)
        except NotFound:
            return None

    async def ensure(self, work: ManifestWork) -> AppliedManifestWork:
        """Return the work's record, creating it if it is missing. It may be terminating."""
        name = work.metadata.name
        record = await self.get(name)
        if record is None:
            metadata = {
                "name": self.name_of(name),
                "labels": dict(work.metadata.labels),
                "annotations": {WORK_UID: work.metadata.uid},
                "finalizers": [APPLIED_MANIFEST_WORK_FINALIZER],
            }
            spec = {"hubHash": self.hub, "agentID": self.agent, "manifestWorkName": name}
            try:
                return await self._client.create(
                    APPLIED_MANIFEST_WORKS, {"metadata": metadata, "spec": spec}, field_manager=MANAGER
                )
            # Another agent of this cluster created it since the read, or our own create succeeded and its response was
            # lost.
            except AlreadyExists:
                record = await self._client.get(APPLIED_MANIFEST_WORKS, self.name_of(name))
        # The API server rejects new finalizers on a terminating record: the caller finishes the deletion first.
        if record.metadata.deletionTimestamp is not None:
            return record
        if APPLIED_MANIFEST_WORK_FINALIZER not in record.metadata.finalizers:
            finalizers = [*record.metadata.finalizers, APPLIED_MANIFEST_WORK_FINALIZER]
            record = await self._set_finalizers(record, finalizers)
        uid = work.metadata.uid
        # The uid identifies the work when the address of the hub changes, and with it the hash in the names of its
        # records.
        if (record.spec.agentID, record.metadata.annotations.get(WORK_UID)) != (self.agent, uid):
            record = await self._patch(
                record, {"spec": {"agentID": self.agent}, "metadata": {"annotations": {WORK_UID: uid}}}
            )
        # The work is there again within the grace period.
        if record.status.evictionStartTime is not None:
            record = await self.set_eviction_start(record, None)
        return record

    async def claim(self, record: AppliedManifestWork) -> AppliedManifestWork:
        """Record this agent as the one that manages the work."""
        return await self._patch(record, {"spec": {"agentID": self.agent}})

    async def write_entries(
        self, record: AppliedManifestWork, entries: Iterable[AppliedResource]
    ) -> AppliedManifestWork:
        """Replace the recorded objects."""
        wanted = sorted_entries(entries)
        if wanted == record.status.appliedResources:
            return record
        return await self._patch(
            record, {"status": {"appliedResources": [encode(entry) for entry in wanted]}}, status=True
        )

    async def set_eviction_start(
        self, record: AppliedManifestWork, since: datetime | None
    ) -> AppliedManifestWork:
        moment = None if since is None else format_time(since)
        return await self._patch(record, {"status": {"evictionStartTime": moment}}, status=True)

    async def delete(self, record: AppliedManifestWork) -> AppliedManifestWork | None:
        """Start the deletion: the record remains until its finalizer is removed."""
        meta = record.metadata
        if meta.deletionTimestamp is None:
            with suppress(NotFound, Conflict):
                await self._client.delete(APPLIED_MANIFEST_WORKS, meta.name, uid=meta.uid)
        return await self.read(meta.name)

    async def finish(self, record: AppliedManifestWork) -> None:
        rest = [
            finalizer
            for finalizer in record.metadata.finalizers
            if finalizer != APPLIED_MANIFEST_WORK_FINALIZER
        ]
        with suppress(NotFound):
            await self._set_finalizers(record, rest)

    async def _set_finalizers(
        self, record: AppliedManifestWork, finalizers: list[str]
    ) -> AppliedManifestWork:
        return await self._patch(record, {"metadata": {"finalizers": finalizers}})

    async def _patch(
        self, record: AppliedManifestWork, body: dict[str, dict[str, object]], *, status: bool = False
    ) -> AppliedManifestWork:
        meta = {"uid": record.metadata.uid, "resourceVersion": record.metadata.resourceVersion}
        return await self._client.patch(
            APPLIED_MANIFEST_WORKS,
            record.metadata.name,
            {**body, "metadata": {**body.get("metadata", {}), **meta}},
            kind=Patch.MERGE,
            subresource="status" if status else None,
            field_manager=MANAGER,
        )
