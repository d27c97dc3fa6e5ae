"""(a) The writes of the agents of a large fleet, as a share of the capacity of a hub.

The writes of the fleet are simulated in virtual time, see ``benchmarks.scores.writes``; the limit of the hub and the
CPU it spends on a write are measured in the same run, see ``benchmarks.scores.limit``.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.controllers.process import child
from benchmarks.controllers.stage import Stage
from benchmarks.measure import Note, table
from benchmarks.scores.limit import APPLY, MERGE
from benchmarks.scores.writes import Rate

WAYS = {APPLY: "server-side apply, as the SDK does", MERGE: "merge patch of the same status"}

Limits = Mapping[str, Mapping[str, float]]
"""By kind of write: writes per second, CPU seconds of the hub and of the writer per 1,000 writes."""


async def measure(stage: Stage, *, count: int, rounds: int, quiet: float, note: Note) -> Limits:
    """Measure both kinds of writes in turn, so that other load affects both; first ``quiet`` idle seconds."""
    spent = {way: {"writes": 0.0, "seconds": 0.0, "cpu": 0.0, "hub": 0.0} for way in WAYS}
    note("objects to write")
    async with child("benchmarks.scores.limit", "--kubeconfig", str(stage.kubeconfig)) as writer:
        await writer.ask(f"{APPLY} 0")  # all objects exist now
        idle = await idling(stage, seconds=quiet)
        for number in range(rounds):
            # The second one finds a warm hub, so they alternate.
            for way in reversed(WAYS) if number % 2 else WAYS:
                note(f"{way}, {count:,} writes, round {number + 1} of {rounds}")
                before = stage.cpu()
                measured = await writer.ask(f"{way} {count}")
                measured["hub"] = stage.cpu() - before - idle * measured["seconds"]
                for name in spent[way]:
                    spent[way][name] += measured[name]
    return {
        way: {
            "writes": measured["writes"],
            "rate": measured["writes"] / measured["seconds"],
            "hub cpu": measured["hub"] / measured["writes"] * 1000,
            "writer cpu": measured["cpu"] / measured["writes"] * 1000,
        }
        for way, measured in spent.items()
    }


async def idling(stage: Stage, *, seconds: float) -> float:
    """Return the cores that the hub uses without requests."""
    before = stage.cpu()
    await asyncio.sleep(seconds)
    return (stage.cpu() - before) / seconds


def shown_limits(limits: Sequence[tuple[str, Limits]]) -> str:
    rows = [
        [
            "hub",
            "a score written by",
            "writes/s",
            "times",
            "hub's CPU s/1,000",
            "times",
            "writer's CPU s/1,000",
        ]
    ]
    for hub, result in limits:
        usual = result[APPLY]
        rows += [
            [
                hub,
                words,
                f"{result[way]['rate']:.0f}",
                f"{result[way]['rate'] / usual['rate']:.2f}",
                f"{result[way]['hub cpu']:.2f}",
                f"{result[way]['hub cpu'] / usual['hub cpu']:.2f}" if usual["hub cpu"] else "-",
                f"{result[way]['writer cpu']:.2f}",
            ]
            for way, words in WAYS.items()
        ]
    return "\n".join(("(a) the limit of the hub: scores that exist are written", table(rows)))


def shown(rates: Sequence[Rate], limits: Sequence[tuple[str, Limits]], *, clusters: int, minutes: int) -> str:
    heading = ["what is worth a write", "noise", "writes/s", "of every reading", "mean error"]
    for hub, _ in limits:
        heading += [f"of {hub}", "its cores"]
    rows = [heading]
    for rate in rates:
        row = [rate.way, rate.noise, f"{rate.writes:.1f}", f"{100 * rate.share:.0f} %", f"{rate.error:.1f}"]
        for _, result in limits:
            usual = result[APPLY]
            row += [
                f"{100 * rate.writes / usual['rate']:.0f} %",
                f"{rate.writes * usual['hub cpu'] / 1000:.2f}",
            ]
        rows.append(row)
    words = f"(a) {clusters:,} agents that read once a minute, {minutes} minutes of virtual time"
    return "\n".join((words, table(rows)))


def document(rates: Sequence[Rate], limits: Sequence[tuple[str, Limits]]) -> dict[str, Any]:
    return {
        "rates": [{name: getattr(rate, name) for name in Rate.__slots__} for rate in rates],
        "limits": dict(limits),
    }
