"""How does a burst of HostedClusterRequests share hosting clusters between two publications of their load?

    make bench-hosting                                          500 requests in one second over 20 hosts, on both hubs
    make bench-hosting ARGS='--hub embedded --requests 100'     a smaller burst on the embedded hub
    make bench-hosting ARGS='--cycles'                          what one decision costs, by the number of clusters

Every host carries some hosted clusters, and publishes its load every 60 seconds. Hub and controller are separate
processes on the same machine; this one creates the requests and watches their status. Work agents do not run, so
published loads stay as they are. Columns:

- *p50*, *p99*: from sending the creation of a request until its reservation is seen
- *requests/s*: from the first creation to the last reservation; *bound*: until every ManifestWork is written
- *highest load*: hosted clusters of the fullest host, beside the optimum, which knows all requests in advance

The last row is `fairway simulate hosting` on the same fleet and burst, without a hub: a plain Placement by the
published count for each request.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks import hosting_cycles
from benchmarks.controllers.objects import DEFINITIONS, SYSTEM_NAMESPACE, rate, until_served
from benchmarks.controllers.process import Child, child
from benchmarks.controllers.stage import EMBEDDED, NAMES, REAL, running_hub
from benchmarks.measure import Note, machine, percentile, table, teller, write_json
from fairway.api import crds
from fairway.api.cluster import CONDITION_AVAILABLE
from fairway.api.hosted_request import BOUND, HostedClusterRequest
from fairway.api.hosting_policy import COUNT_SCORE, SCORE_RESOURCE
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    HOSTED_CLUSTER_REQUESTS,
    HOSTING_POLICIES,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
)
from fairway.controllers.settings import HOSTING
from fairway.hosts.instant import SECOND
from fairway.whatif.hosting import POLICIES, SimulatedHost, simulate, synthetic
from fairway.workloads.hosting.fleet.telemetry import HOSTING_CLAIM
from fairway.workloads.hosting.requests.demand import SIZES, SMALL
from fairway.workloads.hosting.resources import CPU, MEMORY
from kubewire.api.meta import format_time
from kubewire.client import Batch, Client, Deleted, Informer, Patch
from rigs.fake_hub import reported_condition
from rigs.kubernetes import ToolsMissing

NAMESPACE = "bench"
CREATORS = 64
"""Creations in flight, so that a slow hub delays the burst as little as possible."""
LONGEST_SECONDS = 600.0
PLAIN = "placement"
"""Name of the plain Placement among the simulated policies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    requests: int
    hosts: int
    most: int
    """maxPerHost"""
    seconds: float = 1.0
    """Within which all requests are created."""
    period: float = 60.0
    """Seconds between two publications of a host."""

    def loads(self) -> dict[str, int]:
        """Return the hosted clusters before the burst, by host."""
        return {f"host-{number:02d}": number % 7 for number in range(self.hosts)}

    def optimum(self) -> int:
        """Return the lowest possible load of the fullest host: each request goes to the emptiest one."""
        loads = sorted(self.loads().values())
        for _ in range(self.requests):
            loads[0] += 1
            loads.sort()
        return loads[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    name: str
    placed: int
    highest: int
    """Load of the fullest host."""
    overcommitted: int
    """Hosts beyond their limit."""
    rate: float | None = None
    """Requests per second."""
    created: float | None = None
    """Seconds that the creations took."""
    p50: float | None = None
    p99: float | None = None
    bound: float | None = None
    """Seconds until every ManifestWork was written."""


@dataclass(slots=True)
class Sightings:
    """When the status of each request first had a host, and when its ManifestWork was written."""

    expected: int
    hosts: dict[str, str] = field(default_factory=dict)
    reserved: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    complete: asyncio.Event = field(default_factory=asyncio.Event)

    def handle(self, batch: Batch[HostedClusterRequest]) -> None:
        now = time.perf_counter()
        for change in batch.changes:
            if isinstance(change, Deleted):
                continue
            seen = change.object
            name, status = seen.metadata.name, seen.status
            if status.hostingCluster is not None:
                self.hosts.setdefault(name, status.hostingCluster.name)
                self.reserved.setdefault(name, now)
            if status.phase == BOUND:
                self.bound.setdefault(name, now)
        if len(self.bound) == self.expected:
            self.complete.set()


async def prepare(client: Client, burst: Burst) -> None:
    """Create definitions, hosting clusters with their load, and the policy."""
    for definition in crds():
        await client.request("POST", DEFINITIONS, body=definition)
    for resource in (
        MANAGED_CLUSTERS,
        ADD_ON_PLACEMENT_SCORES,
        MANIFEST_WORKS,
        HOSTED_CLUSTER_REQUESTS,
        HOSTING_POLICIES,
    ):
        await until_served(client, resource.path())
    for namespace in (NAMESPACE, SYSTEM_NAMESPACE):
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    policy = {"metadata": {"name": "default"}, "spec": {"maxPerHost": burst.most}}
    await client.create(HOSTING_POLICIES, policy)
    status = {
        "conditions": [reported_condition(CONDITION_AVAILABLE, "True")],
        "clusterClaims": [{"name": HOSTING_CLAIM, "value": "true"}],
    }
    for name in burst.loads():
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        cluster = {"metadata": {"name": name}, "spec": {"hubAcceptsClient": True}}
        await client.create(MANAGED_CLUSTERS, cluster)
        await client.patch(MANAGED_CLUSTERS, name, {"status": status}, kind=Patch.MERGE, subresource="status")
        await client.create(ADD_ON_PLACEMENT_SCORES, {"metadata": {"name": SCORE_RESOURCE}}, namespace=name)
    await publish(client, burst)


async def publish(client: Client, burst: Burst) -> None:
    until = format_time(datetime.now(UTC) + timedelta(seconds=max(3 * burst.period, 3)))
    for name, count in burst.loads().items():
        status = {"scores": [{"name": COUNT_SCORE, "value": count}], "validUntil": until}
        await client.patch(
            ADD_ON_PLACEMENT_SCORES,
            SCORE_RESOURCE,
            {"status": status},
            kind=Patch.MERGE,
            namespace=name,
            subresource="status",
        )


async def keep_publishing(client: Client, burst: Burst) -> None:
    while True:
        await asyncio.sleep(burst.period)
        await publish(client, burst)


async def create(client: Client, burst: Burst) -> dict[str, float]:
    """Create the requests at equal intervals. Return when each was sent, by name."""
    began = time.perf_counter()
    sent: dict[str, float] = {}

    async def one(number: int) -> None:
        await asyncio.sleep(max(0.0, began + burst.seconds * number / burst.requests - time.perf_counter()))
        name = f"hosted-{number:05d}"
        sent[name] = time.perf_counter()
        body = {
            "metadata": {"name": name},
            "spec": {"hostedCluster": {"spec": {"platform": {"type": "None"}}}},
        }
        await client.create(HOSTED_CLUSTER_REQUESTS, body, namespace=NAMESPACE)

    await rate(min(CREATORS, burst.requests), burst.requests, one)
    return sent


async def until_leading(controller: Child) -> None:
    while not (await controller.ask("figures"))["leading"]:
        await asyncio.sleep(0.05)


async def measure(kind: str, burst: Burst, *, fsync: bool, note: Note) -> Figures:
    """Run the burst on a new hub, with the controller as a process."""
    with tempfile.TemporaryDirectory(prefix="fairway-bench-") as folder:
        note("starts")
        async with (
            running_hub(kind, Path(folder), fsync=fsync) as (kubeconfig, _),
            Client.from_kubeconfig(kubeconfig) as client,
        ):
            await prepare(client, burst)
            arguments = ("--kubeconfig", str(kubeconfig), "--controller", HOSTING)
            async with child("benchmarks.controllers.child", *arguments) as controller:
                await until_leading(controller)
                note(f"{burst.requests:,} requests over {burst.hosts} hosts")
                return await run_burst(client, burst, name=NAMES[kind])


async def run_burst(client: Client, burst: Burst, *, name: str) -> Figures:
    """Create the requests on a prepared hub, on which the controller runs, and wait until all are bound."""
    sightings = Sightings(burst.requests)
    informer = Informer(client, HOSTED_CLUSTER_REQUESTS)
    informer.subscribe(sightings.handle)
    async with informer:
        await informer.synced.wait()
        await publish(client, burst)
        publishing = asyncio.create_task(keep_publishing(client, burst))
        try:
            sent = await create(client, burst)
            created = time.perf_counter()
            async with asyncio.timeout(LONGEST_SECONDS):
                await sightings.complete.wait()
        finally:
            publishing.cancel()
    return summarize(name, burst, sightings, sent=sent, created=created)


def summarize(
    name: str, burst: Burst, sightings: Sightings, *, sent: Mapping[str, float], created: float
) -> Figures:
    began = min(sent.values())
    waits = [seen - sent[request] for request, seen in sightings.reserved.items()]
    loads = Counter(burst.loads())
    loads.update(sightings.hosts.values())
    return Figures(
        name=name,
        placed=len(sightings.hosts),
        highest=max(loads.values()),
        overcommitted=sum(load > burst.most for load in loads.values()),
        rate=burst.requests / (max(sightings.reserved.values()) - began),
        created=created - began,
        p50=percentile(waits, 0.5),
        p99=percentile(waits, 0.99),
        bound=max(sightings.bound.values()) - began,
    )


def replay(burst: Burst) -> Figures:
    """Simulate the burst with plain Placements, without a hub."""
    capacity = {resource: burst.most * SIZES[SMALL][resource] for resource in (CPU, MEMORY)}
    hosts = [
        SimulatedHost(
            name=name, capacity=capacity, hosted={f"{name}-{number}": SMALL for number in range(load)}
        )
        for name, load in burst.loads().items()
    ]
    arrivals = synthetic(count=burst.requests, seconds=burst.seconds)
    interval = int(burst.period * SECOND)
    result = simulate(PLAIN, POLICIES[PLAIN](), hosts=hosts, arrivals=arrivals, interval=interval)
    return Figures(
        name="plain Placement, simulated",
        placed=result.placed,
        highest=max(host.count for host in hosts),
        overcommitted=result.overcommitted,
    )


def shown(burst: Burst, figures: Sequence[Figures]) -> str:
    optimum = burst.optimum()
    heading = ["", "created in s", "p50 ms", "p99 ms", "requests/s", "bound in s", "placed"]
    rows = [[*heading, "highest load", "optimum", "above it", "hosts beyond limit"]]
    rows += [
        [
            figure.name,
            _text(figure.created, "{:.1f}".format),
            _text(figure.p50, _milliseconds),
            _text(figure.p99, _milliseconds),
            _text(figure.rate, "{:,.0f}".format),
            _text(figure.bound, "{:.1f}".format),
            f"{figure.placed:,}",
            str(figure.highest),
            str(optimum),
            f"{figure.highest / optimum - 1:.0%}",
            str(figure.overcommitted),
        ]
        for figure in figures
    ]
    return table(rows)


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.0f}"


def _text(value: float | None, form: Callable[[float], str]) -> str:
    return "-" if value is None else form(value)


async def run(burst: Burst, *, kinds: Sequence[str], fsync: bool) -> list[Figures]:
    measured: list[Figures] = []
    for kind in kinds:
        try:
            measured.append(await measure(kind, burst, fsync=fsync, note=teller(NAMES[kind])))
        except ToolsMissing as missing:
            print(f"{NAMES[kind]} skipped: {missing}\nRun `make kube-tools` first.", file=sys.stderr)
    return [*measured, replay(burst)]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hosting",
        description=(__doc__ or "").split("\n\n")[0],
        epilog=(__doc__ or "").split("\n\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--requests", type=int, default=500, metavar="N", help="requests in the burst")
    parser.add_argument("--hosts", type=int, default=20, metavar="N", help="hosting clusters")
    parser.add_argument("--most", type=int, default=40, metavar="N", help="maxPerHost of the policy")
    parser.add_argument("--seconds", type=float, default=1.0, metavar="N", help="duration of the burst")
    parser.add_argument("--hub", choices=(REAL, EMBEDDED, "both"), default="both")
    parser.add_argument("--cycles", action="store_true", help="measure decisions without a hub instead")
    parser.add_argument("--fsync", action="store_true", help="make etcd sync to disk")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE as JSON")
    given = parser.parse_args()
    if given.cycles:
        print(machine(), flush=True)
        print(hosting_cycles.measure(teller("decisions")))
        return
    burst = Burst(requests=given.requests, hosts=given.hosts, most=given.most, seconds=given.seconds)
    room = sum(max(0, burst.most - load) for load in burst.loads().values())
    if not 0 < burst.requests <= room:
        parser.error(f"--requests must be between 1 and {room:,}, the free room of all hosts")
    print(machine(), flush=True)
    kinds = [REAL, EMBEDDED] if given.hub == "both" else [given.hub]
    figures = asyncio.run(run(burst, kinds=kinds, fsync=given.fsync))
    print(shown(burst, figures))
    print(machine())
    if given.json:
        rows = [asdict(figure) for figure in figures]
        write_json(given.json, {"machine": machine(), "optimum": burst.optimum(), "figures": rows})


if __name__ == "__main__":
    main()
