"""The cost of scores for the hub and the agents, and the time until they are published.

    python -m benchmarks.scores                        everything, on both hubs; a quarter of an hour
    python -m benchmarks.scores --quick                less of everything; three minutes
    python -m benchmarks.scores --only a,d --hub embedded

(a) writes of 10,000 agents with noisy values by publication policy, as a share of the hub's limit
(b) the SDK publishing at that rate on a hub, with and without a deadband: writes on the hub, CPU of both
(c) memory and CPU of a real agent at 5,000 nodes and 100,000 pods, idle and while pods change
(d) pod created on the managed cluster → score written on the hub, with the agent's debounce

Hubs, clusters, agents and publishers are separate processes on the same machine. Compare ratios of one run, and seconds
only with those of the same machine under the same load.
"""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.controllers.objects import Fleet
from benchmarks.controllers.stage import EMBEDDED, REAL, staged
from benchmarks.measure import machine, teller, write_json
from benchmarks.scores import footprint, latency, publishing, quota, writes
from rigs.kubernetes import ToolsMissing

PARTS = ("a", "b", "c", "d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    simulated: int
    """Agents in (a)."""
    minutes: int
    """Minutes of virtual time in (a); a multiple of eight has whole renewals of every policy."""
    writes: int
    """Writes per round in (a)."""
    turns: int
    clusters: int
    """Clusters on the hub in (a) and (b)."""
    interval: float
    """Seconds between readings in (b); at least 6, because validity is in whole seconds."""
    rounds: int
    """Rounds of readings in (b)."""
    ways: int
    """Number of policies in (b)."""
    nodes: int
    pods: int
    real_nodes: int
    """Nodes and pods of the kube-apiserver in (c)."""
    real_pods: int
    seconds: float
    """Seconds of changes in (c)."""
    changes: float
    """Changes per second in (c)."""
    alone: int
    """Pods one at a time in (d)."""
    streamed: int


FULL = Sizes(
    simulated=10_000,
    minutes=8,
    writes=500,
    turns=4,
    clusters=500,
    interval=6.0,
    rounds=4,
    ways=3,
    nodes=5_000,
    pods=100_000,
    real_nodes=500,
    real_pods=10_000,
    seconds=30.0,
    changes=50.0,
    alone=30,
    streamed=80,
)
QUICK = replace(
    FULL,
    simulated=1_000,
    writes=300,
    turns=2,
    clusters=100,
    rounds=2,
    ways=2,
    nodes=500,
    pods=10_000,
    real_nodes=100,
    real_pods=2_000,
    seconds=6.0,
    alone=6,
    streamed=20,
)


async def run(sizes: Sizes, *, parts: str, kinds: list[str], fsync: bool) -> dict[str, Any]:
    results: dict[str, Any] = {"machine": machine()}
    print(machine(), flush=True)
    if "a" in parts or "b" in parts:
        results |= await _hub(sizes, kinds, parts, fsync=fsync)
    if "c" in parts:
        results["c"] = await _footprint(sizes, kinds)
    if "d" in parts:
        results["d"] = await _latency(sizes, kinds, fsync=fsync)
    print(machine())
    return results


async def _hub(sizes: Sizes, kinds: list[str], parts: str, *, fsync: bool) -> dict[str, Any]:
    """Run (a) and (b) on the same hubs."""
    rates = []
    if "a" in parts:
        rates = list(
            writes.rates(clusters=sizes.simulated, minutes=sizes.minutes, note=teller("a simulated"))
        )
    limits, published = [], []
    for kind in kinds:
        note = teller(f"a, b {kind}")
        async with staged(kind, Fleet(clusters=sizes.clusters), note=note, fsync=fsync) as hub:
            if "a" in parts:
                limit = await quota.measure(
                    hub, count=sizes.writes, rounds=sizes.turns, quiet=sizes.seconds / 10, note=note
                )
                limits.append((hub.name, limit))
            if "b" in parts:
                ways = await publishing.measure(
                    hub,
                    interval=sizes.interval,
                    rounds=sizes.rounds,
                    ways=publishing.TRIED[: sizes.ways],
                    note=note,
                )
                published.append((hub.name, ways))
    results: dict[str, Any] = {}
    if limits:
        print(quota.shown_limits(limits), end="\n\n")
        print(
            quota.shown(rates, limits, clusters=sizes.simulated, minutes=sizes.minutes),
            end="\n\n",
            flush=True,
        )
        results["a"] = quota.document(rates, limits)
    if published:
        print(
            publishing.shown(published, interval=sizes.interval, rounds=sizes.rounds), end="\n\n", flush=True
        )
        results["b"] = published
    return results


async def _footprint(sizes: Sizes, kinds: list[str]) -> list[Any]:
    results = [
        await footprint.scripted(
            nodes=sizes.nodes,
            pods=sizes.pods,
            seconds=sizes.seconds,
            changes=sizes.changes,
            note=teller("c scripted"),
        )
    ]
    if REAL in kinds:
        results.append(
            await footprint.real(
                nodes=sizes.real_nodes,
                pods=sizes.real_pods,
                seconds=sizes.seconds,
                changes=sizes.changes,
                note=teller("c real"),
            )
        )
    print(footprint.shown(results), end="\n\n", flush=True)
    return results


async def _latency(sizes: Sizes, kinds: list[str], *, fsync: bool) -> list[Any]:
    results = []
    for kind in kinds:
        note = teller(f"d {kind}")
        with tempfile.TemporaryDirectory(prefix="fairway-bench-") as folder:
            async with (
                staged(kind, Fleet(clusters=1), note=note, fsync=fsync) as hub,
                staged(kind, Fleet(clusters=1), note=note, fsync=fsync) as cluster,
            ):
                measured = await latency.measure(
                    hub, cluster, alone=sizes.alone, streamed=sizes.streamed, folder=Path(folder), note=note
                )
                results.append((hub.name, measured))
    print(latency.shown(results), end="\n\n", flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scores",
        description=(__doc__ or "").split("\n\n")[0],
        epilog=(__doc__ or "").split("\n\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes and shorter runs")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PARTS", help="such as a,c")
    parser.add_argument("--hub", choices=(REAL, EMBEDDED, "both"), default="both")
    parser.add_argument("--fsync", action="store_true", help="make etcd sync to disk")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE as JSON")
    sizes = parser.add_argument_group("sizes")
    for name, words in (
        ("simulated", "agents in (a)"),
        ("minutes", "minutes of virtual time in (a)"),
        ("writes", "writes per round in (a)"),
        ("clusters", "clusters on the hub in (a) and (b)"),
        ("interval", "seconds between readings in (b)"),
        ("rounds", "rounds of readings in (b)"),
        ("ways", "policies in (b), at most 4"),
        ("nodes", "nodes in (c)"),
        ("pods", "pods in (c)"),
        ("real-nodes", "nodes of the kube-apiserver in (c)"),
        ("real-pods", "pods of the kube-apiserver in (c)"),
        ("seconds", "seconds of changes in (c)"),
        ("changes", "changes of pods per second in (c)"),
        ("alone", "pods one at a time in (d)"),
        ("streamed", "pods in a stream in (d)"),
    ):
        kind = float if name in ("interval", "seconds", "changes") else int
        sizes.add_argument(f"--{name}", type=kind, metavar="N", help=words)
    given = vars(parser.parse_args())
    chosen = {name: given[name] for name in Sizes.__slots__ if given.get(name) is not None}
    kinds = [REAL, EMBEDDED] if given["hub"] == "both" else [given["hub"]]
    try:
        results = asyncio.run(
            run(
                replace(QUICK if given["quick"] else FULL, **chosen),
                parts=given["only"],
                kinds=kinds,
                fsync=given["fsync"],
            )
        )
    except ToolsMissing as missing:
        sys.exit(f"{missing}\nRun `make kube-tools` first, or pass --hub embedded.")
    if given["json"]:
        write_json(given["json"], results)


if __name__ == "__main__":
    main()
