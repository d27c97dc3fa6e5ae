"""The embedded hub compared with kube-apiserver and etcd, in one run: writes, reads, lists, watches, start, memory.

Both sync their data to disk and serve TLS, and the same client measures both on the same machine. Compare the columns
of one run.

    python -m benchmarks.hub              everything; a quarter of an hour
    python -m benchmarks.hub --quick      a tenth of it
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.hub.contender import Contender, embedded, real
from benchmarks.measure import table, write_json
from fairway.api import crds
from rigs.kubernetes import ToolsMissing

CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"


def cluster(name: str) -> dict[str, Any]:
    """Return a cluster of a realistic stored size, about 3.3 KB."""
    return {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": {f"label-{i}": f"value-{i}" for i in range(15)}},
        "spec": {"hubAcceptsClient": True, "leaseDurationSeconds": 60},
        "status": {
            "clusterClaims": [{"name": f"claim-{i}.example.com", "value": f"value-{i}"} for i in range(12)]
        },
    }


async def rate(workers: int, total: int, work: Callable[[int], Awaitable[object]]) -> float:
    """Run the calls, and return their number per second."""
    numbers = iter(range(total))

    async def run() -> None:
        for number in numbers:
            await work(number)

    begun = time.perf_counter()
    await asyncio.gather(*(run() for _ in range(workers)))
    return total / (time.perf_counter() - begun)


async def deliveries(contender: Contender, *, watchers: int, changes: int) -> float:
    """Return the watch events per second of all watchers while one object changes."""
    target = f"{CLUSTERS}/watched"
    version = json.loads(await contender.call("GET", CLUSTERS + "?limit=1"))["metadata"]["resourceVersion"]
    ready = asyncio.Semaphore(0)

    async def watch() -> None:
        seen = 0
        query = (
            f"?watch=true&resourceVersion={version}&fieldSelector=metadata.name%3Dwatched&timeoutSeconds=600"
        )
        async with contender.session.get(contender.url + CLUSTERS + query) as stream:
            ready.release()
            async for chunk in stream.content.iter_any():
                seen += chunk.count(b"\n")
                if seen >= changes:
                    return

    tasks = [asyncio.create_task(watch()) for _ in range(watchers)]
    for _ in tasks:
        await ready.acquire()
    begun = time.perf_counter()
    numbers = iter(range(changes))

    async def change() -> None:
        for number in numbers:
            patch = {"metadata": {"labels": {"beat": f"{version}-{number}"}}}
            await contender.call("PATCH", target, patch, type_=MERGE)

    await asyncio.gather(*(change() for _ in range(8)))
    await asyncio.gather(*tasks)
    return watchers * changes / (time.perf_counter() - begun)


async def fill(contender: Contender, *, start: int, end: int) -> None:
    await rate(
        32, end - start, lambda i: contender.call("POST", CLUSTERS, cluster(f"filler-{start + i:06d}"))
    )


async def measure(contender: Contender, *, scale: float, note: Callable[[str], None]) -> dict[str, float]:
    def size(number: int) -> int:
        return max(int(number * scale), 20)

    definition = next(crd for crd in crds() if crd["spec"]["names"]["kind"] == "ManagedCluster")
    await contender.call("POST", DEFINITIONS, definition)
    while True:
        try:
            await contender.call("POST", CLUSTERS, cluster("watched"))
            break
        except RuntimeError:
            await asyncio.sleep(0.05)
    result = {"start, s": contender.started, "memory empty, MB": contender.resident() / 1e6}

    async def timed(name: str, value: Awaitable[float]) -> None:
        note(f"{contender.name}: {name}")
        result[name] = await value

    await timed(
        "creates/s, 1 writer",
        rate(1, size(1000), lambda i: contender.call("POST", CLUSTERS, cluster(f"one-{i}"))),
    )
    await timed(
        "creates/s, 32 writers",
        rate(32, size(4000), lambda i: contender.call("POST", CLUSTERS, cluster(f"many-{i}"))),
    )
    await timed(
        "patches/s, 32 writers",
        rate(
            32,
            size(4000),
            lambda i: contender.call(
                "PATCH", f"{CLUSTERS}/many-{i}", {"metadata": {"labels": {"beat": str(i)}}}, type_=MERGE
            ),
        ),
    )
    await timed(
        "gets/s, 1 reader",
        rate(1, size(2000), lambda i: contender.call("GET", f"{CLUSTERS}/many-{i % size(4000)}")),
    )
    await timed(
        "gets/s, 32 readers",
        rate(32, size(8000), lambda i: contender.call("GET", f"{CLUSTERS}/many-{i % size(4000)}")),
    )
    for watchers, changes in ((1, 2000), (10, 1000), (100, 300)):
        await timed(
            f"deliveries/s, {watchers} watchers",
            deliveries(contender, watchers=watchers, changes=size(changes)),
        )
    listed = size(10_000)
    note(f"{contender.name}: filling to {listed}")
    present = len(json.loads(await contender.call("GET", CLUSTERS))["items"])
    await fill(contender, start=present, end=listed)
    listing = f"list of {listed:,}, ms"
    for _ in range(3):
        begun = time.perf_counter()
        await contender.call("GET", CLUSTERS)
        seconds = time.perf_counter() - begun
        result[listing] = min(result.get(listing, 1e9), seconds * 1000)
    result[f"memory, {listed:,} objects, MB"] = contender.resident() / 1e6
    whole = size(100_000)
    note(f"{contender.name}: filling to {whole}")
    await fill(contender, start=listed, end=whole)
    result[f"memory, {whole:,} objects, MB"] = contender.resident() / 1e6
    return result


LESS_IS_BETTER = ("start", "memory", "list")


def shown(results: dict[str, dict[str, float]]) -> str:
    """Format one row per measure; the ratio is how many times better the embedded hub is."""
    rows = [["", *results, "embedded is better by"]]
    for measure_, value in next(iter(results.values())).items():
        row = [
            measure_,
            *(
                f"{result[measure_]:,.2f}" if result[measure_] < 10 else f"{result[measure_]:,.0f}"
                for result in results.values()
            ),
        ]
        other = results.get("kube-apiserver + etcd", {}).get(measure_)
        if other is None:
            row.append("")
        else:
            ratio = other / value if measure_.startswith(LESS_IS_BETTER) else value / other
            row.append(f"{ratio:.1f}x")
        rows.append(row)
    return table(rows)


async def run(*, scale: float, alone: bool) -> dict[str, dict[str, float]]:
    results: dict[str, dict[str, float]] = {}

    def note(text: str) -> None:
        print(f"  {text} …", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="fairway-bench-") as folder:
        contenders: list[Callable[[Path], Any]] = [embedded] if alone else [embedded, real]
        for start in contenders:
            async with start(Path(folder)) as contender:
                results[contender.name] = await measure(contender, scale=scale, note=note)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--alone", action="store_true", help="measure the embedded hub only")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE as JSON")
    arguments = parser.parse_args()
    try:
        results = asyncio.run(run(scale=0.1 if arguments.quick else 1.0, alone=arguments.alone))
    except ToolsMissing as missing:
        sys.exit(f"{missing}\nRun `make kube-tools` first, or pass --alone.")
    print(shown(results))
    if arguments.json:
        write_json(arguments.json, dict(results))


if __name__ == "__main__":
    main()
