"""(b) The SDK publishes noisy scores of many clusters on a hub, at the rate of a large fleet.

Reading 500 clusters every 6 seconds is as frequent as reading 5,000 every minute. Validity and smoothing are also ten
times as fast, so the number of writes should be that of the simulation, which runs for comparison. A watch counts the
writes on the hub.
"""

from collections.abc import Sequence
from typing import Any

from benchmarks.controllers.process import Child, child, memory
from benchmarks.controllers.stage import Stage
from benchmarks.measure import Note, table
from benchmarks.scores.publisher import USUAL
from benchmarks.scores.sightings import watched
from benchmarks.scores.writes import INTERVAL, NOISE, WAYS, Way, simulate
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES
from fairway.providers.publication import horizon

TRIED = tuple(way for way in WAYS if way.valid_for is None)

Figures = dict[str, Any]


async def measure(
    stage: Stage, *, interval: float, rounds: int, ways: Sequence[Way], note: Note
) -> list[Figures]:
    results = []
    for number, way in enumerate(ways):
        note(f"{way.name}, {rounds} readings of {len(stage.scores):,} clusters, {interval:g} s apart")
        # Each policy begins without scores, as in the simulation.
        resource = f"noisy-score-{number}"
        results.append(await one(stage, way, resource=resource, interval=interval, rounds=rounds))
    return results


async def one(stage: Stage, way: Way, *, resource: str, interval: float, rounds: int) -> Figures:
    pace = interval / INTERVAL
    arguments = (
        *("--kubeconfig", str(stage.kubeconfig), "--resource", resource, "--interval", str(interval)),
        *("--deadband", str(way.deadband), "--half-life", str(way.half_life * pace)),
        *("--valid-for", str(horizon(interval=INTERVAL, valid_for=way.valid_for) * pace)),
    )
    async with (
        watched(stage.client, ADD_ON_PLACEMENT_SCORES, name=resource) as seen,
        child("benchmarks.scores.publisher", *arguments) as publisher,
    ):
        # The first reading is written for all clusters, which is not the steady state.
        first = 1
        while (began := await publisher.ask(f"round {first}"))["published"] < began["clusters"]:
            first += 1
        hub = stage.cpu()
        ended = await publisher.ask(f"round {first + rounds}")
        hub = stage.cpu() - hub
        return accounted(began, ended, publisher, hub=hub) | {
            "way": way.name,
            "seen": await seen.between(began["version"], ended["version"]),
            "simulated": expected(way, clusters=began["clusters"], rounds=rounds),
        }


def accounted(began: Figures, ended: Figures, publisher: Child, *, hub: float) -> Figures:
    seconds = ended["at"] - began["at"]
    return {
        "clusters": began["clusters"],
        "seconds": seconds,
        "written": ended["writes"] - began["writes"],
        "failed": ended["failed"],
        "late": ended["pending"],
        "cpu": (ended["cpu"] - began["cpu"]) / seconds,
        "hub cpu": hub / seconds,
        "resident": memory(publisher.pid)[0],
    }


def expected(way: Way, *, clusters: int, rounds: int) -> float:
    """Return the simulated writes per reading for the same number of readings."""
    simulated = simulate(way, clusters=clusters, rounds=rounds + 1, noise=NOISE[USUAL])
    return simulated.writes / simulated.looks


def shown(results: Sequence[tuple[str, list[Figures]]], *, interval: float, rounds: int) -> str:
    rows = [
        [
            *("hub", "what is worth a write", "writes/s", "times", "of every reading", "simulated"),
            *("publisher's CPU %", "memory MB", "hub's CPU %", "times"),
        ]
    ]
    for hub, ways in results:
        for way in ways:
            first = ways[0]
            rate = way["seen"] / way["seconds"]
            rows.append(
                [
                    hub,
                    way["way"],
                    f"{rate:.1f}",
                    f"{rate / (first['seen'] / first['seconds']):.2f}" if first["seen"] else "-",
                    f"{100 * way['seen'] / (rounds * way['clusters']):.0f} %",
                    f"{100 * way['simulated']:.0f} %",
                    f"{100 * way['cpu']:.1f}",
                    f"{way['resident'] / 1e6:.0f}",
                    f"{100 * way['hub cpu']:.1f}",
                    f"{way['hub cpu'] / first['hub cpu']:.2f}" if first["hub cpu"] else "-",
                ]
            )
    clusters = results[0][1][0]["clusters"]
    words = f"(b) the SDK on a hub: {clusters:,} clusters, read every {interval:g} s, {USUAL}"
    notes = [
        f"    {hub}, {way['way']}: {way['failed']} writes failed, and {way['late']} were late at the end"
        for hub, ways in results
        for way in ways
        if way["failed"] or way["late"]
    ]
    return "\n".join((words, table(rows), *notes))
