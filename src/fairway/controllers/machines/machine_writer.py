"""Writes about machines: permits to VirtualMachines, records and steps of migrations.

Permits and records are compared before they are set, so that a leader that was replaced changes nothing: a permit names
the request that it answers, and a record the one that it follows. Everything here may be repeated.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from fairway.api.virtual_machine import VirtualMachine
from fairway.controllers.leadership import Leadership
from fairway.controllers.machines.hypervisors import HYPERVISORS, MigrationObject
from fairway.engine.workload import WorkloadKey
from fairway.kube import (
    AlreadyExists,
    ApiError,
    Client,
    Conflict,
    Invalid,
    KubeError,
    NotFound,
    Patch,
    Resource,
)
from fairway.kube.resource import PODS, VIRTUAL_MACHINES
from fairway.machines.events import Event, PermitConflict, PermitNotWritten, PermitWritten
from fairway.machines.instructions import WritePermit
from fairway.machines.machine import Demand
from fairway.machines.migration import Migration, Phase, RecordError, encode_record
from fairway.machines.migrator import Create, Write
from fairway.machines.neonvm import (
    GENERATION,
    RECORD,
    demand_of,
    moved_patch,
    permit_patch,
    record_of,
    size_of,
)
from fairway.observe.meters import Meters

MANAGER: Final = "fairway-machines"
NAME_TAKEN: Final = "another {kind} has the name {id}: delete it"
CHANGES_ALWAYS: Final = "the record of migration {id} was changed by another process"
TRIES: Final = 3
"""Attempts with a newer VirtualMachine, before the write counts as failed."""
ENDING: Final = frozenset(Phase) - {
    Phase.PLANNED,
    Phase.TARGET_PENDING,
    Phase.TARGET_BOUND,
    Phase.COPYING,
}
"""Phases whose record may be missing: the object of the migration is deleted, or about to be."""


class MachineWriter:
    def __init__(
        self,
        client: Client,
        *,
        leadership: Leadership,
        meters: Meters,
    ) -> None:
        self._client, self._leadership, self._meters = client, leadership, meters

    async def write_permit(
        self, write: WritePermit, vm: VirtualMachine
    ) -> tuple[Event, VirtualMachine | None]:
        """Return the event to report, and the VirtualMachine as it is now, if that is known. Raises KubeError."""
        meta = vm.metadata
        for _ in range(TRIES):
            try:
                with self._counted(VIRTUAL_MACHINES, "patch"):
                    written = await self._client.patch(
                        VIRTUAL_MACHINES,
                        meta.name,
                        permit_patch(write, vm),
                        kind=Patch.JSON,
                        namespace=meta.namespace,
                        field_manager=MANAGER,
                    )
            except (Invalid, Conflict):
                vm = await self._client.get(VIRTUAL_MACHINES, meta.name, namespace=meta.namespace)
                if vm.metadata.uid != meta.uid:
                    break
                recorded = _recorded(vm)
                if recorded == write.demand:
                    return PermitWritten(write.key), vm
                if recorded is not None and recorded.generation != write.after:
                    return PermitConflict(write.key, recorded), vm
            else:
                return PermitWritten(write.key), written
        return PermitNotWritten(write.key), None

    async def write_record(
        self, migration: Migration, known: MigrationObject | None
    ) -> MigrationObject | None:
        """Write a record, and create its object with the first one. Return the object; None if it exists no longer.

        ``known`` is the object as it was last seen. Raises KubeError; Conflict if the name is taken.
        """
        namespace, resource = migration.source.namespace, _resource(migration)
        try:
            if known is None:
                known = await self._create_or_get(migration)
            for _ in range(TRIES):
                if known.metadata.annotations.get(RECORD) == encode_record(migration):
                    return known
                try:
                    with self._counted(resource, "patch"):
                        return await self._client.patch(
                            resource,
                            migration.id,
                            _record_patch(migration, known),
                            kind=Patch.JSON,
                            namespace=namespace,
                            field_manager=MANAGER,
                        )
                except Invalid:
                    known = await self._client.get(resource, migration.id, namespace=namespace)
        except NotFound:
            if migration.phase in ENDING:
                return None
            raise
        raise Conflict(CHANGES_ALWAYS.format(id=migration.id), code=409, reason="Conflict")

    async def _create_or_get(self, migration: Migration) -> MigrationObject:
        """Create the object of a migration that begins; return the one of a migration under way."""
        namespace, resource = migration.source.namespace, _resource(migration)
        if migration.phase is Phase.PLANNED:
            try:
                with self._counted(resource, "create"):
                    return await self._client.create(
                        resource,
                        HYPERVISORS[migration.kind].object_of(migration),
                        namespace=namespace,
                        field_manager=MANAGER,
                    )
            except AlreadyExists:
                pass
        known: MigrationObject = await self._client.get(resource, migration.id, namespace=namespace)
        if migration.phase is Phase.PLANNED and not _is_same(known, migration):
            raise Conflict(
                NAME_TAKEN.format(kind=resource.kind, id=migration.id), code=409, reason="Conflict"
            )
        return known

    async def record_move(self, migration: Migration, vm: VirtualMachine) -> VirtualMachine | None:
        """Write to the VirtualMachine when its migration ended. Return it; None if it exists no longer."""
        meta = vm.metadata
        try:
            with self._counted(VIRTUAL_MACHINES, "patch"):
                return await self._client.patch(
                    VIRTUAL_MACHINES,
                    meta.name,
                    moved_patch(migration),
                    kind=Patch.MERGE,
                    namespace=meta.namespace,
                    field_manager=MANAGER,
                )
        except NotFound:
            return None

    async def delete_record(self, migration: Migration) -> None:
        await self._delete(_resource(migration), migration.source.namespace, migration.id)

    async def delete_pod(self, key: WorkloadKey) -> None:
        await self._delete(PODS, key.namespace, key.name, uid=key.uid)

    async def perform(self, writes: Iterable[Write], kinds: dict[str, Resource[Any]]) -> None:
        """Write the objects of a migrator. ``kinds`` are those that it may write."""
        for write in writes:
            if isinstance(write, Create):
                resource = kinds[write.object["kind"]]
                try:
                    with self._counted(resource, "create"):
                        await self._client.create(
                            resource,
                            write.object,
                            namespace=write.object["metadata"]["namespace"],
                            field_manager=MANAGER,
                        )
                except AlreadyExists:
                    continue
            else:
                await self._delete(kinds[write.kind], write.namespace, write.name, uid=write.uid)

    async def _delete(self, resource: Resource[Any], namespace: str, name: str, *, uid: str = "") -> None:
        """Delete an object. One that does not exist, or has another uid by now, counts as deleted."""
        try:
            with self._counted(resource, "delete"):
                await self._client.delete(resource, name, namespace=namespace, uid=uid or None)
        except (NotFound, Conflict):
            return

    @contextmanager
    def _counted(self, resource: Resource[Any], verb: str) -> Iterator[None]:
        """Count a write, which needs leadership."""
        self._leadership.ensure()
        error = ""
        try:
            yield
        except KubeError as failure:
            error = (failure.reason if isinstance(failure, ApiError) else "") or type(failure).__name__
            raise
        finally:
            self._meters.write(controller="machines", resource=resource.plural, verb=verb, error=error)


def _recorded(vm: VirtualMachine) -> Demand | None:
    """Return the request that a VirtualMachine records, an unreadable one as its size; None if there is none."""
    found = demand_of(vm)
    generation = vm.metadata.annotations.get(GENERATION, "")
    if found is not None or not (generation.isascii() and generation.isdigit()):
        return found
    return Demand(requested=size_of(vm), approved=size_of(vm), generation=int(generation))


def _resource(migration: Migration) -> Resource[MigrationObject]:
    return HYPERVISORS[migration.kind].migrations


def _is_same(known: MigrationObject, migration: Migration) -> bool:
    """Return whether an object with the name of a new migration is that of this migration, and not of an older one."""
    try:
        record = record_of(known)
    except RecordError:
        return False
    return record is not None and record.source == migration.source and record.active


def _record_patch(migration: Migration, known: MigrationObject) -> list[dict[str, Any]]:
    """Return the JSON patch that writes a record. It fails if there is another one than ``known`` has."""
    annotations = known.metadata.annotations
    path = "/metadata/annotations/" + RECORD.replace("/", "~1")
    text = encode_record(migration)
    if RECORD in annotations:
        return [
            {"op": "test", "path": path, "value": annotations[RECORD]},
            {"op": "replace", "path": path, "value": text},
        ]
    unchanged = {"op": "test", "path": "/metadata/resourceVersion", "value": known.metadata.resourceVersion}
    if not annotations:
        return [unchanged, {"op": "add", "path": "/metadata/annotations", "value": {RECORD: text}}]
    return [unchanged, {"op": "add", "path": path, "value": text}]
