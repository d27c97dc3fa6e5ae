"""Simulate NeonVM's controller: runner pods for VirtualMachines, and migrations of VirtualMachineMigrations.

A migration goes Pending (target pod), Running (copy), Succeeded (the VirtualMachine names the target, and the source
pod is deleted). Deleting the object before the cutover cancels it. There is no hypervisor: a copy takes as long as the
machine's memory at ``bandwidth``. Tests can hold a step.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import Any, Final

from fairway.api.pod import Pod
from fairway.api.resources import PODS, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from fairway.api.virtual_machine import (
    MIGRATION_FAILED,
    MIGRATION_PENDING,
    MIGRATION_RUNNING,
    MIGRATION_SUCCEEDED,
    NEON_VERSION,
    VM_MIGRATING,
    VM_NAME_LABEL,
    VM_PENDING,
    VM_PRE_MIGRATING,
    VM_RUNNING,
    VirtualMachine,
    VirtualMachineMigration,
)
from fairway.engine.workload import ResourceList
from fairway.simulation.machines.kubelet import RUNNING, address
from fairway.simulation.machines.reconcile import ReconcileLoop, objects_of
from fairway.workloads.machines.neonvm import COMPLETED, size_of
from fairway.workloads.machines.permit_protocol import encode_size
from fairway.workloads.machines.size import ONE
from kubewire.api.encoding import encode
from kubewire.api.meta import OwnerReference, format_time
from kubewire.api.resource import Key, key_of
from kubewire.client import (
    SYSTEM_CLOCK,
    AlreadyExists,
    Batch,
    Client,
    Clock,
    Conflict,
    Informer,
    NotFound,
    Patch,
)

FINALIZER: Final = "vm.neon.tech/finalizer"
HOSTNAME: Final = "kubernetes.io/hostname"
SCHEDULER: Final = "fairway"
"""The scheduler of VirtualMachines that name none."""
RUNNER: Final = "neonvm-runner"
BANDWIDTH: Final = 1 << 30
"""Bytes per second."""
POLL_SECONDS: Final = 1.0
"""Time between two reports of a copy's progress."""
SETUP: Final = "setup"
"""Progress of a migration whose target pod was created."""
ACTIVE: Final = "active"

NO_VM: Final = "VirtualMachine {name} does not exist"
SOURCE_GONE: Final = "source pod {name} was deleted"
TARGET_GONE: Final = "target pod {name} was deleted"

_CAN_SWITCH: Final = (VM_PRE_MIGRATING, VM_MIGRATING)


class Step(Enum):
    """Steps that a test can hold."""

    TARGET = "create the target pod"
    COPY = "start the copy"
    COMPLETE = "complete the copy"
    CUTOVER = "let the target run the machine"
    CLEANUP = "delete the source pod"


class NeonVM:
    """Use ``running`` as the context in which the controller runs."""

    def __init__(
        self,
        client: Client,
        *,
        bandwidth: int = BANDWIDTH,
        poll: float = POLL_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client, self._bandwidth, self._poll, self._clock = client, bandwidth, poll, clock
        self._machines = Informer(client, VIRTUAL_MACHINES)
        self._migrations = Informer(client, VIRTUAL_MACHINE_MIGRATIONS)
        self._pods = Informer(client, PODS, labels=VM_NAME_LABEL)
        self._held: set[Step] = set()
        self._copying: dict[str, float] = {}
        """When the copy of a migration, by uid, began, in seconds of the event loop."""
        self._vm_loop: ReconcileLoop[Key] = ReconcileLoop("NeonVM machines", self._reconcile_machine)
        self._migration_loop: ReconcileLoop[Key] = ReconcileLoop(
            "NeonVM migrations", self._reconcile_migration
        )

    def hold(self, *steps: Step) -> None:
        """Take none of these steps until they are released."""
        self._held.update(steps)

    def release(self, *steps: Step) -> None:
        self._held.difference_update(steps or Step)
        for key in self._migrations.store:
            self._migration_loop.add(key)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["NeonVM"]:
        informers = (self._machines, self._migrations, self._pods)
        async with self._vm_loop.running(*informers), self._migration_loop.running():
            unsubscribe = [
                self._machines.subscribe(self._machines_changed),
                self._migrations.subscribe(self._migrations_changed),
                self._pods.subscribe(self._pods_changed),
            ]
            try:
                yield self
            finally:
                for stop in unsubscribe:
                    stop()

    def _machines_changed(self, batch: Batch[VirtualMachine]) -> None:
        for vm in objects_of(batch):
            self._wake(vm.metadata.namespace, vm.metadata.name)

    def _migrations_changed(self, batch: Batch[VirtualMachineMigration]) -> None:
        for migration in objects_of(batch):
            self._migration_loop.add(key_of(migration))

    def _pods_changed(self, batch: Batch[Pod]) -> None:
        for pod in objects_of(batch):
            self._wake(pod.metadata.namespace, pod.metadata.labels[VM_NAME_LABEL])

    def _wake(self, namespace: str, vm: str) -> None:
        self._vm_loop.add((namespace, vm))
        for key, migration in self._migrations.store.items():
            if key[0] == namespace and migration.spec.vmName == vm:
                self._migration_loop.add(key)

    # Machines

    async def _reconcile_machine(self, key: Key) -> None:
        namespace, name = key
        vm = self._machines.get(name, namespace=namespace)
        if vm is None or vm.metadata.deletionTimestamp is not None:
            return  # the garbage collector deletes the pods
        status = vm.status
        if not status.podName:
            pod_name = f"{name}-{_suffix(vm.metadata.uid, vm.metadata.resourceVersion)}"
            await self._set_machine(vm, phase=VM_PENDING, podName=pod_name, node=None)
            return
        pod = self._pod(namespace, status.podName)
        if pod is None:
            if status.phase in ("", VM_PENDING):
                await self._create_pod(vm, status.podName, owners=(_owner(vm, controller=True),))
            elif status.phase == VM_RUNNING and not self._is_switching(vm):
                # The runner pod was deleted: another one takes its place.
                await self._set_machine(vm, phase=VM_PENDING, podName=None, node=None)
            return
        if pod.status.phase != RUNNING or pod.terminating:
            return
        size = _as_status(asked_size(vm))
        if status.phase in ("", VM_PENDING):
            node = pod.spec.nodeName
            await self._set_machine(vm, phase=VM_RUNNING, node=node, podIP=address(pod.metadata.uid), **size)
        elif status.phase == VM_RUNNING and _as_status(reported_size(vm)) != size:
            await self._set_machine(vm, **size)

    def _is_switching(self, vm: VirtualMachine) -> bool:
        """Return whether a migration is about to name another pod in the status of the machine."""
        return any(
            migration.status.phase == MIGRATION_RUNNING and migration.status.info.status == COMPLETED
            for migration in self._migrations_of(vm)
        )

    def _migrations_of(self, vm: VirtualMachine) -> list[VirtualMachineMigration]:
        meta = vm.metadata
        return [
            migration
            for migration in self._migrations.store.values()
            if migration.metadata.namespace == meta.namespace and migration.spec.vmName == meta.name
        ]

    async def _set_machine(self, vm: VirtualMachine, **status: Any) -> None:
        meta = vm.metadata
        with suppress(NotFound):
            patched = await self._client.patch(
                VIRTUAL_MACHINES,
                meta.name,
                {"status": status},
                kind=Patch.MERGE,
                namespace=meta.namespace,
                subresource="status",
            )
            self._machines.observe(patched)

    async def _create_pod(
        self, vm: VirtualMachine, name: str, *, owners: tuple[OwnerReference, ...], avoid: bool = False
    ) -> None:
        namespace = vm.metadata.namespace
        body = runner_pod(vm, name, owners=owners, avoid_source=avoid)
        try:
            self._pods.observe(await self._client.create(PODS, body, namespace=namespace))
        except AlreadyExists:
            self._pods.observe(await self._client.get(PODS, name, namespace=namespace))

    async def _delete_pod(self, pod: Pod | None) -> None:
        if pod is not None and not pod.terminating:
            meta = pod.metadata
            with suppress(NotFound, Conflict):
                await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid)

    def _pod(self, namespace: str, name: str) -> Pod | None:
        return self._pods.get(name, namespace=namespace)

    # Migrations

    async def _reconcile_migration(self, key: Key) -> float | None:
        namespace, name = key
        migration = self._migrations.get(name, namespace=namespace)
        if migration is None:
            return None
        vm = self._machines.get(migration.spec.vmName, namespace=namespace)
        if migration.metadata.deletionTimestamp is not None:
            await self._end(migration, vm)
            return None
        match migration.status.phase:
            case "":
                await self._begin(migration, vm)
            case phase if phase == MIGRATION_SUCCEEDED:
                await self._clean(migration, vm)
            case phase if phase == MIGRATION_FAILED:
                await self._undo(migration, vm)
            case _ if vm is None:
                await self._fail(migration, NO_VM.format(name=migration.spec.vmName))
            case phase if phase == MIGRATION_PENDING:
                await self._prepare(migration, vm)
            case _:
                return await self._copy(migration, vm)
        return None

    async def _begin(self, migration: VirtualMachineMigration, vm: VirtualMachine | None) -> None:
        if vm is None:
            await self._fail(migration, NO_VM.format(name=migration.spec.vmName))
            return
        meta = migration.metadata
        if FINALIZER not in meta.finalizers:
            await self._patch(
                migration,
                {
                    "metadata": {
                        "finalizers": [*meta.finalizers, FINALIZER],
                        "ownerReferences": [_plain(_owner(vm))],
                    }
                },
            )
            return
        others = [
            migration
            for migration in self._migrations_of(vm)
            if migration.status.phase in (MIGRATION_PENDING, MIGRATION_RUNNING)
        ]
        if others or vm.status.phase not in (VM_RUNNING, VM_PRE_MIGRATING) or Step.TARGET in self._held:
            return
        await self._set_machine(vm, phase=VM_PRE_MIGRATING)
        await self._set_migration(
            migration,
            phase=MIGRATION_PENDING,
            sourcePodName=vm.status.podName,
            sourceNode=vm.status.node,
            targetPodName=f"{vm.metadata.name}-{_suffix(meta.uid, meta.name)}",
        )

    async def _prepare(self, migration: VirtualMachineMigration, vm: VirtualMachine) -> None:
        namespace, status = migration.metadata.namespace, migration.status
        source, target = (
            self._pod(namespace, status.sourcePodName),
            self._pod(namespace, status.targetPodName),
        )
        if source is None or source.finished:
            await self._fail(migration, SOURCE_GONE.format(name=status.sourcePodName))
        elif not status.info.status:
            owners = (_owner(migration, controller=True), _owner(vm))
            prevent = migration.spec.preventMigrationToSameHost
            await self._create_pod(vm, status.targetPodName, owners=owners, avoid=prevent)
            await self._own(source, (_owner(vm, controller=True), _owner(migration)))
            await self._set_migration(migration, info={"status": SETUP})
        elif target is None or target.finished or target.terminating:
            await self._fail(migration, TARGET_GONE.format(name=status.targetPodName))
        elif target.status.phase == RUNNING and Step.COPY not in self._held:
            total = reported_size(vm).get("memory", 0) // ONE
            await self._set_machine(vm, phase=VM_MIGRATING)
            await self._set_migration(
                migration,
                phase=MIGRATION_RUNNING,
                targetNode=target.spec.nodeName,
                info={"status": ACTIVE, "ram": {"total": total, "transferred": 0, "remaining": total}},
            )

    async def _copy(self, migration: VirtualMachineMigration, vm: VirtualMachine) -> float | None:
        namespace, status = migration.metadata.namespace, migration.status
        source, target = (
            self._pod(namespace, status.sourcePodName),
            self._pod(namespace, status.targetPodName),
        )
        if target is None or target.finished or target.terminating:
            await self._fail(migration, TARGET_GONE.format(name=status.targetPodName))
            return None
        if status.info.status == COMPLETED:
            if Step.CUTOVER not in self._held:
                await self._cut_over(migration, vm, source, target)
            return None
        if source is None or source.finished:
            await self._fail(migration, SOURCE_GONE.format(name=status.sourcePodName))
            return None
        ram, now = status.info.ram, asyncio.get_running_loop().time()
        began = self._copying.setdefault(migration.metadata.uid, now - ram.transferred / self._bandwidth)
        copied = min(ram.total, int((now - began) * self._bandwidth))
        if copied < ram.total:
            if copied > ram.transferred:
                await self._set_migration(
                    migration, info={"ram": {"transferred": copied, "remaining": ram.total - copied}}
                )
            return min(self._poll, max(0.001, (ram.total - copied) / self._bandwidth))
        if Step.COMPLETE not in self._held:
            self._copying.pop(migration.metadata.uid, None)
            took = round((now - began) * 1000)
            await self._set_migration(
                migration,
                info={
                    "status": COMPLETED,
                    "totalTimeMs": took,
                    "ram": {"transferred": ram.total, "remaining": 0},
                },
            )
        return None

    async def _cut_over(
        self, migration: VirtualMachineMigration, vm: VirtualMachine, source: Pod | None, target: Pod
    ) -> None:
        name, node = target.metadata.name, target.spec.nodeName
        await self._set_machine(
            vm, phase=VM_RUNNING, podName=name, node=node, podIP=address(target.metadata.uid)
        )
        await self._own(target, (_owner(vm, controller=True), _owner(migration)))
        if source is not None:
            await self._own(source, (_owner(vm), _owner(migration)))
        await self._set_migration(migration, phase=MIGRATION_SUCCEEDED)

    async def _clean(self, migration: VirtualMachineMigration, vm: VirtualMachine | None) -> None:
        if Step.CLEANUP in self._held:
            return
        name = migration.status.sourcePodName
        if name and (vm is None or vm.status.podName != name):
            await self._delete_pod(self._pod(migration.metadata.namespace, name))

    async def _fail(self, migration: VirtualMachineMigration, message: str) -> None:
        condition = {
            "type": "Degraded",
            "status": "True",
            "reason": "Failed",
            "message": message,
            "lastTransitionTime": format_time(self._clock.wall()),
        }
        await self._set_migration(migration, phase=MIGRATION_FAILED, conditions=[condition])

    async def _undo(self, migration: VirtualMachineMigration, vm: VirtualMachine | None) -> None:
        """Delete the target pod, and let the machine run at its source."""
        status = migration.status
        self._copying.pop(migration.metadata.uid, None)
        if status.targetPodName and (vm is None or vm.status.podName != status.targetPodName):
            await self._delete_pod(self._pod(migration.metadata.namespace, status.targetPodName))
        if vm is not None and vm.status.phase in _CAN_SWITCH and vm.status.podName == status.sourcePodName:
            await self._set_machine(vm, phase=VM_RUNNING)

    async def _end(self, migration: VirtualMachineMigration, vm: VirtualMachine | None) -> None:
        """Finish a migration whose object is being deleted; cancel it unless the target runs the machine."""
        if vm is not None and migration.status.targetPodName == vm.status.podName:
            await self._clean(migration, vm)
        elif migration.status.phase != MIGRATION_SUCCEEDED:
            await self._undo(migration, vm)
        kept = [finalizer for finalizer in migration.metadata.finalizers if finalizer != FINALIZER]
        if len(kept) < len(migration.metadata.finalizers):
            await self._patch(migration, {"metadata": {"finalizers": kept}})

    async def _own(self, pod: Pod, owners: tuple[OwnerReference, ...]) -> None:
        if pod.metadata.ownerReferences != owners:
            meta = pod.metadata
            body = {"metadata": {"uid": meta.uid, "ownerReferences": [_plain(owner) for owner in owners]}}
            with suppress(NotFound, Conflict):
                patched = await self._client.patch(
                    PODS, meta.name, body, kind=Patch.MERGE, namespace=meta.namespace
                )
                self._pods.observe(patched)

    async def _set_migration(self, migration: VirtualMachineMigration, **status: Any) -> None:
        await self._patch(migration, {"status": status}, subresource="status")

    async def _patch(
        self, migration: VirtualMachineMigration, body: dict[str, Any], *, subresource: str | None = None
    ) -> None:
        meta = migration.metadata
        with suppress(NotFound):
            patched = await self._client.patch(
                VIRTUAL_MACHINE_MIGRATIONS,
                meta.name,
                body,
                kind=Patch.MERGE,
                namespace=meta.namespace,
                subresource=subresource,
            )
            self._migrations.observe(patched)


def runner_pod(
    vm: VirtualMachine, name: str, *, owners: tuple[OwnerReference, ...] = (), avoid_source: bool = False
) -> dict[str, Any]:
    """Return the pod in which a machine runs. ``avoid_source``: not on a node that already runs this machine."""
    spec: dict[str, Any] = {
        "schedulerName": vm.spec.schedulerName or SCHEDULER,
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": RUNNER, "image": RUNNER}],
    }
    labels = {VM_NAME_LABEL: vm.metadata.name}
    if vm.spec.nodeSelector:
        spec["nodeSelector"] = vm.spec.nodeSelector
    affinity = dict(vm.spec.affinity)
    if avoid_source:
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOSTNAME}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if affinity:
        spec["affinity"] = affinity
    return {
        "metadata": {
            "name": name,
            "namespace": vm.metadata.namespace,
            "labels": labels,
            "ownerReferences": [_plain(owner) for owner in owners],
        },
        "spec": spec,
    }


def asked_size(vm: VirtualMachine) -> ResourceList:
    """Return the size that the spec asks for."""
    return size_of(VirtualMachine(metadata=vm.metadata, spec=vm.spec))


def reported_size(vm: VirtualMachine) -> ResourceList:
    """Return the size that the hypervisor reports."""
    return size_of(VirtualMachine(metadata=vm.metadata, status=vm.status))


def _as_status(size: ResourceList) -> dict[str, Any]:
    encoded = encode_size(size)
    return {"cpus": encoded["vCPUs"], "memorySize": _binary(int(encoded["mem"]))}


def _binary(size: int) -> str:
    """Return bytes as a quantity with the largest suffix that has no fraction."""
    suffixes = ["", "Ki", "Mi", "Gi", "Ti"]
    while size and size % 1024 == 0 and len(suffixes) > 1:
        size, suffixes = size // 1024, suffixes[1:]
    return f"{size}{suffixes[0]}"


def _owner(owner: VirtualMachine | VirtualMachineMigration, *, controller: bool = False) -> OwnerReference:
    return OwnerReference(
        apiVersion=NEON_VERSION,
        kind=owner.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=controller or None,
        blockOwnerDeletion=controller or None,
    )


def _plain(owner: OwnerReference) -> dict[str, Any]:
    return encode(owner)


def _suffix(*parts: str) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:5]
