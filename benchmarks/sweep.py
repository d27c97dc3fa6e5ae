"""What many Placements cost when a score changes that all of them read, by placements and clusters.

    python -m benchmarks.sweep                                       20,000 and 100,000 clusters
    python -m benchmarks.sweep --clusters 20000 --placements 500,10000

A score of one cluster changes, and each Placement is decided again, in turn: a cyclic sweep, which is the worst case
for memos that do not all fit. The rows of a fleet differ in the number of Placements and in the memory of memos.

- µs each: processor time of a decision in the last of three sweeps
- incremental: share of the decisions that continued from a memo
"""

import argparse
import random
import time

from benchmarks.measure import machine, table
from benchmarks.placement import NOW, Bench, placement, progress
from fairway.engine.memory import DEFAULT_LIMIT, Memory
from fairway.testing import builders
from fairway.workloads.placement import PlacementWorkload, default_profile

FLEETS: tuple[tuple[int, tuple[int, ...]], ...] = (
    (20_000, (500, 1_000, 10_000)),
    (100_000, (100, 400, 1_000)),
)
LIMITS = (DEFAULT_LIMIT, 4 << 30)
SWEEPS = 3


def sweep(bench: Bench, placements: int, *, limit: int) -> list[str]:
    """Return a row of the table."""
    dice, profile = random.Random(placements), default_profile()
    workloads = [PlacementWorkload(placement(number, dice)) for number in range(placements)]
    memory = Memory(limit=limit)
    seconds: list[float] = []
    share = 0.0
    for number in range(SWEEPS):
        progress(f"{bench.clusters:,} clusters, {placements:,} placements: sweep {number + 1} of {SWEEPS}")
        score = {"cpuAvailable": dice.randint(-50, 50)}
        bench.fleet.upsert_score(builders.score(dice.choice(bench.names), score, name="resource-usage-score"))
        snapshot, before, start = bench.fleet.snapshot(), memory.followed, time.process_time()
        for workload in workloads:
            memory.run(snapshot, workload, profile, now=NOW)
        seconds.append((time.process_time() - start) / placements)
        share = (memory.followed - before) / placements
    last = seconds[-1]  # the sweeps before make the memos
    return [
        *(f"{bench.clusters:,}", f"{placements:,}", f"{limit >> 20:,}", f"{memory.size >> 20:,}"),
        *(f"{last * 1e6:,.0f}", f"{share:.0%}"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sweep",
        description=(__doc__ or "").split("\n\n")[0],
        epilog=(__doc__ or "").split("\n\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--clusters", type=int, help="only a fleet of this size")
    parser.add_argument("--placements", default="500,1000", help="with --clusters, separated by commas")
    options = parser.parse_args()
    fleets = FLEETS
    if options.clusters:
        fleets = ((options.clusters, tuple(map(int, options.placements.split(",")))),)
    rows: list[list[str]] = []
    for clusters, counts in fleets:
        bench = Bench(clusters)
        rows += [sweep(bench, count, limit=limit) for count in counts for limit in LIMITS]
        del bench
    progress("")
    print(machine())
    print(table([["clusters", "placements", "limit, MiB", "memos, MiB", "µs each", "incremental"], *rows]))


if __name__ == "__main__":
    main()
