"""Reconcile ``spec.hubAcceptsClient``: create the cluster's namespace and its agent's roles, approve renewals.

The controller writes bindings only after it has observed their roles, because the hub checks what a role grants before
it allows a binding. It repairs what other clients edit or delete.

A deleted cluster has finalizers, so that its add-ons, its works and the rights of its agent are deleted in this order.
The namespace stays when the cluster is deleted or denied, because it contains objects of users.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from fairway.api.cluster import CONDITION_ACCEPTED, CONDITION_AVAILABLE, ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers import cluster_names, ocm_lease
from fairway.controllers.acceptance import conditions, grants, ocm_detection
from fairway.controllers.acceptance.auto_approval import BootstrapApprover
from fairway.controllers.acceptance.cleanup import NamespaceCleanup, Remaining
from fairway.controllers.acceptance.csr_approval import OTHER_CLUSTER, RenewalApprover, cluster_of, is_stray
from fairway.controllers.acceptance.keys import AcceptanceKey, ClusterKey, CsrKey, OcmLeaseKey, RoleKey
from fairway.controllers.acceptance.orphaned_works import OrphanedWorks, kept_by
from fairway.controllers.acceptance.rights import AgentRights
from fairway.controllers.kinds import CLUSTER_NAME_LABEL, NAMESPACES, Namespace
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.reconciler import Reconciler
from fairway.controllers.runtime.writer import Writer, truncate, with_condition
from fairway.observe.meters import Meters
from kubewire.api.lease import Lease
from kubewire.api.meta import TRUE, Condition, find_condition
from kubewire.client import (
    SYSTEM_CLOCK,
    Added,
    AlreadyExists,
    ApiError,
    Batch,
    Client,
    Clock,
    Conflict,
    Deleted,
    Informer,
    NotFound,
    Updated,
)
from kubewire.client.csr import SIGNING_REQUESTS, CertificateSigningRequest
from kubewire.client.lease import LEASES
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

PATIENCE: Final = 6
"""Failures in a row after which the condition reports them. The first are often due to a hub that has not yet
observed a new role."""
AGAIN_SECONDS: Final = 2.0
"""Seconds between checks of a namespace that is being deleted."""

FINALIZERS: Final = (
    "cluster.open-cluster-management.io/api-resource-cleanup",
    "cluster.open-cluster-management.io/resource-cleanup",
)
"""OCM's two finalizers of a ManagedCluster, of its registration and of its garbage collector. Fairway has one
controller for both, but takes over clusters from OCM, and gives them back."""
CLEANUP_SECONDS: Final = 2.0
"""Seconds until the next check of what is left of a deleted cluster. Doubled while nothing changes, up to the longest,
because thousands of clusters may wait for their agents at a time."""
CLEANUP_LONGEST: Final = 60.0

WAITS: Final = (
    "cluster %s is being deleted: %d of its %s wait until its agent has removed the applied objects, but the agent is "
    "not available; if the cluster is lost, run: fairway join forget %s"
)


class AcceptanceController(Reconciler[AcceptanceKey]):
    name: ClassVar[str] = "acceptance"

    _clusters: Informer[ManagedCluster]
    _namespaces: Informer[Namespace]
    _leases: Informer[Lease]
    _renewals: RenewalApprover
    _joining: BootstrapApprover
    _rights: AgentRights

    def __init__(
        self,
        client: Client,
        *,
        meters: Meters,
        ocm_namespace: str = ocm_lease.NAMESPACE,
        auto_approve_users: Iterable[str] = (),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(client, meters=meters, clock=clock)
        self._ocm_namespace = ocm_namespace
        self._auto_approve_users = frozenset(auto_approve_users)
        self._paused = False
        self._writer = Writer(client, meters=meters, controller=self.name)
        self._orphaned_works = OrphanedWorks(client, self._writer)
        self._cleanup = NamespaceCleanup(client, self._writer)
        self._waits: dict[str, tuple[tuple[object, ...], float]] = {}
        """By cluster that is being deleted: what was left of it, and the seconds until the next check."""
        self._deleted_at_once: set[str] = set()
        """Accepted clusters that were deleted without waiting for finalizers, and are to be cleaned up after."""
        self._throttle = LogThrottle(log, every=600.0)

    def watch(self, informers: InformerFactory) -> None:
        self._clusters = informers.of(MANAGED_CLUSTERS)
        self._namespaces = informers.of(NAMESPACES)
        self._leases = informers.of(LEASES, fields=f"metadata.name={ocm_detection.LEASE}")
        self._clusters.subscribe(self._clusters_changed)
        self._namespaces.subscribe(self._namespaces_changed)
        self._leases.subscribe(self._leases_changed)
        self._rights = AgentRights(
            informers,
            self._writer,
            on_cluster=lambda name: self.queue.add(ClusterKey(name)),
            on_shared=self._shared_changed,
        )
        requests = informers.of(SIGNING_REQUESTS)
        self._renewals = RenewalApprover(
            self.client, requests=requests, clusters=self._clusters, writer=self._writer
        )
        self._joining = BootstrapApprover(
            self._auto_approve_users,
            requests=requests,
            clusters=self._clusters,
            writer=self._writer,
            clock=self.clock,
        )
        requests.subscribe(self._requests_changed)

    def keys(self) -> Iterator[AcceptanceKey]:
        yield OcmLeaseKey()
        yield from (ClusterKey(name) for _, name in self._clusters.store)
        yield from (RoleKey(name) for name in grants.COMMON)
        yield from (CsrKey(name) for name in self._renewals.waiting())
        yield from (CsrKey(name) for name in self._joining.waiting())
        yield from (ClusterKey(name) for _, name in self._namespaces.store if self._is_terminating(name))
        yield from (ClusterKey(name) for name in self._rights.clusters() if self._clusters.get(name) is None)

    def _clusters_changed(self, batch: Batch[ManagedCluster]) -> None:
        acceptable: set[str] = set()
        for change in batch.changes:
            match change:
                case Added(new):
                    self.queue.add(ClusterKey(new.metadata.name))
                    acceptable.add(new.metadata.name)
                case Deleted(old):
                    if _was_accepted(old):
                        self._deleted_at_once.add(old.metadata.name)
                    self.queue.add(ClusterKey(old.metadata.name))
                case Updated(old, new):
                    if _about(old) != _about(new):
                        self.queue.add(ClusterKey(new.metadata.name))
                    if new.spec.hubAcceptsClient and not old.spec.hubAcceptsClient:
                        acceptable.add(new.metadata.name)
                        for name in self._renewals.waiting(new.metadata.name):
                            self.queue.add(CsrKey(name))
        for name in self._joining.waiting(acceptable):
            self.queue.add(CsrKey(name))

    def _requests_changed(self, batch: Batch[CertificateSigningRequest]) -> None:
        for change in batch.changes:
            if isinstance(change, Deleted):
                continue
            request = change.object
            if request.decided:
                continue
            if cluster_of(request) is not None or self._joining.cluster_of(request) is not None:
                self.queue.add(CsrKey(request.metadata.name))
            elif isinstance(change, Added) and is_stray(request):
                labels, user = request.metadata.labels, request.spec.username
                log.warning(OTHER_CLUSTER, request.metadata.name, labels[CLUSTER_NAME_LABEL], user)

    def _namespaces_changed(self, batch: Batch[Namespace]) -> None:
        for change in batch.changes:
            name = change.object.metadata.name
            if self._clusters.get(name) is not None or self._is_terminating(name):
                self.queue.add(ClusterKey(name))

    def _shared_changed(self, role: str, new: bool) -> None:
        self.queue.add(RoleKey(role))
        if new:  # also requeue the clusters that wait for it
            for cluster in self._clusters.store.values():
                if cluster.spec.hubAcceptsClient:
                    self.queue.add(ClusterKey(cluster.metadata.name))

    def _leases_changed(self, batch: Batch[Lease]) -> None:
        for change in batch.changes:
            lease = change.object
            if lease.metadata.namespace == self._ocm_namespace:
                self.queue.add(OcmLeaseKey())

    async def reconcile(self, key: AcceptanceKey) -> None:
        if isinstance(key, OcmLeaseKey):
            self._check_for_ocm()
            return
        if self._ocm_lease_remaining() > 0:
            # Two controllers would undo each other's rights and finalizers forever.
            self.queue.add(OcmLeaseKey())
            return
        match key:
            case RoleKey(name):
                await self._ensure_shared_role(name)
            case CsrKey(name):
                await self._joining.decide(name)
                again = await self._renewals.decide(name)
                if again is not None:
                    self.queue.add_after(key, delay=again)
            case ClusterKey(name):
                await self._reconcile_cluster(name)

    async def _reconcile_cluster(self, name: str) -> None:
        if self._is_terminating(name):
            await self._release_works(name)
        cluster = self._clusters.get(name)
        if cluster is None:
            await self._clean_up_deleted(name)
        elif cluster.metadata.deletionTimestamp is not None:
            await self._remove(cluster)
        elif not cluster.spec.hubAcceptsClient:
            await self._deny(cluster)
        else:
            await self._accept(cluster)

    def _check_for_ocm(self) -> None:
        """Requeue all keys once the lease of OCM's controller has expired."""
        remaining = self._ocm_lease_remaining()
        if remaining > 0:
            if not self._paused:
                lease = self._ocm_lease()
                assert lease is not None
                holder = lease.spec.holderIdentity
                log.warning(ocm_detection.RUNS, holder, self._ocm_namespace, ocm_detection.LEASE)
            self._paused = True
            self.queue.add_after(OcmLeaseKey(), delay=remaining)
        elif self._paused:
            self._paused = False
            log.warning(ocm_detection.STOPPED)
            for key in self.keys():
                self.queue.add(key)

    def _ocm_lease_remaining(self) -> float:
        return ocm_lease.remaining(self._ocm_lease(), self.clock.wall())

    def _ocm_lease(self) -> Lease | None:
        return self._leases.get(ocm_detection.LEASE, namespace=self._ocm_namespace)

    async def _ensure_shared_role(self, role: str) -> None:
        if any(cluster.spec.hubAcceptsClient for cluster in self._clusters.store.values()):
            await self._rights.share(role)

    async def _clean_up_deleted(self, name: str) -> None:
        """Clean up after a cluster that does not exist any more."""
        self._waits.pop(name, None)
        if name not in self._deleted_at_once and not self._rights.any_of(name):
            return
        # The watch of the rights may be ahead of that of the clusters. To revoke the rights of a cluster that was just
        # created would cut off its agent.
        try:
            await self.client.get(MANAGED_CLUSTERS, name)
        except NotFound as error:
            if not error.details.name:
                return  # the hub does not serve ManagedClusters any more, which says nothing about the clusters
        else:
            return  # its objects were observed before the cluster
        if name in self._deleted_at_once:
            remaining = await self._clean(name)
            if remaining is not None and remaining.undeleted:
                self._check_again(name, remaining)
                return
            self._deleted_at_once.discard(name)
        await self._rights.revoke(name)

    def _is_terminating(self, name: str) -> bool:
        """Whether the namespace of this cluster exists and is being deleted."""
        namespace = self._namespaces.get(name)
        if namespace is None or namespace.metadata.deletionTimestamp is None:
            return False
        return namespace.metadata.labels.get(CLUSTER_NAME_LABEL) == name

    async def _release_works(self, name: str) -> None:
        if self._rights.may_clean_up(name):
            return  # its agent may still clean up; the deletion of its rights requeues the cluster
        if not await self._orphaned_works.release(name):
            self.queue.add_after(ClusterKey(name), delay=AGAIN_SECONDS)

    async def _remove(self, cluster: ManagedCluster) -> None:
        """Delete add-ons, works and rights, in this order, and then remove the finalizers.

        The agent keeps its rights until the last work is deleted, because it removes what works have created.
        """
        name = cluster.metadata.name
        if _was_accepted(cluster):
            try:
                remaining = await self._clean(name)
            except ApiError as error:
                if not isinstance(error, Conflict):
                    await self._write_condition(cluster, conditions.deleting_error(truncate(str(error))))
                raise
            if remaining is not None:
                await self._report_remaining(cluster, remaining)
                return
            cluster = await self._write_condition(cluster, conditions.CLEANED_UP)
        self._waits.pop(name, None)
        # Before the finalizers, which promise that a deleted cluster leaves nothing behind.
        await self._rights.revoke(name)
        kept = [finalizer for finalizer in cluster.metadata.finalizers if finalizer not in FINALIZERS]
        await self._finalize(cluster, kept)

    async def _report_remaining(self, cluster: ManagedCluster, remaining: Remaining) -> None:
        name = cluster.metadata.name
        condition = conditions.remaining(
            remaining.resource.plural, count=remaining.count, held=remaining.held
        )
        written = await self._write_condition(cluster, condition)
        if not self._is_terminating(name):
            if cluster.spec.hubAcceptsClient:
                await self._rights.provide(written)
            else:
                await self._rights.restrict(written)
                if not self._rights.may_clean_up(name):
                    await self._orphaned_works.release(name)
        available = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
        if not remaining.next and remaining.held and (available is None or available.status != TRUE):
            kind = remaining.resource.plural
            self._throttle.log(logging.WARNING, name, WAITS, name, remaining.held, kind, name)
        self._check_again(name, remaining)

    async def _clean(self, name: str) -> Remaining | None:
        """Delete the next objects in the cluster's namespace. Leave a namespace of another owner alone."""
        namespaces = (await self.client.list(NAMESPACES, fields=f"metadata.name={name}")).items
        if not namespaces or namespaces[0].metadata.labels.get(CLUSTER_NAME_LABEL) != name:
            return None
        return await self._cleanup.step(name)

    def _check_again(self, name: str, remaining: Remaining) -> None:
        """Continue at once if objects were deleted; otherwise wait for their finalizers to be removed."""
        left = remaining.resource.plural, remaining.count, remaining.held, remaining.undeleted
        before, delay = self._waits.get(name, ((), 0.0))
        delay = min(delay * 2, CLEANUP_LONGEST) if before == left else CLEANUP_SECONDS
        self._waits[name] = left, delay
        self.queue.add_after(ClusterKey(name), delay=0.0 if remaining.next else delay)

    async def _deny(self, cluster: ManagedCluster) -> None:
        accepted = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
        if accepted is None or cluster_names.refusal(cluster.metadata.name) is not None:
            # A cluster that was never accepted was never denied: it waits.
            await self._rights.revoke(cluster.metadata.name)
        elif await self._rights.restrict(cluster):
            await self._write_condition(cluster, conditions.DENIED)

    async def _accept(self, cluster: ManagedCluster) -> None:
        refused = self._refusal(cluster.metadata.name)
        if refused is not None:
            await self._write_condition(cluster, refused)
            return
        try:
            complete = await self._provide(cluster)
        except ApiError as error:
            key = ClusterKey(cluster.metadata.name)
            if self.queue.retries(key) >= PATIENCE and not isinstance(error, Conflict):
                failed = conditions.refused(conditions.FAILED, truncate(str(error)))
                await self._write_condition(cluster, failed)
            raise
        if complete:
            await self._write_condition(cluster, conditions.GRANTED)

    def _refusal(self, name: str) -> Condition | None:
        """Why the cluster is refused: its name, or a namespace that belongs to another owner or is being deleted."""
        if (reason := cluster_names.refusal(name)) is not None:
            return conditions.refused(conditions.NAME_REFUSED, reason)
        namespace = self._namespaces.get(name)
        if namespace is None:
            return None
        if namespace.metadata.labels.get(CLUSTER_NAME_LABEL) != name:
            message = conditions.TAKEN_MESSAGE.format(name=name, label=CLUSTER_NAME_LABEL)
            return conditions.refused(conditions.NAMESPACE_TAKEN, message)
        if namespace.metadata.deletionTimestamp is not None:
            return conditions.ending(name, kept_by=truncate(kept_by(namespace)))
        return None

    async def _provide(self, cluster: ManagedCluster) -> bool:
        """Whether all objects exist; if not, the watch events of the writes requeue the cluster."""
        name, finalizers = cluster.metadata.name, cluster.metadata.finalizers
        missing = [finalizer for finalizer in FINALIZERS if finalizer not in finalizers]
        if missing:
            # Before anything that they clean up exists.
            await self._finalize(cluster, [*finalizers, *missing])
            return False
        for grant in self._rights.missing_shared():
            self.queue.add(RoleKey(grant.wanted.metadata.name))
        if self._namespaces.get(name) is None:
            await self._found(name)
            return False
        return await self._rights.provide(cluster)

    async def _found(self, name: str) -> None:
        body = {"metadata": {"name": name, "labels": {CLUSTER_NAME_LABEL: name}}}
        async with self._writer.batch():
            try:
                await self._writer.create(NAMESPACES, body)
            except AlreadyExists:
                return  # the watch is about to deliver its owner

    async def _finalize(self, cluster: ManagedCluster, finalizers: list[str]) -> None:
        if tuple(finalizers) == cluster.metadata.finalizers:
            return
        async with self._writer.batch():
            try:
                await self._writer.patch(
                    MANAGED_CLUSTERS, cluster.metadata, {"metadata": {"finalizers": finalizers}}
                )
            except NotFound:
                return

    async def _write_condition(self, cluster: ManagedCluster, condition: Condition) -> ManagedCluster:
        before = cluster.status.conditions
        wanted = with_condition(before, condition, clock=self.clock)
        if wanted == before:
            return cluster
        async with self._writer.batch():
            return await self._writer.conditions(MANAGED_CLUSTERS, cluster.metadata, wanted)


def _was_accepted(cluster: ManagedCluster) -> bool:
    """Whether objects may have been created for the cluster."""
    accepted = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
    return (
        cluster.spec.hubAcceptsClient
        or accepted is not None
        or not any(finalizer in FINALIZERS for finalizer in cluster.metadata.finalizers)
    )


def _about(cluster: ManagedCluster) -> tuple[object, ...]:
    """The fields of a cluster that this controller reads, without the condition that it alone sets while it waits."""
    meta, states = cluster.metadata, cluster.status.conditions or ()
    conditions_of_others = tuple(condition for condition in states if condition.type != conditions.DELETING)
    return (
        cluster.spec.hubAcceptsClient,
        conditions_of_others,
        meta.deletionTimestamp,
        meta.uid,
        meta.finalizers,
    )
