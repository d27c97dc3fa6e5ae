"""(d) Time from a pod on the managed cluster to the score on the hub.

Two API servers, a real agent, and watches on both servers with the clock of this process. Every pod requests one of
100 cores, so it lowers the score by two points, which is written; a sample ends with the first score that includes
the pod. *One at a time*: the debounce of the agent is over, and it reads at once. *In a stream*: pods are created
faster than the debounce, so a pod waits for up to the debounce until the next reading.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.controllers.stage import Stage
from benchmarks.measure import Note, percentile, table
from benchmarks.scores.agent import PODS_NAMESPACE, SCORE, add_node, agent, pod, value_of
from benchmarks.scores.sightings import Sightings, watched
from fairway.api.pod import Pod
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, PODS
from fairway.api.score import AddOnPlacementScore
from fairway.providers.provider import HIGHEST
from fairway.providers.provider_loop import DEBOUNCE_SECONDS
from fairway.providers.scales import Linear
from rigs.cleanup import delete_all

CORES = 100
MOST = 80
"""Pods until all are deleted again."""
ITEM = "cpuAvailable"
NODE = "node-0"
REST_SECONDS = 2.1 * DEBOUNCE_SECONDS
"""Seconds of pause: a burst of changes is often followed by one more reading."""
ALONE, STREAM = "one at a time", "in a stream"
GAPS = {ALONE: (1.1 * DEBOUNCE_SECONDS, 1.6 * DEBOUNCE_SECONDS), STREAM: (0.1, 0.4)}
"""Seconds between two pods; for *one at a time*, after the score of the last pod."""

Figures = dict[str, Any]


class Course:
    """Creates pods and measures each."""

    def __init__(self, cluster: Stage, scores: Sightings[AddOnPlacementScore], pods: Sightings[Pod]) -> None:
        self._cluster, self._scores, self._pods = cluster, scores, pods
        self._there = self._made = 0
        self._random = Random("pods")

    async def run(self, way: str, events: int) -> list[Figures]:
        figures: list[Figures] = []
        waiting: list[asyncio.Task[Figures]] = []
        for number in range(events):
            if number:
                await asyncio.sleep(self._random.uniform(*GAPS[way]))
            if self._there == MOST:
                figures += await asyncio.gather(*waiting)
                waiting.clear()
                await self.empty()
            waiting.append(await self._one())
            if way == ALONE:
                await waiting[-1]
        return figures + await asyncio.gather(*waiting)

    async def empty(self) -> None:
        """Delete all pods, and wait for the score of the empty node."""
        seen = len(self._scores.all)
        await delete_all(self._cluster.client, PODS, namespace=PODS_NAMESPACE, grace_period=0)
        self._there = 0
        await self.rested(since=seen)

    async def rested(self, *, since: int = 0) -> None:
        await self._scores.first(lambda score: value_of(score, ITEM) == HIGHEST, since=since)
        await asyncio.sleep(REST_SECONDS)

    async def _one(self) -> "asyncio.Task[Figures]":
        """Create a pod; return a task that ends with its score."""
        self._there += 1
        self._made += 1
        name, before = f"pod-{self._made:05d}", len(self._scores.all)
        wanted = Linear(0, CORES).score(CORES - self._there)
        body = pod(name, node=NODE, requests={"cpu": "1"})
        sent = time.monotonic()
        await self._cluster.client.create(PODS, body, namespace=PODS_NAMESPACE)
        return asyncio.create_task(self._awaited(name, wanted, sent=sent, before=before))

    async def _awaited(self, name: str, wanted: int, *, sent: float, before: int) -> Figures:
        came = await self._pods.first(lambda pod: pod.metadata.name == name)
        score = await self._scores.first(lambda score: _has(score, wanted), since=before)
        return {"sent": score.at - sent, "seen": score.at - came.at, "wanted": wanted}


def _has(score: AddOnPlacementScore, wanted: int) -> bool:
    value = value_of(score, ITEM)
    return value is not None and value <= wanted


async def measure(
    hub: Stage, cluster: Stage, *, alone: int, streamed: int, folder: Path, note: Note
) -> Figures:
    name = next(iter(hub.scores))
    await cluster.client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": PODS_NAMESPACE}})
    await add_node(cluster.client, NODE, {"cpu": str(CORES), "memory": "512Gi", "pods": "500"})
    async with (
        watched(hub.client, ADD_ON_PLACEMENT_SCORES, namespace=name, name=SCORE) as scores,
        watched(cluster.client, PODS, namespace=PODS_NAMESPACE) as pods,
        agent(hub=hub.kubeconfig, cluster=cluster.kubeconfig, name=name, folder=folder),
    ):
        course = Course(cluster, scores, pods)
        await course.rested()
        results: Figures = {}
        for way, events in ((ALONE, alone), (STREAM, streamed)):
            note(f"{events} pods, {way}")
            written = len(scores.all)
            results[way] = await course.run(way, events)
            results[f"{way}, writes"] = len(scores.all) - written
        return results


def shown(results: Sequence[tuple[str, Figures]]) -> str:
    rows = [
        [
            "hub and cluster",
            "pods",
            "samples",
            "p50 ms",
            "p90 ms",
            "p99 ms",
            "sent: p50 ms",
            "p99 ms",
            "writes",
        ]
    ]
    for hub, result in results:
        for way in (ALONE, STREAM):
            seen = [event["seen"] for event in result[way]]
            sent = [event["sent"] for event in result[way]]
            rows.append(
                [
                    hub,
                    way,
                    f"{len(seen)}",
                    *(f"{percentile(seen, share) * 1e3:.0f}" for share in (0.5, 0.9, 0.99)),
                    *(f"{percentile(sent, share) * 1e3:.0f}" for share in (0.5, 0.99)),
                    f"{result[f'{way}, writes']}",
                ]
            )
    words = (
        "(d) pod seen on the cluster → score seen on the hub; from being sent, too.\n"
        f"    In a stream a pod waits for up to {DEBOUNCE_SECONDS:g} s, the debounce, until the agent reads again"
    )
    return "\n".join((words, table(rows)))
