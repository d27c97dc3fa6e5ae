"""An embedded hub with NeonVM's kinds, synthetic nodes and the stand-in for NeonVM's controller."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fairway.api.pod import Pod
from fairway.api.resources import NODES, PODS, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from fairway.api.virtual_machine import (
    AUTO_MIGRATION_LABEL,
    AUTOSCALING_LABEL,
    VirtualMachine,
    VirtualMachineMigration,
)
from fairway.simulation.machines.kubelet import SYNTHETIC, Kubelets
from fairway.simulation.machines.neonvm import NeonVM
from fairway.testing.hub import HubAddress
from kubewire.api.resource import Resource, T
from kubewire.client import Client, Informer, NotFound, Patch
from kubewire.client.kubeconfig import load

NAMESPACE = "default"


@dataclass
class MachineHub:
    client: Client
    neonvm: NeonVM
    machines: Informer[VirtualMachine]
    migrations: Informer[VirtualMachineMigration]
    pods: Informer[Pod]

    def vm(self, name: str) -> VirtualMachine:
        stored = self.machines.get(name, namespace=NAMESPACE)
        assert stored is not None
        return stored

    def migration(self, name: str) -> VirtualMachineMigration:
        stored = self.migrations.get(name, namespace=NAMESPACE)
        assert stored is not None
        return stored

    def pod(self, name: str) -> Pod | None:
        return self.pods.get(name, namespace=NAMESPACE)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds in what the informers have."""
        changed = asyncio.Event()
        informers: tuple[Informer[Any], ...] = (self.machines, self.migrations, self.pods)
        unsubscribe = [informer.subscribe(lambda _: changed.set()) for informer in informers]
        try:
            async with asyncio.timeout(20):
                while not _holds(condition):
                    changed.clear()
                    await changed.wait()
        finally:
            for stop in unsubscribe:
                stop()

    async def create_vm(self, name: str, **guest: Any) -> None:
        labels = {AUTO_MIGRATION_LABEL: "true", AUTOSCALING_LABEL: "true"}
        body = {
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "guest": {
                    "cpus": {"min": "250m", "use": 1, "max": 4},
                    "memorySlots": {"min": 1, "use": 4, "max": 16},
                    "memorySlotSize": "1Gi",
                    "rootDisk": {"image": "x"},
                    **guest,
                }
            },
        }
        await self.client.create(VIRTUAL_MACHINES, body, namespace=NAMESPACE)

    async def migrate(self, name: str, vm: str) -> None:
        body = {"metadata": {"name": name}, "spec": {"vmName": vm}}
        await self.client.create(VIRTUAL_MACHINE_MIGRATIONS, body, namespace=NAMESPACE)

    async def delete(self, resource: Resource[T], name: str) -> None:
        await self.client.delete(resource, name, namespace=NAMESPACE)

    async def bind(self, pod: str, node: str) -> None:
        body = {"metadata": {"name": pod}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        path = PODS.path(namespace=NAMESPACE, name=pod, subresource="binding")
        await self.client.request("POST", path, body={"apiVersion": "v1", "kind": "Binding", **body})

    async def run_vm(self, name: str, node: str) -> None:
        """Create a machine, and bind its pod to a node."""
        await self.create_vm(name)
        await self.until(lambda: self.pod(self.vm(name).status.podName))
        await self.bind(self.vm(name).status.podName, node)
        await self.until(lambda: self.vm(name).status.phase == "Running")

    async def annotate(self, name: str, **annotations: str) -> None:
        body = {"metadata": {"annotations": annotations}}
        await self.client.patch(VIRTUAL_MACHINES, name, body, kind=Patch.MERGE, namespace=NAMESPACE)

    async def resize(self, name: str, *, cpus: int, slots: int) -> None:
        body = {"spec": {"guest": {"cpus": {"use": cpus}, "memorySlots": {"use": slots}}}}
        await self.client.patch(VIRTUAL_MACHINES, name, body, kind=Patch.MERGE, namespace=NAMESPACE)


def _holds(condition: Callable[[], object]) -> bool:
    try:
        return bool(condition())
    except AssertionError:
        return False


@asynccontextmanager
async def machine_hub(address: HubAddress, *, bandwidth: int = 1 << 50) -> AsyncIterator[MachineHub]:
    async with Client(load(address.kubeconfig).context(), field_manager="test") as client:
        for migration in (await client.list(VIRTUAL_MACHINE_MIGRATIONS)).items:
            await client.delete(VIRTUAL_MACHINE_MIGRATIONS, migration.metadata.name, namespace=NAMESPACE)
        for vm in (await client.list(VIRTUAL_MACHINES)).items:
            await client.delete(VIRTUAL_MACHINES, vm.metadata.name, namespace=NAMESPACE)
        for name in ("n1", "n2"):
            try:
                await client.get(NODES, name)
            except NotFound:
                body = {"metadata": {"name": name, "labels": {SYNTHETIC: "true"}}}
                await client.create(NODES, body)
        neonvm = NeonVM(client, bandwidth=bandwidth, poll=0.01)
        machines, migrations = (
            Informer(client, VIRTUAL_MACHINES),
            Informer(client, VIRTUAL_MACHINE_MIGRATIONS),
        )
        async with machines, migrations, Informer(client, PODS) as pods:
            for watched in (machines, migrations, pods):
                await watched.synced.wait()
            async with Kubelets(client).running(), neonvm.running():
                yield MachineHub(client, neonvm, machines, migrations, pods)
