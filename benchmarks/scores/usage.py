"""The agent on a large cluster: memory, CPU, and the time from a change of a pod to a reading that includes it.

    python -m benchmarks.scores.usage                      5,000 nodes and 100,000 pods
    python -m benchmarks.scores.usage --quick              a tenth of that

The cluster is a process that sends nodes and pods of realistic size over HTTP. This process is the agent: client,
informers, accounting. The last rows compare, in one run, an incremental update with a full recount.
"""

import argparse
import asyncio
import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.controllers.process import Child, child, cpu_seconds
from benchmarks.measure import percentile, resident, table, timed, write_json
from fairway.providers.usage import ResourceUsage, UsageOptions
from fairway.providers.usage.accounting import Accounting
from kubewire.client import Client, Connection

SHAPES = {"web": {"cpu": "500m", "memory": "1Gi"}, "train": {"cpu": "8", "nvidia.com/gpu": "4"}}
BURST = 2_000


def note(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


class Heard:
    """Records the last wake of the provider."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    async def again(self) -> None:
        await self._event.wait()
        self._event.clear()


async def load(provider: ResourceUsage, cluster: Child, figures: dict[str, Any], *, given: Any) -> None:
    """Measure the running provider."""
    pid, heard = os.getpid(), Heard()
    figures["resident before"] = resident()
    began, cpu = time.monotonic(), cpu_seconds(pid)
    async with provider.running(heard.wake):
        await provider._pods.synced.wait()  # on a slow machine longer than the timeout of a reading
        await provider.read()
        figures["load seconds"] = time.monotonic() - began
        figures["load cpu"] = cpu_seconds(pid) - cpu
        gc.freeze()
        figures["resident"] = resident()
        await heard.again()

        note(f"{given.changes:,} changes")
        cpu = cpu_seconds(pid)
        for _ in range(given.changes // BURST):
            await cluster.ask(f"many {BURST}")
            await heard.again()
            await settled(provider)
        figures["cpu per change"] = (cpu_seconds(pid) - cpu) / (given.changes // BURST * BURST)

        note(f"{given.reactions} changes, one by one")
        await asyncio.sleep(0.2)
        heard.wake()
        await heard.again()
        reactions, readings = [], []
        for number in range(given.reactions):
            sent = await cluster.ask("many 1")
            if number % 3 == 2:
                continue  # only the status changed, which does not wake the provider
            await heard.again()
            start = time.perf_counter()
            await provider.read()
            readings.append(time.perf_counter() - start)
            reactions.append(time.monotonic() - sent["sent"])
        figures["reactions"], figures["readings"] = reactions, readings


async def settled(provider: ResourceUsage) -> None:
    """Wait until no more changes arrive."""
    version = ""
    while version != (version := provider._pods.resource_version):
        await asyncio.sleep(0.02)


def compare(provider: ResourceUsage, figures: dict[str, Any]) -> None:
    """Measure an incremental update and a full recount, both in memory."""
    nodes, pods = list(provider._nodes.store.values()), list(provider._pods.store.values())
    options = provider.options

    def recount() -> Accounting:
        fresh = Accounting(policy=options.policy, shapes=options.shapes, basis=options.basis)
        for node in nodes:
            fresh.update_node(node)
        for pod in pods:
            fresh.update_pod(pod)
        fresh.totals()
        return fresh

    figures["recount"] = min(timed(recount) for _ in range(3))
    accounting = recount()
    assert accounting.totals() == provider.accounting.totals()
    chosen = pods[:: max(len(pods) // 20_000, 1)]

    def coming_and_going() -> None:
        for pod in chosen:
            accounting.remove_pod(pod)
            accounting.update_pod(pod)

    figures["change"] = timed(coming_and_going) / len(chosen) / 2
    accounting.totals()
    steps = []
    for pod in chosen[:2_000]:
        accounting.remove_pod(pod)
        steps.append(timed(accounting.totals))
        accounting.update_pod(pod)
        steps.append(timed(accounting.totals))
    figures["change and totals"] = sum(steps) / len(steps) + figures["change"]


async def measure(given: Any) -> dict[str, Any]:
    figures: dict[str, Any] = {"nodes": given.nodes, "pods": given.pods}
    arguments = (f"--nodes={given.nodes}", f"--pods={given.pods}")
    async with child("benchmarks.scores.usage_cluster", *arguments) as cluster:
        address = await cluster.ask("address")
        figures["bytes per pod on the wire"] = address["pod_bytes"]
        async with Client(Connection(server=address["address"])) as client:
            provider = ResourceUsage(
                client, UsageOptions.read({"shapes": SHAPES, "basis": "requests"}, environment={})
            )
            note(f"{given.nodes:,} nodes and {given.pods:,} pods")
            await load(provider, cluster, figures, given=given)
            note("counting again")
            compare(provider, figures)
    return figures


def shown(figures: dict[str, Any]) -> str:
    grown = figures["resident"] - figures["resident before"]
    reactions, readings = figures["reactions"], figures["readings"]
    rows = [
        ("", "figure"),
        ("nodes", f"{figures['nodes']:,}"),
        ("pods", f"{figures['pods']:,}"),
        ("a pod on the wire", f"{figures['bytes per pod on the wire']:,} bytes"),
        ("from nothing to the first reading", f"{figures['load seconds']:.1f} s"),
        ("... CPU of the agent", f"{figures['load cpu']:.1f} s"),
        ("memory of the agent, all of it", f"{figures['resident'] / 2**20:.0f} MiB"),
        ("... for this cluster", f"{grown / 2**20:.0f} MiB"),
        ("... per pod", f"{grown / figures['pods']:.0f} bytes"),
        ("CPU per change of a pod, from the wire on", f"{figures['cpu per change'] * 1e6:.0f} µs"),
        ("... of that the accounting", f"{figures['change'] * 1e6:.1f} µs"),
        ("a reading after one change, median", f"{percentile(readings, 0.5) * 1e6:.0f} µs"),
        ("... the slowest", f"{max(readings) * 1e3:.1f} ms"),
        ("pod sent to reading, median", f"{percentile(reactions, 0.5) * 1e3:.2f} ms"),
        ("... 99 of 100", f"{percentile(reactions, 0.99) * 1e3:.2f} ms"),
        ("counting everything again", f"{figures['recount'] * 1e3:.0f} ms"),
        ("one change and what is free then", f"{figures['change and totals'] * 1e6:.0f} µs"),
        ("... times quicker", f"{figures['recount'] / figures['change and totals']:,.0f}"),
    ]
    return table(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=30_000)
    parser.add_argument("--reactions", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="500 nodes, 10,000 pods")
    parser.add_argument("--json", metavar="FILE", help="the figures, too")
    given = parser.parse_args()
    if given.quick:
        given.nodes, given.pods, given.changes = 500, 10_000, 6_000
    figures = asyncio.run(measure(given))
    print(shown(figures))
    if given.json:
        write_json(str(Path(given.json)), figures)


if __name__ == "__main__":
    main()
