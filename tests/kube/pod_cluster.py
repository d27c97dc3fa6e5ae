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

from controllers.machines.machine_rig import machine_definitions, prepare_machine_hub
from fairway.api.pod import Pod
from fairway.api.resources import NODES, PODS
from kubewire.client import AlreadyExists, Client, Informer
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
        await prepare_machine_hub(hub.kubeconfig, definitions=(*machine_definitions(), POD_GROUPS))
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
        return {pod.metadata.name: pod for pod in self.informer.store.values()}

    @property
    def nodes(self) -> Mapping[str, str]:
        """The node of each bound pod."""
        return {name: pod.spec.nodeName for name, pod in self.pods.items() if pod.spec.nodeName}

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
                node = await self.client.get(NODES, name)
                if any(
                    (condition.type, condition.status) == ("Ready", "True")
                    for condition in node.status.conditions
                ):
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
        claims: Iterable[str] = (),
    ) -> None:
        mounted = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]

        async def add(name: str) -> None:
            spec: dict[str, Any] = {
                "schedulerName": scheduler,
                "nodeSelector": dict(selector) if selector is not None else {POOL: self.name},
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {"name": "c", "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}}
                ],
            }
            if mounted:
                spec["volumes"] = mounted
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


class VolumeSpace:
    """Claims of one namespace, and volumes."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"

    async def add_class(self, name: str, provisioner: str) -> None:
        body = {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await self._client.request("POST", "/apis/storage.k8s.io/v1/storageclasses", body=body)

    async def add_claim(self, name: str, *, class_name: str) -> None:
        spec = {
            "storageClassName": class_name,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await self._client.request("POST", self._claims, body={"metadata": {"name": name}, "spec": spec})

    async def add_volume(self, name: str, *, on: str, class_name: str, claim: str = "") -> None:
        """Add a volume; with ``claim``, as if it was provisioned for it."""
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
        spec: dict[str, Any] = {
            "storageClassName": class_name,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        }
        if claim:
            spec["claimRef"] = {"namespace": self._namespace, "name": claim}
        path = "/api/v1/persistentvolumes"
        await self._client.request("POST", path, body={"metadata": {"name": name}, "spec": spec})
        await self._patch(f"{path}/{name}/status", {"status": {"phase": "Available"}})

    async def wait_for_binding(self, volume: str, claim: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Wait until a volume has a claim, and a claim a selected node. Return both."""
        async with asyncio.timeout(LONGEST_SECONDS):
            while True:
                volume_document = await self._read(f"/api/v1/persistentvolumes/{volume}")
                wanted = await self._read(f"{self._claims}/{claim}")
                if "claimRef" in volume_document["spec"] and wanted["metadata"].get("annotations"):
                    return volume_document, wanted
                await asyncio.sleep(0.05)

    async def complete(self, claim: str, volume: str) -> None:
        """Bind a claim to a volume, as kube-controller-manager does."""
        body = {
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": volume},
        }
        await self._patch(f"{self._claims}/{claim}", body)

    async def _read(self, path: str) -> dict[str, Any]:
        response = await self._client.request("GET", path)
        document: dict[str, Any] = msgspec.json.decode(response.body)
        return document

    async def _patch(self, path: str, body: Mapping[str, Any]) -> None:
        await self._client.request("PATCH", path, body=body, content_type=MERGE)


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
