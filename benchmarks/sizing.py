"""What the placement controller needs, by clusters and placements: memory, processor time, changed decisions.

    python -m benchmarks.sizing                                  1k, 10k and 100k clusters
    python -m benchmarks.sizing --clusters 10000 --placements 10,1000

The worst case of a fleet that publishes once a minute: every cluster publishes a score that moves, every Placement
reads it, and every Placement is decided again each second, with the scores that arrived. Hub and network are left out,
so the figures depend little on other load of the machine; benchmarks.controllers measures what a write adds.

- memory: of the process with the typed objects, the columns and the memos
- first decision: processor time to compile and decide a Placement
- cores: processor time to decode the scores of a second and to decide all Placements
- changed: decisions that change in a second, and are written
- shards: processes that lead, so that decisions and writes take at most four fifths of a core each
"""

import argparse
import math
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import msgspec

from benchmarks.measure import machine, resident, table
from benchmarks.placement import NOW, Bench, placement, progress
from fairway.api.score import AddOnPlacementScore
from fairway.engine.memory import Memory
from fairway.testing import builders
from fairway.workloads.placement import PlacementWorkload, default_profile

CLUSTERS = (1_000, 10_000, 100_000)
PLACEMENTS = (10, 100, 1_000, 10_000)
PERIOD = 60
"""Seconds between two scores of a cluster."""
SECONDS = 5
MEMORY_LIMIT = 4 << 30
"""Of the memos; a larger table of memos would need a shard."""
BYTES_PER_MEMO = 26
"""For each cluster and Placement; see docs/explanation/performance.md."""
WRITE_SECONDS = 0.0009
"""Processor time of a write in the controller: docs/explanation/performance.md, (a)."""
SHARE_OF_A_CORE = 0.8
STEP = 5
"""Greatest change of a score in a period, in points."""


class Load:
    """Scores of a fleet that walk at random, as the bytes of watch events."""

    def __init__(self, names: list[str], dice: random.Random) -> None:
        self._names, self._dice = names, dice
        self._values = {name: dice.randint(-100, 100) for name in names}

    def second(self) -> Iterator[bytes]:
        for name in self._dice.sample(self._names, k=max(1, len(self._names) // PERIOD)):
            value = self._values[name] + self._dice.randint(-STEP, STEP)
            self._values[name] = max(-100, min(100, value))
            score = builders.score(name, {"cpuAvailable": self._values[name]}, name="resource-usage-score")
            yield msgspec.json.encode(score)


def measure(clusters: int, counts: tuple[int, ...]) -> list[list[str]]:
    """Return the rows of a fleet; later rows add Placements to those of earlier ones."""
    bench, dice, profile = Bench(clusters), random.Random(clusters), default_profile()
    decode = msgspec.json.Decoder(AddOnPlacementScore).decode
    load, memory = Load(bench.names, dice), Memory(limit=MEMORY_LIMIT)
    workloads: list[PlacementWorkload] = []
    rows: list[list[str]] = []
    for count in counts:
        if clusters * count * BYTES_PER_MEMO > MEMORY_LIMIT:
            break
        progress(f"{clusters:,} clusters, {count:,} placements")
        added = [PlacementWorkload(placement(number, dice)) for number in range(len(workloads), count)]
        workloads += added
        began, snapshot = time.process_time(), bench.fleet.snapshot()
        chosen = [memory.run(snapshot, workload, profile, now=NOW).selected for workload in added]
        start = (time.process_time() - began) / len(added)
        chosen = [memory.run(snapshot, workload, profile, now=NOW).selected for workload in workloads]
        spent = changed = 0.0
        for _ in range(SECONDS):
            events = list(load.second())
            began = time.process_time()
            for event in events:
                bench.fleet.upsert_score(decode(event))
            snapshot = bench.fleet.snapshot()
            after = [memory.run(snapshot, workload, profile, now=NOW).selected for workload in workloads]
            spent += time.process_time() - began
            changed += sum(old != new for old, new in zip(chosen, after, strict=True))
            chosen = after
        cores, written = spent / SECONDS, changed / SECONDS
        needed = (cores + written * WRITE_SECONDS) / SHARE_OF_A_CORE
        rows.append(
            [
                *(f"{clusters:,}", f"{count:,}", f"{resident() >> 20:,}", f"{start * 1e3:.2f}"),
                *(f"{cores:.3f}", f"{written:,.1f}", str(math.ceil(needed))),
            ]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sizing",
        description=(__doc__ or "").split("\n\n")[0],
        epilog=(__doc__ or "").split("\n\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--clusters", default=",".join(map(str, CLUSTERS)), help="separated by commas")
    parser.add_argument("--placements", default=",".join(map(str, PLACEMENTS)), help="separated by commas")
    options = parser.parse_args()
    counts = tuple(map(int, options.placements.split(",")))
    # One process for each fleet: freed memory of the one before would hide what the next one needs.
    with ProcessPoolExecutor(max_workers=1, max_tasks_per_child=1) as pool:
        rows = [
            row
            for clusters in map(int, options.clusters.split(","))
            for row in pool.submit(measure, clusters, counts).result()
        ]
    progress("")
    print(machine())
    heading = ["clusters", "placements", "memory, MiB", "first decision, ms", "cores", "changed/s", "shards"]
    print(table([heading, *rows]))


if __name__ == "__main__":
    main()
