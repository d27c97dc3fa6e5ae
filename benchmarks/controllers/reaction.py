"""(b) Time from a written score to the resulting decisions, while a whole fleet publishes scores.

Every cluster publishes its score once a period, each at its own time. Placements select the best clusters of their
group by score alone, so the expected decision is known. A sample is the time from the hub's response to the write of
a score that changes a decision to the arrival of the new decision on a watch. If the next score of the group is
written before the decision, a decision for both ends both samples. The times of the hub, the watch and the network
are included.

The rows *bare writer* are a process that does nothing but the same writes after the same scores (``bare``), as many
at a time.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from benchmarks.controllers import objects
from benchmarks.controllers.objects import NAMESPACE, SCORE, score_status
from benchmarks.controllers.process import Child, child, memory
from benchmarks.controllers.stage import Stage
from benchmarks.measure import Note, percentile, table
from fairway.api.decision import PlacementDecision
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, PLACEMENT_DECISIONS
from fairway.controllers.runtime.write_limiter import AT_ONCE
from kubewire.client import Batch, Deleted, Informer, Patch

GROUPS = 20
CHOSEN = 5
STEP = 12.0
"""Standard deviation of a score's change, in points of a range of 200."""
VALID = timedelta(minutes=5)
SETTLE_SECONDS = 30.0

OCM = {"p50": 1.3, "p99": 3.3, "cpu": 54.0}
"""OCM's results, recorded earlier on two cores without client-side rate limits: seconds, and CPU seconds per minute."""
AIM = {"p50": 0.030, "p99": 0.150, "cpu": 6.0}


@dataclass
class Group:
    """The clusters of a group, and the history of the expected decision."""

    name: str
    scores: dict[str, int]
    history: list[frozenset[str]] = field(default_factory=list)
    written: list[float] = field(default_factory=list)
    """Time of the hub's response to the score that caused the state; infinite before it."""

    def best(self) -> frozenset[str]:
        ordered = sorted(self.scores, key=lambda name: (-self.scores[name], name))
        return frozenset(ordered[:CHOSEN])


class Watcher:
    """Measures times: records for every placement the latest state of its group that its decision reflects."""

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self._groups = groups
        self._caught_up: dict[str, int] = {}
        self.events = 0
        self.begin()

    def begin(self) -> None:
        """Begin a new measurement."""
        self.samples: list[float] = []
        self.early = 0
        """Decisions observed before the response to the write of the score."""
        self.unexpected = 0

    def hear(self, batch: Batch[PlacementDecision]) -> None:
        at = time.monotonic()
        for change in batch.changes:
            if not isinstance(change, Deleted):
                self._see(change.object, at)

    def _see(self, decision: PlacementDecision, at: float) -> None:
        self.events += 1
        placement = decision.metadata.labels[PLACEMENT_LABEL]
        group = self._groups[placement.rpartition("-")[0]]
        chosen = frozenset(entry.clusterName for entry in decision.status.decisions)
        known = self._caught_up.get(placement, 0)
        for state in range(len(group.history) - 1, known - 1, -1):
            if group.history[state] == chosen:
                break
        else:
            self.unexpected += bool(chosen)
            return
        for passed in range(known + 1, state + 1):
            delay = at - group.written[passed]
            self.early += delay < 0
            self.samples.append(max(0.0, delay))
        self._caught_up[placement] = state

    def behind(self, placements: Mapping[str, Group]) -> list[str]:
        """Return the placements without the expected decision."""
        return [
            name
            for name, group in placements.items()
            if group.history[self._caught_up.get(name, 0)] != group.history[-1]
        ]


class Fleet:
    """Simulates the providers of scores, each group with its own schedule."""

    def __init__(self, stage: Stage, groups: Mapping[str, Group], *, period: float) -> None:
        self._stage, self._groups, self._period = stage, groups, period
        self._rng = Random("motion")
        self.writes = 0
        self.changes = 0
        """Number of changes of the best clusters of a group."""

    async def run(self, until: float) -> None:
        await asyncio.gather(*(self._play(group, until) for group in self._groups.values()))

    async def _play(self, group: Group, until: float) -> None:
        """Write one score after the other, so that the order of states is known."""
        began = time.monotonic()
        times = sorted((self._rng.uniform(0, self._period), name) for name in group.scores)
        for around in range(10**6):
            for offset, name in times:
                at = began + around * self._period + offset
                if at >= until:
                    return
                await asyncio.sleep(max(0.0, at - time.monotonic()))
                await self._write(group, name)

    async def _write(self, group: Group, name: str) -> None:
        moved = group.scores[name] + round(self._rng.gauss(0, STEP))
        group.scores[name] = min(100, max(-100, moved))
        best = group.best()
        changes = best != group.history[-1]
        if changes:
            group.history.append(best)
            group.written.append(float("inf"))
        await self._patch(name, group.scores[name])
        if changes:
            group.written[-1] = time.monotonic()
            self.changes += 1
        self.writes += 1

    async def restore(self) -> None:
        """Write the initial scores again, so that every measurement has the same changes."""
        moved = [
            (group, name)
            for group in self._groups.values()
            for name, value in group.scores.items()
            if value != self._stage.scores[name]
        ]

        async def write(number: int) -> None:
            group, name = moved[number]
            group.scores[name] = self._stage.scores[name]
            await self._patch(name, group.scores[name])

        await objects.rate(objects.WRITERS, len(moved), write)
        for group in self._groups.values():
            group.history.append(group.best())
            group.written.append(time.monotonic())

    async def _patch(self, name: str, value: int) -> None:
        await self._stage.client.patch(
            ADD_ON_PLACEMENT_SCORES,
            SCORE,
            {"status": score_status(value, valid=VALID)},
            kind=Patch.MERGE,
            namespace=name,
            subresource="status",
        )


def divided(stage: Stage, names: Mapping[str, str]) -> dict[str, Group]:
    groups = {f"group-{number}": Group(f"group-{number}", {}) for number in range(GROUPS)}
    for cluster, name in names.items():
        groups[name].scores[cluster] = stage.scores[cluster]
    for group in groups.values():
        group.history.append(group.best())
        group.written.append(0.0)
    return groups


BARE = {"bare writer, same writes": (), "bare writer, plain client": ("--plain",)}
"""Arguments of the processes that only write."""


async def measure(
    stage: Stage, *, placements: int, seconds: float, period: float, floor: bool, note: Note
) -> dict[str, Any]:
    """``floor``: measure the bare writers as well."""
    names = {name: f"group-{number % GROUPS}" for number, name in enumerate(stage.scores)}
    groups = divided(stage, names)
    owners = {f"group-{number % GROUPS}-{number // GROUPS}": number % GROUPS for number in range(placements)}
    listed = list(owners.items())
    owned = {name: groups[f"group-{at}"] for name, at in listed}
    watcher, fleet = Watcher(groups), Fleet(stage, groups, period=period)
    informer = Informer(stage.client, PLACEMENT_DECISIONS, namespace=NAMESPACE)
    informer.subscribe(watcher.hear)
    async with informer:
        await informer.synced.wait()
        async with stage.controller() as controller:
            await objects.add_placements(
                stage.client,
                placements,
                lambda number: objects.placement(
                    listed[number][0], group=f"group-{listed[number][1]}", number=CHOSEN, only_score=True
                ),
            )
            await _settled(controller, watcher, placements)
            note(f"{len(stage.scores):,} scores every {period:g} s for {seconds:.0f} s")
            meters = await controller.ask("meters")
            await controller.ask("phases")
            result = await _react(stage, controller, fleet, seconds)
            meters_after = await controller.ask("meters")
            await _caught_up(watcher, owned)
            phases, resident = await controller.ask("phases"), memory(controller.pid)[0]
            result |= _samples(watcher)
        bare = {}
        for name, arguments in BARE.items() if floor else ():
            note(name)
            await fleet.restore()
            fleet = Fleet(stage, groups, period=period)
            options = (
                "--kubeconfig",
                str(stage.kubeconfig),
                "--chosen",
                str(CHOSEN),
                "--at-once",
                str(AT_ONCE),
                *arguments,
            )
            async with child("benchmarks.controllers.bare", *options) as writer:
                await _caught_up(watcher, owned)
                while (await writer.ask("figures"))["busy"]:
                    await asyncio.sleep(0.1)
                watcher.begin()
                bare[name] = await _react(stage, writer, fleet, seconds)
                await _caught_up(watcher, owned)
                bare[name] |= {**_samples(watcher), "resident": memory(writer.pid)[0]}
    await fleet.restore()
    await objects.clear(stage.client, NAMESPACE)
    return {
        **result,
        "placements": placements,
        "clusters": len(stage.scores),
        "resident": resident,
        "phases": phases,
        "meters": {name: value - meters.get(name, 0.0) for name, value in meters_after.items()},
        "bare": bare,
    }


async def _react(stage: Stage, process: Child, fleet: Fleet, seconds: float) -> dict[str, Any]:
    """Write scores for some seconds, and return what the process and the hub did meanwhile."""
    before = await process.ask("figures")
    cpu, hub = process.cpu(), stage.cpu()
    began = time.monotonic()
    await fleet.run(began + seconds)
    lasted = time.monotonic() - began
    cpu, hub = process.cpu() - cpu, stage.cpu() - hub
    after = await process.ask("figures")
    return {
        "seconds": lasted,
        "scores": fleet.writes,
        "changes": fleet.changes,
        "cpu": cpu * 60 / lasted,
        "hub_cpu": hub * 60 / lasted,
        "requests": _less(after["requests"], before["requests"], "count"),
        "request_seconds": _less(after["requests"], before["requests"], "seconds"),
    }


def _samples(watcher: Watcher) -> dict[str, Any]:
    if not watcher.samples:
        raise RuntimeError("no score changed a decision: use more clusters or more time")
    return {
        "samples": len(watcher.samples),
        "early": watcher.early,
        "unexpected": watcher.unexpected,
        "times": list(watcher.samples),
        **_percentiles(watcher.samples),
    }


def _percentiles(samples: list[float]) -> dict[str, float]:
    return {
        "p50": percentile(samples, 0.5),
        "p90": percentile(samples, 0.9),
        "p99": percentile(samples, 0.99),
        "most": max(samples),
    }


def pooled(name: str, rounds: list[dict[str, Any]]) -> list[str]:
    """Return a row of all samples of several rounds."""
    result = _percentiles([seconds for one in rounds for seconds in one["times"]])
    means = [sum(one[what] for one in rounds) / len(rounds) for what in ("cpu", "hub_cpu")]
    changes = sum(one["changes"] for one in rounds) / sum(one["seconds"] for one in rounds) * 60
    times = (f"{result[rank] * 1e3:.0f}" for rank in ("p50", "p90", "p99", "most"))
    return [name, *times, *(f"{mean:.1f}" for mean in means), f"{changes:.0f}"]


def brief(result: dict[str, Any]) -> str:
    requests = ", ".join(f"{name} {count:.0f}" for name, count in sorted(result["requests"].items()))
    times = (
        f"p50 {result['p50'] * 1e3:.0f} ms, p99 {result['p99'] * 1e3:.0f} ms, CPU {result['cpu']:.1f} s/min"
    )
    return f"{times}, {result['changes']} changes; {requests}"


def compared(rounds: dict[str, list[dict[str, Any]]]) -> str:
    """Format the rounds of several versions."""
    head = [
        "all rounds",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "most ms",
        "CPU s/min",
        "hub's CPU s/min",
        "changes/min",
    ]
    return table([head, *(pooled(name, results) for name, results in rounds.items())])


async def _settled(controller: Child, watcher: Watcher, placements: int) -> None:
    """Wait until all placements are decided and all events written, which are not part of the measurement."""
    printed = -1
    async with asyncio.timeout(600):
        while True:
            figures = await controller.ask("figures")
            requests = figures["requests"]
            done = requests.get("patch placements/status", {}).get("count", 0)
            if not figures["busy"] and done >= placements and watcher.events >= 2 * placements:
                events = requests.get("create events", {}).get("count", 0)
                if events == printed:
                    return
                printed = events
            await asyncio.sleep(0.5)


async def _caught_up(watcher: Watcher, placements: Mapping[str, Group]) -> None:
    """Wait for the last decisions. Raises RuntimeError if one does not arrive."""
    for _ in range(int(SETTLE_SECONDS * 10)):
        if not (behind := watcher.behind(placements)):
            return
        await asyncio.sleep(0.1)
    raise RuntimeError(f"{len(behind)} placements lack the expected decision, among them {behind[0]}")


def _less(after: Mapping[str, Any], before: Mapping[str, Any], what: str) -> dict[str, float]:
    counts = {name: tally[what] - before.get(name, {}).get(what, 0) for name, tally in after.items()}
    return {name: value for name, value in counts.items() if value and not name.startswith("get")}


def shown(results: list[tuple[str, dict[str, Any]]]) -> str:
    rows = [
        ["", "p50 ms", "p90 ms", "p99 ms", "most ms", "CPU s/min", "hub's CPU s/min", "memory MB"],
        *(
            [
                hub,
                *(f"{result[name] * 1e3:.0f}" for name in ("p50", "p90", "p99", "most")),
                f"{result['cpu']:.1f}",
                f"{result['hub_cpu']:.1f}",
                f"{result['resident'] / 1e6:.0f}",
            ]
            for hub, result in _rows(results)
        ),
        *(
            [
                name,
                f"{figures['p50'] * 1e3:.0f}",
                "",
                f"{figures['p99'] * 1e3:.0f}",
                "",
                f"{figures['cpu']:.0f}",
                "",
                "",
            ]
            for name, figures in (("OCM (recorded)", OCM), ("aim", AIM))
        ),
    ]
    lines = ["(b) reaction: score written → decision written", table(rows), ""]
    for hub, result in results:
        for name, bare in result["bare"].items():
            lines.append(f"    {name}: {bare['changes'] / bare['seconds'] * 60:.0f} changes a minute")
        minutes = result["seconds"] / 60
        looks = result["meters"].get('fairway_workqueue_adds_total{controller="placement"}', 0)
        lines.append(
            f"    {hub}, a minute: {result['scores'] / minutes:.0f} scores written,"
            f" {result['changes'] / minutes:.0f} of them change the decisions of"
            f" {result['placements'] // GROUPS} placements; reconciles {looks / minutes:.0f};"
            f" {result['samples']} samples in all, {result['early']} before the response to the score's write,"
            f" {result['unexpected']} unexpected decisions"
        )
        parts = [
            f"{name} {count / minutes:.0f} × {result['request_seconds'][name] / count * 1e3:.1f} ms"
            for name, count in sorted(result["requests"].items())
        ]
        lines.append(f"      requests: {'; '.join(parts)}")
        lines += ["", "    inside the controller, of each decision", _phases(result["phases"])]
    return "\n".join(lines)


def _rows(results: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the results, each followed by its bare writers."""
    return [row for hub, result in results for row in ((hub, result), *result["bare"].items())]


def _phases(phases: Mapping[str, Mapping[str, float]]) -> str:
    names = ("mean", "p50", "p90", "p99")
    rows = [["", *(f"{name} ms" for name in names)]]
    rows += [
        [phase, *(f"{phase_times[name] * 1e3:.1f}" for name in names)]
        for phase, phase_times in phases.items()
    ]
    return table(rows)
