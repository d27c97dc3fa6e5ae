"""Remove from a managed cluster what the klusterlet created there."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from fairway.api.resources import APPLIED_MANIFEST_WORKS, MANIFEST_WORKS
from fairway.api.work import MANIFEST_WORK_FINALIZER, AppliedManifestWork
from fairway.klusterlet import names
from fairway.klusterlet.bootstrap import uninstall
from fairway.klusterlet.kinds import SECRETS
from fairway.klusterlet.membership import FIELD_MANAGER
from fairway.klusterlet.works import hub_hash
from fairway.klusterlet.works.applied_works import AppliedWorks
from fairway.klusterlet.works.conflicts import ConflictIndex
from fairway.klusterlet.works.discovery import Discovery
from fairway.klusterlet.works.reconcile import WorkReconciler
from kubewire.client import SYSTEM_CLOCK, Client, Conflict, Connection, NotFound, Patch

log: Final = logging.getLogger(__name__)

EVICT_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.5

REMOVED: Final = "removed {what}"
NOT_REMOVED: Final = (
    "ManifestWork {work} was not fully removed within {seconds:g} s; run the command again to continue"
)


async def leave(
    cluster: Client, *, name: str, hub: Connection | None = None, agent_id: str = ""
) -> AsyncIterator[str]:
    """Yield a line for each removal. ``hub`` is the one whose works are removed; None if unknown.

    Works of former addresses of the hub are known by ``agent_id``. Raises KubeErrors; call it again to continue.
    """
    if hub is not None:
        async for line in _remove_works(cluster, hub, agent_id):
            yield line
    labels = f"{names.JOINED_LABEL}={name}"
    for secret in (await cluster.list(SECRETS, labels=labels)).items:
        meta = secret.metadata
        try:
            await cluster.delete(SECRETS, meta.name, namespace=meta.namespace, uid=meta.uid)
        except NotFound:
            continue
        yield REMOVED.format(what=f"Secret {meta.namespace}/{meta.name}")
    for removed in await uninstall(cluster, name=name):
        yield REMOVED.format(what=removed)


async def _remove_works(cluster: Client, hub: Connection, agent_id: str) -> AsyncIterator[str]:
    mine = hub_hash(hub)
    applied = AppliedWorks(cluster, hub=mine, agent=agent_id or mine)
    discovery = Discovery(cluster)
    reconciler = WorkReconciler(
        hub=cluster,  #  not used by evict
        cluster=cluster,
        applied=applied,
        conflicts=ConflictIndex({}, discovery, applied),
        discovery=discovery,
        clock=SYSTEM_CLOCK,
    )
    try:
        records = (await cluster.list(APPLIED_MANIFEST_WORKS)).items
    except NotFound:
        return  #  the kind is not served any more
    for record in records:
        if record.spec.hubHash == mine or applied.is_former(record, None):
            work = record.spec.manifestWorkName
            if await _evict(reconciler, record):
                yield REMOVED.format(what=f"the objects of ManifestWork {work}")
            else:
                yield NOT_REMOVED.format(work=work, seconds=EVICT_SECONDS)


async def _evict(reconciler: WorkReconciler, record: AppliedManifestWork) -> bool:
    """Return whether all objects were deleted in time; they may have finalizers."""
    with suppress(TimeoutError):
        async with asyncio.timeout(EVICT_SECONDS):
            while True:
                with suppress(Conflict):
                    if not (await reconciler.evict(record, grace=0)).failed:
                        return True
                await asyncio.sleep(POLL_SECONDS)
    return False


async def release(hub: Client, *, name: str) -> None:
    """Remove the agent's finalizer from works on the hub, which would block their deletion."""
    for work in (await hub.list(MANIFEST_WORKS, namespace=name)).items:
        rest = [finalizer for finalizer in work.metadata.finalizers if finalizer != MANIFEST_WORK_FINALIZER]
        if len(rest) == len(work.metadata.finalizers):
            continue
        meta = {
            "uid": work.metadata.uid,
            "resourceVersion": work.metadata.resourceVersion,
            "finalizers": rest,
        }
        with suppress(NotFound):
            await hub.patch(
                MANIFEST_WORKS,
                work.metadata.name,
                {"metadata": meta},
                kind=Patch.MERGE,
                namespace=name,
                field_manager=FIELD_MANAGER,
            )
