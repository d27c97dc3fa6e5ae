"""Set a cluster's availability from its Lease, and the taints that follow from it.

Nothing is scanned. A renewal only records a time; the cluster's timer keeps running, and when it fires it is set again
for the rest of the last renewal. So of thousands of clusters that renew every minute, each is checked once in five
minutes. A silent cluster has no timer: its agent sets the condition when it is available again, which is a change of
the cluster.

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
from fairway.api.lease import Lease, format_micro_time
from fairway.api.meta import TRUE, UNKNOWN, Condition, find_condition
from fairway.controllers.availability import taints
from fairway.controllers.availability.heartbeats import LEASE, Heartbeats
from fairway.controllers.fenced_writer import FencedWriter, with_condition
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.kinds import CLUSTER_NAME_LABEL
from fairway.controllers.leadership import Leadership
from fairway.controllers.reconciler import Key, Reconciler
from fairway.kube import (
    MANAGED_CLUSTERS,
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
from fairway.kube.lease import LEASES
from fairway.observe.meters import Meters

DURATION: Final = 60
"""Seconds between renewals, if the cluster does not specify them."""
LONGEST_DURATION: Final = 3600
"""Seconds; an agent may have written its duration itself, and must not thereby count as alive forever."""
GRACE: Final = 5.0
"""Durations without a renewal after which a cluster is silent."""
LOOK_SECONDS: Final = 1.0
"""Seconds between checks whether the watch of leases is open."""
BLIND_SECONDS: Final = 5.0
"""Seconds; a longer gap between two watches may have missed renewals."""

STOPPED: Final = "ManagedClusterLeaseUpdateStopped"

CONDITIONS: Final = {
    ("ManagedCluster", CONDITION_AVAILABLE): {STOPPED: "The agent has stopped renewing its lease."}
}
STOPPED_MESSAGE: Final = "Registration agent stopped updating its lease."


class AvailabilityController(Reconciler):
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
        self._blind = -math.inf
        """When the watch of leases was last interrupted, on the monotonic clock."""
        self._writer = FencedWriter(client, meters=meters, controller=self.name)

    def watch(self, informers: InformerFactory) -> None:
        self._clusters = informers.of(MANAGED_CLUSTERS)
        self._leases = informers.of(LEASES, fields=f"metadata.name={LEASE}")
        self._clusters.subscribe(self._clusters_changed)
        self._leases.subscribe(self._leases_changed)

    def keys(self) -> Iterator[Key]:
        yield from self._clusters.store

    async def run(self, leadership: Leadership) -> None:
        looking = asyncio.create_task(self._detect_watch_gaps(), name="watch gaps of leases")
        try:
            await super().run(leadership)
        finally:
            looking.cancel()

    async def _detect_watch_gaps(self) -> None:
        while True:
            if self._leases.lag > BLIND_SECONDS:
                self._blind = self.clock.monotonic()
            await asyncio.sleep(LOOK_SECONDS)

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
                    self._heartbeats.found(cluster, new, wall=self.clock.wall(), now=now)
                    self.queue.add(("", cluster))
                case Updated(old, new) if old.spec.renewTime != new.spec.renewTime:
                    self._heartbeats.renewed(new.metadata.namespace, now=now)
                case Deleted(old):
                    self._heartbeats.lost(old.metadata.namespace)
                    self.queue.add(("", old.metadata.namespace))

    async def reconcile(self, key: Key, leadership: Leadership) -> None:
        cluster = self._clusters.get(key[1])
        if cluster is None:
            return
        if self._needs_lease(cluster):
            await self._create_lease(cluster.metadata.name, leadership)
        if self._is_silent(cluster):
            cluster = await self._declare_unknown(cluster, leadership)
        if self._taints and cluster.metadata.deletionTimestamp is None:
            await self._taint(cluster, leadership)

    def _needs_lease(self, cluster: ManagedCluster) -> bool:
        """Only for clusters accepted now: the namespace of any other need not belong to a cluster."""
        accepted = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
        return (
            accepted is not None
            and accepted.status == TRUE
            and cluster.metadata.deletionTimestamp is None
            and self._heartbeats.last_renewal(cluster.metadata.name) is None
        )

    async def _create_lease(self, name: str, leadership: Leadership) -> None:
        """Create the Lease, which the agent only renews. The first renewal has the usual grace period."""
        body = {
            "metadata": {"name": LEASE, "labels": {CLUSTER_NAME_LABEL: name}},
            "spec": {"holderIdentity": LEASE, "renewTime": format_micro_time(self.clock.wall())},
        }
        async with leadership.batch():
            try:
                await self._writer.create(LEASES, body, leadership=leadership, namespace=name)
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
        left = max(renewed, self._blind) + grace_period - self.clock.monotonic()
        if left <= 0 and self._leases.lag > 0:
            left = LOOK_SECONDS  # it may have renewed; the watch has not delivered it
        if left > 0:
            self.queue.add_after(("", name), delay=left)
        return left <= 0

    async def _declare_unknown(self, cluster: ManagedCluster, leadership: Leadership) -> ManagedCluster:
        known = _available(cluster)
        if known is not None and known.status == UNKNOWN:
            return cluster
        condition = Condition(
            type=CONDITION_AVAILABLE, status=UNKNOWN, reason=STOPPED, message=STOPPED_MESSAGE
        )
        conditions = with_condition(cluster.status.conditions, condition, clock=self.clock)
        async with leadership.batch():
            return await self._writer.conditions(
                MANAGED_CLUSTERS, cluster.metadata, conditions, leadership=leadership
            )

    async def _taint(self, cluster: ManagedCluster, leadership: Leadership) -> None:
        now, available = self.clock.wall(), _available(cluster)
        made = taints.changes(cluster.spec.taints, available, now=now)
        if not made:
            return
        async with leadership.batch():
            try:
                await self._writer.patch(MANAGED_CLUSTERS, cluster.metadata, made, leadership=leadership)
            except ApiError as error:
                if WEBHOOK_SETS_TIME_ADDED not in error.message:
                    raise
                made = taints.changes(cluster.spec.taints, available, now=now, stamped=False)
                if made:
                    await self._writer.patch(MANAGED_CLUSTERS, cluster.metadata, made, leadership=leadership)


def _about(cluster: ManagedCluster) -> tuple[object, ...]:
    """The fields of a cluster that this controller reads."""
    spec, meta = cluster.spec, cluster.metadata
    return spec.taints, spec.leaseDurationSeconds, cluster.status.conditions, meta.deletionTimestamp


def _available(cluster: ManagedCluster) -> Condition | None:
    return find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
