"""The fleet and placements of the benchmark, and their fast creation on a hub."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec

from fairway.api import crds
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.simulation import synthetic
from kubewire.api.meta import format_time
from kubewire.client import Client, Informer, NotFound, ServerError
from rigs.cleanup import delete_all

NAMESPACE = "bench"
LIMIT_NAMESPACE = "limit"
SYSTEM_NAMESPACE = "fairway-system"
NUMBER = 10
"""numberOfClusters of a placement, as in OCM's own benchmark."""
SCORE, ITEM = "usage", "cpu"
GROUP = "bench-group"
WRITERS = 32
VALID = timedelta(minutes=1000)

_API = "cluster.open-cluster-management.io"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_MERGE = "application/merge-patch+json"

Document = dict[str, Any]


async def rate(workers: int, total: int, work: Callable[[int], Awaitable[object]]) -> float:
    """Run the calls, and return their number per second."""
    numbers = iter(range(total))

    async def run() -> None:
        for number in numbers:
            await work(number)

    began = time.perf_counter()
    await asyncio.gather(*(run() for _ in range(workers)))
    return total / (time.perf_counter() - began)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A fleet with ``groups`` of equal size by a label. Scores are between -100 and 100."""

    clusters: int
    groups: int = 1
    seed: int = 1

    def documents(self) -> Iterator[tuple[Document, int]]:
        """Yield synthetic clusters of 3 to 4 KB with their scores; without taints, so that all are feasible."""
        rng = Random(f"scores {self.seed}")
        number = 0
        for document in synthetic.generate(clusters=self.clusters, seed=self.seed, placements=0):
            if document["kind"] != "ManagedCluster":
                continue
            meta = document["metadata"]
            del meta["resourceVersion"], meta["uid"], meta["finalizers"]
            document["spec"].pop("taints", None)
            meta["labels"][GROUP] = f"group-{number % self.groups}"
            yield document, rng.randint(-100, 100)
            number += 1


def score(cluster: str, value: int, *, valid: timedelta = VALID) -> Document:
    return {
        "apiVersion": f"{_API}/v1alpha1",
        "kind": "AddOnPlacementScore",
        "metadata": {"name": SCORE, "namespace": cluster},
        "status": score_status(value, valid=valid),
    }


def score_status(value: int, *, valid: timedelta = VALID) -> Document:
    now = datetime.now(UTC)
    return {
        "conditions": [
            {
                "type": "ScoreUpdated",
                "status": "True",
                "reason": "ScoreUpdated",
                "message": "Scores updated",
                "lastTransitionTime": format_time(now),
            }
        ],
        "scores": [{"name": ITEM, "value": value}],
        "validUntil": format_time(now + valid),
    }


def placement(
    name: str, *, namespace: str = NAMESPACE, group: str = "", number: int = NUMBER, only_score: bool = False
) -> Document:
    """Return a placement that ranks as in OCM's benchmark, or by the score alone."""
    add_on = {"type": "AddOn", "addOn": {"resourceName": SCORE, "scoreName": ITEM}}
    coordinates: list[Document] = [add_on]
    if not only_score:
        built_in = ("ResourceAllocatableCPU", "Balance")
        coordinates += [{"type": "BuiltIn", "builtIn": prioritizer} for prioritizer in built_in]
    spec: Document = {
        "numberOfClusters": number,
        "prioritizerPolicy": {
            "mode": "Exact",
            "configurations": [{"scoreCoordinate": coordinate, "weight": 1} for coordinate in coordinates],
        },
    }
    if group:
        selector = {"labelSelector": {"matchLabels": {GROUP: group}}}
        spec["predicates"] = [{"requiredClusterSelector": selector}]
    return {
        "apiVersion": f"{_API}/v1beta1",
        "kind": "Placement",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


async def prepare(client: Client) -> None:
    """Create definitions, namespaces, and a set of all clusters bound to the namespaces of placements.

    Clusters and scores have no status subresource until ``load`` ends, which so needs one request for each instead of
    two.
    """
    for definition in crds():
        await client.request("POST", DEFINITIONS, body=_without_status(definition))
    for namespace in (NAMESPACE, LIMIT_NAMESPACE, SYSTEM_NAMESPACE):
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    await until_served(client, f"/apis/{_API}/v1/managedclusters")
    await until_served(client, f"/apis/{_API}/v1alpha1/addonplacementscores")
    await until_served(client, f"/apis/{_API}/v1beta2/managedclustersets")
    await until_served(client, f"/apis/{_API}/v1beta2/managedclustersetbindings")
    await until_served(client, f"/apis/{_API}/v1beta1/placements")
    await until_served(client, f"/apis/{_API}/v1beta1/placementdecisions")
    everything = {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}
    await client.request(
        "POST",
        f"/apis/{_API}/v1beta2/managedclustersets",
        body={
            "apiVersion": f"{_API}/v1beta2",
            "kind": "ManagedClusterSet",
            "metadata": {"name": "global"},
            "spec": everything,
        },
    )
    await client.request(
        "POST",
        f"/apis/{_API}/v1beta2/namespaces/{NAMESPACE}/managedclustersetbindings",
        body={
            "apiVersion": f"{_API}/v1beta2",
            "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global", "namespace": NAMESPACE},
            "spec": {"clusterSet": "global"},
        },
    )


async def load(client: Client, fleet: Fleet, note: Callable[[str], None]) -> dict[str, int]:
    """Create clusters, their namespaces and scores. Return the scores by cluster."""
    scores: dict[str, int] = {}
    documents = fleet.documents()

    async def add(number: int) -> None:
        document, value = next(documents)
        name = document["metadata"]["name"]
        scores[name] = value
        await client.request("POST", MANAGED_CLUSTERS.path(), body=msgspec.json.encode(document))
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        path = ADD_ON_PLACEMENT_SCORES.path(namespace=name)
        await client.request("POST", path, body=score(name, value))
        if number % 5000 == 4999:
            note(f"{number + 1:,} of {fleet.clusters:,} clusters")

    await rate(WRITERS, fleet.clusters, add)
    for definition in crds():
        if _is_loaded(definition):
            path = f"{DEFINITIONS}/{definition['metadata']['name']}"
            versions = {"spec": {"versions": definition["spec"]["versions"]}}
            await client.request("PATCH", path, body=versions, content_type=_MERGE)
    first = next(iter(scores))
    await until_served(client, MANAGED_CLUSTERS.path(name=first, subresource="status"))
    await until_served(
        client, ADD_ON_PLACEMENT_SCORES.path(namespace=first, name=SCORE, subresource="status")
    )
    # After a change of a definition, the hub rebuilds its cache of the objects; wait for it here.
    async with (
        Informer(client, MANAGED_CLUSTERS) as clusters,
        Informer(client, ADD_ON_PLACEMENT_SCORES) as all_scores,
    ):
        await clusters.synced.wait()
        await all_scores.synced.wait()
    return scores


async def add_placements(
    client: Client, count: int, body: Callable[[int], Mapping[str, Any]], *, writers: int = WRITERS
) -> None:
    async def add(number: int) -> None:
        document = body(number)
        path = f"/apis/{_API}/v1beta1/namespaces/{document['metadata']['namespace']}/placements"
        await client.request("POST", path, body=document)

    await rate(writers, count, add)


async def clear(client: Client, namespace: str) -> None:
    """Delete placements and decisions; without a garbage collector, decisions stay."""
    await delete_all(client, PLACEMENTS, namespace=namespace)
    await delete_all(client, PLACEMENT_DECISIONS, namespace=namespace)


def _is_loaded(definition: Mapping[str, Any]) -> bool:
    return definition["spec"]["names"]["kind"] in ("ManagedCluster", "AddOnPlacementScore")


def _without_status(definition: Mapping[str, Any]) -> Document:
    if not _is_loaded(definition):
        return dict(definition)
    versions = [
        {key: value for key, value in version.items() if key != "subresources"}
        for version in definition["spec"]["versions"]
    ]
    return {**definition, "spec": {**definition["spec"], "versions": versions}}


async def until_served(client: Client, path: str) -> None:
    """Wait until the hub serves the path."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.request("GET", path, query={"limit": "1"})
                return
            except (NotFound, ServerError):
                await asyncio.sleep(0.05)
