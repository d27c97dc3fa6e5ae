"""(c) Time, CPU and memory from the start of the process to the first decision, by the size of the fleet.

A placement exists when the controller starts; its decision is observed by a watch. Then a second one is created, for
the time of a warm controller.
"""

import asyncio
import time
from typing import Any

from benchmarks.controllers import objects
from benchmarks.controllers.objects import NAMESPACE
from benchmarks.controllers.process import memory
from benchmarks.controllers.stage import Stage
from benchmarks.measure import Note, percentile, table
from fairway.api.decision import PlacementDecision
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.resources import PLACEMENT_DECISIONS
from kubewire.client import Batch, Informer

FIRST, SECOND = "first", "second"
IDLE_SECONDS = 5.0


class Sightings:
    """The times at which decisions with clusters were first observed, by placement."""

    def __init__(self) -> None:
        self._seen: dict[str, asyncio.Future[float]] = {
            name: asyncio.get_running_loop().create_future() for name in (FIRST, SECOND)
        }

    def hear(self, batch: Batch[PlacementDecision]) -> None:
        at = time.monotonic()
        for change in batch.changes:
            decision = change.object
            future = self._seen.get(decision.metadata.labels.get(PLACEMENT_LABEL, ""))
            if decision.status.decisions and future and not future.done():
                future.set_result(at)

    async def of(self, name: str) -> float:
        async with asyncio.timeout(300):
            return await self._seen[name]


async def once(stage: Stage) -> dict[str, float]:
    sightings = Sightings()
    informer = Informer(stage.client, PLACEMENT_DECISIONS, namespace=NAMESPACE)
    informer.subscribe(sightings.hear)
    async with informer:
        await informer.synced.wait()
        await objects.add_placements(stage.client, 1, lambda _: objects.placement(FIRST))
        began = time.monotonic()
        async with stage.controller() as controller:
            first = await sightings.of(FIRST)
            cpu = controller.cpu()
            figures = await controller.ask("figures")
            created = time.monotonic()
            await objects.add_placements(stage.client, 1, lambda _: objects.placement(SECOND))
            second = await sightings.of(SECOND)
            idle = controller.cpu()
            await asyncio.sleep(IDLE_SECONDS)
            idle = controller.cpu() - idle
            resident, most = memory(controller.pid)
    await objects.clear(stage.client, NAMESPACE)
    return {
        "synced": figures["synced"] - began,
        "first": first - began,
        "second": second - created,
        "cpu": cpu,
        "idle_cpu": idle * 60 / IDLE_SECONDS,
        "resident": resident,
        "most": most,
    }


async def measure(stage: Stage, *, rounds: int, note: Note) -> dict[str, Any]:
    runs: list[dict[str, float]] = []
    for number in range(rounds):
        note(f"start {number + 1} of {rounds}")
        runs.append(await once(stage))
    medians = {name: percentile([run[name] for run in runs], 0.5) for name in runs[0]}
    return {**medians, "clusters": len(stage.scores), "hub_resident": stage.resident()}


def shown(results: list[tuple[str, dict[str, Any]]]) -> str:
    rows = [
        [
            *("hub", "clusters", "synced s", "first decision s", "second ms", "CPU s", "idle CPU s/min"),
            *("memory MB", "at most MB", "hub's MB"),
        ],
        *(
            [
                hub,
                f"{result['clusters']:,}",
                f"{result['synced']:.2f}",
                f"{result['first']:.2f}",
                f"{result['second'] * 1e3:.0f}",
                f"{result['cpu']:.2f}",
                f"{result['idle_cpu']:.2f}",
                *(f"{result[name] / 1e6:.0f}" for name in ("resident", "most", "hub_resident")),
            ]
            for hub, result in results
        ),
    ]
    return "\n".join(("(c) cold start to first decision", table(rows)))
