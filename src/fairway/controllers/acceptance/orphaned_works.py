"""Remove the finalizers of works whose agent has no access to them any more.

A deleted work waits until the cluster's agent has removed the applied objects. The agent needs its permissions in the
namespace for that. It has none, and gets none again, once the namespace is being deleted and they are deleted, and on a
denied cluster that is being deleted: work, namespace and cluster would stay forever, and no cluster of this name could
join. OCM keeps the permissions until all works are deleted, also those of a denied cluster, so its works wait for an
agent that may not exist.

Other works keep their finalizers: the agent of a cluster that is only unreachable removes the applied objects once it
returns, and ``fairway join forget`` is for a cluster that does not return.
"""

import logging
from typing import Final

from fairway.api.resources import MANIFEST_WORKS
from fairway.api.work import MANIFEST_WORK_FINALIZER
from fairway.controllers.kinds import Namespace
from fairway.controllers.runtime.writer import Writer
from kubewire.api.meta import TRUE, ObjectMeta, find_condition
from kubewire.client import Client, Conflict, NotFound

log: Final = logging.getLogger(__name__)

RELEASED: Final = (
    "removed the finalizer: the cluster's agent has no access to the work any more; applied objects stay on the "
    "cluster  manifestwork=%s/%s"
)

RELEASED_AT_ONCE: Final = 500
"""Works of which one call removes the finalizer, so that it does not hold a worker for long."""

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
        condition = find_condition(namespace.status.conditions or (), kind)
        if condition is not None and condition.status == TRUE and condition.message:
            return condition.message
    return ""


class OrphanedWorks:
    def __init__(self, client: Client, writer: Writer) -> None:
        self._client, self._writer = client, writer

    async def release(self, cluster: str) -> bool:
        """Remove the finalizers; return whether none is left. Only for works as above. Raise KubeErrors."""
        complete, released = True, 0
        try:
            async for page in self._client.metadata_pages(MANIFEST_WORKS, namespace=cluster):
                for meta in page:
                    if MANIFEST_WORK_FINALIZER not in meta.finalizers:
                        continue
                    if meta.deletionTimestamp is None or released == RELEASED_AT_ONCE:
                        complete = False  # the hub deletes the objects of the namespace one after the other
                        continue
                    released += 1
                    complete = await self._remove_finalizer(meta) and complete
        except NotFound:
            return True  # the hub does not serve ManifestWorks
        return complete

    async def _remove_finalizer(self, meta: ObjectMeta) -> bool:
        kept = [finalizer for finalizer in meta.finalizers if finalizer != MANIFEST_WORK_FINALIZER]
        async with self._writer.batch():
            try:
                await self._writer.patch(MANIFEST_WORKS, meta, {"metadata": {"finalizers": kept}})
            except NotFound:
                return True
            except Conflict:
                return False
        log.info(RELEASED, meta.namespace, meta.name)
        return True
