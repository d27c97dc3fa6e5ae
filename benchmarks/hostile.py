"""Delays of other placements while one namespace creates hostile ones.

    python -m benchmarks.hostile                   about a minute, with ``fairway up`` as a process
    python -m benchmarks.hostile --clusters 1000

Placements of one namespace are created one after the other, each measured from the hub's response to its creation to
the decision on a watch: first alone, then while another namespace creates placements of the same size with cheap
expressions, and last with expressions up to and above the work limit. The hub and the controllers share one process
and one event loop, so the work of an expression delays everything else. The longest callback of the loop is printed,
too, in processor time, which excludes other programs and includes garbage collection.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import machine, percentile, table, teller
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.resources import MANAGED_CLUSTER_SET_BINDINGS, PLACEMENT_DECISIONS, PLACEMENTS
from kubewire.client import Client, KubeError

SAMPLES: Final = 40
PAUSE: Final = 0.1
"""Seconds between measured placements, and between hostile ones."""
QUIET, HOSTILE, SETS = "quiet", "hostile", "global"
BUSY: Final = "FAIRWAY_BENCHMARK_BUSY"
"""Environment variable with the path of the file for slow callbacks."""
NOTED: Final = 0.005
"""Minimum processor time of a recorded callback, in seconds."""

_TEN: Final = "[0,1,2,3,4,5,6,7,8,9]"
_NAME: Final = "managedCluster.metadata.name"
EXPRESSIONS: Final = {
    "quantities": f"{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, quantity('1e9').isGreaterThan(quantity('1')))))",
    "findAll": f"({_NAME} + '{'a' * 60_000}').findAll('a').size() > 0",
    "loops": f"{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, {_TEN}.all(d, {_NAME} != '' && a + b >= c - d))))",
    "just allowed": f"{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, {_NAME} != '' && a + b >= 0 && b + c >= 0)))",
    "patterns": f"{_TEN}.all(a, !{_NAME}.matches('[^x]{{1,500}}y' + string(a)))",
    "long": "&&".join([f"{_NAME} != ''"] * 2500),
    "long list": f"{_NAME} in [{','.join(['1'] * 20_000)}]",
}


def placement(name: str, *expressions: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"numberOfClusters": 1, "clusterSets": [SETS]}
    if expressions:
        selector = {"celSelector": {"celExpressions": list(expressions)}}
        spec["predicates"] = [{"requiredClusterSelector": selector}]
    return {"metadata": {"name": name}, "spec": spec}


def serve() -> None:
    """Run ``fairway`` with the given arguments, and record slow callbacks of its event loop."""
    from fairway.cli.main import main as fairway

    run = asyncio.events.Handle._run

    def noted(handle: asyncio.events.Handle) -> None:
        began = time.thread_time()
        run(handle)
        took = time.thread_time() - began
        if took >= NOTED:
            with Path(os.environ[BUSY]).open("a", encoding="ascii") as lines:
                lines.write(f"{time.monotonic()} {took}\n")

    setattr(asyncio.events.Handle, "_run", noted)  # noqa: B010 - private, for the checker too
    fairway()


@asynccontextmanager
async def controllers(folder: Path, clusters: int) -> AsyncIterator[Path]:
    kubeconfig = folder / "kubeconfig"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from benchmarks.hostile import serve; serve()"),
        *("up", "--port", "0", "--data", str(folder / "data")),
        *("--kubeconfig-out", str(kubeconfig), "--clusters", str(clusters)),
        env={**os.environ, BUSY: str(folder / "busy")},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield kubeconfig
    finally:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()


async def ready(kubeconfig: Path) -> None:
    for _ in range(300):
        if kubeconfig.exists():
            with suppress(Exception):
                async with Client.from_kubeconfig(kubeconfig) as client:
                    await client.list(PLACEMENTS)
                    return
        await asyncio.sleep(0.2)
    raise TimeoutError("the hub does not respond")


class Timer:
    """Records the time of the decision of each placement."""

    def __init__(self) -> None:
        self._decided: dict[str, asyncio.Future[float]] = {}

    async def follow(self, client: Client) -> None:
        while True:
            async for event in client.watch(PLACEMENT_DECISIONS, namespace=QUIET, initial_events=True):
                decision = getattr(event, "object", None)
                if decision is not None and decision.status.decisions:
                    self._note(decision.metadata.labels.get(PLACEMENT_LABEL, ""))

    def _note(self, name: str) -> None:
        waiting = self._decided.get(name)
        if waiting is not None and not waiting.done():
            waiting.set_result(time.perf_counter())

    async def time(self, client: Client, name: str) -> float:
        waits = self._decided.setdefault(name, asyncio.get_running_loop().create_future())
        await client.create(PLACEMENTS, placement(name), namespace=QUIET)
        began = time.perf_counter()
        return await asyncio.wait_for(waits, 60) - began


async def attack(client: Client, prefix: str, *, cheap: bool) -> None:
    """Create placements with new expressions, until cancelled."""
    at = 0
    while True:
        for text in EXPRESSIONS.values():
            at += 1
            given = f"{_NAME} != '{'x' * len(text)}'" if cheap else text
            body = placement(f"{prefix}-{at}", f"({given}) && '{at}' != ''")
            with suppress(KubeError):
                await client.create(PLACEMENTS, body, namespace=HOSTILE)
            await asyncio.sleep(PAUSE)


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    waits: list[float]
    began: float
    ended: float

    def busiest(self, noted: list[tuple[float, float]]) -> float:
        return max((took for when, took in noted if self.began <= when <= self.ended), default=0.0)


async def measure(clusters: int) -> None:
    note = teller("hostile")
    phases: list[Phase] = []
    with tempfile.TemporaryDirectory() as name:
        async with controllers(Path(name), clusters) as kubeconfig:
            await ready(kubeconfig)
            async with (
                Client.from_kubeconfig(kubeconfig) as client,
                Client.from_kubeconfig(kubeconfig) as other,
            ):
                await prepare(client)
                timer = Timer()
                following = asyncio.create_task(timer.follow(client))
                await timer.time(client, "first")
                await asyncio.sleep(2)
                for phase, cheap in (
                    ("alone", None),
                    ("beside-cheap-ones", True),
                    ("beside-hostile-ones", False),
                ):
                    note(phase)
                    attacking = None
                    if cheap is not None:
                        attacking = asyncio.create_task(attack(other, phase, cheap=cheap))
                        await asyncio.sleep(1)
                    began = time.monotonic()
                    waits = await _samples(timer, client, phase)
                    phases.append(Phase(phase.replace("-", " "), waits, began, time.monotonic()))
                    if attacking is not None:
                        attacking.cancel()
                hostile = [
                    placement
                    for placement in (await client.list(PLACEMENTS, namespace=HOSTILE)).items
                    if placement.metadata.name.startswith(phase)
                ]
                following.cancel()
        noted = [
            (float(when), float(took))
            for when, took in (line.split() for line in (Path(name) / "busy").read_text("ascii").splitlines())
        ]
    refused = sum(
        any(condition.reason == "Misconfigured" for condition in one.status.conditions) for one in hostile
    )
    print(machine())
    print(f"{len(hostile)} hostile placements over {clusters} clusters, {refused} misconfigured so far")
    rows: list[Sequence[str]] = [("ms", "p50", "p90", "worst", "longest callback")]
    for measured in phases:
        figures = [percentile(measured.waits, share) for share in (0.5, 0.9, 1.0)] + [measured.busiest(noted)]
        rows.append((measured.name, *(f"{1000 * figure:.0f}" for figure in figures)))
    print(table(rows))


async def prepare(client: Client) -> None:
    for namespace in (QUIET, HOSTILE):
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
        binding = {"metadata": {"name": SETS}, "spec": {"clusterSet": SETS}}
        await client.create(MANAGED_CLUSTER_SET_BINDINGS, binding, namespace=namespace)


async def _samples(timer: Timer, client: Client, prefix: str) -> list[float]:
    waits = []
    for at in range(SAMPLES):
        waits.append(await timer.time(client, f"{prefix}-{at}"))
        await asyncio.sleep(PAUSE)
    return waits


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clusters", type=int, default=200, help="number of synthetic clusters")
    asyncio.run(measure(parser.parse_args().clusters))


if __name__ == "__main__":
    main()
