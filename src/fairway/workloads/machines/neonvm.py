"""NeonVM: machines from VirtualMachines and their pods, permits as patches, migrations as VirtualMachineMigrations.

NeonVM's controller creates the target pod, copies, switches over and deletes the source by itself, once a
VirtualMachineMigration exists; deleting the object cancels it. The record of the migration is an object of our own
(``migration_record``): NeonVM's controller replaces its objects as a whole, so that no other client may write to them.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fairway.api.pod import Pod
from fairway.api.pod_requests import CPU, MEMORY, amount_of
from fairway.api.virtual_machine import (
    APPROVED,
    AUTO_MIGRATION_LABEL,
    AUTOSCALING_LABEL,
    MIGRATION_FAILED,
    MIGRATION_RUNNING,
    MIGRATION_SUCCEEDED,
    NEON_VERSION,
    REQUESTED,
    SCALING_BOUNDS,
    SCALING_UNIT,
    VM_RUNNING,
    VirtualMachine,
    VirtualMachineMigration,
)
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.instant import Micros, from_micros, to_micros
from fairway.workloads.machines.events import Observation, Stage
from fairway.workloads.machines.instructions import WritePermit
from fairway.workloads.machines.machine import Demand, Machine
from fairway.workloads.machines.migration import Migration
from fairway.workloads.machines.migration_record import hypervisor_labels
from fairway.workloads.machines.migrator import OBJECT_DELETED, SelfDriven, has_created
from fairway.workloads.machines.permit_protocol import PermitError, decode_size, encode_size_text
from fairway.workloads.machines.size import bounded
from kubewire.api.annotation import QuantityText
from kubewire.api.lease import format_micro_time, parse_micro_time
from kubewire.api.meta import TRUE
from kubewire.api.quantity import QuantityError

MIGRATION_KIND: Final = "VirtualMachineMigration"
GENERATION: Final = "fairway.dev/request-generation"
"""Annotation of a VirtualMachine: counts the requests of its agent."""
_GENERATION: Final = re.compile(r"[0-9]{1,18}")
"""Python refuses to convert thousands of digits, and every user of the namespace may write them."""
MOVED_AT: Final = "fairway.dev/moved-at"
"""Annotation of a VirtualMachine: when its last migration ended, as RFC 3339."""

VM_GONE: Final = "VirtualMachine {namespace}/{name} no longer exists"
COMPLETED: Final = "completed"
"""What the hypervisor reports when the copy is complete."""


class _Amounts(msgspec.Struct, frozen=True):
    cpu: QuantityText | None = None
    mem: QuantityText | None = None


class _Bounds(msgspec.Struct, frozen=True):
    max: _Amounts = _Amounts()


def machine_of(vm: VirtualMachine, pod: Pod, host: HostKey, *, priority: int = 0) -> Machine:
    """Return the machine that runs in a pod on a node."""
    factors = {}
    if vm.spec.overcommit is not None:
        for resource, factor in ((CPU, vm.spec.overcommit.cpu), (MEMORY, vm.spec.overcommit.memory)):
            thousandths = milli(factor)
            if thousandths:
                factors[resource] = thousandths
    created: Micros = 0
    if pod.metadata.creationTimestamp is not None:
        created = to_micros(pod.metadata.creationTimestamp)
    owners = [owner for owner in pod.metadata.ownerReferences if owner.kind == MIGRATION_KIND]
    return Machine(
        key=WorkloadKey.of(pod.metadata),
        host=host,
        using=size_of(vm),
        vm=vm.metadata.name,
        grows=_has_agent(vm),
        smallest=_bound(vm, cpu=vm.spec.guest.cpus.min, slots=vm.spec.guest.memorySlots.min),
        largest=_largest(vm),
        factors=factors,
        priority=priority,
        created=created,
        moved=max(
            (moment for moment in (moved_at(vm), created if owners else None) if moment is not None),
            default=None,
        ),
        migratable=vm.metadata.labels.get(AUTO_MIGRATION_LABEL) == TRUE.lower()
        and vm.status.phase in ("", VM_RUNNING),
    )


def size_of(vm: VirtualMachine) -> dict[str, int]:
    """Return the larger of the size that the spec asks for and the one that the hypervisor reports.

    The spec is what NeonVM is going to give: when it grows, the room is taken before the hypervisor has followed.
    When it shrinks, the hypervisor still uses what it reports.
    """
    guest, status = vm.spec.guest, vm.status
    return {
        CPU: max(milli(guest.cpus.use), milli(status.cpus)),
        MEMORY: max(milli(guest.memorySlotSize) * guest.memorySlots.use, milli(status.memorySize)),
    }


def _has_agent(vm: VirtualMachine) -> bool:
    """Return whether the agents of NeonVM scale a machine. Without the label, its spec decides."""
    return vm.metadata.labels.get(AUTOSCALING_LABEL) == TRUE.lower()


def _bound(vm: VirtualMachine, *, cpu: QuantityText, slots: int) -> dict[str, int]:
    """Return a bound of the spec, as far as it states one."""
    amounts = {CPU: milli(cpu), MEMORY: milli(vm.spec.guest.memorySlotSize) * slots}
    return {resource: amount for resource, amount in amounts.items() if amount > 0}


def _largest(vm: VirtualMachine) -> dict[str, int]:
    """Return what may be permitted at most: the maximum of the spec, and a lower one in the annotation for agents.

    An agent that cannot shrink its machine to lowered bounds keeps what the machine has.
    """
    largest, using = _bound(vm, cpu=vm.spec.guest.cpus.max, slots=vm.spec.guest.memorySlots.max), size_of(vm)
    for resource, amount in _annotated_maximum(vm).items():
        largest[resource] = min(largest.get(resource, amount), max(amount, using.get(resource, 0)))
    return largest


def _annotated_maximum(vm: VirtualMachine) -> dict[str, int]:
    try:
        most = msgspec.json.decode(vm.metadata.annotations.get(SCALING_BOUNDS, "{}"), type=_Bounds).max
    except (msgspec.MsgspecError, RecursionError):
        return {}
    amounts = {CPU: milli(most.cpu), MEMORY: milli(most.mem)}
    return {resource: amount for resource, amount in amounts.items() if amount > 0}


def demand_of(vm: VirtualMachine) -> Demand | None:
    """Return what the annotations record, as far as the machine may grow.

    None if there is no request, or an unreadable one, or no agent: what an earlier agent got is not valid any more.
    """
    annotations = vm.metadata.annotations
    if not _has_agent(vm) or REQUESTED not in annotations or SCALING_UNIT not in annotations:
        return None
    try:
        requested = decode_size(annotations[REQUESTED], path=REQUESTED)
        approved = (
            decode_size(annotations[APPROVED], path=APPROVED) if APPROVED in annotations else size_of(vm)
        )
        unit = decode_size(annotations[SCALING_UNIT], path=SCALING_UNIT)
    except PermitError:
        return None
    generation, largest = annotations.get(GENERATION, ""), _largest(vm)
    return Demand(
        requested=bounded(requested, largest),
        approved=bounded(approved, largest),
        unit=unit,
        generation=int(generation) if _GENERATION.fullmatch(generation) else 0,
    )


def moved_at(vm: VirtualMachine) -> Micros | None:
    """Return when the last migration of a machine ended; None if that is not recorded, or unreadable."""
    moment = parse_micro_time(vm.metadata.annotations.get(MOVED_AT, ""))
    return None if moment is None else to_micros(moment)


def moved_patch(migration: Migration) -> dict[str, Any]:
    """Return the merge patch of a VirtualMachine whose migration has ended."""
    return {"metadata": {"annotations": {MOVED_AT: format_micro_time(from_micros(migration.since))}}}


def permit_patch(write: WritePermit, vm: VirtualMachine) -> list[dict[str, Any]]:
    """Return the JSON patch for a permit. It fails if the VirtualMachine has another request by now."""
    values = {
        REQUESTED: encode_size_text(write.demand.requested),
        SCALING_UNIT: encode_size_text(write.demand.unit),
        APPROVED: encode_size_text(write.demand.approved),
        GENERATION: str(write.demand.generation),
    }
    annotations = "/metadata/annotations"
    known = GENERATION in vm.metadata.annotations
    test: dict[str, Any] = (
        {"op": "test", "path": _pointer(annotations, GENERATION), "value": str(write.after)}
        if known
        # The absence of an annotation cannot be tested: the whole object must be unchanged.
        else {"op": "test", "path": "/metadata/resourceVersion", "value": vm.metadata.resourceVersion}
    )
    if not vm.metadata.annotations:
        return [test, {"op": "add", "path": annotations, "value": values}]
    return [
        test,
        *(
            {"op": "add", "path": _pointer(annotations, name), "value": value}
            for name, value in values.items()
        ),
    ]


def migration_object(migration: Migration) -> dict[str, Any]:
    """Return the VirtualMachineMigration of a migration."""
    return {
        "apiVersion": NEON_VERSION,
        "kind": MIGRATION_KIND,
        "metadata": {
            "namespace": migration.source.namespace,
            "name": migration.id,
            "labels": hypervisor_labels(),
        },
        "spec": {
            "vmName": migration.vm,
            "preventMigrationToSameHost": True,
            "incremental": True,
            "autoConverge": True,
            "allowPostCopy": False,
        },
    }


class NeonVMMigrator(SelfDriven):
    """Reads NeonVM's objects through functions, which return None for what does not exist."""

    def __init__(
        self,
        *,
        migrations: Callable[[str, str], VirtualMachineMigration | None],
        machines: Callable[[str, str], VirtualMachine | None],
        pods: Callable[[str, str], Pod | None],
        hosts: Mapping[str, HostKey],
    ) -> None:
        super().__init__(
            api_version=NEON_VERSION,
            kind=MIGRATION_KIND,
            object_of=migration_object,
            find=migrations,
        )
        self._migrations = migrations
        self._machines = machines
        self._pods = pods
        self._hosts = hosts

    def observe(self, migration: Migration, /) -> Observation:
        namespace = migration.source.namespace
        object_, vm = self._migrations(namespace, migration.id), self._machines(namespace, migration.vm)
        name = object_.status.targetPodName if object_ is not None else ""
        pod = self._pods(namespace, name or migration.target.name)
        target = None if pod is None else WorkloadKey(namespace, pod.metadata.name, pod.metadata.uid)
        host = None if pod is None else self._hosts.get(pod.spec.nodeName)
        stage, message = self._stage(migration, object_, vm, target, host)
        return Observation(stage=stage, target=target, target_host=host, message=message)

    def _stage(
        self,
        migration: Migration,
        object_: VirtualMachineMigration | None,
        vm: VirtualMachine | None,
        target: WorkloadKey | None,
        host: HostKey | None,
    ) -> tuple[Stage, str]:
        if vm is None:
            gone = VM_GONE.format(namespace=migration.source.namespace, name=migration.vm)
            return Stage.FAILED, gone
        if target is not None and vm.status.podName == target.name:
            return Stage.SWITCHED, ""
        if object_ is None and has_created(migration):
            return Stage.FAILED, OBJECT_DELETED.format(kind=MIGRATION_KIND)
        if object_ is None:
            return (Stage.ABSENT if target is None else Stage.UNKNOWN), ""
        status = object_.status
        if status.phase == MIGRATION_FAILED:
            messages = [condition.message for condition in status.conditions if condition.message]
            return Stage.FAILED, messages[-1] if messages else status.info.status
        if status.phase == MIGRATION_SUCCEEDED:
            return Stage.SWITCHED, ""
        if status.phase == MIGRATION_RUNNING:
            return (Stage.COPIED if status.info.status == COMPLETED else Stage.COPYING), ""
        if target is None:
            return Stage.ABSENT, ""
        return (Stage.PENDING if host is None else Stage.BOUND), ""


def milli(quantity: QuantityText | None) -> int:
    """Return a quantity in milli-units; 0 for one that is absent, unreadable or negative."""
    if quantity is None:
        return 0
    try:
        return max(0, amount_of(CPU, quantity))
    except QuantityError:
        return 0


def _pointer(base: str, key: str) -> str:
    escaped = key.replace("~", "~0").replace("/", "~1")
    return f"{base}/{escaped}"
