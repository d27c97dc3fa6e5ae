"""(c) Memory and CPU of a real `fairway agent run` on its cluster.

A large cluster is a process that sends nodes and pods of realistic size (``benchmarks.scores.usage_cluster``),
because creating them on a real one would take too long; a smaller one is a real kube-apiserver. Pods are deleted and
created at a steady rate. The score for free pods shows that the agent observed all of them.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.controllers.objects import Fleet, rate
from benchmarks.controllers.process import child, cpu_seconds, memory
from benchmarks.controllers.stage import EMBEDDED, REAL, staged
from benchmarks.measure import Note, table
from benchmarks.scores import agent as agents
from benchmarks.scores.agent import PODS_NAMESPACE, SCORE, add_node, agent, pod, raw_of
from benchmarks.scores.sightings import watched
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, PODS
from kubewire.client import Client

PODS_PER_NODE = 110
TICK = 0.1
IDLE_SHARE = 3
"""The measurement without changes is shorter by this factor."""
WRITERS = 16

Figures = dict[str, Any]
Churn = Callable[[int], Awaitable[object]]
"""Sends a number of changes of pods at once."""


async def scripted(*, nodes: int, pods: int, seconds: float, changes: float, note: Note) -> Figures:
    """Measure on a simulated cluster, with an embedded hub."""
    with tempfile.TemporaryDirectory(prefix="fairway-bench-") as name:
        folder = Path(name)
        note(f"a cluster of {nodes:,} nodes and {pods:,} pods")
        arguments = (f"--nodes={nodes}", f"--pods={pods}")
        async with (
            child("benchmarks.scores.usage_cluster", *arguments) as cluster,
            staged(EMBEDDED, Fleet(clusters=1), note=lambda _: None) as hub,
        ):
            server = (await cluster.ask("address"))["address"]
            given = agents.kubeconfig_without_secrets(folder / "cluster.kubeconfig", server)
            measured = await follow(
                hub.client,
                hub=hub.kubeconfig,
                cluster=given,
                name=next(iter(hub.scores)),
                room=nodes * PODS_PER_NODE - pods,
                churn=lambda number: cluster.ask(f"many {number}"),
                folder=folder,
                seconds=seconds,
                changes=changes,
                note=note,
            )
    return measured | {"nodes": nodes, "pods": pods, "cluster": "scripted"}


async def real(*, nodes: int, pods: int, seconds: float, changes: float, note: Note) -> Figures:
    """Measure on a kube-apiserver that is also the hub."""
    with tempfile.TemporaryDirectory(prefix="fairway-bench-") as folder:
        async with staged(REAL, Fleet(clusters=1), note=lambda _: None) as stage:
            note(f"kube-apiserver gets {nodes:,} nodes and {pods:,} pods")
            await fill(stage.client, nodes=nodes, pods=pods, note=note)
            measured = await follow(
                stage.client,
                hub=stage.kubeconfig,
                cluster=stage.kubeconfig,
                name=next(iter(stage.scores)),
                room=nodes * PODS_PER_NODE - pods,
                churn=Replacing(stage.client, nodes=nodes, pods=pods).change,
                folder=Path(folder),
                seconds=seconds,
                changes=changes,
                note=note,
            )
    return measured | {"nodes": nodes, "pods": pods, "cluster": stage.name}


async def fill(client: Client, *, nodes: int, pods: int, note: Note) -> None:
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": PODS_NAMESPACE}})
    room = {"cpu": "64", "memory": "256Gi", "pods": str(PODS_PER_NODE)}
    await rate(WRITERS, nodes, lambda number: add_node(client, f"node-{number}", room))

    async def add(number: int) -> None:
        await client.create(PODS, body_of(number, nodes), namespace=PODS_NAMESPACE)
        if number % 5000 == 4999:
            note(f"{number + 1:,} of {pods:,} pods")

    await rate(WRITERS, pods, add)


def body_of(number: int, nodes: int) -> dict[str, Any]:
    return pod(
        f"pod-{number:06d}", node=f"node-{number % nodes}", requests={"cpu": "250m", "memory": "512Mi"}
    )


class Replacing:
    """Deletes a pod and creates another in its place, in turn."""

    def __init__(self, client: Client, *, nodes: int, pods: int) -> None:
        self._client, self._nodes = client, nodes
        self._oldest, self._next = count(), count(pods)
        self._goes = True

    async def change(self, number: int) -> None:
        await asyncio.gather(*(self._one() for _ in range(number)))

    async def _one(self) -> None:
        goes, self._goes = self._goes, not self._goes
        if goes:
            name = f"pod-{next(self._oldest):06d}"
            await self._client.delete(PODS, name, namespace=PODS_NAMESPACE, grace_period=0)
        else:
            body = body_of(next(self._next), self._nodes)
            await self._client.create(PODS, body, namespace=PODS_NAMESPACE)


async def follow(
    client: Client,
    *,
    hub: Path,
    cluster: Path,
    name: str,
    room: int,
    churn: Churn,
    folder: Path,
    seconds: float,
    changes: float,
    note: Note,
) -> Figures:
    async with watched(client, ADD_ON_PLACEMENT_SCORES, namespace=name, name=SCORE) as scores:
        note("the agent starts")
        began = time.monotonic()
        async with agent(hub=hub, cluster=cluster, name=name, folder=folder) as process:
            first = await scores.first(lambda score: raw_of(score, "podsAvailable") == float(f"{room:.6g}"))
            measured: Figures = {
                "first": first.at - began,
                "load cpu": cpu_seconds(process.pid),
                "resident": memory(process.pid)[0],
            }
            note("quiet")
            measured["idle cpu"] = await _share(process.pid, asyncio.sleep(seconds / IDLE_SHARE))
            note(f"{changes:g} changes of pods a second for {seconds:g} s")
            before, busy = len(scores.all), time.monotonic()
            sent: list[int] = []
            measured["busy cpu"] = await _share(process.pid, _steadily(churn, changes, seconds, sent))
            measured["rate"] = sum(sent) / (time.monotonic() - busy)
            measured["writes"] = len(scores.all) - before
            measured["resident busy"], measured["most"] = memory(process.pid)
    return measured


async def _share(pid: int, work: Awaitable[None]) -> float:
    """Return the share of one core that the process used during ``work``."""
    began, cpu = time.monotonic(), cpu_seconds(pid)
    await work
    return (cpu_seconds(pid) - cpu) / (time.monotonic() - began)


async def _steadily(churn: Churn, changes: float, seconds: float, sent: list[int]) -> None:
    began, done = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        due = int(changes * (passed + TICK)) - done
        if due > 0:
            await churn(due)
            sent.append(due)
            done += due
        await asyncio.sleep(max(0.0, began + passed + TICK - time.monotonic()))


def shown(results: Sequence[Figures]) -> str:
    lines: tuple[tuple[str, Callable[[Figures], str]], ...] = (
        ("nodes", lambda result: f"{result['nodes']:,}"),
        ("pods", lambda result: f"{result['pods']:,}"),
        ("process started → first score on the hub", lambda result: f"{result['first']:.1f} s"),
        ("... CPU until then", lambda result: f"{result['load cpu']:.1f} s"),
        ("memory then", lambda result: f"{result['resident'] / 2**20:.0f} MiB"),
        ("... after the changes", lambda result: f"{result['resident busy'] / 2**20:.0f} MiB"),
        ("... at most", lambda result: f"{result['most'] / 2**20:.0f} MiB"),
        ("CPU while nothing happens, of one core", lambda result: f"{100 * result['idle cpu']:.1f} %"),
        ("changes of pods a second", lambda result: f"{result['rate']:.0f}"),
        ("CPU with them, of one core", lambda result: f"{100 * result['busy cpu']:.1f} %"),
        ("... per change", lambda result: f"{_per_change(result) * 1e3:.2f} ms"),
        ("scores written meanwhile", lambda result: f"{result['writes']}"),
    )
    rows = [["", *(result["cluster"] for result in results)]]
    rows += [[words, *(value(result) for result in results)] for words, value in lines]
    return "\n".join(("(c) the agent on a large cluster, as a process", table(rows)))


def _per_change(result: Figures) -> float:
    cpu: float = result["busy cpu"] - result["idle cpu"]
    return cpu / result["rate"] if result["rate"] else 0.0
