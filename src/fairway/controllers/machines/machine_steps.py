"""Carry out the instructions of the machines' state that write to the hub."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairway.controllers.leadership import Leadership
from fairway.controllers.machines.hypervisors import Hypervisors
from fairway.controllers.machines.machine_lanes import Lane, MachineLanes, Written
from fairway.controllers.machines.machine_writer import MachineWriter
from fairway.kube import Backoff, KubeError, TokenBucket, WorkQueue
from fairway.kube.fence import Lost, Unconfirmed
from fairway.kube.log_throttle import retry_level
from fairway.kube.resource import Resource
from fairway.machines import events, instructions
from fairway.machines.events import Event
from fairway.machines.machine import VIRTUAL_MACHINE
from fairway.machines.migration import Migration, Phase
from fairway.machines.migrator import Migrator
from fairway.machines.neonvm import moved_at
from fairway.machines.state import MachineState

log: Final = logging.getLogger(__name__)

WORKERS: Final = 8
BACKOFF: Final = Backoff(base=0.05, cap=30.0)
FAILED: Final = "cannot write, retrying  object=%s error=%s"
BROKE: Final = "unexpected error, retrying  object=%s"


class MachineSteps:
    """``state`` returns the current state, ``send`` takes the events that report results."""

    def __init__(
        self,
        *,
        writer: MachineWriter,
        migrators: Mapping[str, Migrator],
        hypervisors: Hypervisors,
        state: Callable[[], MachineState],
        send: Callable[[Event], None],
    ) -> None:
        self._writer, self._migrators, self._hypervisors = writer, migrators, hypervisors
        self._state, self._send = state, send
        self._kinds: dict[str, Resource[Any]] = {
            each.migrations.resource.kind: each.migrations.resource for each in hypervisors.values()
        }
        self.queue: WorkQueue[Lane] = WorkQueue(backoff=BACKOFF, bucket=TokenBucket(burst=1000, every=0.01))
        self.lanes = MachineLanes(self.queue)

    def add(self, instruction: Written) -> None:
        self.lanes.add(instruction)

    def observation(self, migration: Migration) -> events.MigrationObserved:
        return events.MigrationObserved(migration.id, self._migrators[migration.kind].observe(migration))

    async def run(self, leadership: Leadership) -> None:
        """Run until cancelled. Raises Lost when the term ends."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(WORKERS):
                    group.create_task(self._work(leadership))
        except* Lost as lost:
            raise Lost(str(lost.exceptions[0])) from None

    async def _work(self, leadership: Leadership) -> None:
        while True:
            async with self.queue.take() as lane:
                try:
                    async with leadership.batch():
                        while (instruction := self.lanes.first(lane)) is not None:
                            await self._carry_out(instruction)
                            self.lanes.finish(lane, instruction)
                except Lost:
                    raise
                except (KubeError, Unconfirmed) as error:
                    level = retry_level(error, retries=self.queue.retries(lane))
                    log.log(level, FAILED, "/".join(lane), error)
                    self.queue.add_rate_limited(lane)
                except Exception:
                    log.exception(BROKE, "/".join(lane))
                    self.queue.add_rate_limited(lane)
                else:
                    self.queue.forget(lane)

    async def _carry_out(self, instruction: Written) -> None:
        if isinstance(instruction, instructions.WritePermit):
            await self._write_permit(instruction)
            return
        migrator, perform = self._migrators[instruction.migration.kind], self._writer.perform
        match instruction:
            case instructions.WriteRecord(migration):
                await self._write_record(migration)
            case instructions.DeleteRecord(migration):
                await self._delete_record(migration)
            case instructions.Prepare(migration):
                await perform(migrator.prepare(migration), self._kinds)
            case instructions.Transfer(migration):
                await perform(migrator.transfer(migration), self._kinds)
            case instructions.Cutover(migration):
                await perform(migrator.cutover(migration), self._kinds)
            case instructions.DeleteSource(migration):
                await self._writer.delete_pod(migration.source)
            case instructions.Abort(migration):
                await perform(migrator.abort(migration), self._kinds)
                self._send(self.observation(migration))

    async def _write_permit(self, write: instructions.WritePermit) -> None:
        machine = self._state().permits.machines.get(write.key)
        if machine is None:
            return  # it was deleted, and its demand with it
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
        self._send(event)

    async def _write_record(self, migration: Migration) -> None:
        migrations = self._hypervisors[migration.kind].migrations
        known = migrations.get(migration.id, namespace=migration.source.namespace)
        try:
            written = await self._writer.write_record(migration, known)
        except KubeError as error:
            log.debug(FAILED, migration.id, error)
            self._send(events.RecordNotWritten(migration.id, migration.revision))
            return
        if written is not None:
            migrations.observe(written)
        self._send(events.RecordWritten(migration.id, migration.revision))

    async def _delete_record(self, migration: Migration) -> None:
        """Delete the object of a migration that ended."""
        if migration.kind == VIRTUAL_MACHINE and migration.phase is Phase.CLEANED:
            await self._record_move(migration)
        await self._writer.delete_record(migration)

    async def _record_move(self, migration: Migration) -> None:
        """Write when a VirtualMachine moved, which a new leader needs. KubeVirt's pods show it themselves."""
        machines = self._hypervisors[migration.kind].machines
        vm = machines.get(migration.vm, namespace=migration.source.namespace)
        if vm is not None and (moved_at(vm) or 0) < migration.since:
            written = await self._writer.record_move(migration, vm)
            if written is not None:
                machines.observe(written)
