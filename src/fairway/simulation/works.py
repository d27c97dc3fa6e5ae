"""Simulate the work agents of hosting clusters: they report every hosted cluster of a ManifestWork as created.

A synthetic cluster has no API server, so nothing is created anywhere. What the hub shows is the same: the conditions
and the feedback of the ManifestWork, and in the published scores one more hosted cluster, and the room that it uses.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from fairway.api.hosted_request import REQUEST_UID_LABEL
from fairway.api.pod_requests import CPU, MEMORY, PODS
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS, MANIFEST_WORKS
from fairway.api.work import WORK_APPLIED, WORK_AVAILABLE, ManifestWork, ResourceIdentifier
from fairway.klusterlet.works.feedback import feedback
from fairway.providers.hosted.headroom import Headroom
from fairway.simulation.synthetic.scores import typical
from fairway.workloads.hosting.requests.work import HYPERSHIFT_VERSION, request_name
from kubewire.api.encoding import encode
from kubewire.api.meta import TRUE, Condition, find_condition, set_condition
from kubewire.api.quantity import QuantityError, quantity_float
from kubewire.client import Batch, Client, Clock, Deleted, Informer, KubeError, Patch

log: Final = logging.getLogger(__name__)

REASON: Final = "AppliedManifestWorkComplete"
FAILED: Final = "cannot report ManifestWork %s/%s, retrying with its next change: %s"
_AVAILABLE: Final = {"conditions": [{"type": "Available", "status": TRUE}]}
"""What HyperShift reports of a hosted cluster once its control plane runs."""
_PLURALS: Final = {"HostedCluster": "hostedclusters", "NodePool": "nodepools"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedChange:
    """Hosted clusters of requests on a cluster: how many more than before, how many, and what all of them use."""

    added: int
    count: int
    used: Headroom


class HostedWorks:
    """The ManifestWorks of hosted clusters. ``has_agent`` returns whether a cluster's agent runs."""

    def __init__(self, client: Client, *, clock: Clock, has_agent: Callable[[str], bool]) -> None:
        self._client, self._clock, self._has_agent = client, clock, has_agent
        self._works = Informer(client, MANIFEST_WORKS, labels=REQUEST_UID_LABEL)
        self._tasks: set[asyncio.Task[None]] = set()
        self._published: dict[str, dict[str, Headroom]] = {}
        """What the published scores of a cluster include: the use of each hosted cluster, by the name of its work."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._works:
            await self._works.synced.wait()
            # What was published before this process started includes the hosted clusters that exist.
            for work in list(self._works.store.values()):
                published = self._published.setdefault(work.metadata.namespace, {})
                published[work.metadata.name] = await self._use_of(work)
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

    async def changed_since_published(self, cluster: str) -> HostedChange | None:
        """Return what changed, which counts as published from now on; None for nothing."""
        before = self._published.get(cluster, {})
        works = {
            work.metadata.name: work
            for work in self._works.store.values()
            if work.metadata.namespace == cluster
        }
        if works.keys() == before.keys():
            return None
        now = {
            name: before[name] if name in before else await self._use_of(work) for name, work in works.items()
        }
        self._published[cluster] = now
        return HostedChange(
            added=len(now) - len(before),
            count=len(now),
            used=Headroom(
                cpu=sum(use.cpu for use in now.values()),
                memory=sum(use.memory for use in now.values()),
                pods=sum(use.pods for use in now.values()),
            ),
        )

    async def _use_of(self, work: ManifestWork) -> Headroom:
        """Return what the request of a work reserved; that of a typical hosted cluster if the request was deleted."""
        namespace, name = request_name(work)
        try:
            request = await self._client.get(HOSTED_CLUSTER_REQUESTS, name, namespace=namespace)
            amounts = request.status.reservation.amounts if request.status.reservation is not None else {}
            cpu, memory, pods = (quantity_float(amounts[name]) for name in (CPU, MEMORY, PODS))
            return Headroom(cpu=cpu, memory=memory, pods=pods)
        except (KubeError, KeyError, QuantityError):
            return typical(1)

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
