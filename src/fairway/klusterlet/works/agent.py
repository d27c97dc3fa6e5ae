"""The work agent: what the hub's ManifestWorks say of this cluster becomes true, and stays true.

It keeps nothing of its own. All it needs to know is on the hub and in the AppliedManifestWorks of the cluster, so an
agent that dies at any moment is continued by the next one.
"""

import asyncio
import logging
import random
from typing import Final

from fairway.api.work import AppliedManifestWork, ManifestWork
from fairway.klusterlet.works.applied_works import AppliedWorks, hub_hash
from fairway.klusterlet.works.conflicts import ConflictIndex
from fairway.klusterlet.works.discovery import Discovery
from fairway.klusterlet.works.reconcile import ReconcileResult, WorkReconciler
from fairway.klusterlet.works.repair_backoff import RepairBackoff
from fairway.klusterlet.works.watches import Watches
from fairway.kube import (
    APPLIED_MANIFEST_WORKS,
    MANIFEST_WORKS,
    SYSTEM_CLOCK,
    Added,
    Backoff,
    Batch,
    Client,
    Clock,
    Deleted,
    Informer,
    KubeError,
    Updated,
    WorkQueue,
)
from fairway.kube.log_throttle import retry_level
from fairway.kube.queue_metrics import QueueMetrics
from fairway.kube.workqueue import Observer
from fairway.observe.meters import Meters

log: Final = logging.getLogger(__name__)

NAME: Final = "works"
RESYNC_SECONDS: Final = 300.0
EVICTION_SECONDS: Final = 3600.0
RELIST_SECONDS: Final = 3600.0
WORKERS: Final = 4
MOST_WATCHES: Final = 64
BACKOFF: Final = Backoff(base=0.1, cap=60.0)

FAILED: Final = "ManifestWork %s could not be dealt with: %s; it is tried again"
BROKE: Final = "ManifestWork %s could not be dealt with in a way that was not foreseen; it is tried again"


class WorkAgent:
    """``hub`` needs RULES_HUB in the namespace ``cluster_name``, ``cluster`` RULES_CLUSTER.

    The managed cluster must serve AppliedManifestWorks. ``agent_id`` tells agents of one cluster apart that serve
    several hubs; by default it is the hash of the hub's address. ``resync`` and ``eviction`` are in seconds.
    """

    def __init__(
        self,
        hub: Client,
        cluster: Client,
        cluster_name: str,
        *,
        clock: Clock = SYSTEM_CLOCK,
        meters: Meters | None = None,
        agent_id: str = "",
        resync: float = RESYNC_SECONDS,
        eviction: float = EVICTION_SECONDS,
        workers: int = WORKERS,
        most_watches: int = MOST_WATCHES,
        backoff: Backoff = BACKOFF,
    ) -> None:
        self.cluster_name = cluster_name
        self.hub_hash = hub_hash(hub.connection.server)
        self._resync, self._eviction, self._workers = resync, eviction, workers
        self._works: Informer[ManifestWork] = Informer(
            hub, MANIFEST_WORKS, namespace=cluster_name, relist_after=RELIST_SECONDS
        )
        self._applied: Informer[AppliedManifestWork] = Informer(
            cluster, APPLIED_MANIFEST_WORKS, relist_after=RELIST_SECONDS
        )
        observer = Observer() if meters is None else QueueMetrics(meters.queue(NAME))
        self._queue: WorkQueue[str] = WorkQueue(backoff=backoff, observer=observer)
        discovery = Discovery(cluster)
        self._records = AppliedWorks(cluster, hub=self.hub_hash, agent=agent_id or self.hub_hash)
        self._conflicts = ConflictIndex(self._works.store, discovery)
        self._watches = Watches(cluster, changed=self._drifted, most=most_watches)
        self._repair_backoff = RepairBackoff(clock)
        self._reconciler = WorkReconciler(
            hub=hub,
            cluster=cluster,
            applied=self._records,
            conflicts=self._conflicts,
            discovery=discovery,
            clock=clock,
        )
        self._written: dict[str, str] = {}

    async def run(self) -> None:
        """Until cancelled. Whatever hub and cluster do, this goes on."""
        self._works.subscribe(self._works_changed)
        self._applied.subscribe(self._records_changed)
        try:
            async with self._works, self._applied:
                # Before everything is known, a record whose work is not there would look like one to be evicted.
                await self.synced()
                async with asyncio.TaskGroup() as group:
                    for _ in range(self._workers):
                        group.create_task(self._work())
        finally:
            await self._watches.stop()

    def unready(self) -> list[str]:
        """Why not everything is known yet; empty once it is."""
        informers = ((self._works, "the hub"), (self._applied, "the cluster"))
        return [
            f"{informer.resource.plural} of {where} were not listed yet"
            for informer, where in informers
            if not informer.synced.is_set()
        ]

    async def synced(self) -> None:
        """Until everything there is has been seen once."""
        await self._works.synced.wait()
        await self._applied.synced.wait()

    async def quiet(self) -> None:
        """Until nothing that is known of is left to do, except what waits for a later attempt."""
        await self._queue.join()

    def _works_changed(self, batch: Batch[ManifestWork]) -> None:
        related = self._conflicts.hear(batch)
        names: set[str] = set()
        for change in batch.changes:
            match change:
                case Updated(old, new):
                    name = new.metadata.name
                    if self._written.get(name) == new.metadata.resourceVersion:
                        related.discard(name)
                        continue  # our own status
                    if old.metadata.generation != new.metadata.generation:
                        self._queue.forget(name)
                    names.add(name)
                case Added(each) | Deleted(each):
                    names.add(each.metadata.name)
        for name in sorted(names | related):
            self._queue.add(name)

    def _records_changed(self, batch: Batch[AppliedManifestWork]) -> None:
        for change in batch.changes:
            record = change.new if isinstance(change, Updated) else change.object
            if not self._records.is_ours(record):
                continue
            # What is on record was written by us; that it is to go, or is gone, may be somebody else's wish.
            going = record.metadata.deletionTimestamp is not None
            if going or not isinstance(change, Updated):
                self._queue.add(record.spec.manifestWorkName)

    def _drifted(self, work: str) -> None:
        self._queue.add_after(work, delay=self._repair_backoff.pause(work))

    async def _work(self) -> None:
        while True:
            async with self._queue.take() as name:
                try:
                    done = await self._look_at(name)
                except KubeError as error:
                    level = retry_level(error, retries=self._queue.retries(name))
                    log.log(level, FAILED, name, error)
                    self._queue.add_rate_limited(name)
                except Exception:
                    log.exception(BROKE, name)
                    self._queue.add_rate_limited(name)
                else:
                    self._settle(name, done)

    async def _look_at(self, name: str) -> ReconcileResult:
        work = self._works.get(name, namespace=self.cluster_name)
        if work is None:
            return await self._without_work(name)
        if work.metadata.deletionTimestamp is not None:
            return await self._reconciler.undo(work)
        return await self._reconciler.apply(work, attempt=self._queue.retries(name))

    async def _without_work(self, name: str) -> ReconcileResult:
        self._written.pop(name, None)
        self._repair_backoff.forget(name)
        record = self._applied.get(self._records.name_of(name))
        if record is None or not self._records.is_ours(record):
            return ReconcileResult()
        return await self._reconciler.evict(record, grace=self._eviction)

    def _settle(self, name: str, done: ReconcileResult) -> None:
        if done.written:
            self._written[name] = done.written
        if done.repaired:
            self._repair_backoff.note(name)
        self._watches.knows(name, done.versions)
        self._watches.follow(name, done.targets)
        if done.failed:
            self._queue.add_rate_limited(name)
        else:
            self._queue.forget(name)
        if self._works.get(name, namespace=self.cluster_name) is not None:
            self._queue.add_after(name, delay=self._resync * random.uniform(0.8, 1.2))
        if done.again is not None:
            self._queue.add_after(name, delay=done.again)
