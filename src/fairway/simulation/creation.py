"""Create a synthetic fleet on a hub.

Existing objects are kept: an interrupted creation can be completed, and changes by users stay.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from fairway.api.cluster import CONDITION_AVAILABLE
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
)
from fairway.simulation.objects import (
    NAMESPACE,
    SYNTHETIC,
    Score,
    SimulatedCluster,
    sets_and_bindings,
    simulated_clusters,
)
from kubewire.api.meta import ObjectMeta, find_condition, format_time
from kubewire.api.resource import Key, T, key_of
from kubewire.client import (
    SYSTEM_CLOCK,
    AlreadyExists,
    Client,
    Clock,
    KubeError,
    NotFound,
    Patch,
    Resource,
)

LEASE_SECONDS: Final = 60
PERIODS_VALID: Final = 5
"""Periods for which a score is valid, so that one or two missed publications have no effect."""
CONCURRENCY: Final = 16
"""Clusters created at the same time."""
CLUSTER_NAME_LABEL: Final = "open-cluster-management.io/cluster-name"
UPDATED: Final = "AddOnPlacementScoreUpdated"
UPDATED_MESSAGE: Final = "AddOnPlacementScore updated successfully"


class Namespace(Struct, frozen=True, kw_only=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()


NAMESPACES: Final = Resource(
    group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False, type=Namespace
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """``period`` is the seconds between two publications of a cluster, ``rate`` the maximum requests per second.

    ``walks`` is whether scores change at random; otherwise they stay as they are on the hub.
    """

    clusters: int = 0
    seed: int = 0
    period: float = 60.0
    rate: float = 200.0
    walks: bool = True

    def validity(self, clusters: int) -> float:
        """Return the validity of scores in seconds: longer for fleets that cannot publish every period at this rate."""
        per_period = 1 + self.period / LEASE_SECONDS
        return PERIODS_VALID * max(self.period, clusters * per_period / self.rate)


async def create(
    client: Client,
    options: SimulationOptions,
    *,
    clock: Clock = SYSTEM_CLOCK,
    advance: Callable[[float], None] = lambda _: None,
) -> None:
    """Create missing clusters, sets and scores, and call ``advance(1)`` after every cluster.

    Raises a single KubeError, never an exception group.
    """
    now = clock.wall()
    await ensure(client, NAMESPACES, {"metadata": {"name": NAMESPACE}})
    for document in sets_and_bindings(now=now):
        if document["kind"] == MANAGED_CLUSTER_SETS.kind:
            await ensure(client, MANAGED_CLUSTER_SETS, document)
        else:
            await ensure(client, MANAGED_CLUSTER_SET_BINDINGS, document, namespace=NAMESPACE)
    creator = _FleetCreator(
        client, until=now + timedelta(seconds=options.validity(options.clusters)), now=now
    )
    await creator.load_progress()
    queue = iter(simulated_clusters(clusters=options.clusters, seed=options.seed, now=now))

    async def work() -> None:
        for cluster in queue:
            await creator.create(cluster)
            advance(1)

    failures: list[BaseException] = []
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(CONCURRENCY, options.clusters)):
                group.create_task(work())
    except* KubeError as errors:
        failures += errors.exceptions
    if failures:
        raise failures[0]  # the other failures have the same cause


async def ensure(
    client: Client, resource: Resource[T], body: Mapping[str, Any], *, namespace: str | None = None
) -> None:
    """Create the object unless it exists."""
    try:
        await client.create(resource, body, namespace=namespace)
    except AlreadyExists:
        return


def score_status(values: Mapping[str, int], *, until: datetime, now: datetime) -> dict[str, Any]:
    return {
        "conditions": [
            {
                "type": UPDATED,
                "status": "True",
                "reason": UPDATED,
                "message": UPDATED_MESSAGE,
                "lastTransitionTime": format_time(now),
            }
        ],
        "scores": [{"name": name, "value": value} for name, value in sorted(values.items())],
        "validUntil": format_time(until),
    }


class _FleetCreator:
    """Creates clusters with scores that are valid until ``until``."""

    def __init__(self, client: Client, *, until: datetime, now: datetime) -> None:
        self._client = client
        self._until, self._now = until, now
        self._reported: frozenset[str] = frozenset()
        self._known: frozenset[str] = frozenset()
        self._scored: frozenset[Key] = frozenset()

    async def load_progress(self) -> None:
        """List what an earlier, perhaps interrupted creation left."""
        clusters = await self._client.list(MANAGED_CLUSTERS)
        self._known = frozenset(cluster.metadata.name for cluster in clusters.items)
        self._reported = frozenset(
            cluster.metadata.name
            for cluster in clusters.items
            if cluster.status.allocatable
            and find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
        )
        scores = await self._client.list(ADD_ON_PLACEMENT_SCORES)
        self._scored = frozenset(key_of(score) for score in scores.items if score.status.scores)

    async def create(self, member: SimulatedCluster) -> None:
        name, client = member.name, self._client
        if name not in self._known:
            await ensure(client, MANAGED_CLUSTERS, member.manifest)
        if name not in self._reported:
            await client.patch(
                MANAGED_CLUSTERS, name, {"status": member.status}, kind=Patch.MERGE, subresource="status"
            )
        missing = [score for score in member.scores if (name, score.name) not in self._scored]
        if missing:
            metadata = {"name": name, "labels": {CLUSTER_NAME_LABEL: name}}
            await ensure(client, NAMESPACES, {"metadata": metadata})
        for score in missing:
            await self._publish(name, score)

    async def _publish(self, name: str, score: Score) -> None:
        await publish(
            self._client,
            cluster=name,
            name=score.name,
            status=score_status(score.values, until=self._until, now=self._now),
            create=True,
        )


async def publish(
    client: Client, *, cluster: str, name: str, status: Mapping[str, Any], create: bool = False
) -> None:
    """Write the status of a score. A missing object is created first; ``create`` skips the attempt to write it."""
    if create:
        metadata = {"name": name, "namespace": cluster, "labels": {SYNTHETIC: "true"}}
        await ensure(client, ADD_ON_PLACEMENT_SCORES, {"metadata": metadata}, namespace=cluster)
    try:
        await client.patch(
            ADD_ON_PLACEMENT_SCORES,
            name,
            {"status": status},
            kind=Patch.MERGE,
            namespace=cluster,
            subresource="status",
        )
    except NotFound:
        if create:
            raise
        await publish(client, cluster=cluster, name=name, status=status, create=True)
