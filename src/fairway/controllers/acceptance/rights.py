"""The roles and bindings of clusters' agents on the hub: observe, create, repair and delete them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from fairway.api.cluster import ManagedCluster
from fairway.controllers import cluster_names
from fairway.controllers.acceptance import grants
from fairway.controllers.acceptance.grants import Grant, Permission
from fairway.controllers.kinds import CLUSTER_NAME_LABEL, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.writer import Writer
from kubewire.api.resource import Key
from kubewire.client import Added, Batch, Informer, NotFound, Resource

_PERMISSIONS: Final[tuple[Resource[Any], ...]] = (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES)
"""In the order of deletion."""

OnCluster = Callable[[str], None]
"""Called with the cluster whose objects have changed."""
OnShared = Callable[[str, bool], None]
"""Called with the changed role that all clusters share, and whether it is new."""


class AgentRights:
    """Write bindings only after their roles were observed, because the hub checks what a role grants."""

    def __init__(
        self, informers: InformerFactory, writer: Writer, *, on_cluster: OnCluster, on_shared: OnShared
    ) -> None:
        self._writer, self._on_cluster, self._on_shared = writer, on_cluster, on_shared
        self._permissions: dict[Resource[Any], Informer[Any]] = {}
        for resource in _PERMISSIONS:
            self._permissions[resource] = informers.of(resource)
            self._permissions[resource].subscribe(self._handler(resource))

    def _handler(self, resource: Resource[Any]) -> Callable[[Batch[Any]], None]:
        def changed(batch: Batch[Any]) -> None:
            for change in batch.changes:
                seen: Permission = change.object
                if resource is CLUSTER_ROLES and seen.metadata.name in grants.COMMON:
                    self._on_shared(seen.metadata.name, isinstance(change, Added))
                elif (name := grants.cluster_of(resource, seen)) is not None:
                    self._on_cluster(name)

        return changed

    def clusters(self) -> Iterator[str]:
        """Yield the clusters that have objects, also those that do not exist any more; repeatedly."""
        for resource, informer in self._permissions.items():
            for seen in informer.store.values():
                name = _cluster_of(resource, seen)
                if name is not None:
                    yield name

    def missing_shared(self) -> list[Grant]:
        """Return the roles that all clusters share and that must be created or repaired."""
        return [grant for grant in grants.COMMON.values() if not self._exists(grant)]

    async def share(self, role: str) -> None:
        if not self._exists(grants.COMMON[role]):
            async with self._writer.batch():
                await self._writer.apply(CLUSTER_ROLES, grants.COMMON[role].body())

    async def provide(self, cluster: ManagedCluster) -> bool:
        """Whether all objects of an accepted cluster exist; if not, the watch events of the writes requeue it."""
        if not await self._define(grants.role(cluster)):
            return False
        if any(self._seen(grant) is None for grant in grants.COMMON.values()):
            return False
        await self._bind_all(grants.bindings(cluster))
        return True

    async def restrict(self, cluster: ManagedCluster) -> bool:
        """Reduce the rights of a denied cluster to reading its own ManagedCluster; return as ``provide``.

        Its agent can then report that the cluster was denied, and notices when it is accepted again.
        """
        # First what is taken away: a process that stops here leaves too few rights, never too many.
        name = cluster.metadata.name
        await self._delete(
            ((resource, seen) for resource, seen in self._of(name) if resource is ROLE_BINDINGS)
        )
        if not await self._define(grants.role(cluster, accepted=False)):
            return False
        await self._bind_all(
            grant for grant in grants.bindings(cluster) if grant.resource is CLUSTER_ROLE_BINDINGS
        )
        return True

    async def revoke(self, name: str) -> None:
        """Delete all objects of a cluster."""
        await self._delete(self._of(name))

    def any_of(self, name: str) -> bool:
        """Whether a cluster has objects that are not being deleted."""
        return any(True for _ in self._of(name))

    def may_clean_up(self, name: str) -> bool:
        """Whether the agent of a cluster may still remove its finalizer from works."""
        return (name, _work_binding(name)) in self._permissions[ROLE_BINDINGS].store

    async def _define(self, role: Grant) -> bool:
        if self._exists(role):
            return True
        async with self._writer.batch():
            await self._writer.apply(CLUSTER_ROLES, role.body())
        return False

    async def _bind_all(self, wanted: Iterable[Grant]) -> None:
        missing = [grant for grant in wanted if not self._exists(grant)]
        if missing:
            async with self._writer.batch():
                for grant in missing:
                    await self._bind(grant)

    async def _bind(self, grant: Grant) -> None:
        seen = self._seen(grant)
        # The role of a binding cannot be changed: the API server rejects it.
        if seen is not None and grant.refers_elsewhere(seen):
            await self._writer.delete(grant.resource, seen.metadata)
        await self._writer.apply(grant.resource, grant.body())

    async def _delete(self, surplus: Iterable[tuple[Resource[Any], Permission]]) -> None:
        left = list(surplus)
        if not left:
            return
        async with self._writer.batch():
            for resource, seen in left:
                try:
                    await self._writer.delete(resource, seen.metadata)
                except NotFound:
                    continue

    def _of(self, name: str) -> Iterator[tuple[Resource[Any], Permission]]:
        """Yield the cluster's objects that are not being deleted."""
        full = f"{cluster_names.PREFIX}{name}"
        at: Mapping[Resource[Any], tuple[Key, ...]] = {
            ROLE_BINDINGS: ((name, f"{full}:{cluster_names.REGISTRATION}"), (name, _work_binding(name))),
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
        seen: Permission | None = self._permissions[grant.resource].store.get((meta.namespace, meta.name))
        return seen


def _work_binding(name: str) -> str:
    return f"{cluster_names.PREFIX}{name}:{cluster_names.WORK}"


def _cluster_of(resource: Resource[Any], seen: Permission) -> str | None:
    """The cluster of an object, by name and label; an object with only one of them is not ours."""
    name = grants.cluster_of(resource, seen)
    return name if name is not None and seen.metadata.labels.get(CLUSTER_NAME_LABEL) == name else None
