"""A stand-in for KubeVirt's controller: it carries out migrations of VirtualMachineInstances, without a hypervisor."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from controllers.machines.machine_rig import NAMESPACE, MachineRig
from fairway.api.kubevirt import (
    KUBEVIRT_GROUP,
    KUBEVIRT_VERSION,
    PARALLEL_FROM_NODE,
    PARALLEL_IN_CLUSTER,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
)
from fairway.api.pod import Pod
from fairway.api.resources import PODS
from fairway.controllers.machines.kinds import INSTANCE_MIGRATIONS, INSTANCES, KUBEVIRTS
from fairway.simulation.machines.reconcile import ReconcileLoop, objects_of
from fairway.workloads.machines.kubevirt import INSTANCE_KIND, MIGRATION_LABEL
from kubewire.api.resource import Key, key_of
from kubewire.client import AlreadyExists, Batch, Client, Informer, NotFound, Patch, Resource

CREATED_BY = "kubevirt.io/created-by"
LAUNCHER = "virt-launcher"


def kubevirt_crds() -> tuple[dict[str, Any], ...]:
    return tuple(_crd(resource) for resource in (INSTANCES, INSTANCE_MIGRATIONS, KUBEVIRTS))


def _crd(resource: Resource[Any]) -> dict[str, Any]:
    any_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": any_object, "status": any_object}}
        },
        "subresources": {"status": {}},
    }
    names = {"kind": resource.kind, "listKind": f"{resource.kind}List", "plural": resource.plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": KUBEVIRT_GROUP,
            "names": {**names, "singular": resource.kind.lower()},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


class KubeVirt:
    """``hold`` keeps migrations from copying. At most ``in_cluster`` migrations, and ``from_node`` of one node, have a
    target pod, as with KubeVirt; others stay pending."""

    def __init__(self, rig: MachineRig) -> None:
        self._rig, self._client = rig, rig.client
        self.hold = False
        self.in_cluster, self.from_node = PARALLEL_IN_CLUSTER, PARALLEL_FROM_NODE
        self.waited: set[str] = set()
        """Migrations that were pending because others were running."""
        self.planned: list[str] = []
        """The node that each migration named, in their order."""
        self.instances: Informer[VirtualMachineInstance] = Informer(rig.client, INSTANCES)
        self.migrations: Informer[VirtualMachineInstanceMigration] = Informer(rig.client, INSTANCE_MIGRATIONS)
        self._loop: ReconcileLoop[Key] = ReconcileLoop("KubeVirt", self._reconcile)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["KubeVirt"]:
        async with self._loop.running(self.instances, self.migrations):
            informers: tuple[Informer[Any], ...] = (self.instances, self.migrations, self._rig.pods)
            unsubscribe = [watched.subscribe(lambda _: self._rig.changed.set()) for watched in informers]
            unsubscribe.append(self.migrations.subscribe(self._changed))
            unsubscribe.append(self._rig.pods.subscribe(lambda _: self._wake()))
            try:
                yield self
            finally:
                for stop in unsubscribe:
                    stop()
                for informer in (self.migrations, self.instances):
                    await _delete_all(self._client, informer)
                with suppress(NotFound):
                    await self._client.delete(KUBEVIRTS, "kubevirt", namespace=NAMESPACE)

    def _changed(self, batch: Batch[VirtualMachineInstanceMigration]) -> None:
        for object_ in objects_of(batch):
            self._loop.add(key_of(object_))

    def _wake(self) -> None:
        for key in self.migrations.store:
            self._loop.add(key)

    def release(self) -> None:
        self.hold = False
        self._wake()

    def instance(self, name: str) -> VirtualMachineInstance:
        stored = self.instances.get(name, namespace=NAMESPACE)
        assert stored is not None, name
        return stored

    def phases(self) -> list[str]:
        """The phases of the records of migrations."""
        return [record.phase for record in self._rig.records()]

    def pods(self, name: str) -> list[Pod]:
        """The pods of an instance that have not finished."""
        uid = self.instance(name).metadata.uid
        running = (pod for pod in self._rig.pods.store.values() if not pod.finished)
        return [pod for pod in running if pod.metadata.labels.get(CREATED_BY) == uid]

    async def add(self, name: str, units: int, node: str, **spec: Any) -> None:
        """Create an instance that runs on a node."""
        requests = {"cpu": str(units), "memory": f"{units}Gi"}
        domain = {"resources": {"requests": requests}}
        body = {
            "metadata": {"name": name},
            "spec": {"domain": domain, "evictionStrategy": "LiveMigrate", **spec},
        }
        await self._client.create(INSTANCES, body, namespace=NAMESPACE)
        await self._rig.until(lambda: self.instance(name))
        await self._launch(self.instance(name), f"{LAUNCHER}-{name}", node=node)
        condition = {"type": "LiveMigratable", "status": "True", "lastTransitionTime": None}
        status = {"phase": "Running", "nodeName": node, "conditions": [condition]}
        await self._patch(INSTANCES, name, status)
        await self._rig.until(lambda: self.instance(name).status.nodeName == node and self.pods(name))

    async def _launch(self, instance: VirtualMachineInstance, name: str, **more: Any) -> None:
        meta = instance.metadata
        resources = {"requests": instance.spec.domain.resources.requests}
        owner = {
            "apiVersion": KUBEVIRT_VERSION,
            "kind": INSTANCE_KIND,
            "name": meta.name,
            "uid": meta.uid,
            "controller": True,
        }
        body = {
            "metadata": {
                "name": name,
                "labels": {CREATED_BY: meta.uid, **more.get("labels", {})},
                "ownerReferences": [owner],
            },
            "spec": {
                "schedulerName": "fairway",
                "containers": [{"name": "compute", "image": LAUNCHER, "resources": resources}],
                "nodeSelector": more.get("selector", {}),
                **({"nodeName": more["node"]} if "node" in more else {}),
            },
        }
        await self._client.create(PODS, body, namespace=NAMESPACE)

    async def _reconcile(self, key: Key) -> None:
        migration = self.migrations.get(key[1], namespace=key[0])
        target = f"{LAUNCHER}-{key[1]}"
        pod = self._rig.pod(target)
        if migration is None:
            moved = any(
                pod is not None and pod.spec.nodeName == instance.status.nodeName for instance in self._all()
            )
            if pod is not None and not moved:
                with suppress(NotFound):
                    await self._client.delete(PODS, target, namespace=NAMESPACE)
            return
        instance = self.instance(migration.spec.vmiName)
        source = next(
            (other for other in self.pods(instance.metadata.name) if other.metadata.name != target), None
        )
        if not migration.status.phase:
            await self._patch(INSTANCE_MIGRATIONS, key[1], {"phase": "Pending"})
        elif migration.status.phase == "Pending":
            if pod is None and not self._has_place(instance.status.nodeName):
                self.waited.add(key[1])
                return
            selector = migration.spec.addedNodeSelector
            self.planned += selector.values()
            labels = {MIGRATION_LABEL: migration.metadata.uid}
            if pod is None:
                await self._launch(instance, target, labels=labels, selector=selector)
            await self._patch(INSTANCE_MIGRATIONS, key[1], {"phase": "Scheduling"})
        elif pod is None or pod.status.phase != "Running":
            return
        elif migration.status.phase == "Scheduling":
            await self._patch(INSTANCE_MIGRATIONS, key[1], {"phase": "Running"})
        elif migration.status.phase == "Running" and not self.hold:
            state = {"completed": True, "targetPod": target}
            status = {"nodeName": pod.spec.nodeName, "migrationState": state}
            await self._patch(INSTANCES, instance.metadata.name, status)
            await self._patch(INSTANCE_MIGRATIONS, key[1], {"phase": "Succeeded", "migrationState": state})
        elif migration.status.phase == "Succeeded" and source is not None:
            await self._patch(PODS, source.metadata.name, {"phase": "Succeeded"})

    def _has_place(self, node: str) -> bool:
        """Return whether a further migration may leave a node, by those that run or have a target pod."""
        running = [
            other
            for other in self.migrations.store.values()
            if other.status.phase not in ("", "Pending", "Succeeded", "Failed")
        ]
        leaving = [other for other in running if self.instance(other.spec.vmiName).status.nodeName == node]
        return len(running) < self.in_cluster and len(leaving) < self.from_node

    async def configure(self, **migrations: int) -> None:
        """Create or change the KubeVirt object, and follow it."""
        self.in_cluster = migrations.get("parallelMigrationsPerCluster", PARALLEL_IN_CLUSTER)
        self.from_node = migrations.get("parallelOutboundMigrationsPerNode", PARALLEL_FROM_NODE)
        body = {
            "metadata": {"name": "kubevirt"},
            "spec": {"configuration": {"migrations": migrations}},
        }
        try:
            await self._client.create(KUBEVIRTS, body, namespace=NAMESPACE)
        except AlreadyExists:
            await self._client.patch(KUBEVIRTS, "kubevirt", body, kind=Patch.MERGE, namespace=NAMESPACE)
        self._wake()

    def _all(self) -> list[VirtualMachineInstance]:
        return list(self.instances.store.values())

    async def _patch(self, resource: Resource[Any], name: str, status: dict[str, Any]) -> None:
        with suppress(NotFound):
            patched = await self._client.patch(
                resource,
                name,
                {"status": status},
                kind=Patch.MERGE,
                namespace=NAMESPACE,
                subresource="status",
            )
            if resource is INSTANCE_MIGRATIONS:
                self.migrations.observe(patched)


async def _delete_all(client: Client, informer: Informer[Any]) -> None:
    for namespace, name in list(informer.store):
        with suppress(NotFound):
            await client.delete(informer.resource, name, namespace=namespace)
