"""How fast are pods placed on 5,000 nodes beside kube-scheduler, and how soon does a machine that waits grow?

    make bench-machines                                          all parts, 5,000 nodes
    make bench-machines ARGS='--part engine'                     one part; the option can be repeated
    make bench-machines ARGS='--nodes 500 --bound 500'           smaller
    make bench-machines ARGS='--json figures.json'               also as JSON

Parts:

- *engine*: no API server, no event loop, one core. All nodes are filtered and scored. Each pod passes the queue, the
  default profile, Reserve and Bind before the next one starts. As many pods as nodes are there before.
- *end-to-end*: `fairway run --controllers machines` and kube-scheduler, one after the other, each on a new
  kube-apiserver and etcd with the same nodes and pods. kube-scheduler scores about 10 % of 5,000 nodes by default; one
  row shows it with all nodes scored, for a tenth of the pods. Fairway scores all nodes. CPU time is that of the
  scheduler, per 1,000 pods. In the row about preemption, each of 1,000 nodes is full of pods of low priority, and each
  pod evicts three of them; its rate counts from the start of the process.
- *grants*: from an event that leaves room to the permit of a machine that waits; in the state of machines alone, and on
  a hub with 100 nodes (see `benchmarks.machines.grants`).
- *moves*: moves per unit of room, beside a policy that moves the oldest machines first.

Nodes have 4 CPUs, 32 GiB and one of 10 zones.
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from dataclasses import asdict
from statistics import median
from typing import Any, Final

from benchmarks.controllers.stage import EMBEDDED, NAMES, REAL
from benchmarks.machines import end_to_end, engine
from benchmarks.machines import grants as hub_grants
from benchmarks.machines.end_to_end import ALL_NODES, FAIRWAY, KUBE_SCHEDULER, Figures
from benchmarks.machines.engine import SCENARIOS, requesting
from benchmarks.machines.migrations import milliseconds_to_grant, summary
from benchmarks.measure import machine, table, teller, write_json
from fairway.workloads.machines.simulation import POLICIES, Trace, simulate

ENGINE, END_TO_END, GRANTS, MOVES = "engine", "end-to-end", "grants", "moves"
PARTS: Final = (ENGINE, END_TO_END, GRANTS, MOVES)
HUB_NODES: Final = 100
BASIC: Final = "pods alike"
REQUIRED: Final = tuple(name for name in SCENARIOS if name.startswith("required"))
PREEMPTION: Final = "preemption on 1,000 full nodes"
FULL_NODES: Final = 1_000
COMPARED: Final = ("cheapest set", "oldest first")
"""Policies of migration."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="measure this part; can be repeated")
    parser.add_argument("--nodes", type=int, default=5_000, help="number of nodes")
    parser.add_argument("--pods", type=int, default=1_000, help="number of pods of each row of the engine")
    parser.add_argument("--bound", type=int, default=5_000, help="number of pods alike of end-to-end")
    parser.add_argument("--constrained", type=int, default=1_000, help="number of pods of its other rows")
    parser.add_argument(
        "--rounds", type=int, default=1, help="repetitions of end-to-end; medians are printed"
    )
    parser.add_argument("--hub", choices=(REAL, EMBEDDED), default=REAL, help="the hub of end-to-end")
    parser.add_argument("--without", action="append", default=[], help="leave out a scheduler of end-to-end")
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="measure only rows with TEXT in their name"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE as JSON")
    options = parser.parse_args()
    print(machine(), file=sys.stderr)
    document: dict[str, Any] = {"benchmark": "machines", "nodes": options.nodes}
    measures = {
        ENGINE: measure_engine,
        END_TO_END: measure_end_to_end,
        GRANTS: measure_grants,
        MOVES: measure_moves,
    }
    for part in options.part or PARTS:
        document[part] = measures[part](options)
    if options.json:
        write_json(options.json, document)


def measure_engine(options: argparse.Namespace) -> dict[str, Any]:
    figures = {
        name: engine.measure(scenario, nodes=options.nodes, pods=options.pods)
        for name, scenario in SCENARIOS.items()
        if options.only in name
    }
    rows = [[name, f"{rate:,.0f}", f"{share:.0%}"] for name, (rate, share) in figures.items()]
    print(table([[f"engine: {options.nodes:,} nodes, {options.pods:,} pods", "pods/s", "followed"], *rows]))
    return {name: rate for name, (rate, _) in figures.items()}


def measure_end_to_end(options: argparse.Namespace) -> dict[str, Any]:
    results: dict[str, dict[str, list[Figures]]] = {}
    for round_ in range(options.rounds):
        for scenario in (BASIC, *REQUIRED, PREEMPTION):
            if options.only not in scenario:
                continue
            full = scenario == PREEMPTION
            pods = options.bound if scenario == BASIC else options.constrained
            for contender in (KUBE_SCHEDULER, *((ALL_NODES,) if scenario == BASIC else ()), FAIRWAY):
                if contender in options.without:
                    continue
                figures = asyncio.run(
                    end_to_end.measure(
                        contender,
                        (lambda _: requesting("3")) if full else SCENARIOS[scenario],
                        nodes=min(options.nodes, FULL_NODES) if full else options.nodes,
                        pods=max(2, pods // 10) if contender == ALL_NODES else pods,
                        hub=options.hub,
                        full=full,
                        note=teller(f"{round_ + 1}: {contender}, {scenario}"),
                    )
                )
                results.setdefault(scenario, {}).setdefault(contender, []).append(figures)
    print()
    print(compare(results, nodes=options.nodes, hub=options.hub))
    return {
        scenario: {name: [asdict(round_) for round_ in rounds] for name, rounds in by_name.items()}
        for scenario, by_name in results.items()
    }


def compare(results: Mapping[str, Mapping[str, list[Figures]]], *, nodes: int, hub: str) -> str:
    """Format the medians of each scenario and scheduler, with ratios to kube-scheduler."""
    heading = f"end to end: {nodes:,} nodes, {NAMES[hub]}"
    rows = [[heading, "pods/s", "", "CPU s/1,000", "", "of the hub", "MB", "first s"]]
    for scenario, by_name in results.items():
        rows.append([scenario, *[""] * 7])
        other = by_name.get(KUBE_SCHEDULER)
        for name, rounds in by_name.items():
            rate, cpu = _median(rounds, "rate"), _cpu(rounds, "cpu")
            rows.append(
                [
                    f"  {name}",
                    f"{rate:,.0f}",
                    f"{rate / _median(other, 'rate'):.2f}x" if other and name != KUBE_SCHEDULER else "",
                    f"{cpu:.2f}",
                    f"{cpu / _cpu(other, 'cpu'):.2f}x" if other and name != KUBE_SCHEDULER else "",
                    f"{_cpu(rounds, 'hub_cpu'):.2f}",
                    f"{_median(rounds, 'resident') / 1e6:,.0f}",
                    f"{_median(rounds, 'first'):.1f}",
                ]
            )
    return table(rows)


def _median(rounds: list[Figures], field: str) -> float:
    return median(float(getattr(figures, field)) for figures in rounds)


def _cpu(rounds: list[Figures], field: str) -> float:
    """Return the CPU time per 1,000 pods."""
    return median(float(getattr(figures, field)) / figures.pods * 1000 for figures in rounds)


def measure_grants(options: argparse.Namespace) -> dict[str, Any]:
    grants = {nodes: milliseconds_to_grant(nodes) for nodes in (100, options.nodes)}
    print()
    rows = [[f"{nodes:,} nodes", f"{seconds:.2f}"] for nodes, seconds in grants.items()]
    print(table([["grants: from a deletion to the permit", "ms"], *rows]))
    on_hub = asyncio.run(hub_grants.measure(options.hub, HUB_NODES))
    print()
    print(hub_grants.summarise(on_hub, hub=options.hub, nodes=HUB_NODES))
    return {"state": {str(nodes): seconds for nodes, seconds in grants.items()}, "hub": on_hub}


def measure_moves(_options: argparse.Namespace) -> dict[str, Any]:
    summaries = {
        name: summary([simulate(Trace(nodes=20, seed=seed), POLICIES[name]) for seed in range(3)])
        for name in COMPARED
    }
    least = summaries[COMPARED[0]]["moves_per_unit"]
    rows = [
        [
            name,
            f"{row['moves_per_unit']:.2f}",
            f"{row['moves_per_unit'] / least:.1f}x" if least else "",
            f"{row['moves']:.0f}",
            f"{row['median_wait']:.1f} s",
        ]
        for name, row in summaries.items()
    ]
    print()
    print(table([["moves: 20 nodes, three traces", "per unit", "", "moves", "median wait"], *rows]))
    return summaries


if __name__ == "__main__":
    main()
