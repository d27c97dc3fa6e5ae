"""(a) Placements converged per second, beside the raw write limit of the same hub in the same run.

Two ways: *cold*, where all placements exist and the controller starts, measured from the sync of its informers; and
*running*, where the controller runs and placements are created, measured from the first create (OCM's benchmark starts
its controller and creates placements, one after the other, at the same time). A placement has converged when its
decision and its status have ten clusters. The measurement ends with the hub's response to the last write; then every
placement is checked.
"""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from benchmarks.controllers import objects
from benchmarks.controllers.objects import LIMIT_NAMESPACE, NAMESPACE, NUMBER
from benchmarks.controllers.process import Child, child, memory
from benchmarks.controllers.stage import Stage
from benchmarks.measure import Note, table
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.resources import PLACEMENT_DECISIONS, PLACEMENTS
from fairway.controllers.placement.controller import WORKERS
from fairway.workloads.placement.conditions import SATISFIED
from kubewire.api.meta import TRUE, find_condition

OCM_SECONDS = {1_000: 41.0, 10_000: 961.0}
"""Results of OCM's own benchmark by number of placements, recorded earlier on a machine with two cores."""
CREATORS = 8
EVENTS_A_PLACEMENT = 3

Figures = dict[str, Any]


class NotConverged(Exception):
    """A placement did not converge; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The write limit: writes per second, and placements per second."""

    requests: float
    placements: float
    cpu: float
    """CPU time of the writer per request."""
    seconds: dict[str, float]
    """Mean time of a request, by purpose."""


async def limit(stage: Stage, *, count: int) -> Limit:
    arguments = ("--namespace", LIMIT_NAMESPACE, "--count", str(count), "--workers", str(WORKERS))
    module = "benchmarks.controllers.limit"
    async with child(module, "--kubeconfig", str(stage.kubeconfig), *arguments) as writer:
        answer = await writer.ask("measure")
    tallies = answer["requests"]
    requests = sum(tally["count"] for tally in tallies.values())
    return Limit(
        requests=requests / answer["seconds"],
        placements=answer["placements"] / answer["seconds"],
        cpu=answer["cpu"] / requests,
        seconds={name: tally["seconds"] / tally["count"] for name, tally in tallies.items()},
    )


async def converged(stage: Stage, count: int) -> None:
    """Raise NotConverged unless every placement has its clusters."""
    placements = (await stage.client.list(PLACEMENTS, namespace=NAMESPACE)).items
    decisions = (await stage.client.list(PLACEMENT_DECISIONS, namespace=NAMESPACE)).items
    if len(placements) != count:
        raise NotConverged(f"{len(placements)} placements instead of {count}")
    chosen: Counter[str] = Counter()
    for decision in decisions:
        names = {entry.clusterName for entry in decision.status.decisions}
        chosen[decision.metadata.labels[PLACEMENT_LABEL]] += len(names)
    for placement in placements:
        name, status = placement.metadata.name, placement.status
        condition = find_condition(status.conditions, SATISFIED)
        if chosen[name] != NUMBER or status.numberOfSelectedClusters != NUMBER:
            raise NotConverged(f"{name} has {chosen[name]} clusters and {status.numberOfSelectedClusters}")
        if condition is None or condition.status != TRUE:
            raise NotConverged(f"{name} is not satisfied: {condition}")


async def settled(stage: Stage, controller: Child, count: int, *, note: Note) -> Figures:
    """Wait for convergence, and return the controller's measurements."""
    noted_at = time.monotonic()
    while True:
        figures = await controller.ask("figures")
        done = figures["requests"].get("patch placements/status", {}).get("count", 0)
        if figures["leading"] and not figures["busy"] and done >= count:
            await converged(stage, count)
            return figures
        if time.monotonic() - noted_at > 10:
            noted_at = time.monotonic()
            note(f"{done:,} of {count:,} placements")
        await asyncio.sleep(0.1)


async def cold(stage: Stage, count: int, *, note: Note) -> Figures:
    note(f"{count:,} placements, then the controller")
    await objects.add_placements(stage.client, count, lambda number: objects.placement(f"p-{number:05d}"))
    began, hub = time.monotonic(), stage.cpu()
    async with stage.controller() as controller:
        figures = await settled(stage, controller, count, note=note)
        result = accounted(
            figures, count, since=figures["synced"], hub=stage.cpu() - hub, controller=controller
        )
        result["start"] = figures["synced"] - began
    return result


async def running(stage: Stage, count: int, *, note: Note) -> Figures:
    note(f"the controller, then {count:,} placements")
    async with stage.controller() as controller:
        while not (await controller.ask("figures"))["leading"]:
            await asyncio.sleep(0.1)
        before, hub = controller.cpu(), stage.cpu()
        began = time.monotonic()
        await objects.add_placements(
            stage.client, count, lambda number: objects.placement(f"p-{number:05d}"), writers=CREATORS
        )
        created = time.monotonic() - began
        figures = await settled(stage, controller, count, note=note)
        result = accounted(figures, count, since=began, hub=stage.cpu() - hub, controller=controller)
        result["cpu"] -= before
        result["created"] = created
        result["others"] = count
    return result


def accounted(figures: Figures, count: int, *, since: float, hub: float, controller: Child) -> Figures:
    tallies = figures["requests"]
    writes = {
        name: tally for name, tally in tallies.items() if not name.startswith("get") and "lease" not in name
    }
    seconds = figures["last_write"] - since
    return {
        "placements": count,
        "seconds": seconds,
        "rate": count / seconds,
        "writes": sum(write["count"] for write in writes.values()),
        "others": 0,
        "failed": sum(write["failed"] for write in writes.values()),
        "requests": {name: tally["count"] for name, tally in writes.items()},
        "request_seconds": {name: tally["seconds"] / tally["count"] for name, tally in writes.items()},
        "cpu": controller.cpu(),
        "hub_cpu": hub,
        "resident": memory(controller.pid)[0],
    }


WAYS = {"cold": cold, "running": running}


async def measure(stage: Stage, way: str, *, count: int, note: Note) -> Figures:
    """Measure on a hub without placements. The limit is measured before and after, because machines are noisy."""
    sample = min(count, 1_000)
    before = await limit(stage, count=sample)
    result = await WAYS[way](stage, count, note=note)
    after = await limit(stage, count=sample)
    note(
        f"{result['rate']:.0f} placements/s; write limits {before.placements:.0f} and {after.placements:.0f}"
    )
    result["limit_requests"] = (before.requests + after.requests) / 2
    result["limit_rate"] = (before.placements + after.placements) / 2
    result["limit_cpu"] = (before.cpu + after.cpu) / 2
    result["limit_request_seconds"] = before.seconds
    result["share"] = result["rate"] / result["limit_rate"]
    result["share_writes"] = (
        (result["writes"] + result["others"]) / result["seconds"] / result["limit_requests"]
    )
    return result


def shown(results: list[tuple[str, str, Figures]]) -> str:
    """Format ``results``, which are hub, way and measurements."""
    rows = [
        [
            *(
                "hub",
                "way",
                "placements",
                "seconds",
                "placements/s",
                "of the limit",
                "writes/s",
                "of the limit",
            ),
            *("controller CPU ms", "writer CPU ms", "OCM, seconds"),
        ]
    ]
    for hub, way, result in results:
        count = result["placements"]
        ocm = OCM_SECONDS.get(count)
        rows.append(
            [
                hub,
                way,
                f"{count:,}",
                f"{result['seconds']:.1f}",
                f"{result['rate']:.0f} / {result['limit_rate']:.0f}",
                f"{result['share']:.0%}",
                f"{(result['writes'] + result['others']) / result['seconds']:.0f} / {result['limit_requests']:.0f}",
                f"{result['share_writes']:.0%}",
                f"{result['cpu'] / count * 1e3:.2f}",
                f"{result['limit_cpu'] * 3e3:.2f}",
                f"{ocm:.0f} (recorded)" if ocm else "",
            ]
        )
    lines = [
        "(a) placements converged per second; CPU per placement, of the controller and of the writer that only writes",
        table(rows),
        "",
        "    requests per placement, and their mean time in ms (with nothing but writes going on)",
    ]
    for hub, way, result in results:
        parts = []
        for name, count in sorted(result["requests"].items()):
            mean = result["request_seconds"][name] * 1e3
            alone = result["limit_request_seconds"].get(name)
            beside = f" ({alone * 1e3:.1f})" if alone else ""
            parts.append(f"{name} {count / result['placements']:.2f} × {mean:.1f}{beside}")
        lines.append(
            f"    {hub}, {way} {result['placements']:,}: {'; '.join(parts)}; failed {result['failed']}"
        )
        events = result["requests"].get("create events", 0)
        whole = EVENTS_A_PLACEMENT * result["placements"]
        lines.append(f"      events written when the last decision was: {events:,} of {whole:,}")
    return "\n".join(lines)
