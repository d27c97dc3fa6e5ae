"""A real hub with nodes that kwok runs, kube-scheduler, and `fairway run --controllers machines` as a process."""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from controllers.machines.machine_rig import prepare_machine_hub
from fairway.api.crd import machine_crds
from fairway.api.pod import Pod
from fairway.kube import AlreadyExists, Client, Informer
from fairway.kube.resource import NODES, PODS
from rigs.kubernetes import KWOK, SCHEDULER, RealHub, Tools, kube_scheduler, real_hub
from rigs.processes import Process

FAIRWAY = "fairway"
GANGS = "fairway-gangs"
DEFAULT = "default-scheduler"
POOL = "pool"
CPUS = 10
"""CPUs of each node."""
IMAGE = "registry.k8s.io/pause:3.10"
MANY_PODS = int(os.environ.get("FAIRWAY_PODS", "160"))
LONGEST_SECONDS = 120.0 + MANY_PODS / 5
CREATORS = 32
MERGE = "application/merge-patch+json"

CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {"schedulerName": FAIRWAY},
        {"schedulerName": GANGS, "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}},
    ],
}
# Its words about resource claims precede those about preemption in each event.
WITHOUT_CLAIMS = {
    "profiles": [
        {"schedulerName": DEFAULT, "plugins": {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}}
    ]
}
POD_GROUPS: Mapping[str, Any] = {
    "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
    "spec": {
        "group": "scheduling.x-k8s.io",
        "names": {
            "kind": "PodGroup",
            "plural": "podgroups",
            "singular": "podgroup",
            "listKind": "PodGroupList",
        },
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}
"""The definition of the scheduler plugin Coscheduling, without its schema."""


@dataclass(frozen=True, slots=True)
class PodCluster:
    hub: RealHub
    fairway: Process
    configuration: Path
    """The scheduler configuration."""


@asynccontextmanager
async def pod_cluster(tools: Tools, folder: Path) -> AsyncIterator[PodCluster]:
    tools.require(KWOK, SCHEDULER)
    configuration = folder / "scheduler.yaml"
    async with real_hub(tools, folder=folder, with_kwok=True) as hub:
        await prepare_machine_hub(hub.kubeconfig, definitions=(*machine_crds(), POD_GROUPS))
        configuration.write_text(json.dumps(CONFIGURATION), encoding="utf-8")
        command = (
            *(sys.executable, "-m", "fairway", "run", "--controllers", "machines", "--no-leader-elect"),
            *("--kubeconfig", hub.kubeconfig, "--scheduler-config", configuration),
        )
        process = Process(command, log=folder / "fairway.log")
        hub.processes[FAIRWAY] = process
        try:
            async with kube_scheduler(
                tools, kubeconfig=hub.kubeconfig, folder=folder, configuration=WITHOUT_CLAIMS
            ) as scheduler:
                hub.processes[SCHEDULER] = scheduler
                yield PodCluster(hub, process, configuration)
        finally:
            await process.stop()


class PodSpace:
    """One test's namespace and nodes, and its pods as a watch shows them. Other tests must not use its nodes: they are
    selected by the label of a pool with the name of the namespace."""

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name = client, name
        self.informer = Informer(client, PODS, namespace=name)
        self._changed = asyncio.Event()
        self.informer.subscribe(lambda _: self._changed.set())

    @property
    def pods(self) -> Mapping[str, Pod]:
        return {each.metadata.name: each for each in self.informer.store.values()}

    @property
    def nodes(self) -> Mapping[str, str]:
        """The node of each bound pod."""
        return {name: each.spec.nodeName for name, each in self.pods.items() if each.spec.nodeName}

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the pods meet a condition."""
        async with asyncio.timeout(LONGEST_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def add_nodes(self, *names: str, pool: str = "") -> None:
        for name in names:
            resources = {"cpu": str(CPUS), "memory": "32Gi", "pods": "110"}
            document = {
                "metadata": {
                    "name": name,
                    "labels": {POOL: pool or self.name, "kubernetes.io/hostname": name},
                },
                "status": {"capacity": resources, "allocatable": resources},
            }
            await self.client.request("POST", "/api/v1/nodes", body=document)
            # A hub taints new nodes until a controller observes that they are ready; here none does.
            await self.client.request(
                "PATCH", f"/api/v1/nodes/{name}", body={"spec": {"taints": None}}, content_type=MERGE
            )
        for name in names:
            await self._until_ready(name)

    async def _until_ready(self, name: str) -> None:
        async with asyncio.timeout(LONGEST_SECONDS):
            while True:
                found = await self.client.get(NODES, name)
                if any((each.type, each.status) == ("Ready", "True") for each in found.status.conditions):
                    return
                await asyncio.sleep(0.05)

    async def add_pods(
        self,
        names: Iterable[str],
        *,
        cpu: str = "1",
        scheduler: str = FAIRWAY,
        labels: Mapping[str, str] | None = None,
        priority: str = "",
        selector: Mapping[str, str] | None = None,
    ) -> None:
        async def add(name: str) -> None:
            spec: dict[str, Any] = {
                "schedulerName": scheduler,
                "nodeSelector": dict(selector) if selector is not None else {POOL: self.name},
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {"name": "c", "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}}
                ],
            }
            if priority:
                spec["priorityClassName"] = priority
            body = {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec}
            await self.client.request("POST", f"/api/v1/namespaces/{self.name}/pods", body=body)

        pending = list(names)
        while pending:
            batch, pending = pending[:CREATORS], pending[CREATORS:]
            await asyncio.gather(*map(add, batch))

    async def events(self, pod: str, reason: str) -> list[dict[str, Any]]:
        """Wait for events about a pod."""
        query = [("fieldSelector", f"involvedObject.name={pod},reason={reason}")]
        async with asyncio.timeout(LONGEST_SECONDS):
            while True:
                response = await self.client.request(
                    "GET", f"/api/v1/namespaces/{self.name}/events", query=query
                )
                items: list[dict[str, Any]] = msgspec.json.decode(response.body)["items"]
                if items:
                    return items
                await asyncio.sleep(0.05)

    async def read(self, pod: str) -> dict[str, Any]:
        response = await self.client.request("GET", f"/api/v1/namespaces/{self.name}/pods/{pod}")
        document: dict[str, Any] = msgspec.json.decode(response.body)
        return document

    def overcommitted(self) -> dict[str, int]:
        """Return the nodes with more pods of 1 CPU than CPUs."""
        return {name: count for name, count in Counter(self.nodes.values()).items() if count > CPUS}


async def create_gang(space: PodSpace, name: str, members: int) -> None:
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": members},
    }
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{space.name}/podgroups"
    await space.client.request("POST", path, body=group)


@asynccontextmanager
async def pod_space(cluster: PodCluster, name: str) -> AsyncIterator[PodSpace]:
    async with Client.from_kubeconfig(cluster.hub.kubeconfig) as client:
        with suppress(AlreadyExists):
            await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        space = PodSpace(client, name)
        async with space.informer as informer:
            await informer.synced.wait()
            yield space
