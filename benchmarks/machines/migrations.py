"""How many moves make room for growth, and how soon is denied growth granted?

    python -m benchmarks.machines.migrations                     20 nodes, three traces of 30 minutes
    python -m benchmarks.machines.migrations --nodes 50          another number of nodes
    python -m benchmarks.machines.migrations --json figures.json also as JSON

Traces of growth over a synthetic fleet, on a virtual clock, with the same requests for every policy:

- cheapest set: denied demand starts the cheapest set of moves whose targets have room
- oldest first: the same, but the longest-lived machines move until there is room
- watermark only: machines move, oldest first, when a node is above its watermark; denied demand starts nothing
- no migrations

A unit is relieved if a machine grew by it into room that another left for it. Then, on the real clock: one event from
the deletion of a pod to the permits of those who wait, on a fleet of many nodes.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from statistics import mean, median
from typing import Any

from benchmarks.measure import machine, table, write_json
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.workloads.machines import Machine, MachinePolicy, MachineState, PermitRequest
from fairway.workloads.machines.events import (
    Loaded,
    MachineGone,
    MachineObserved,
    PermitRequested,
    PermitWritten,
)
from fairway.workloads.machines.instructions import WritePermit
from fairway.workloads.machines.machine import Demand
from fairway.workloads.machines.moves import Work
from fairway.workloads.machines.simulation import POLICIES, UNIT, Figures, Trace, scaled, simulate

GRANTS = 200


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=20, help="number of nodes")
    parser.add_argument("--traces", type=int, default=3, help="number of traces")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE as JSON")
    options = parser.parse_args()
    print(machine(), file=sys.stderr)
    rows: list[Sequence[str]] = [
        (
            "policy",
            "denied",
            "median wait",
            "p99",
            "unit-hours denied",
            "moves",
            "per unit",
            "wasted",
            "cancelled",
        )
    ]
    document: dict[str, Any] = {}
    for name, policy in POLICIES.items():
        figures = [simulate(Trace(nodes=options.nodes, seed=seed), policy) for seed in range(options.traces)]
        document[name] = means = summary(figures)
        rows.append(
            (
                name,
                f"{means['denied']:.0f}",
                f"{means['median_wait']:.1f} s",
                f"{means['p99_wait']:.0f} s",
                f"{means['denied_unit_hours']:.2f}",
                f"{means['moves']:.0f}",
                f"{means['moves_per_unit']:.2f}" if means["moves_per_unit"] else "",
                f"{means['wasted']:.0f}",
                f"{means['cancelled']:.0f}",
            )
        )
    print(table(rows))
    document["grant_milliseconds"] = grant = {nodes: milliseconds_to_grant(nodes) for nodes in (100, 2_000)}
    print()
    print(
        table(
            [
                ("from a deletion to the permit", "ms"),
                *((f"{n:,} nodes", f"{ms:.2f}") for n, ms in grant.items()),
            ]
        )
    )
    if options.json:
        write_json(options.json, {"benchmark": "migrations", "nodes": options.nodes, **document})


def summary(figures: Sequence[Figures]) -> dict[str, float]:
    units = sum(figure.relieved_units for figure in figures)
    return {
        "denied": mean(figure.denied for figure in figures),
        "median_wait": mean(figure.wait(0.5) for figure in figures),
        "p99_wait": mean(figure.wait(0.99) for figure in figures),
        "denied_unit_hours": mean(figure.denied_unit_seconds for figure in figures) / 3600,
        "moves": mean(figure.moves for figure in figures),
        "moves_per_unit": sum(figure.moves for figure in figures) / units if units else 0.0,
        "wasted": mean(figure.wasted for figure in figures),
        "cancelled": mean(figure.cancelled for figure in figures),
    }


class Everywhere:
    def __init__(self, hosts: Sequence[HostKey]) -> None:
        self._hosts = hosts

    def feasible(self, _machine: Machine, _work: Work) -> Sequence[HostKey]:
        return self._hosts[:50]


def milliseconds_to_grant(nodes: int) -> float:
    """Return the median time of the event that deletes a pod and grants its room to a machine that waits."""
    hosts = [HostKey(f"n{at}", f"u{at}") for at in range(nodes)]
    state = MachineState.rebuild(
        policy=MachinePolicy(),
        oracle=Everywhere(hosts),
        hosts=[(host, scaled(64)) for host in hosts],
        machines=[vm for at, host in enumerate(hosts) for vm in fill(at, host)],
        records=(),
        now=0,
    )
    state.handle(Loaded(), now=0)
    samples = []
    for at in range(min(nodes, GRANTS)):
        request = PermitRequest(namespace="ns", name=f"waiter-{at}", unit=UNIT, resources=scaled(12))
        state.handle(PermitRequested(request), now=1)
        state.handle(PermitWritten(WorkloadKey("ns", f"waiter-{at}", f"w-{at}")), now=1)
        began = time.perf_counter()
        out = state.handle(MachineGone(WorkloadKey("ns", f"pod-{at}-0", f"u-{at}-0")), now=2)
        samples.append((time.perf_counter() - began) * 1000)
        assert any(isinstance(instruction, WritePermit) for instruction in out)
    return median(samples)


def fill(at: int, host: HostKey) -> list[MachineObserved]:
    """A machine of 8 units that is going to wait, and 14 pods of 4."""
    pods = [
        MachineObserved(
            Machine(key=WorkloadKey("ns", f"pod-{at}-{n}", f"u-{at}-{n}"), host=host, using=scaled(4))
        )
        for n in range(14)
    ]
    demand = Demand(requested=scaled(8), approved=scaled(8), unit=UNIT)
    key = WorkloadKey("ns", f"waiter-{at}", f"w-{at}")
    return [*pods, MachineObserved(Machine(key=key, host=host, using=scaled(8), vm=f"vm-{at}"), demand)]


if __name__ == "__main__":
    main()
