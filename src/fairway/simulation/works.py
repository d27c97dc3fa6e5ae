"""Simulate the work agents of hosting clusters: they report every hosted cluster of a ManifestWork as created.

A synthetic cluster has no API server, so nothing is created anywhere. What the hub shows is the same: the conditions
and the feedback of the ManifestWork, and one more hosted cluster in the published count.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from fairway.api.resources import MANIFEST_WORKS
from fairway.api.work import WORK_APPLIED, WORK_AVAILABLE, ManifestWork, ResourceIdentifier
from fairway.klusterlet.works.feedback import feedback
from fairway.workloads.hosting.requests.work import HYPERSHIFT_VERSION, REQUEST_UID_LABEL
from kubewire.api.encoding import encode
from kubewire.api.meta import TRUE, Condition, find_condition, set_condition
from kubewire.client import Batch, Client, Clock, Deleted, Informer, KubeError, Patch

log: Final = logging.getLogger(__name__)

REASON: Final = "AppliedManifestWorkComplete"
FAILED: Final = "cannot report ManifestWork %s/%s, retrying with its next change: %s"
_AVAILABLE: Final = {"conditions": [{"type": "Available", "status": TRUE}]}
"""What HyperShift reports of a hosted cluster once its control plane runs."""
_PLURALS: Final = {"HostedCluster": "hostedclusters", "NodePool": "nodepools"}


class HostedWorks:
    """The ManifestWorks of hosted clusters. ``has_agent`` returns whether a cluster's agent runs."""

    def __init__(self, client: Client, *, clock: Clock, has_agent: Callable[[str], bool]) -> None:
        self._client, self._clock, self._has_agent = client, clock, has_agent
        self._works = Informer(client, MANIFEST_WORKS, labels=REQUEST_UID_LABEL)
        self._tasks: set[asyncio.Task[None]] = set()
        self._published: Counter[str] = Counter()
        """Hosted clusters that the published count of a cluster includes."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._works:
            await self._works.synced.wait()
            # What was published before this process started includes the hosted clusters that exist.
            self._published.update(work.metadata.namespace for work in self._works.store.values())
            unsubscribe = self._works.subscribe(self._on_change)
            for work in list(self._works.store.values()):
                self._report(work)
            try:
                yield
            finally:
                unsubscribe()
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    def added_since_published(self, cluster: str) -> int:
        """Return how many hosted clusters to add to the published count, which then includes them."""
        count = sum(namespace == cluster for namespace, _ in self._works.store)
        added = count - self._published[cluster]
        self._published[cluster] = count
        return added

    def _on_change(self, batch: Batch[ManifestWork]) -> None:
        for change in batch.changes:
            if not isinstance(change, Deleted):
                self._report(change.object)

    def _report(self, work: ManifestWork) -> None:
        applied = find_condition(work.status.conditions, WORK_APPLIED)
        is_current = applied is not None and applied.observedGeneration == work.metadata.generation
        if is_current or not self._has_agent(work.metadata.namespace):
            return
        task = asyncio.create_task(self._write(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, work: ManifestWork) -> None:
        meta = work.metadata
        now = self._clock.wall()
        conditions = work.status.conditions
        for kind in (WORK_APPLIED, WORK_AVAILABLE):
            wanted = Condition(type=kind, status=TRUE, reason=REASON, observedGeneration=meta.generation)
            conditions = set_condition(conditions, wanted, now=now)
        encoded = [encode(condition) for condition in conditions]
        manifests = [
            _manifest(work, number, manifest, encoded)
            for number, manifest in enumerate(encode(work.spec.workload)["manifests"])
        ]
        body = {"status": {"conditions": encoded, "resourceStatus": {"manifests": manifests}}}
        try:
            await self._client.patch(
                MANIFEST_WORKS,
                meta.name,
                body,
                kind=Patch.MERGE,
                namespace=meta.namespace,
                subresource="status",
            )
        except KubeError as error:
            log.debug(FAILED, meta.namespace, meta.name, error)


def _manifest(
    work: ManifestWork, number: int, manifest: dict[str, Any], conditions: list[Any]
) -> dict[str, Any]:
    kind, meta = manifest["kind"], manifest["metadata"]
    group, _, version = manifest["apiVersion"].rpartition("/")
    place = {
        "group": group,
        "resource": _PLURALS.get(kind, f"{kind.lower()}s"),
        "namespace": meta.get("namespace", ""),
        "name": meta["name"],
    }
    status: dict[str, Any] = {
        "resourceMeta": {"ordinal": number, "version": version, "kind": kind, **place},
        "conditions": conditions,
    }
    if manifest["apiVersion"] == HYPERSHIFT_VERSION and kind == "HostedCluster":
        # Evaluated as an agent does: what the controller asks for by a wrong path is missing here, too.
        live = {**manifest, "status": _AVAILABLE}
        identifier = ResourceIdentifier(**place)
        rules = [
            rule
            for config in work.spec.manifestConfigs
            if config.resourceIdentifier == identifier
            for rule in config.feedbackRules
        ]
        values, _ = feedback(live, rules)
        if values is not None:
            status["statusFeedback"] = encode(values)
    return status
