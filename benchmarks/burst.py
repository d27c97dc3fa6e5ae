"""How does a burst of identical Placements share clusters between two publications of a score?

    make bench-burst                                      500 placements over 20 clusters
    make bench-burst ARGS='--placements 100 --debit=-5'   another burst

Each Placement selects one cluster by one score. The table has the number of Placements on each cluster, without and
with ``fairway.dev/score-debits``, for equal scores and for scores that differ; *share* is what the scores allow:
the selections that leave all clusters with the same expected score.

The last table has the CPU time of a debit and of its end, and what the same would take as an entry of the ledger.
"""

import argparse
import time
from collections import Counter
from collections.abc import Mapping

from benchmarks.measure import machine, table
from fairway.api.placement import Placement, PlacementSpec
from fairway.engine.ledger import Ledger
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.clusters.debits import Debits
from fairway.testing.builders import addon, binding, cluster, cluster_set, placement, policy, score
from fairway.whatif.world import World
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS

REPEATS = 2000
NOW = 1_800_000_000_000_000


def identical(name: str, debits: str | None) -> Placement:
    spec = PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy(addon("cpu"), mode="Exact"))
    return placement(name, spec=spec, annotations={} if debits is None else {SCORE_DEBITS: debits})


def burst(scores: Mapping[str, int], *, placements: int, debits: str | None) -> Counter[str]:
    names = [f"p{at:05d}" for at in range(placements)]
    world = World(
        [
            cluster_set("default"),
            binding("default"),
            *(cluster(name) for name in scores),
            *(score(name, {"cpu": value}) for name, value in scores.items()),
            *(identical(name, debits) for name in names),
        ]
    )
    selected: Counter[str] = Counter()
    for name in names:
        selected.update(world.place(("ns1", name), now=NOW).outcome.selected)
    return selected


def share(scores: Mapping[str, int], *, placements: int, debit: int) -> Counter[str]:
    """Return how many placements each cluster gets if each goes to the best expected score."""
    first: Counter[str] = Counter()
    for _ in range(placements):
        first[max(sorted(scores), key=lambda name: scores[name] + debit * first[name])] += 1
    return first


def debit_seconds(others: int) -> float:
    """Return the CPU seconds of a debit and its end on a cluster that so many other Placements debit."""
    debits = Debits()
    for at in range(others):
        debits.put("c", (f"ns{at % 10}", f"p{at}"), {("default", "cpu"): -5})
    began = time.process_time()
    for _ in range(REPEATS):
        debits.put("c", ("ns", "web"), {("default", "cpu"): -5})
        debits.put("c", ("ns", "web"), {})
    return (time.process_time() - began) / REPEATS


def entry_seconds(others: int) -> float:
    """Return those of a reservation in the ledger and its release, without bounds of namespaces, and columns."""
    ledger, host = Ledger(), HostKey("c", "")
    with ledger.transaction() as first:
        first.set_capacity(host, {"default/cpu": 1_000_000})
        for at in range(others):
            first.reserve(host, WorkloadKey(f"ns{at % 10}", f"p{at}"), {"default/cpu": 5})
    began = time.process_time()
    for _ in range(REPEATS):
        with ledger.transaction() as transaction:
            transaction.reserve(host, WorkloadKey("ns", "web"), {"default/cpu": 5})
        with ledger.transaction() as transaction:
            transaction.release(host, WorkloadKey("ns", "web"))
    return (time.process_time() - began) / REPEATS


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.burst")
    parser.add_argument("--placements", type=int, default=500)
    parser.add_argument("--clusters", type=int, default=20)
    parser.add_argument("--debit", type=int, default=-2)
    given = parser.parse_args()
    names = [f"c{at:02d}" for at in range(given.clusters)]
    debits = f"default/cpu={given.debit:+d}"
    print(f"{given.placements} placements over {given.clusters} clusters, {debits}; {machine()}")
    for title, scores in (
        ("equal scores", dict.fromkeys(names, 70)),
        ("scores that differ", {name: 70 - at for at, name in enumerate(names)}),
    ):
        began = time.perf_counter()
        without = burst(scores, placements=given.placements, debits=None)
        between = time.perf_counter()
        shared = burst(scores, placements=given.placements, debits=debits)
        ended = time.perf_counter()
        fair = share(scores, placements=given.placements, debit=given.debit)
        rows = [["cluster", "score", "share", "without debits", "with debits"]]
        rows += [[name, *map(str, (scores[name], fair[name], without[name], shared[name]))] for name in names]
        print(f"\n{title} ({between - began:.2f} s without, {ended - between:.2f} s with)\n{table(rows)}")
    costs = [["others on the cluster", "debit, µs", "entry of the ledger, µs"]]
    costs += [
        [str(others), f"{debit_seconds(others) * 1e6:.1f}", f"{entry_seconds(others) * 1e6:.1f}"]
        for others in (0, 30, 300)
    ]
    print(f"\nCPU time of a debit and its end\n{table(costs)}")


if __name__ == "__main__":
    main()
