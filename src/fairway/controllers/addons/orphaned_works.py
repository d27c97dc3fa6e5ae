"""Remove the finalizers of add-on works whose cluster was removed from the hub.

A work waits until the cluster's agent has removed the applied objects. After the cluster is removed, its agent has no
access, so the work and its namespace would stay forever and no cluster of this name could join. The applied objects
stay on the cluster until it leaves or joins again.

Works of users keep their finalizer, and the log explains how to remove it. Works in a namespace that is being deleted
are handled by the acceptance controller.
"""

import logging
from collections.abc import Iterator
from typing import Final

from fairway.api.resources import MANAGED_CLUSTER_ADD_ONS, MANIFEST_WORKS
from fairway.api.work import MANIFEST_WORK_FINALIZER, ManifestWork
from fairway.controllers.addons import names
from fairway.controllers.addons.index import AddOnIndex
from fairway.controllers.cluster_names import PREFIX, WORK
from fairway.controllers.runtime.writer import Writer
from kubewire.api.meta import ObjectMeta
from kubewire.api.resource import Key
from kubewire.client import Conflict, NotFound

log: Final = logging.getLogger(__name__)

RELEASED: Final = (
    "removed the finalizer: the cluster was deleted, its applied objects stay on it  manifestwork=%s/%s"
)
WAITS: Final = (
    "ManifestWork %s/%s is being deleted, and waits for the agent of a cluster that was removed from the hub. To "
    "delete it now, run: fairway join forget %s"
)


def klusterlet_binding(cluster: str) -> str:
    """The role binding that gives an agent access to its works. OCM keeps it until all works are deleted."""
    return f"{PREFIX}{cluster}:{WORK}"


class OrphanedAddOnWorks:
    def __init__(self, known: AddOnIndex, writer: Writer) -> None:
        self._index, self._writer = known, writer
        self._reported: set[str] = set()
        """Uids of works that the log has mentioned."""

    def keys(self, cluster: str | None = None) -> Iterator[Key]:
        """Keys of add-ons with an orphaned work, on one cluster or on any."""
        for (namespace, _), work in self._index.works.store.items():
            if cluster in (None, namespace) and _is_add_ons(work) and is_held(work):
                yield namespace, work.metadata.labels[names.ADD_ON_LABEL]

    def places(self) -> Iterator[str]:
        """Namespaces with waiting works of users."""
        held = (work for work in self._index.works.store.values() if is_held(work) and not _is_add_ons(work))
        yield from {work.metadata.namespace for work in held}

    def report(self, cluster: str) -> None:
        """Log each work once."""
        if self._may_have_agent(cluster):
            return
        for (namespace, name), work in self._index.works.store.items():
            uid = work.metadata.uid
            if namespace == cluster and is_held(work) and not _is_add_ons(work) and uid not in self._reported:
                self._reported.add(uid)
                log.info(WAITS, namespace, name, cluster)

    def forget(self, work: ManifestWork) -> None:
        self._reported.discard(work.metadata.uid)

    def _may_have_agent(self, cluster: str) -> bool:
        if self._index.cluster(cluster) is not None:
            return True
        return self._index.bindings.get(klusterlet_binding(cluster), namespace=cluster) is not None

    async def release(self, cluster: str, add_on: str) -> None:
        if self._may_have_agent(cluster):
            return  # the agent removes the objects itself
        for name in (names.deploy_work(add_on), names.pre_delete_work(add_on)):
            work = self._index.work(cluster, name)
            if work is not None and is_held(work) and _is_add_ons(work):
                await self._remove_finalizer(work.metadata)

    async def _remove_finalizer(self, meta: ObjectMeta) -> None:
        kept = [finalizer for finalizer in meta.finalizers if finalizer != MANIFEST_WORK_FINALIZER]
        async with self._writer.batch():
            try:
                await self._writer.patch(MANIFEST_WORKS, meta, {"metadata": {"finalizers": kept}})
            except (NotFound, Conflict):
                return  # the watch event requeues it
        log.info(RELEASED, meta.namespace, meta.name)


def is_held(work: ManifestWork) -> bool:
    """Whether the work is being deleted and waits for an agent."""
    meta = work.metadata
    return meta.deletionTimestamp is not None and MANIFEST_WORK_FINALIZER in meta.finalizers


def _is_add_ons(work: ManifestWork) -> bool:
    owners = (reference.kind for reference in work.metadata.ownerReferences if reference.controller)
    return bool(work.metadata.labels.get(names.ADD_ON_LABEL)) and MANAGED_CLUSTER_ADD_ONS.kind in owners
