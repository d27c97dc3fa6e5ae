"""Pods per second on a real API server: Fairway and kube-scheduler, each alone on a new hub with the same pods.

All pods exist before the scheduler starts. The rate is that of the bindings, as a watch sees them, from the first to
the last: the start of a process does not count. CPU time counts from its start until it is idle again, so that it also
has the list of nodes and pods, and events.
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct, to_builtins

from benchmarks.controllers.objects import rate
from benchmarks.controllers.process import cpu_seconds, memory
from benchmarks.controllers.stage import REAL, running_hub
from benchmarks.machines.engine import Scenario, node, pod, requesting
from benchmarks.measure import Note
from kubewire.api.meta import ObjectMeta
from kubewire.api.resource import Resource
from kubewire.client import Batch, Client, Deleted, Informer
from rigs.kubernetes import Tools, kube_scheduler
from rigs.processes import Process

NAMESPACE: Final = "bench"
IMAGE: Final = "registry.k8s.io/pause:3.10"
CREATORS: Final = 32
LONGEST_SECONDS: Final = 1_200.0
IDLE_SECONDS: Final = 1.0
QUIET_SAMPLES: Final = 3
FAIRWAY: Final = "fairway"
KUBE_SCHEDULER: Final = "kube-scheduler"
ALL_NODES: Final = "kube-scheduler, all nodes scored"


class Running(Protocol):
    """A scheduler that runs."""

    @property
    def pid(self) -> int: ...

    @property
    def alive(self) -> bool: ...

    def tail(self) -> str:
        """Return the end of its log."""
        ...


Start = Callable[[Path, Path], AbstractAsyncContextManager[Running]]
"""Starts a scheduler for a kubeconfig, with a folder for its files."""


class _Spec(Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""


class SeenPod(Struct, frozen=True, gc=False):
    """The fields of a pod that are counted: decoding the whole would take time from the schedulers."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


NEW: Final = "new-"
"""The names of pods that are to be bound begin with it."""
PRIORITY: Final = "urgent"
PODS_OF_LOW_PRIORITY: Final = 4
"""On each full node, with 900m of its 4 CPUs each, as in PreemptionBasic of kube-scheduler's own benchmarks."""

SEEN_PODS: Final = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True, type=SeenPod)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    pods: int
    rate: float
    """Pods bound per second, from the first to the last, or from the start of the process to the last."""
    first: float
    """Seconds from the start of the process to the first binding."""
    cpu: float
    """Seconds of CPU of the scheduler, from its start until it is idle."""
    hub_cpu: float
    """Seconds of CPU of the hub meanwhile."""
    resident: int
    """Largest memory of the scheduler in bytes."""
    most: int
    """Pods on the fullest node."""
    events: int


@dataclass(slots=True)
class Bindings:
    """When pods were bound, and where."""

    expected: int
    nodes: dict[str, str] = field(default_factory=dict)
    first: float = 0.0
    last: float = 0.0
    complete: asyncio.Event = field(default_factory=asyncio.Event)

    def handle(self, batch: Batch[SeenPod]) -> None:
        now = time.monotonic()
        for change in batch.changes:
            if isinstance(change, Deleted):
                continue
            seen = change.object
            if seen.spec.node_name and seen.metadata.name.startswith(NEW):
                self.nodes.setdefault(seen.metadata.name, seen.spec.node_name)
        if self.nodes:
            self.first, self.last = self.first or now, now
        if len(self.nodes) == self.expected:
            self.complete.set()


@asynccontextmanager
async def start_fairway(kubeconfig: Path, folder: Path) -> AsyncIterator[Process]:
    command = (
        sys.executable,
        "-m",
        "fairway",
        "run",
        "--kubeconfig",
        kubeconfig,
        "--controllers",
        "machines",
    )
    process = Process(command, log=folder / "fairway.log")
    try:
        yield process
    finally:
        await process.stop()


def start_kube_scheduler(configuration: Mapping[str, object] | None = None) -> Start:
    def start(kubeconfig: Path, folder: Path) -> AbstractAsyncContextManager[Running]:
        return kube_scheduler(Tools.find(), kubeconfig=kubeconfig, folder=folder, configuration=configuration)

    return start


CONTENDERS: Final[Mapping[str, tuple[str, Start]]] = {
    KUBE_SCHEDULER: ("default-scheduler", start_kube_scheduler()),
    ALL_NODES: ("default-scheduler", start_kube_scheduler({"percentageOfNodesToScore": 100})),
    FAIRWAY: (FAIRWAY, start_fairway),
}
"""The name by which pods ask for each scheduler, and how it starts."""


async def measure(
    contender: str,
    scenario: Scenario,
    *,
    nodes: int,
    pods: int,
    note: Note,
    hub: str = REAL,
    full: bool = False,
) -> Figures:
    """Run one scheduler on a new hub until all pods are bound; with ``full``, on nodes full of pods of low priority,
    which end at once when they are evicted: there is no kubelet."""
    name, start = CONTENDERS[contender]
    with tempfile.TemporaryDirectory(prefix="fairway-bench-") as folder:
        async with (
            running_hub(hub, Path(folder)) as (kubeconfig, pids),
            Client.from_kubeconfig(kubeconfig) as client,
        ):
            note(f"creating {nodes:,} nodes and {pods:,} pods")
            await prepare(client, scenario, nodes=nodes, pods=pods, scheduler=name, full=full)
            return await run(
                client,
                start,
                kubeconfig=kubeconfig,
                folder=Path(folder),
                pods=pods,
                hub=tuple(pids.values()),
                from_start=full,
            )


async def prepare(
    client: Client, scenario: Scenario, *, nodes: int, pods: int, scheduler: str, full: bool = False
) -> None:
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})

    async def add_node(number: int) -> None:
        document = _document(node(number))
        await client.request("POST", "/api/v1/nodes", body=document)
        # An API server taints new nodes until a controller observes that they are ready.
        path = f"/api/v1/nodes/{document['metadata']['name']}"
        await client.request(
            "PATCH", path, body={"spec": {"taints": None}}, content_type="application/merge-patch+json"
        )

    async def add_pod(number: int) -> None:
        document = _document(pod(f"{NEW}{number}", "bench", scenario(number)))
        document["spec"]["schedulerName"] = scheduler
        if full:
            document["spec"]["priorityClassName"] = PRIORITY
        await create_pod(document)

    async def fill_node(number: int) -> None:
        name = node(number // PODS_OF_LOW_PRIORITY).metadata.name
        document = _document(pod(f"low-{number}", "low", requesting("900m")))
        document["spec"] |= {"nodeName": name, "terminationGracePeriodSeconds": 0}
        await create_pod(document)

    async def create_pod(document: dict[str, Any]) -> None:
        for container in document["spec"]["containers"]:
            container["image"] = IMAGE
        await client.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body=document)

    await rate(CREATORS, nodes, add_node)
    if full:
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await client.request("POST", path, body={"metadata": {"name": PRIORITY}, "value": 1000})
        await rate(CREATORS, nodes * PODS_OF_LOW_PRIORITY, fill_node)
    await rate(CREATORS, pods, add_pod)


async def run(
    client: Client,
    start: Start,
    *,
    kubeconfig: Path,
    folder: Path,
    pods: int,
    hub: Sequence[int] = (),
    from_start: bool = False,
) -> Figures:
    """Start the scheduler on a prepared hub, whose processes are ``hub``, and wait until all pods are bound.

    With ``from_start``, the rate counts from the start of the process: before they bind the first preemptor, schedulers
    search victims for several, or for all of them.
    """
    bindings = Bindings(pods)
    informer = Informer(client, SEEN_PODS)
    informer.subscribe(bindings.handle)
    async with informer:
        await informer.synced.wait()
        began, hub_began = time.monotonic(), sum(map(cpu_seconds, hub))
        async with start(kubeconfig, folder) as process:
            ended = asyncio.create_task(_end_of(process))
            waited = {asyncio.create_task(bindings.complete.wait()), ended}
            await asyncio.wait(waited, timeout=LONGEST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for task in waited:
                task.cancel()
            if not bindings.complete.is_set():
                raise RuntimeError(f"{len(bindings.nodes)} of {pods} pods were bound\n{process.tail()}")
            cpu, events = await _until_idle(client, process.pid)
            hub_cpu = sum(map(cpu_seconds, hub)) - hub_began
            _, most_memory = memory(process.pid)
    return Figures(
        pods=pods,
        rate=pods / (bindings.last - began)
        if from_start
        else (pods - 1) / max(bindings.last - bindings.first, 1e-9),
        first=bindings.first - began,
        cpu=cpu,
        hub_cpu=hub_cpu,
        resident=most_memory,
        most=max(Counter(bindings.nodes.values()).values()),
        events=events,
    )


async def _end_of(process: Running) -> None:
    while process.alive:
        await asyncio.sleep(IDLE_SECONDS)


async def _until_idle(client: Client, pid: int) -> tuple[float, int]:
    """Return the CPU time of a process once it uses almost none and writes no events, and their number."""
    last = cpu_seconds(pid), await _events(client)
    quiet = 0
    for _ in range(120):
        await asyncio.sleep(IDLE_SECONDS)
        now = cpu_seconds(pid), await _events(client)
        quiet = quiet + 1 if now[1] == last[1] and now[0] - last[0] < 0.05 * IDLE_SECONDS else 0
        last = now
        if quiet == QUIET_SAMPLES:
            break
    return last


async def _events(client: Client) -> int:
    """Return the number of events in the namespace."""
    path = f"/api/v1/namespaces/{NAMESPACE}/events"
    response = await client.request("GET", path, query=[("limit", "1")])
    listing = msgspec.json.decode(response.body)
    return len(listing["items"]) + int(listing["metadata"].get("remainingItemCount", 0))


def _document(thing: Any) -> dict[str, Any]:
    document: dict[str, Any] = to_builtins(thing)
    document["metadata"].pop("uid", None)
    return document
