"""Reconcile ``spec.hubAcceptsClient``: create the cluster's namespace and its agent's roles, approve renewals.

The controller writes bindings only after it has observed their roles, because the hub checks what a role grants before
it allows a binding. It repairs what other clients edit or delete. The namespace stays when the cluster is deleted or
denied, because it contains objects of users.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final

from fairway.api.cluster import CONDITION_ACCEPTED, ManagedCluster
from fairway.api.meta import Condition, find_condition
from fairway.controllers import cluster_names
from fairway.controllers.acceptance import conditions, grants
from fairway.controllers.acceptance.csr_approval import SOMEBODY_ELSES, RenewalApprover, cluster_of, is_stray
from fairway.controllers.acceptance.grants import Grant, Permission
from fairway.controllers.acceptance.orphaned_works import OrphanedWorks, kept_by
from fairway.controllers.fenced_writer import FencedWriter, truncate, with_condition
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.kinds import (
    CLUSTER_NAME_LABEL,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    ROLE_BINDINGS,
    Namespace,
)
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
    Conflict,
    Deleted,
    Informer,
    NotFound,
    Resource,
    Updated,
)
from fairway.kube.csr import SIGNING_REQUESTS, CertificateSigningRequest
from fairway.observe.meters import Meters

log: Final = logging.getLogger(__name__)

ROLE: Final = "ClusterRole"
"""Takes the place of the namespace in keys of roles that all clusters share."""
REQUEST: Final = SIGNING_REQUESTS.kind
"""Takes the place of the namespace in keys of certificate requests."""
PATIENCE: Final = 6
"""Failures in a row after which the condition reports them. The first are often due to a hub that has not yet
observed a new role."""
AGAIN_SECONDS: Final = 2.0
"""Seconds between checks of a namespace that is being deleted."""

_PERMISSIONS: Final[tuple[Resource[Any], ...]] = (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES)
"""In the order of deletion."""


class AcceptanceController(Reconciler):
    name: ClassVar[str] = "acceptance"

    _clusters: Informer[ManagedCluster]
    _namespaces: Informer[Namespace]
    _renewals: RenewalApprover

    def __init__(self, client: Client, *, meters: Meters, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(client, meters=meters, clock=clock)
        self._permissions: dict[Resource[Any], Informer[Any]] = {}
        self._writer = FencedWriter(client, meters=meters, controller=self.name)
        self._orphaned_works = OrphanedWorks(client, self._writer)

    def watch(self, informers: InformerFactory) -> None:
        self._clusters = informers.of(MANAGED_CLUSTERS)
        self._namespaces = informers.of(NAMESPACES)
        self._clusters.subscribe(self._clusters_changed)
        self._namespaces.subscribe(self._namespaces_changed)
        for resource in _PERMISSIONS:
            self._permissions[resource] = informers.of(resource)
            self._permissions[resource].subscribe(self._permission_handler(resource))
        requests = informers.of(SIGNING_REQUESTS)
        self._renewals = RenewalApprover(
            self.client, requests=requests, clusters=self._clusters, writes=self._writer
        )
        requests.subscribe(self._requests_changed)

    def keys(self) -> Iterator[Key]:
        yield from self._clusters.store
        yield from ((ROLE, name) for name in grants.COMMON)
        yield from ((REQUEST, name) for name in self._renewals.waiting())
        yield from (("", name) for _, name in self._namespaces.store if self._ending(name))
        for resource, informer in self._permissions.items():
            for seen in informer.store.values():
                name = _cluster_of(resource, seen)
                if name is not None and self._clusters.get(name) is None:
                    yield "", name

    def _clusters_changed(self, batch: Batch[ManagedCluster]) -> None:
        for change in batch.changes:
            match change:
                case Added(new) | Deleted(new):
                    self.queue.add(("", new.metadata.name))
                case Updated(old, new):
                    if _about(old) != _about(new):
                        self.queue.add(("", new.metadata.name))
                    if new.spec.hubAcceptsClient and not old.spec.hubAcceptsClient:
                        for name in self._renewals.waiting(new.metadata.name):
                            self.queue.add((REQUEST, name))

    def _requests_changed(self, batch: Batch[CertificateSigningRequest]) -> None:
        for change in batch.changes:
            if isinstance(change, Deleted):
                continue
            request = change.new if isinstance(change, Updated) else change.object
            if request.decided:
                continue
            if cluster_of(request) is not None:
                self.queue.add((REQUEST, request.metadata.name))
            elif isinstance(change, Added) and is_stray(request):
                labels, user = request.metadata.labels, request.spec.username
                log.warning(SOMEBODY_ELSES, request.metadata.name, labels[CLUSTER_NAME_LABEL], user)

    def _namespaces_changed(self, batch: Batch[Namespace]) -> None:
        for change in batch.changes:
            name = (change.new if isinstance(change, Updated) else change.object).metadata.name
            if self._clusters.get(name) is not None or self._ending(name):
                self.queue.add(("", name))

    def _permission_handler(self, resource: Resource[Any]) -> Callable[[Batch[Any]], None]:
        def changed(batch: Batch[Any]) -> None:
            for change in batch.changes:
                seen: Permission = change.new if isinstance(change, Updated) else change.object
                if resource is CLUSTER_ROLES and seen.metadata.name in grants.COMMON:
                    self.queue.add((ROLE, seen.metadata.name))
                    if isinstance(change, Added):
                        self._resume()
                elif (name := grants.cluster_of(resource, seen)) is not None:
                    self.queue.add(("", name))

        return changed

    def _resume(self) -> None:
        """Also requeue the clusters that wait for a shared role."""
        for key, cluster in self._clusters.store.items():
            if cluster.spec.hubAcceptsClient:
                self.queue.add(key)

    async def reconcile(self, key: Key, leadership: Leadership) -> None:
        place, name = key
        if place == ROLE:
            await self._share(grants.COMMON[name], leadership)
            return
        if place == REQUEST:
            again = await self._renewals.decide(name, leadership)
            if again is not None:
                self.queue.add_after(key, delay=again)
            return
        if self._ending(name):
            await self._clear(name, leadership)
        cluster = self._clusters.get(name)
        if cluster is None:
            await self._forget(name, leadership)
        elif not cluster.spec.hubAcceptsClient:
            await self._deny(cluster, leadership)
        elif cluster.metadata.deletionTimestamp is None:
            # The agent of a cluster that is being deleted may still need its rights to clean up.
            await self._accept(cluster, leadership)

    async def _share(self, grant: Grant, leadership: Leadership) -> None:
        accepted = any(each.spec.hubAcceptsClient for each in self._clusters.store.values())
        if accepted and not self._exists(grant):
            async with leadership.batch():
                await self._writer.apply(CLUSTER_ROLES, grant.body(), leadership=leadership)

    async def _forget(self, name: str, leadership: Leadership) -> None:
        """Delete the cluster's objects, also on a hub without a garbage collector."""
        left = list(self._permissions_of(name))
        if not left:
            return
        try:
            await self.client.get(MANAGED_CLUSTERS, name)
        except NotFound:
            await self._delete_permissions(left, leadership)
        # Otherwise the cluster's permissions were observed before the cluster.

    def _ending(self, name: str) -> bool:
        """Whether the namespace of this cluster exists and is being deleted."""
        found = self._namespaces.get(name)
        if found is None or found.metadata.deletionTimestamp is None:
            return False
        return found.metadata.labels.get(CLUSTER_NAME_LABEL) == name

    async def _clear(self, name: str, leadership: Leadership) -> None:
        if (name, f"{cluster_names.PREFIX}{name}:{cluster_names.WORK}") in self._permissions[
            ROLE_BINDINGS
        ].store:
            return  # its agent may still clean up; the deletion of its rights requeues the cluster
        if not await self._orphaned_works.release(name, leadership):
            self.queue.add_after(("", name), delay=AGAIN_SECONDS)

    async def _deny(self, cluster: ManagedCluster, leadership: Leadership) -> None:
        await self._delete_permissions(list(self._permissions_of(cluster.metadata.name)), leadership)
        if find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED) is not None:
            # A cluster that was never accepted was never denied: it waits.
            await self._write_condition(cluster, conditions.DENIED, leadership)

    async def _accept(self, cluster: ManagedCluster, leadership: Leadership) -> None:
        refused = self._refusal(cluster.metadata.name)
        if refused is not None:
            await self._write_condition(cluster, refused, leadership)
            return
        try:
            complete = await self._provide(cluster, leadership)
        except ApiError as error:
            key = ("", cluster.metadata.name)
            if self.queue.retries(key) >= PATIENCE and not isinstance(error, Conflict):
                failed = conditions.refused(conditions.FAILED, truncate(str(error)))
                await self._write_condition(cluster, failed, leadership)
            raise
        if complete:
            await self._write_condition(cluster, conditions.GRANTED, leadership)

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

    async def _provide(self, cluster: ManagedCluster, leadership: Leadership) -> bool:
        """Whether all objects exist; if not, the watch events of the writes requeue the cluster."""
        name = cluster.metadata.name
        shared = [grant for grant in grants.COMMON.values() if not self._exists(grant)]
        for grant in shared:
            self.queue.add((ROLE, grant.wanted.metadata.name))
        if self._namespaces.get(name) is None:
            await self._found(name, leadership)
            return False
        role = grants.role(cluster)
        if not self._exists(role):
            async with leadership.batch():
                await self._writer.apply(CLUSTER_ROLES, role.body(), leadership=leadership)
            return False
        if any(self._seen(grant) is None for grant in shared):
            return False
        missing = [grant for grant in grants.bindings(cluster) if not self._exists(grant)]
        if missing:
            async with leadership.batch():
                for grant in missing:
                    await self._bind(grant, leadership)
        return True

    async def _found(self, name: str, leadership: Leadership) -> None:
        body = {"metadata": {"name": name, "labels": {CLUSTER_NAME_LABEL: name}}}
        async with leadership.batch():
            try:
                await self._writer.create(NAMESPACES, body, leadership=leadership)
            except AlreadyExists:
                return  # the watch is about to deliver its owner

    async def _bind(self, grant: Grant, leadership: Leadership) -> None:
        seen = self._seen(grant)
        if seen is not None and grant.refers_elsewhere(seen):
            await self._writer.delete(grant.resource, seen.metadata, leadership=leadership)
        await self._writer.apply(grant.resource, grant.body(), leadership=leadership)

    async def _delete_permissions(
        self, left: list[tuple[Resource[Any], Permission]], leadership: Leadership
    ) -> None:
        if not left:
            return
        async with leadership.batch():
            for resource, seen in left:
                try:
                    await self._writer.delete(resource, seen.metadata, leadership=leadership)
                except NotFound:
                    continue

    def _permissions_of(self, name: str) -> Iterator[tuple[Resource[Any], Permission]]:
        """The cluster's objects that are not being deleted."""
        full = f"{cluster_names.PREFIX}{name}"
        at: Mapping[Resource[Any], tuple[Key, ...]] = {
            ROLE_BINDINGS: tuple(
                (name, f"{full}:{short}") for short in (cluster_names.REGISTRATION, cluster_names.WORK)
            ),
            CLUSTER_ROLE_BINDINGS: (("", full),),
            CLUSTER_ROLES: (("", full),),
        }
        for resource, keys in at.items():
            for key in keys:
                seen = self._permissions[resource].store.get(key)
                if seen is None or seen.metadata.deletionTimestamp is not None:
                    continue
                if _cluster_of(resource, seen) == name:
                    yield resource, seen

    def _exists(self, grant: Grant) -> bool:
        seen = self._seen(grant)
        return seen is not None and grant.met_by(seen)

    def _seen(self, grant: Grant) -> Permission | None:
        meta = grant.wanted.metadata
        found: Permission | None = self._permissions[grant.resource].store.get((meta.namespace, meta.name))
        return found

    async def _write_condition(
        self, cluster: ManagedCluster, condition: Condition, leadership: Leadership
    ) -> None:
        before = cluster.status.conditions
        wanted = with_condition(before, condition, clock=self.clock)
        if wanted != before:
            async with leadership.batch():
                await self._writer.conditions(
                    MANAGED_CLUSTERS, cluster.metadata, wanted, leadership=leadership
                )


def _cluster_of(resource: Resource[Any], seen: Permission) -> str | None:
    """The cluster of an object, by name and label; an object with only one of them is not ours."""
    name = grants.cluster_of(resource, seen)
    return name if name is not None and seen.metadata.labels.get(CLUSTER_NAME_LABEL) == name else None


def _about(cluster: ManagedCluster) -> tuple[object, ...]:
    """The fields of a cluster that this controller reads."""
    meta = cluster.metadata
    return cluster.spec.hubAcceptsClient, cluster.status.conditions, meta.deletionTimestamp, meta.uid
