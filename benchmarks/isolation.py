"""What does a plugin cost that runs in a process of its own?

    make bench-isolation                               1k, 10k and 100k clusters
    make bench-isolation ARGS='--clusters 1000'        other sizes

A cycle of one Placement with a third-party filter and score, in this process and in its own: as a plugin that evaluates
host by host, and one with whole-fleet forms. "first" is the first cycle of a process, which gets the columns that the
plugin reads; the others follow a change of one label. "loop" is the longest time for which the event loop of a
controller is busy in one of these cycles: preparing a question, sending it, reading its answer, or running the cycle.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import machine, table, teller, timed, write_json
from fairway.api.placement import PlacementSpec
from fairway.engine import cycle
from fairway.engine.pending import PendingAnswer
from fairway.hosts.clusters import Fleet
from fairway.scheduling import Scheduling, Supervisor, load
from fairway.testing import builders
from fairway.workloads.placement.profile import PLACEMENT_KIND
from fairway.workloads.placement.workload import PlacementWorkload

ROUNDS = 9
note = teller("isolation")
PLUGINS = """
import numpy as np
from fairway.engine.points import Raw, Reads, Timeless
from fairway.engine.status import OK, unschedulable
from fairway.hosts import bitmap

TIER, PRICE = ("label", "tier"), ("label", "price")


class Single(Timeless):
    name = "Single"

    def filter(self, context, row):
        if context.snapshot.codes(TIER).value(row) == "bronze":
            return unschedulable("is bronze", plugin=self.name)
        return OK

    def score(self, context, row):
        return -int(context.snapshot.codes(PRICE).value(row))

    def reads(self, context):
        return Reads(cells=frozenset({TIER, PRICE}))


class Whole(Single):
    name = "Whole"

    def filter_fleet(self, context, candidates):
        column = context.snapshot.codes(TIER)
        bronze = column.code("bronze")
        return OK, candidates if bronze is None else candidates & ~column.bitmap(bronze)

    def score_fleet(self, context, rows):
        column = context.snapshot.codes(PRICE)
        prices = np.array([0 if value is None else -int(value) for value in column.values])
        return Raw(prices[column.codes[rows]])
"""
CONFIGURATION = """
apiVersion: fairway.dev/v1alpha1
kind: SchedulerConfiguration
pluginFiles: [bench.py]
profiles:
- plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}
"""
ISOLATED = "  pluginConfig: [{{name: {name}, isolation: process}}]\n"


def fleet_of(clusters: int) -> Fleet:
    fleet = Fleet()
    tiers = ("gold", "silver", "bronze")
    fleet.load(
        [
            builders.cluster(f"c-{n:06}", labels={"tier": tiers[n % 3], "price": str(n % 90)})
            for n in range(clusters)
        ]
    )
    fleet.upsert_set(builders.cluster_set("default"))
    fleet.upsert_binding(builders.binding("default", namespace="bench"))
    return fleet


def configured(folder: Path, name: str, *, isolated: bool) -> Scheduling:
    (folder / "bench.py").write_text(PLUGINS)
    text = CONFIGURATION.format(name=name) + (ISOLATED.format(name=name) if isolated else "")
    (folder / "scheduler.yaml").write_text(text)
    supervisor = Supervisor(clock=time.monotonic)
    return load(folder / "scheduler.yaml", kind=PLACEMENT_KIND, supervisor=supervisor)


class Bench:
    def __init__(self, clusters: int, scheduling: Scheduling) -> None:
        self.fleet, self.scheduling = fleet_of(clusters), scheduling
        self.longest = 0.0
        self._price = 0
        placement = builders.placement("p", namespace="bench", spec=PlacementSpec(numberOfClusters=3))
        self._workload = PlacementWorkload(placement)

    def change(self) -> None:
        self._price += 1
        labels = {"tier": "gold", "price": str(self._price % 90)}
        self.fleet.upsert_cluster(builders.cluster("c-000007", labels=labels))

    def run(self) -> None:
        cycle.run(self.fleet.snapshot(), self._workload, self.scheduling.profile, now=0)

    async def run_soon(self) -> None:
        """Run a cycle as a controller does."""
        snapshot = self.fleet.snapshot()
        while True:
            began = time.perf_counter()
            try:
                cycle.run(snapshot, self._workload, self.scheduling.profile, now=0)
            except PendingAnswer as pending:
                self._note(began)
                await pending.fetch()
            else:
                return self._note(began)

    def _note(self, began: float) -> None:
        self.longest = max(self.longest, time.perf_counter() - began)


async def observed(bench: Bench, loop: asyncio.AbstractEventLoop) -> float:
    """Return the longest time for which one callback of the event loop took, in a first and some later cycles."""
    longest = 0.0
    handles: Any = asyncio.Handle
    run = handles._run

    def measured(handle: Any) -> None:
        nonlocal longest
        began = time.perf_counter()
        run(handle)
        longest = max(longest, time.perf_counter() - began)

    handles._run = measured
    try:
        for _ in range(4):
            bench.change()
            await loop.create_task(bench.run_soon())
    finally:
        handles._run = run
    return longest


def measure(clusters: int, name: str, folder: Path) -> dict[str, float]:
    figures: dict[str, float] = {}
    for isolated in (False, True):
        key = "isolated" if isolated else "inside"
        bench = Bench(clusters, configured(folder, name, isolated=isolated))
        figures[f"{key}_first_ms"] = timed(bench.run) * 1e3
        later = []
        for _ in range(ROUNDS):
            bench.change()
            later.append(timed(bench.run))
        figures[f"{key}_ms"] = median(later) * 1e3
        note(f"{clusters:,} clusters, {name} {key}")
        if isolated:
            plugin: Any = next(
                filter_.plugin for filter_ in bench.scheduling.profile.filters if filter_.plugin.name == name
            )
            plugin._worker.stop()
            bench.scheduling.supervisor.is_async = True
            with asyncio.Runner() as runner:
                loop = runner.get_loop()
                figures["loop_ms"] = runner.run(observed(bench, loop)) * 1e3
            plugin._worker.stop()
    return figures


ROWS = (
    ("in this process, first cycle, ms", "inside_first_ms"),
    ("in this process, ms", "inside_ms"),
    ("in its own process, first cycle, ms", "isolated_first_ms"),
    ("in its own process, ms", "isolated_ms"),
    ("in its own process, loop, ms", "loop_ms"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clusters", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("Single", "Whole"):
            for clusters in options.clusters:
                results[f"{name} {clusters:,}"] = measure(clusters, name, Path(folder))
    print(machine())
    rows = [["", *results]] + [
        [title, *(f"{figures[key]:.1f}" for figures in results.values())] for title, key in ROWS
    ]
    print(table(rows))
    if options.json:
        write_json(options.json, results)


if __name__ == "__main__":
    main()
