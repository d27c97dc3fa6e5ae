"""The time of a decision, and the memory of a fleet.

    make bench                                      1k, 10k, 100k clusters, and 1M for memory and one placement
    make bench ARGS='--sizes 1000,10000'            only these
    make bench ARGS='--json figures.json'           also as JSON

The placement is the usual one: four sets, one In and one NotIn selector, one toleration, and the prioritizers Balance,
Steady, one add-on score and allocatable memory; ten clusters wanted. The fleet is the synthetic one of
``fairway fleet generate``, about 3.5 KB of JSON per cluster, with 200 foreign decisions.

- load: from objects in memory to a fleet
- first use: the first placement, which creates the columns it reads
- fresh: new placements (compiled and decided) on existing columns
- one row: a known placement after a change of one cluster's score
- all: the same placement without numberOfClusters, so that every feasible cluster is ranked
- host by host: the same decision by calling plugins per cluster, as schedulers usually do
- CEL: a placement with a new expression over a label and the version; kept: a known one, one row changed
"""

import argparse
import gc
import random
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from benchmarks.measure import percentile, resident, table, timed, write_json
from fairway.api.cluster import ManagedCluster
from fairway.api.placement import Placement, PlacementSpec, Toleration
from fairway.api.score import AddOnPlacementScore
from fairway.engine import cycle
from fairway.engine.memory import Memory
from fairway.hosts.clusters import Fleet
from fairway.hosts.clusters.decisions import Holding
from fairway.hosts.instant import to_micros
from fairway.simulation import synthetic
from fairway.testing import builders
from fairway.workloads.placement import PlacementWorkload, default_profile

SIZES = (1_000, 10_000, 100_000)
MILLION = 1_000_000
SETS = ("prod", "dev", "default", "edge", "hosting", "gpus")
NOW = to_micros(synthetic.BASE_TIME)
BATCH = 10_000


def batches(clusters: int) -> Iterator[tuple[list[ManagedCluster], list[AddOnPlacementScore]]]:
    """Yield the synthetic fleet, decoded from JSON as from a hub."""
    decode_cluster = msgspec.json.Decoder(ManagedCluster).decode
    decode_score = msgspec.json.Decoder(AddOnPlacementScore).decode
    batch: list[ManagedCluster] = []
    scores: list[AddOnPlacementScore] = []
    for document in synthetic.generate(clusters=clusters, seed=1, placements=0):
        if document["kind"] == "ManagedCluster":
            batch.append(decode_cluster(msgspec.json.encode(document)))
        elif document["kind"] == "AddOnPlacementScore":
            scores.append(decode_score(msgspec.json.encode(document)))
        if len(batch) == BATCH:
            yield batch, scores
            batch, scores = [], []
    yield batch, scores


def placement(number: int, dice: random.Random, *, wanted: int | None = 10, cel: str = "") -> Placement:
    regions = ("eu-central-1", "eu-west-1", "us-east-1", "us-west-2")
    labels = builders.selector(
        builders.requirement("environment", "In", *dice.sample(("prod", "stage", "dev"), 2)),
        builders.requirement("region", "NotIn", dice.choice(regions)),
    )
    return builders.placement(
        f"bench-{number}",
        namespace="bench",
        spec=PlacementSpec(
            clusterSets=tuple(dice.sample(SETS, 4)),
            numberOfClusters=wanted,
            predicates=(builders.predicate(labels=labels, cel=[cel] if cel else []),),
            tolerations=(Toleration(key="gpu", operator="Exists"),),
            prioritizerPolicy=builders.policy(
                builders.addon("cpuAvailable", resource="resource-usage-score"),
                builders.builtin("ResourceAllocatableMemory"),
            ),
        ),
    )


def place(fleet: Fleet, wanted: Placement, *, whole_fleet: bool = True) -> int:
    workload = PlacementWorkload(wanted)
    outcome = cycle.run(fleet.snapshot(), workload, default_profile(), now=NOW, whole_fleet=whole_fleet)
    return len(outcome.selected)


def remember(memory: Memory, fleet: Fleet, workload: PlacementWorkload) -> int:
    return len(memory.run(fleet.snapshot(), workload, default_profile(), now=NOW).selected)


class Bench:
    """One fleet of one size."""

    def __init__(self, clusters: int) -> None:
        self.clusters = clusters
        self.dice = random.Random(clusters)
        self.fleet = Fleet()
        self.figures: dict[str, float] = {"clusters": clusters}
        self.names: list[str] = []
        self._load()

    def _load(self) -> None:
        before = resident()
        loaded: list[ManagedCluster] = []
        scores: list[AddOnPlacementScore] = []
        for some, published in batches(self.clusters):
            loaded += some
            scores += published
            progress(f"{self.clusters:,} clusters: generated {len(loaded):,}")
        self.names = [cluster.metadata.name for cluster in loaded]

        seconds = timed(self.fleet.load, loaded) + timed(self.fleet.load_scores, scores)
        self.figures["load_ms"] = seconds * 1e3
        del loaded, scores, some, published
        for name in SETS:
            labels = builders.selector(labels={"gpu": "true"}) if name == "gpus" else None
            self.fleet.upsert_set(builders.cluster_set(name, selector=labels))
            self.fleet.upsert_binding(builders.binding(name, namespace="bench"))
        for number in range(200):
            held = tuple(self.dice.choices(self.names, k=10))
            owner = ("elsewhere", f"p{number}")
            self.fleet.hold(namespace="elsewhere", name=f"d{number}", holding=Holding(owner, held))
        progress(f"{self.clusters:,} clusters: first placement")
        self.figures["first_use_ms"] = timed(place, self.fleet, placement(0, self.dice)) * 1e3
        self.figures["kb_per_cluster"] = (resident() - before) / self.clusters / 1024
        gc.collect()
        gc.freeze()

    def run(self, rounds: int) -> None:
        progress(f"{self.clusters:,} clusters: measuring")
        fresh = [placement(number, self.dice) for number in range(1, rounds + 1)]
        self._samples("fresh", [timed(place, self.fleet, workload) for workload in fresh])
        self._one_row(rounds * 3)
        every = [placement(number, self.dice, wanted=None) for number in range(max(3, rounds // 10))]
        self._samples("all", [timed(place, self.fleet, workload) for workload in every])
        if self.clusters <= 100_000:
            slow = fresh[: 3 if self.clusters > 10_000 else 10]
            self._samples(
                "host_by_host", [timed(place, self.fleet, workload, whole_fleet=False) for workload in slow]
            )
        self._cel()

    def _one_row(self, rounds: int) -> None:
        """Measure upsert and cycle separately; the table shows the cycle."""
        memory = Memory()
        workload = PlacementWorkload(placement(0, self.dice))
        memory.run(self.fleet.snapshot(), workload, default_profile(), now=NOW)
        upserts: list[float] = []
        cycles: list[float] = []
        for _ in range(rounds):
            changed = builders.score(
                self.dice.choice(self.names),
                {"cpuAvailable": self.dice.randint(-100, 100)},
                name="resource-usage-score",
            )
            upserts.append(timed(self.fleet.upsert_score, changed))
            cycles.append(timed(remember, memory, self.fleet, workload))
        self._samples("one_row", cycles)
        self._samples("upsert", upserts)
        self.figures["followed_share"] = memory.followed / rounds

    def _cel(self) -> None:
        fresh: list[float] = []
        for minor in (29, 30, 31):
            text = (
                f'managedCluster.status.version.kubernetes.startsWith("v1.{minor}")'
                ' && managedCluster.metadata.labels["environment"] != "x"'
            )
            wanted = placement(0, self.dice, cel=text)
            fresh.append(timed(place, self.fleet, wanted))
        # The first expression also creates the columns it reads.
        self.figures["cel_first_ms"] = fresh[0] * 1e3
        self._samples("cel", fresh[1:])
        kept: list[float] = []
        for number in range(20):
            changed = builders.score(
                self.dice.choice(self.names), {"cpuAvailable": number}, name="resource-usage-score"
            )
            self.fleet.upsert_score(changed)
            kept.append(timed(place, self.fleet, wanted))
        self._samples("cel_kept", kept)

    def _samples(self, name: str, seconds: list[float]) -> None:
        self.figures[f"{name}_p50_ms"] = percentile(seconds, 0.50) * 1e3
        self.figures[f"{name}_p99_ms"] = percentile(seconds, 0.99) * 1e3


ROWS = (
    ("load, ms", "load_ms", 0),
    ("first use of the columns, ms", "first_use_ms", 0),
    ("memory per cluster, KB", "kb_per_cluster", 1),
    ("fresh, p50 ms", "fresh_p50_ms", 3),
    ("fresh, p99 ms", "fresh_p99_ms", 3),
    ("one row changed, p50 ms", "one_row_p50_ms", 4),
    ("one row changed, p99 ms", "one_row_p99_ms", 4),
    ("  its upsert, p50 ms", "upsert_p50_ms", 4),
    ("  share of cycles followed", "followed_share", 2),
    ("all clusters ranked, p50 ms", "all_p50_ms", 2),
    ("CEL never seen before, p50 ms", "cel_p50_ms", 2),
    ("  the first one, ms", "cel_first_ms", 1),
    ("CEL kept, one row changed, p50 ms", "cel_kept_p50_ms", 3),
    ("host by host, p50 ms", "host_by_host_p50_ms", 1),
)


def progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def ratios(figures: list[dict[str, float]]) -> list[list[str]]:
    """Return ratios within one run, which do not depend on the speed of the machine."""
    return [
        ["ratio", *(f"{int(figure['clusters']):,}" for figure in figures)],
        ["host by host / fresh", *_ratio(figures, "host_by_host_p50_ms", "fresh_p50_ms")],
        ["fresh / one row changed", *_ratio(figures, "fresh_p50_ms", "one_row_p50_ms")],
    ]


def _ratio(figures: list[dict[str, float]], above: str, below: str) -> list[str]:
    return [
        f"{figure[above] / figure[below]:.0f}" if above in figure and below in figure else "-"
        for figure in figures
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.placement",
        description=(__doc__ or "").split("\n\n")[0],
        epilog=(__doc__ or "").split("\n\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="clusters, separated by commas")
    parser.add_argument("--rounds", type=int, default=300, help="placements per size")
    parser.add_argument("--no-million", action="store_true", help="skip the fleet of a million clusters")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE as JSON")
    options = parser.parse_args()
    figures: list[dict[str, float]] = []
    for size in map(int, options.sizes.split(",")):
        bench = Bench(size)
        bench.run(options.rounds)
        figures.append(bench.figures)
        gc.unfreeze()
        del bench
        gc.collect()
    if not options.no_million and options.sizes == ",".join(map(str, SIZES)):
        bench = Bench(MILLION)
        progress("1,000,000 clusters: one placement")
        seconds = [timed(place, bench.fleet, placement(1, random.Random(at))) for at in range(5)]
        bench.figures["fresh_p50_ms"] = percentile(seconds, 0.5) * 1e3
        figures.append(bench.figures)
    progress("")
    heading = ["clusters", *(f"{int(figure['clusters']):,}" for figure in figures)]
    body = [
        [label, *(f"{figure[key]:,.{digits}f}" if key in figure else "-" for figure in figures)]
        for label, key, digits in ROWS
    ]
    print(table([heading, *body]))
    print()
    print(table(ratios(figures)))
    if options.json:
        document: dict[str, Any] = {"benchmark": "placement", "figures": figures}
        write_json(options.json, document)


if __name__ == "__main__":
    main()
