"""Records of migrations: as MachineMigrations, and as earlier versions wrote them.

An earlier version kept the record in an annotation of the hypervisor's own migration object. The controllers of NeonVM
and KubeVirt replace their objects as a whole, so that the annotation could be lost, or their update refused. Such
records are still read; they become MachineMigrations with their next step.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from fairway.api.hosting_policy import HOSTING_VERSION
from fairway.api.kubevirt import VirtualMachineInstanceMigration
from fairway.api.machine_migration import (
    KeptRoom,
    MachineMigration,
    MachineMigrationSpec,
    MigratedMachine,
    MigrationStep,
    PodOnNode,
)
from fairway.api.virtual_machine import VirtualMachineMigration
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.instant import Micros, from_micros, to_micros
from fairway.workloads.machines.migration import (
    UNREADABLE,
    Claim,
    Migration,
    Phase,
    Reason,
    RecordError,
    decode_record,
)

RECORD_KIND: Final = "MachineMigration"
ANNOTATION: Final = "fairway.dev/migration"
"""Annotation of a hypervisor's object in which earlier versions kept the record."""
CREATED_BY: Final = "fairway.dev/created-by"
MANAGER: Final = "fairway"

NO_VALUE: Final = "{path} is missing"

HypervisorObject = VirtualMachineMigration | VirtualMachineInstanceMigration


def record_object(migration: Migration) -> dict[str, Any]:
    """Return the MachineMigration of a migration."""
    return {
        "apiVersion": HOSTING_VERSION,
        "kind": RECORD_KIND,
        "metadata": {"namespace": migration.source.namespace, "name": migration.id},
        "spec": record_spec(migration),
    }


def record_spec(migration: Migration) -> dict[str, Any]:
    source, target = migration.source, migration.target
    spec = MachineMigrationSpec(
        machine=MigratedMachine(kind=migration.kind, name=migration.vm),
        source=_place(source, migration.source_host),
        target=_place(target, migration.target_host),
        amounts=dict(migration.amounts),
        reason=migration.reason.value,
        phase=migration.phase.value,
        rooms=tuple(map(_room, migration.claims)),
        plannedRooms=tuple(map(_room, migration.purpose)),
        startTime=from_micros(migration.started),
        phaseTime=from_micros(migration.since),
        deadline=from_micros(migration.deadline),
        attempt=migration.attempt,
        outcome="" if migration.outcome is None else migration.outcome.value,
        message=migration.message,
        revision=migration.revision,
        steps=tuple(MigrationStep(phase=phase.value, time=from_micros(at)) for phase, at in migration.steps),
    )
    encoded: dict[str, Any] = msgspec.to_builtins(spec)
    return encoded


def _place(pod: WorkloadKey, host: HostKey) -> PodOnNode:
    return PodOnNode(pod=pod.name, podUID=pod.uid, node=host.name, nodeUID=host.uid)


def _room(claim: Claim) -> KeptRoom:
    namespace, pod, uid = claim.beneficiary
    return KeptRoom(
        namespace=namespace,
        pod=pod,
        podUID=uid,
        amounts=dict(claim.amounts),
        wasFree=not claim.from_source,
    )


def migration_in(record: MachineMigration) -> Migration:
    """Return the migration that a MachineMigration records. Raises RecordError."""
    name, namespace, spec = record.metadata.name, record.metadata.namespace, record.spec
    for path, value in (("machine.name", spec.machine.name), ("source.pod", spec.source.pod)):
        if not value:
            raise RecordError(UNREADABLE.format(id=name, reason=NO_VALUE.format(path=f"spec.{path}")))
    try:
        return Migration(
            id=name,
            kind=spec.machine.kind,
            vm=spec.machine.name,
            source=WorkloadKey(namespace, spec.source.pod, spec.source.podUID),
            source_host=HostKey(spec.source.node, spec.source.nodeUID),
            target=WorkloadKey(namespace, spec.target.pod, spec.target.podUID),
            target_host=HostKey(spec.target.node, spec.target.nodeUID),
            amounts=spec.amounts,
            reason=Reason(spec.reason),
            phase=Phase(spec.phase),
            claims=tuple(map(_claim, spec.rooms)),
            purpose=tuple(map(_claim, spec.plannedRooms)),
            started=_micros("startTime", spec.startTime),
            since=_micros("phaseTime", spec.phaseTime),
            deadline=_micros("deadline", spec.deadline),
            attempt=spec.attempt,
            outcome=Phase(spec.outcome) if spec.outcome else None,
            message=spec.message,
            revision=spec.revision,
            steps=tuple((Phase(step.phase), _micros("steps[].time", step.time)) for step in spec.steps),
        )
    except ValueError as error:
        raise RecordError(UNREADABLE.format(id=name, reason=error)) from None


def _claim(room: KeptRoom) -> Claim:
    return Claim(
        beneficiary=WorkloadKey(room.namespace, room.pod, room.podUID),
        amounts=room.amounts,
        from_source=not room.wasFree,
    )


def _micros(path: str, time: datetime | None) -> Micros:
    if time is None:
        raise ValueError(NO_VALUE.format(path=f"spec.{path}"))
    return to_micros(time)


def hypervisor_labels() -> Mapping[str, str]:
    """Return the labels by which objects of a hypervisor are known to be created here."""
    return {CREATED_BY: MANAGER}


def is_ours(object_: HypervisorObject) -> bool:
    """Return whether this scheduler created a hypervisor's migration object."""
    meta = object_.metadata
    return meta.labels.get(CREATED_BY) == MANAGER or ANNOTATION in meta.annotations


def annotated_record(object_: HypervisorObject) -> Migration | None:
    """Return the record that an earlier version wrote to a hypervisor's object. Raises RecordError.

    An object that is being deleted has none: its annotation is older than the step that deletes it.
    """
    meta = object_.metadata
    text = meta.annotations.get(ANNOTATION)
    return None if text is None or meta.deletionTimestamp else decode_record(text, name=meta.name)
