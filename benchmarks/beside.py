"""Compare the decisions of two versions in one run: two processes, measured in turns.

    python -m benchmarks.beside ../last                           1k, 10k and 100k clusters
    python -m benchmarks.beside ../last --sizes 1000 --rounds 30

The placements and the fleet are those of ``python -m benchmarks.placement``, of each version's own. A figure is the
median CPU time of the decisions in one turn. The table has the best turn of each version, and the median ratio of
turns that follow one another, which counts: a shared machine changes its speed for seconds at a time.

- fresh: new placements that share their prioritizer policy and tolerations
- fresh, alone in its policy: new placements whose prioritizer policy and tolerations no other placement has
- one row: a known placement after a change of one cluster's score
"""

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final, cast

from msgspec.structs import replace

from benchmarks import placement
from benchmarks.measure import machine, table
from fairway.api.placement import Placement, Toleration
from fairway.testing import builders

SIZES: Final = (1_000, 10_000, 100_000)
OWN: Final = "fresh, alone in its policy"
Figures = dict[str, float]
"""Microseconds of CPU by row."""


def cpu_of(work: Callable[..., object], *arguments: object) -> float:
    start = time.thread_time()
    work(*arguments)
    return (time.thread_time() - start) * 1e6


def alone(wanted: Placement, number: int) -> Placement:
    """Return the placement with a prioritizer policy and tolerations that no other placement has."""
    policy = builders.policy(
        builders.addon("cpuAvailable", resource="resource-usage-score", weight=2 + number),
        builders.builtin("ResourceAllocatableMemory"),
    )
    tolerations = (*wanted.spec.tolerations, Toleration(key=f"team-{number}", operator="Exists"))
    return replace(wanted, spec=replace(wanted.spec, prioritizerPolicy=policy, tolerations=tolerations))


class Turns:
    """The side of one version."""

    def __init__(self, clusters: int) -> None:
        self.bench = placement.Bench(clusters)
        self.dice = random.Random(clusters)
        self.numbers = itertools.count(1)

    def measure(self, decisions: int) -> Figures:
        numbers = list(itertools.islice(self.numbers, decisions))
        shared = [placement.placement(number, self.dice) for number in numbers]
        own = [alone(shared_one, number) for shared_one, number in zip(shared, numbers, strict=True)]
        figures = {
            "fresh": [cpu_of(placement.place, self.bench.fleet, workload) for workload in shared],
            OWN: [cpu_of(placement.place, self.bench.fleet, workload) for workload in own],
        }
        self.bench._one_row(decisions)
        medians = {name: statistics.median(samples) for name, samples in figures.items()}
        return {**medians, "one row changed": self.bench.figures["one_row_p50_ms"] * 1e3}


def serve(clusters: int) -> None:
    """Measure once for each line on stdin, which is the number of decisions."""
    turns = Turns(clusters)
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        print(json.dumps(turns.measure(int(line))), flush=True)


@contextmanager
def version(tree: Path, clusters: int) -> Iterator[Callable[[int], Figures]]:
    """Start the process of the version in a working tree, and yield a function that measures decisions."""
    path = os.pathsep.join(map(str, (tree / "src", *tree.glob("packages/*/src"), tree)))
    child = subprocess.Popen(
        [sys.executable, "-P", __file__, "--serve", str(clusters)],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    requests, replies = cast("IO[str]", child.stdin), cast("IO[str]", child.stdout)

    def measure(decisions: int) -> Figures:
        requests.write(f"{decisions}\n")
        requests.flush()
        return cast("Figures", json.loads(replies.readline()))

    with child:
        try:
            json.loads(replies.readline())  # the fleet is loaded
            yield measure
        finally:
            requests.close()


def compare(
    other: Path, *, clusters: int, rounds: int, decisions: int
) -> list[tuple[str, float, float, float]]:
    """Return (row, µs of the other version, µs of this version, ratio)."""
    this = Path(__file__).parents[1]
    pairs: list[tuple[Figures, Figures]] = []
    with ExitStack() as stack:
        before, after = (stack.enter_context(version(tree, clusters)) for tree in (other, this))
        before(decisions), after(decisions)
        for at in range(rounds):
            if at % 2:
                late, early = after(decisions), before(decisions)
            else:
                early, late = before(decisions), after(decisions)
            pairs.append((early, late))
    return [
        (
            row,
            min(early[row] for early, _ in pairs),
            min(late[row] for _, late in pairs),
            statistics.median(late[row] / early[row] for early, late in pairs),
        )
        for row in pairs[0][0]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.beside",
        description=(__doc__ or "").split("\n\n")[0],
        epilog=(__doc__ or "").split("\n\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tree", type=Path, nargs="?", help="working tree of the other version")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="clusters, separated by commas")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each version")
    parser.add_argument("--decisions", type=int, default=100, help="decisions per turn and row")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return
    if options.tree is None:
        parser.error("name the working tree of the other version")
    rows = [["µs of CPU", "clusters", "other version", "this version", "ratio"]]
    for size in map(int, options.sizes.split(",")):
        ratios = compare(
            options.tree.resolve(), clusters=size, rounds=options.rounds, decisions=options.decisions
        )
        rows += [
            [row, f"{size:,}", f"{early:.1f}", f"{late:.1f}", f"{ratio:.3f}"]
            for row, early, late, ratio in ratios
        ]
    print(machine())
    print(table(rows))


if __name__ == "__main__":
    main()
