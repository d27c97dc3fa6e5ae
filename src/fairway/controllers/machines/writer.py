"""Writes about machines: permits to VirtualMachines, records and steps of migrations.

A record is an object of our own (MachineMigration); the objects of a hypervisor are created and deleted, never changed.

Permits and records are compared before they are set, so that a leader that was replaced changes nothing: a permit names
the request that it answers, and a record the one that it follows. Everything here may be repeated.
"""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final

from fairway.api.machine_migration import MachineMigration
from fairway.api.resources import MACHINE_MIGRATIONS, PODS, VIRTUAL_MACHINES
from fairway.api.virtual_machine import VirtualMachine
from fairway.controllers.machines.hypervisors import HYPERVISORS
from fairway.controllers.runtime.writer import Writer
from fairway.engine.workload import WorkloadKey
from fairway.workloads.machines.events import Event, PermitConflict, PermitNotWritten, PermitWritten
from fairway.workloads.machines.instructions import WritePermit
from fairway.workloads.machines.machine import Demand
from fairway.workloads.machines.migration import Migration, Phase, RecordError
from fairway.workloads.machines.migration_record import (
    HypervisorObject,
    is_ours,
    migration_in,
    record_object,
    record_spec,
)
from fairway.workloads.machines.migrator import Create, Write
from fairway.workloads.machines.neonvm import GENERATION, demand_of, moved_patch, permit_patch, size_of
from kubewire.api.meta import ObjectMeta
from kubewire.client import (
    AlreadyExists,
    Client,
    Conflict,
    Invalid,
    NotFound,
    Patch,
    Resource,
)

NAME_TAKEN: Final = "another {kind} has the name {id}, or is being deleted: delete it"
CHANGES_ALWAYS: Final = "the record of migration {id} was changed by another process"
TRIES: Final = 3
"""Attempts with a newer VirtualMachine, before the write counts as failed."""
ENDING: Final = frozenset(Phase) - {
    Phase.PLANNED,
    Phase.TARGET_PENDING,
    Phase.TARGET_BOUND,
    Phase.COPYING,
}
"""Phases whose record may be missing: the migration has been cancelled by deleting it, or is about to end."""


class MachineWriter:
    def __init__(self, client: Client, writer: Writer) -> None:
        self._client, self._writer = client, writer

    def batch(self) -> AbstractAsyncContextManager[object]:
        """Wrap writes that belong together; see ``Writer.batch``."""
        return self._writer.batch()

    async def write_permit(
        self, write: WritePermit, vm: VirtualMachine
    ) -> tuple[Event, VirtualMachine | None]:
        """Return the event to report, and the VirtualMachine as it is now, if that is known. Raises KubeError."""
        meta = vm.metadata
        for _ in range(TRIES):
            try:
                written = await self._writer.patch_any_version(
                    VIRTUAL_MACHINES,
                    meta.name,
                    permit_patch(write, vm),
                    kind=Patch.JSON,
                    namespace=meta.namespace,
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
        self, migration: Migration, known: MachineMigration | None, *, annotated: bool = False
    ) -> MachineMigration | None:
        """Write a record; create its object with the first one. Return the object; None if it exists no longer.

        ``known`` is the object as it was last seen. ``annotated`` is whether an earlier version has kept the record in
        an annotation, so that there is no object yet. Raises KubeError; Conflict if the name is taken.
        """
        namespace = migration.source.namespace
        try:
            if known is None:
                known = await self._create_or_get(migration, first=annotated)
            for _ in range(TRIES):
                if _is_recorded(known, migration):
                    return known
                try:
                    return await self._writer.patch_any_version(
                        MACHINE_MIGRATIONS,
                        migration.id,
                        _record_patch(migration, known),
                        kind=Patch.JSON,
                        namespace=namespace,
                    )
                except Invalid:
                    known = await self._client.get(MACHINE_MIGRATIONS, migration.id, namespace=namespace)
        except NotFound:
            if migration.phase in ENDING:
                return None
            raise
        raise Conflict(CHANGES_ALWAYS.format(id=migration.id), code=409, reason="Conflict")

    async def _create_or_get(self, migration: Migration, *, first: bool) -> MachineMigration:
        """Create the record of a migration that begins; return the one of a migration under way."""
        namespace = migration.source.namespace
        if first or migration.phase is Phase.PLANNED:
            try:
                return await self._writer.create(
                    MACHINE_MIGRATIONS,
                    record_object(migration),
                    namespace=namespace,
                )
            except AlreadyExists:
                pass
        known = await self._client.get(MACHINE_MIGRATIONS, migration.id, namespace=namespace)
        if migration.phase is Phase.PLANNED and not _is_same(known, migration):
            raise _name_taken(MACHINE_MIGRATIONS, migration.id)
        return known

    async def record_move(self, migration: Migration, vm: VirtualMachine) -> VirtualMachine | None:
        """Write to the VirtualMachine when its migration ended. Return it; None if it exists no longer."""
        meta = vm.metadata
        try:
            return await self._writer.patch_any_version(
                VIRTUAL_MACHINES,
                meta.name,
                moved_patch(migration),
                kind=Patch.MERGE,
                namespace=meta.namespace,
            )
        except NotFound:
            return None

    async def delete_migration(
        self, kind: str, namespace: str, name: str, known: HypervisorObject | None
    ) -> None:
        """Delete what a hypervisor has of a migration, and then its record: a process that dies between the two finds
        the record. ``known`` is the hypervisor's object as it was last seen."""
        resource = HYPERVISORS[kind].migrations
        if known is None:
            with suppress(NotFound):
                known = await self._client.get(resource, name, namespace=namespace)
        if known is not None and is_ours(known):
            await self._delete(resource, namespace, name, uid=known.metadata.uid)
        await self._delete(MACHINE_MIGRATIONS, namespace, name)

    async def delete_pod(self, key: WorkloadKey) -> None:
        await self._delete(PODS, key.namespace, key.name, uid=key.uid)

    async def perform(self, writes: Iterable[Write], kinds: dict[str, Resource[Any]]) -> None:
        """Write the objects of a migrator. ``kinds`` are those that it may write. Raises KubeError; Conflict if the
        name of an object is taken."""
        for write in writes:
            if isinstance(write, Create):
                await self._create(kinds[write.object["kind"]], write.object)
            else:
                await self._delete(kinds[write.kind], write.namespace, write.name, uid=write.uid)

    async def _create(self, resource: Resource[HypervisorObject], body: dict[str, Any]) -> None:
        """Create an object, unless it exists. Another one of its name, or one that is being deleted, is in the way."""
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        try:
            await self._writer.create(resource, body, namespace=namespace)
        except AlreadyExists:
            known = await self._client.get(resource, name, namespace=namespace)
            if not is_ours(known) or known.metadata.deletionTimestamp is not None:
                raise _name_taken(resource, name) from None

    async def _delete(self, resource: Resource[Any], namespace: str, name: str, *, uid: str = "") -> None:
        """Delete an object. One that does not exist, or has another uid by now, counts as deleted."""
        try:
            seen = ObjectMeta(name=name, namespace=namespace, uid=uid)
            await self._writer.delete(resource, seen, any_version=True)
        except (NotFound, Conflict):
            return


def _recorded(vm: VirtualMachine) -> Demand | None:
    """Return the request that a VirtualMachine records, an unreadable one as its size; None if there is none."""
    demand = demand_of(vm)
    generation = vm.metadata.annotations.get(GENERATION, "")
    if demand is not None or not (generation.isascii() and generation.isdigit()):
        return demand
    return Demand(requested=size_of(vm), approved=size_of(vm), generation=int(generation))


def _name_taken(resource: Resource[Any], name: str) -> Conflict:
    return Conflict(NAME_TAKEN.format(kind=resource.kind, id=name), code=409, reason="Conflict")


def _is_recorded(known: MachineMigration, migration: Migration) -> bool:
    """Return whether the hub has a record already, such as after a write whose response was lost."""
    try:
        return migration_in(known) == migration
    except RecordError:
        return False


def _is_same(known: MachineMigration, migration: Migration) -> bool:
    """Return whether a record with the name of a new migration is that of this migration, and not of an older one."""
    try:
        record = migration_in(known)
    except RecordError:
        return False
    return record.source == migration.source and record.active


def _record_patch(migration: Migration, known: MachineMigration) -> list[dict[str, Any]]:
    """Return the JSON patch that writes a record. It fails if there is another one than ``known`` has."""
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": known.metadata.resourceVersion},
        {"op": "replace", "path": "/spec", "value": record_spec(migration)},
    ]
