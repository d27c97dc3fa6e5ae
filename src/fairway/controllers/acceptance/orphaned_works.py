"""Remove the finalizers of works that block the deletion of a cluster's namespace.

A deleted work waits until the cluster's agent has removed the applied objects. The agent needs its permissions in the
namespace for that. Once they are deleted and the namespace is being deleted, they cannot be created again: work and
namespace would stay forever, and no cluster of this name could join. OCM keeps the permissions until all works are
deleted, so its works wait for an agent that may not exist.

In a namespace that is not being deleted, works keep their finalizers: a cluster that joins again under the name removes
the applied objects, and ``fairway join forget`` is for a cluster that does not return.
"""

import logging
from typing import Final

from fairway.api.meta import TRUE, find_condition
from fairway.api.work import MANIFEST_WORK_FINALIZER, ManifestWork
from fairway.controllers.fenced_writer import FencedWriter
from fairway.controllers.kinds import Namespace
from fairway.controllers.leadership import Leadership
from fairway.kube import MANIFEST_WORKS, Client, Conflict, NotFound

log: Final = logging.getLogger(__name__)

RELEASED: Final = (
    "removed the finalizer: the namespace is being deleted and the cluster's agent has no access; applied objects "
    "stay on the cluster  manifestwork=%s/%s"
)

_KEPT_BY: Final = (
    "NamespaceFinalizersRemaining",
    "NamespaceDeletionContentFailure",
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceContentRemaining",
)
"""Conditions of a namespace that is being deleted, causes before consequences."""


def kept_by(namespace: Namespace) -> str:
    """The hub's message on what blocks the deletion of a namespace; empty if it has none."""
    for kind in _KEPT_BY:
        found = find_condition(namespace.status.conditions or (), kind)
        if found is not None and found.status == TRUE and found.message:
            return found.message
    return ""


class OrphanedWorks:
    def __init__(self, client: Client, writes: FencedWriter) -> None:
        self._client, self._writer = client, writes

    async def release(self, cluster: str, leadership: Leadership) -> bool:
        """Remove the finalizers; return whether none is left. Only for a namespace as above. Raise KubeErrors."""
        try:
            works = (await self._client.list(MANIFEST_WORKS, namespace=cluster)).items
        except NotFound:
            return True  # the hub does not serve ManifestWorks
        held = [each for each in works if MANIFEST_WORK_FINALIZER in each.metadata.finalizers]
        results = [await self._remove_finalizer(each, leadership) for each in held]
        return all(results)

    async def _remove_finalizer(self, work: ManifestWork, leadership: Leadership) -> bool:
        meta = work.metadata
        if meta.deletionTimestamp is None:
            return False  # the hub deletes the objects of the namespace one after the other
        kept = [each for each in meta.finalizers if each != MANIFEST_WORK_FINALIZER]
        async with leadership.batch():
            try:
                await self._writer.patch(
                    MANIFEST_WORKS, meta, {"metadata": {"finalizers": kept}}, leadership=leadership
                )
            except NotFound:
                return True
            except Conflict:
                return False
        log.info(RELEASED, meta.namespace, meta.name)
        return True
