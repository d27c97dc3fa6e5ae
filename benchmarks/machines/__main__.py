"""How many pods per second are placed on 5,000 nodes, if all nodes are filtered and scored?

    make bench-machines                                 5,000 nodes
    make bench-machines ARGS='--nodes 1000'             another number of nodes
    make bench-machines ARGS='--json figures.json'      also as JSON

Engine only: no API server, no event loop, one core. Each pod passes the queue, the default profile, Reserve and Bind
before the next one starts. Nodes have 4 CPUs, 32 GiB and one of 10 zones; as many pods as nodes are there before.
"""

import argparse
import sys

from benchmarks.machines.engine import SCENARIOS, measure
from benchmarks.measure import machine, table, write_json


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5_000, help="number of nodes")
    parser.add_argument("--pods", type=int, default=1_000, help="number of pods to place in each row")
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="measure only rows with TEXT in their name"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE as JSON")
    options = parser.parse_args()
    print(machine(), file=sys.stderr)
    figures = {
        name: measure(scenario, nodes=options.nodes, pods=options.pods)
        for name, scenario in SCENARIOS.items()
        if options.only in name
    }
    rows = [[name, f"{rate:,.0f}", f"{share:.0%}"] for name, (rate, share) in figures.items()]
    print(table([[f"{options.nodes:,} nodes, {options.pods:,} pods", "pods/s", "followed"], *rows]))
    if options.json:
        document = {"benchmark": "machines", "nodes": options.nodes, "pods": options.pods}
        rates = {name: rate for name, (rate, _) in figures.items()}
        write_json(options.json, {**document, "pods_per_second": rates})


if __name__ == "__main__":
    main()
