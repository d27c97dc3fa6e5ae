"""Set a cluster's availability from its Lease, and the taints that follow from it.

Nothing is scanned. A renewal only records a time; the cluster's timer keeps running, and when it fires it is set again
for the rest of the last renewal. So of thousands of clusters that renew every minute, each is checked once in five
minutes. A silent cluster has no timer: its agent sets the condition when it is available again, which is a change of
the cluster.

A renewal also says by how much the agent's clock differs from the hub's, see ``clock_sync``.

While leases cannot be watched, no cluster is declared silent. After a longer watch gap every grace period starts again:
agents may have been as unable to renew as this process was to watch, and a hub that recovers must not taint its whole
fleet.
"""

import asyncio
import math
from collections.abc import Iterator
from typing import ClassVar, Final

from fairway.api.cluster import (
    CONDITION_ACCEPTED,
    CONDITION_AVAILABLE,
    WEBHOOK_SETS_TIME_ADDED,
    ManagedCluster,
)
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.availability import clock_sync, taints
from fairway.controllers.availability.heartbeats import LEASE, Heartbeats
from fairway.controllers.kinds import CLUSTER_NAME_LABEL
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.reconciler import Key, Reconciler
from fairway.controllers.runtime.writer import Writer, with_condition
from fairway.observe.meters import Meters
from kubewire.api.lease import Lease, format_micro_time, parse_micro_time
from kubewire.api.meta import TRUE, UNKNOWN, Condition, find_condition
from kubewire.client import (
    SYSTEM_CLOCK,
    Added,
    AlreadyExists,
    ApiError,
    Batch,
    Client,
    Clock,
    Deleted,
    Informer,
    Updated,
)
from kubewire.client.lease import LEASES

DURATION: Final = 60
"""Seconds between renewals, if the cluster does not specify them."""
LONGEST_DURATION: Final = 3600
"""Seconds; an agent may have written its duration itself, and must not thereby count as alive forever."""
GRACE: Final = 5.0
"""Durations without a renewal after which a cluster is silent."""
CHECK_SECONDS: Final = 1.0
"""Seconds between checks whether the watch of leases is open."""
WATCH_GAP_SECONDS: Final = 5.0
"""Seconds; a longer gap between two watches may have missed renewals."""

STOPPED: Final = "ManagedClusterLeaseUpdateStopped"

CONDITIONS: Final = {
    ("ManagedCluster", CONDITION_AVAILABLE): {STOPPED: "The agent has stopped renewing its lease."},
    **clock_sync.CONDITIONS,
}
STOPPED_MESSAGE: Final = "Registration agent stopped updating its lease."


class AvailabilityController(Reconciler[Key]):
    """``grace``: how many durations of its lease a cluster may stay silent. ``taints``: whether taints follow."""

    name: ClassVar[str] = "availability"

    _clusters: Informer[ManagedCluster]
    _leases: Informer[Lease]

    def __init__(
        self,
        client: Client,
        *,
        meters: Meters,
        grace: float = GRACE,
        taints: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(client, meters=meters, clock=clock)
        self._grace, self._taints = grace, taints
        self._heartbeats = Heartbeats()
        self._clocks: dict[str, bool] = {}
        """By cluster: whether its clock agreed with ours at its last renewal."""
        self._watch_gap_at = -math.inf
        """When the watch of leases was last interrupted, on the monotonic clock."""
        self._writer = Writer(client, meters=meters, controller=self.name)

    def watch(self, informers: InformerFactory) -> None:
        self._clusters = informers.of(MANAGED_CLUSTERS)
        self._leases = informers.of(LEASES, fields=f"metadata.name={LEASE}")
        self._clusters.subscribe(self._clusters_changed)
        self._leases.subscribe(self._leases_changed)

    def keys(self) -> Iterator[Key]:
        yield from self._clusters.store

    async def work(self) -> None:
        watch_gaps = asyncio.create_task(self._detect_watch_gaps(), name="watch gaps of leases")
        try:
            await super().work()
        finally:
            watch_gaps.cancel()

    async def _detect_watch_gaps(self) -> None:
        while True:
            if self._leases.lag > WATCH_GAP_SECONDS:
                self._watch_gap_at = self.clock.monotonic()
            await asyncio.sleep(CHECK_SECONDS)

    def _clusters_changed(self, batch: Batch[ManagedCluster]) -> None:
        for change in batch.changes:
            match change:
                case Added(new):
                    self.queue.add(("", new.metadata.name))
                case Updated(old, new) if _about(old) != _about(new):
                    self.queue.add(("", new.metadata.name))

    def _leases_changed(self, batch: Batch[Lease]) -> None:
        now = self.clock.monotonic()
        for change in batch.changes:
            match change:
                case Added(new):
                    cluster = new.metadata.namespace
                    self._heartbeats.add(cluster, new, wall=self.clock.wall(), now=now)
                    self.queue.add(("", cluster))
                case Updated(old, new) if old.spec.renewTime != new.spec.renewTime:
                    # Not queued: the timer that runs already finds the renewal when it fires.
                    self._heartbeats.renew(new.metadata.namespace, now=now)
                    self._compare_clocks(new, now=now)
                case Deleted(old):
                    self._heartbeats.remove(old.metadata.namespace)
                    self._clocks.pop(old.metadata.namespace, None)
                    self.queue.add(("", old.metadata.namespace))

    def _compare_clocks(self, lease: Lease, *, now: float) -> None:
        """Queue the cluster only if its condition changes: renewals are frequent."""
        name = lease.metadata.namespace
        cluster, renewed = self._clusters.get(name), parse_micro_time(lease.spec.renewTime)
        if cluster is None or renewed is None:
            return
        synced = clock_sync.is_synced(cluster, renewed, wall=self.clock.wall())
        if not synced and now - self._watch_gap_at < WATCH_GAP_SECONDS:
            return  # the watch may deliver a renewal late, which says nothing about the agent's clock
        self._clocks[name] = synced
        if not clock_sync.is_shown(cluster, synced=synced):
            self.queue.add(("", name))

    async def reconcile(self, key: Key) -> None:
        cluster = self._clusters.get(key[1])
        if cluster is None:
            return
        synced = self._clocks.get(key[1])
        if synced is not None and not clock_sync.is_shown(cluster, synced=synced):
            cluster = await self._write_condition(cluster, clock_sync.condition(synced=synced))
        if self._needs_lease(cluster):
            await self._create_lease(cluster.metadata.name)
        if self._is_silent(cluster):
            cluster = await self._declare_unknown(cluster)
        if self._taints and cluster.metadata.deletionTimestamp is None:
            await self._taint(cluster)

    def _needs_lease(self, cluster: ManagedCluster) -> bool:
        """Only for clusters accepted now: the namespace of any other need not belong to a cluster."""
        accepted = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
        return (
            accepted is not None
            and accepted.status == TRUE
            and cluster.metadata.deletionTimestamp is None
            and self._heartbeats.last_renewal(cluster.metadata.name) is None
        )

    async def _create_lease(self, name: str) -> None:
        """Create the Lease, which the agent only renews. The first renewal has the usual grace period."""
        body = {
            "metadata": {"name": LEASE, "labels": {CLUSTER_NAME_LABEL: name}},
            "spec": {"holderIdentity": LEASE, "renewTime": format_micro_time(self.clock.wall())},
        }
        async with self._writer.batch():
            try:
                await self._writer.create(LEASES, body, namespace=name)
            except AlreadyExists:
                return  # the watch is about to deliver it

    def _is_silent(self, cluster: ManagedCluster) -> bool:
        """Whether the cluster is silent; if not, requeue it for when it could be."""
        name = cluster.metadata.name
        if find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED) is None:
            return False  # never accepted: no renewals are expected
        renewed = self._heartbeats.last_renewal(name)
        if renewed is None:
            # Without a lease there will be no renewal, unless the lease was just created.
            return not self._needs_lease(cluster) and _available(cluster) is not None
        duration = cluster.spec.leaseDurationSeconds
        grace_period = self._grace * (min(duration, LONGEST_DURATION) if duration > 0 else DURATION)
        left = max(renewed, self._watch_gap_at) + grace_period - self.clock.monotonic()
        if left <= 0 and self._leases.lag > 0:
            left = CHECK_SECONDS  # it may have renewed; the watch has not delivered it
        if left > 0:
            # Also after a renewal in time: this timer is the only thing that checks the cluster again.
            self.queue.add_after(("", name), delay=left)
        return left <= 0

    async def _declare_unknown(self, cluster: ManagedCluster) -> ManagedCluster:
        current = _available(cluster)
        if current is not None and current.status == UNKNOWN:
            return cluster
        condition = Condition(
            type=CONDITION_AVAILABLE, status=UNKNOWN, reason=STOPPED, message=STOPPED_MESSAGE
        )
        return await self._write_condition(cluster, condition)

    async def _write_condition(self, cluster: ManagedCluster, condition: Condition) -> ManagedCluster:
        conditions = with_condition(cluster.status.conditions, condition, clock=self.clock)
        async with self._writer.batch():
            return await self._writer.conditions(MANAGED_CLUSTERS, cluster.metadata, conditions)

    async def _taint(self, cluster: ManagedCluster) -> None:
        now, available = self.clock.wall(), _available(cluster)
        patch = taints.changes(cluster.spec.taints, available, now=now)
        if not patch:
            return
        async with self._writer.batch():
            try:
                await self._writer.patch(MANAGED_CLUSTERS, cluster.metadata, patch)
            except ApiError as error:
                if WEBHOOK_SETS_TIME_ADDED not in error.message:
                    raise
                # OCM's webhook sets timeAdded itself, and refuses taints that have it.
                patch = taints.changes(cluster.spec.taints, available, now=now, stamped=False)
                if patch:
                    await self._writer.patch(MANAGED_CLUSTERS, cluster.metadata, patch)


def _about(cluster: ManagedCluster) -> tuple[object, ...]:
    """Return the fields of a cluster that this controller reads."""
    spec, meta = cluster.spec, cluster.metadata
    return spec.taints, spec.leaseDurationSeconds, cluster.status.conditions, meta.deletionTimestamp


def _available(cluster: ManagedCluster) -> Condition | None:
    return find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
