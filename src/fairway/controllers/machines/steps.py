"""Carry out the instructions of the machines' state that write to the hub."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairway.api.machine_migration import MachineMigration
from fairway.controllers.machines.hypervisors import Hypervisors
from fairway.controllers.machines.lanes import FAILED, DeleteStray, Written
from fairway.controllers.machines.writer import MachineWriter
from fairway.workloads.machines import events, instructions
from fairway.workloads.machines.events import Event, Observation, Stage
from fairway.workloads.machines.machine import VIRTUAL_MACHINE, Machine
from fairway.workloads.machines.migration import Migration, Phase
from fairway.workloads.machines.migration_record import ANNOTATION, HypervisorObject
from fairway.workloads.machines.migrator import Migrator
from fairway.workloads.machines.neonvm import moved_at
from kubewire.api.resource import Resource
from kubewire.client import Conflict, Informer, KubeError

log: Final = logging.getLogger(__name__)


class MachineSteps:
    """``records`` is None while the hub does not serve MachineMigrations."""

    def __init__(
        self,
        *,
        writer: MachineWriter,
        migrators: Mapping[str, Migrator],
        hypervisors: Hypervisors,
        records: Informer[MachineMigration] | None,
    ) -> None:
        self._writer, self._migrators, self._hypervisors = writer, migrators, hypervisors
        self._records = records
        self._kinds: dict[str, Resource[Any]] = {
            hypervisor.migrations.resource.kind: hypervisor.migrations.resource
            for hypervisor in hypervisors.values()
        }

    def observation(self, migration: Migration) -> events.MigrationObserved:
        return events.MigrationObserved(migration.id, self._migrators[migration.kind].observe(migration))

    async def carry_out(self, instruction: Written) -> Sequence[Event]:
        """Carry out an instruction other than WritePermit. Return the events that report its result."""
        if isinstance(instruction, DeleteStray):
            kind, namespace, name = instruction.kind, instruction.namespace, instruction.name
            known = self._hypervisor_object(kind, namespace, name)
            await self._writer.delete_migration(kind, namespace, name, known)
            return ()
        assert not isinstance(instruction, instructions.WritePermit)
        migrator, perform = self._migrators[instruction.migration.kind], self._writer.perform
        match instruction:
            case instructions.WriteRecord(migration):
                return (await self._write_record(migration),)
            case instructions.DeleteRecord(migration):
                await self._delete_record(migration)
            case instructions.Prepare(migration):
                try:
                    await perform(migrator.prepare(migration), self._kinds)
                except Conflict as taken:
                    # Tried again, it would fail again; the next migration has another name.
                    failed = Observation(stage=Stage.FAILED, message=taken.message)
                    return (events.MigrationObserved(migration.id, failed),)
            case instructions.Transfer(migration):
                await perform(migrator.transfer(migration), self._kinds)
            case instructions.Cutover(migration):
                await perform(migrator.cutover(migration), self._kinds)
            case instructions.DeleteSource(migration):
                await self._writer.delete_pod(migration.source)
            case instructions.Abort(migration):
                await perform(migrator.abort(migration), self._kinds)
                return (self.observation(migration),)
        return ()

    async def write_permit(self, write: instructions.WritePermit, machine: Machine) -> Event:
        """Write the permit of a machine that exists. Return the event that reports the result."""
        machines = self._hypervisors[machine.kind].machines
        vm = machines.get(machine.vm, namespace=write.key.namespace)
        event: Event = events.PermitNotWritten(write.key)
        if vm is not None:
            try:
                event, written = await self._writer.write_permit(write, vm)
            except KubeError as error:
                log.debug(FAILED, write.key, error)
            else:
                if written is not None:
                    machines.observe(written)
        return event

    def _hypervisor_object(self, kind: str, namespace: str, name: str) -> HypervisorObject | None:
        known: HypervisorObject | None = self._hypervisors[kind].migrations.get(name, namespace=namespace)
        return known

    async def _write_record(self, migration: Migration) -> Event:
        event: Event = events.RecordNotWritten(migration.id, migration.revision)
        if self._records is not None:
            namespace = migration.source.namespace
            known = self._records.get(migration.id, namespace=namespace)
            object_ = self._hypervisor_object(migration.kind, namespace, migration.id)
            annotated = object_ is not None and ANNOTATION in object_.metadata.annotations
            try:
                written = await self._writer.write_record(migration, known, annotated=annotated)
            except KubeError as error:
                log.debug(FAILED, migration.id, error)
            else:
                if written is not None:
                    self._records.observe(written)
                event = events.RecordWritten(migration.id, migration.revision)
        return event

    async def _delete_record(self, migration: Migration) -> None:
        """Delete the objects of a migration that ended."""
        kind, namespace = migration.kind, migration.source.namespace
        if kind == VIRTUAL_MACHINE and migration.phase is Phase.CLEANED:
            await self._record_move(migration)
        known = self._hypervisor_object(kind, namespace, migration.id)
        await self._writer.delete_migration(kind, namespace, migration.id, known)

    async def _record_move(self, migration: Migration) -> None:
        """Write when a VirtualMachine moved, which a new leader needs. KubeVirt's pods show it themselves."""
        machines = self._hypervisors[migration.kind].machines
        vm = machines.get(migration.vm, namespace=migration.source.namespace)
        if vm is not None and (moved_at(vm) or 0) < migration.since:
            written = await self._writer.record_move(migration, vm)
            if written is not None:
                machines.observe(written)
