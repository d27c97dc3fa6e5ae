"""The AppliedManifestWork of a work: records which objects exist on the managed cluster for it.

An object is recorded before it is created. So an agent that dies in between leaves no unknown object, and the next
agent can continue or remove what was applied.
"""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Final

from fairway.api.kinds import encode
from fairway.api.meta import format_time
from fairway.api.work import (
    APPLIED_MANIFEST_WORK_FINALIZER,
    AppliedManifestWork,
    AppliedResource,
    ManifestWork,
)
from fairway.klusterlet.works.ownership import sorted_entries
from fairway.kube import APPLIED_MANIFEST_WORKS, AlreadyExists, Client, Conflict, NotFound, Patch

MANAGER: Final = "fairway-works"


def hub_hash(server: str) -> str:
    """Hash of a hub's address, which identifies the hub on managed clusters."""
    return hashlib.sha256(server.encode()).hexdigest()


class AppliedWorks:
    """AppliedManifestWorks of one hub. ``agent`` is the ID of the agent that manages them."""

    def __init__(self, client: Client, *, hub: str, agent: str) -> None:
        self._client = client
        self.hub, self.agent = hub, agent

    def name_of(self, work: str) -> str:
        return f"{self.hub}-{work}"

    def is_ours(self, record: AppliedManifestWork) -> bool:
        return record.spec.hubHash == self.hub and record.spec.agentID in ("", self.agent)

    async def get(self, work: str) -> AppliedManifestWork | None:
        try:
            return await self._client.get(APPLIED_MANIFEST_WORKS, self.name_of(work))
        except NotFound:
            return None

    async def ensure(self, work: ManifestWork) -> AppliedManifestWork:
        """Return the work's record, creating it if it is missing. It may be terminating."""
        name = work.metadata.name
        found = await self.get(name)
        if found is None:
            metadata = {
                "name": self.name_of(name),
                "labels": dict(work.metadata.labels),
                "finalizers": [APPLIED_MANIFEST_WORK_FINALIZER],
            }
            spec = {"hubHash": self.hub, "agentID": self.agent, "manifestWorkName": name}
            try:
                return await self._client.create(
                    APPLIED_MANIFEST_WORKS, {"metadata": metadata, "spec": spec}, field_manager=MANAGER
                )
            except AlreadyExists:
                found = await self._client.get(APPLIED_MANIFEST_WORKS, self.name_of(name))
        if found.metadata.deletionTimestamp is not None:
            return found
        if APPLIED_MANIFEST_WORK_FINALIZER not in found.metadata.finalizers:
            finalizers = [*found.metadata.finalizers, APPLIED_MANIFEST_WORK_FINALIZER]
            found = await self._set_finalizers(found, finalizers)
        if found.spec.agentID != self.agent:
            found = await self._patch(found, {"spec": {"agentID": self.agent}})
        if found.status.evictionStartTime is not None:
            found = await self.set_eviction_start(found, None)
        return found

    async def write_entries(
        self, record: AppliedManifestWork, entries: Iterable[AppliedResource]
    ) -> AppliedManifestWork:
        """Replace the recorded objects."""
        wanted = sorted_entries(entries)
        if wanted == record.status.appliedResources:
            return record
        return await self._patch(
            record, {"status": {"appliedResources": [encode(each) for each in wanted]}}, status=True
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
        return await self.get(record.spec.manifestWorkName)

    async def finish(self, record: AppliedManifestWork) -> None:
        rest = [each for each in record.metadata.finalizers if each != APPLIED_MANIFEST_WORK_FINALIZER]
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
