"""NeonVM: machines from VirtualMachines and their pods, permits as patches, migrations as VirtualMachineMigrations.

NeonVM's controller creates the target pod, copies, switches over and deletes the source by itself, once a
VirtualMachineMigration exists; deleting the object cancels it. The record of a migration is an annotation of that
object, so that creating it is both the first record and the first step.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from fairway.api.annotation import QuantityText
from fairway.api.kubevirt import VirtualMachineInstanceMigration
from fairway.api.lease import format_micro_time, parse_micro_time
from fairway.api.meta import TRUE
from fairway.api.pod import Pod
from fairway.api.pod_requests import CPU, MEMORY, amount_of
from fairway.api.quantity import QuantityError
from fairway.api.virtual_machine import (
    APPROVED,
    AUTO_MIGRATION_LABEL,
    MIGRATION_FAILED,
    MIGRATION_RUNNING,
    MIGRATION_SUCCEEDED,
    NEON_VERSION,
    REQUESTED,
    SCALING_UNIT,
    VM_RUNNING,
    VirtualMachine,
    VirtualMachineMigration,
)
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.fleet.instant import Micros, from_micros, to_micros
from fairway.machines.events import Observation, Stage
from fairway.machines.instructions import WritePermit
from fairway.machines.machine import Demand, Machine
from fairway.machines.migration import Migration, decode_record, encode_record
from fairway.machines.migrator import SelfDriven
from fairway.machines.permit_protocol import PermitError, decode_size, encode_size_text

MIGRATION_KIND: Final = "VirtualMachineMigration"
CREATED_BY: Final = "fairway.dev/created-by"
RECORD: Final = "fairway.dev/migration"
"""Annotation of a migration: its record."""
GENERATION: Final = "fairway.dev/request-generation"
"""Annotation of a VirtualMachine: counts the requests of its agent."""
MOVED_AT: Final = "fairway.dev/moved-at"
"""Annotation of a VirtualMachine: when its last migration ended, as RFC 3339."""
MANAGER: Final = "fairway"

VM_GONE: Final = "VirtualMachine {namespace}/{name} no longer exists"
COMPLETED: Final = "completed"
"""What the hypervisor reports when the copy is complete."""


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
    owners = [each for each in pod.metadata.ownerReferences if each.kind == MIGRATION_KIND]
    return Machine(
        key=WorkloadKey(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid),
        host=host,
        using=size_of(vm),
        vm=vm.metadata.name,
        factors=factors,
        priority=priority,
        created=created,
        moved=max(
            (each for each in (moved_at(vm), created if owners else None) if each is not None), default=None
        ),
        migratable=vm.metadata.labels.get(AUTO_MIGRATION_LABEL) == TRUE.lower()
        and vm.status.phase in ("", VM_RUNNING),
    )


def size_of(vm: VirtualMachine) -> dict[str, int]:
    """Return the size that the hypervisor reports, or else the one that the spec asks for."""
    guest = vm.spec.guest
    cpu = milli(guest.cpus.use if vm.status.cpus is None else vm.status.cpus)
    if vm.status.memorySize is not None:
        memory = milli(vm.status.memorySize)
    else:
        memory = milli(guest.memorySlotSize) * guest.memorySlots.use
    return {CPU: cpu, MEMORY: memory}


def demand_of(vm: VirtualMachine) -> Demand | None:
    """Return what the annotations record; None if there is no request, or an unreadable one."""
    found = vm.metadata.annotations
    if REQUESTED not in found or SCALING_UNIT not in found:
        return None
    try:
        requested = decode_size(found[REQUESTED], path=REQUESTED)
        approved = decode_size(found[APPROVED], path=APPROVED) if APPROVED in found else size_of(vm)
        unit = decode_size(found[SCALING_UNIT], path=SCALING_UNIT)
    except PermitError:
        return None
    generation = found.get(GENERATION, "")
    return Demand(
        requested=requested,
        approved=approved,
        unit=unit,
        generation=int(generation) if generation.isascii() and generation.isdigit() else 0,
    )


def moved_at(vm: VirtualMachine) -> Micros | None:
    """Return when the last migration of a machine ended; None if that is not recorded, or unreadable."""
    found = parse_micro_time(vm.metadata.annotations.get(MOVED_AT, ""))
    return None if found is None else to_micros(found)


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
    """Return the VirtualMachineMigration of a migration, with its record."""
    return {
        "apiVersion": NEON_VERSION,
        "kind": MIGRATION_KIND,
        "metadata": {
            "namespace": migration.source.namespace,
            "name": migration.id,
            "labels": {CREATED_BY: MANAGER},
            "annotations": {RECORD: encode_record(migration)},
        },
        "spec": {
            "vmName": migration.vm,
            "preventMigrationToSameHost": True,
            "incremental": True,
            "autoConverge": True,
            "allowPostCopy": False,
        },
    }


def record_of(object_: VirtualMachineMigration | VirtualMachineInstanceMigration) -> Migration | None:
    """Return the record of a migration that this scheduler started; None for others. Raises RecordError."""
    text = object_.metadata.annotations.get(RECORD)
    return None if text is None else decode_record(text, name=object_.metadata.name)


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
        if object_ is None:
            return (Stage.ABSENT if target is None else Stage.UNKNOWN), ""
        status = object_.status
        if status.phase == MIGRATION_FAILED:
            messages = [each.message for each in status.conditions if each.message]
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
