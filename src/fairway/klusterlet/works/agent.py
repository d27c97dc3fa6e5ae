"""The work agent: watches the ManifestWorks of a cluster, and reconciles a work when it or one of its objects changes.

All state is on the hub and in the AppliedManifestWorks of the managed cluster, so another agent can continue after a
crash at any moment.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Final

from fairway.api.resources import APPLIED_MANIFEST_WORKS, MANIFEST_WORKS
from fairway.api.work import AppliedManifestWork, ManifestWork
from fairway.klusterlet.works.applied_works import AppliedWorks, hub_hash
from fairway.klusterlet.works.applier import WorkState
from fairway.klusterlet.works.conflicts import ConflictIndex
from fairway.klusterlet.works.discovery import Discovery
from fairway.klusterlet.works.reconcile import ReconcileResult, WorkReconciler
from fairway.klusterlet.works.watches import Watches
from fairway.observe.meters import Meters
from kubewire.client import (
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
from kubewire.client.log_throttle import retry_level
from kubewire.client.workqueue import UNOBSERVED

log: Final = logging.getLogger(__name__)

NAME: Final = "works"
RESYNC_SECONDS: Final = 300.0
EVICTION_SECONDS: Final = 3600.0
RELIST_SECONDS: Final = 3600.0
WORKERS: Final = 4
MOST_WATCHES: Final = 64
BACKOFF: Final = Backoff(base=0.1, cap=60.0)

FAILED: Final = "reconcile failed, retrying  manifestwork=%s error=%s"
UNEXPECTED_ERROR: Final = "unexpected error, retrying  manifestwork=%s"


class WorkAgent:
    """``hub`` needs RULES_HUB in the namespace ``cluster_name``, ``cluster`` RULES_CLUSTER.

    The managed cluster must serve AppliedManifestWorks. ``agent_id`` distinguishes the agents of one cluster that serve
    several hubs, and must not change with the hub's address; the default is the hash of that address. ``resync`` and
    ``eviction`` are in seconds.
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
        backoff: Backoff = BACKOFF,
    ) -> None:
        self.cluster_name = cluster_name
        self.hub_hash = hub_hash(hub.connection)
        self._resync, self._eviction, self._workers = resync, eviction, workers
        self._works: Informer[ManifestWork] = Informer(
            hub, MANIFEST_WORKS, namespace=cluster_name, relist_after=RELIST_SECONDS
        )
        self._applied: Informer[AppliedManifestWork] = Informer(
            cluster, APPLIED_MANIFEST_WORKS, relist_after=RELIST_SECONDS
        )
        observer = UNOBSERVED if meters is None else meters.queue(NAME)
        self._queue: WorkQueue[str] = WorkQueue(backoff=backoff, observer=observer)
        discovery = Discovery(cluster)
        self._records = AppliedWorks(cluster, hub=self.hub_hash, agent=agent_id or self.hub_hash)
        self._conflicts = ConflictIndex(self._works.store, discovery, self._records)
        self._watches = Watches(cluster, changed=self._on_object, most=MOST_WATCHES)
        self._reconciler = WorkReconciler(
            hub=hub,
            cluster=cluster,
            applied=self._records,
            conflicts=self._conflicts,
            discovery=discovery,
            clock=clock,
        )
        self._clock = clock
        self._states: dict[str, WorkState] = {}
        self._elsewhere: dict[str, set[str]] = {}
        """Records with the hash of another address, by work: of a former address of the hub, or of another hub."""

    async def run(self) -> None:
        """Run until cancelled, whatever the hub and the cluster do."""
        self._works.subscribe(self._on_works)
        self._applied.subscribe(self._on_records)
        try:
            async with self._works, self._applied:
                # Before the first list, every AppliedManifestWork would look like one whose work was deleted.
                await self.wait_until_synced()
                async with asyncio.TaskGroup() as group:
                    for _ in range(self._workers):
                        group.create_task(self._run_worker())
        finally:
            await self._watches.stop()

    async def wait_until_synced(self) -> None:
        """Wait for the first lists."""
        await self._works.synced.wait()
        await self._applied.synced.wait()

    async def wait_until_idle(self) -> None:
        """Wait until the queue is empty, except for delayed retries."""
        await self._queue.join()

    def _on_works(self, batch: Batch[ManifestWork]) -> None:
        related = self._conflicts.update(batch)
        names: set[str] = set()
        for change in batch.changes:
            match change:
                case Updated(old, new):
                    name = new.metadata.name
                    # Otherwise every status write would cause another reconcile. Only exactly this version is skipped:
                    # a foreign write that came just after has another one.
                    if self._state(name).written == new.metadata.resourceVersion:
                        # The status changed, not the manifests, so other works are not affected by this one either.
                        related.discard(name)
                        continue  # the status that this agent wrote
                    # A corrected manifest must not wait for the delay of its failures, which may be a minute.
                    if old.metadata.generation != new.metadata.generation:
                        self._queue.forget(name)
                    names.add(name)
                case Added(changed) | Deleted(changed):
                    names.add(changed.metadata.name)
        for name in sorted(names | related):
            self._queue.add(name)

    def _on_records(self, batch: Batch[AppliedManifestWork]) -> None:
        for change in batch.changes:
            record = change.object
            work = record.spec.manifestWorkName
            if record.spec.hubHash != self.hub_hash:
                records = self._elsewhere.setdefault(work, set())
                if isinstance(change, Deleted):
                    records.discard(record.metadata.name)
                else:
                    records.add(record.metadata.name)
                if not records:
                    del self._elsewhere[work]
                if self._records.is_former(record, self._works.get(work, namespace=self.cluster_name)):
                    self._queue.add(work)
            if not self._records.is_ours(record):
                continue
            # Only this agent updates its records, but other clients may delete them.
            if record.metadata.deletionTimestamp is not None or not isinstance(change, Updated):
                self._queue.add(work)

    def _on_object(self, work: str) -> None:
        # A burst of changes is one entry of the queue; only the repairs that follow count for the delay.
        self._queue.add_after(work, delay=self._state(work).repairs.delay(now=self._clock.monotonic()))

    def _state(self, work: str) -> WorkState:
        return self._states.setdefault(work, WorkState())

    async def _run_worker(self) -> None:
        while True:
            async with self._queue.take() as name:
                try:
                    result = await self._reconcile(name)
                except KubeError as error:
                    level = retry_level(error, retries=self._queue.retries(name))
                    log.log(level, FAILED, name, error)
                    self._queue.add_rate_limited(name)
                except Exception:
                    log.exception(UNEXPECTED_ERROR, name)
                    self._queue.add_rate_limited(name)
                else:
                    self._schedule(name, result)

    async def _reconcile(self, name: str) -> ReconcileResult:
        work = self._works.get(name, namespace=self.cluster_name)
        former = self._former_records(name, work)
        if work is None:
            return await self._evict(name, former)
        state = self._state(name)
        if work.metadata.deletionTimestamp is not None:
            return await self._reconciler.remove(work, state, former=former)
        result = await self._reconciler.apply(work, state, attempt=self._queue.retries(name))
        for record in former:
            result.add(await self._reconciler.evict(record, grace=self._eviction, successor=work))
        return result

    def _former_records(self, name: str, work: ManifestWork | None) -> list[AppliedManifestWork]:
        records = (self._applied.get(owner) for owner in sorted(self._elsewhere.get(name, ())))
        return [record for record in records if record is not None and self._records.is_former(record, work)]

    async def _evict(self, name: str, former: Sequence[AppliedManifestWork]) -> ReconcileResult:
        # A work of this name that is created later starts with an empty cache, as its objects are new ones.
        self._states.pop(name, None)
        result = ReconcileResult()
        record = self._applied.get(self._records.name_of(name))
        ours = [] if record is None or not self._records.is_ours(record) else [record]
        for evicted in (*ours, *former):
            result.add(await self._reconciler.evict(evicted, grace=self._eviction))
        return result

    def _schedule(self, name: str, result: ReconcileResult) -> None:
        if result.repaired:
            self._state(name).repairs.record_repair(now=self._clock.monotonic())
        # Versions before targets: a watch that starts now delivers the object that was just read, which is no change.
        self._watches.set_versions(name, result.versions)
        self._watches.set_targets(name, result.targets)
        if result.failed:
            self._queue.add_rate_limited(name)
        else:
            self._queue.forget(name)
        if self._works.get(name, namespace=self.cluster_name) is not None:
            # Resync finds changes of objects beyond the limit of watches. The spread keeps 1,000 works that were
            # applied together from being checked together forever.
            self._queue.add_after(name, delay=self._resync * random.uniform(0.8, 1.2))
        if result.again is not None:
            self._queue.add_after(name, delay=result.again)
