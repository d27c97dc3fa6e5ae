"""Works of add-ons whose cluster was removed from the hub, and that wait to be gone.

A work stays until the agent of its cluster has removed what it brought. Once the cluster is removed, that agent may do
nothing here any more, and so the work would stay for ever, and with it the namespace: a cluster of this name could
never join again. What the work brought stays where it is, until the cluster leaves or joins anew.
"""

import logging
from collections.abc import Iterator
from typing import Final

from fairway.api.meta import ObjectMeta
from fairway.api.work import MANIFEST_WORK_FINALIZER, ManifestWork
from fairway.controllers.acceptance.names import PREFIX, WORK
from fairway.controllers.addons import names
from fairway.controllers.addons.knowledge import Knowledge
from fairway.controllers.leadership import Leadership
from fairway.controllers.writes import Writes
from fairway.kube import MANAGED_CLUSTER_ADD_ONS, MANIFEST_WORKS, Conflict, NotFound
from fairway.kube.resource import Key

log: Final = logging.getLogger(__name__)

RELEASED: Final = "ManifestWork %s/%s goes, though nobody has removed what it brought: the cluster is gone"


def klusterlet_binding(cluster: str) -> str:
    """By which the agent of a cluster may deal with its works. OCM keeps it until they are gone."""
    return f"{PREFIX}{cluster}:{WORK}"


class Remains:
    def __init__(self, known: Knowledge, writes: Writes) -> None:
        self._known, self._writes = known, writes

    def keys(self, cluster: str | None = None) -> Iterator[Key]:
        """Of add-ons that have left a work behind, on one cluster or on any."""
        for (namespace, _), work in self._known.works.store.items():
            if cluster in (None, namespace) and _waits(work):
                yield namespace, work.metadata.labels[names.ADD_ON_LABEL]

    async def release(self, cluster: str, add_on: str, leadership: Leadership) -> None:
        if self._known.cluster(cluster) is not None:
            return
        if self._known.bindings.get(klusterlet_binding(cluster), namespace=cluster) is not None:
            return  # the agent may still do it itself
        for name in (names.deploy_work(add_on), names.pre_delete_work(add_on)):
            work = self._known.work(cluster, name)
            if work is not None and _waits(work):
                await self._let_go(work.metadata, leadership)

    async def _let_go(self, meta: ObjectMeta, leadership: Leadership) -> None:
        kept = [each for each in meta.finalizers if each != MANIFEST_WORK_FINALIZER]
        async with leadership.batch():
            try:
                await self._writes.patch(
                    MANIFEST_WORKS, meta, {"metadata": {"finalizers": kept}}, leadership=leadership
                )
            except (NotFound, Conflict):
                return  # the news of that brings us back
        log.info(RELEASED, meta.namespace, meta.name)


def _waits(work: ManifestWork) -> bool:
    """For an agent, and is an add-on's; works of users are theirs to let go."""
    meta = work.metadata
    if meta.deletionTimestamp is None or MANIFEST_WORK_FINALIZER not in meta.finalizers:
        return False
    owners = (each.kind for each in meta.ownerReferences if each.controller)
    return bool(meta.labels.get(names.ADD_ON_LABEL)) and MANAGED_CLUSTER_ADD_ONS.kind in owners
