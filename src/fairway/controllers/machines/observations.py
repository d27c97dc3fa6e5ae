"""What informers show of nodes, pods, virtual machines and migrations, as events of the machines' state."""

import logging
from dataclasses import replace
from typing import Final

from fairway.api.kubevirt import VirtualMachineInstanceMigration
from fairway.api.machine_migration import MachineMigration
from fairway.api.node import Node
from fairway.api.pod import Pod
from fairway.controllers.machines.driver import MachineDriver
from fairway.controllers.machines.hypervisors import (
    HYPERVISORS,
    Hypervisors,
    MachineObject,
    MigrationObject,
    find_record,
)
from fairway.controllers.machines.lanes import DeleteStray, MigrationLane
from fairway.controllers.machines.objects import (
    MachineObjects,
    host_of,
    key_of,
    read_annotation,
    read_record,
)
from fairway.controllers.machines.reports import MachineReports
from fairway.controllers.pods.scheduling import SchedulingHooks
from fairway.controllers.runtime.store_changes import StoreChanges
from fairway.engine.dependencies import Event as QueueEvent
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.direction import Direction
from fairway.hosts.resources import grantable
from fairway.hosts.steps import Steps
from fairway.workloads.machines import events
from fairway.workloads.machines.events import Observation, Stage
from fairway.workloads.machines.machine import Identity
from fairway.workloads.machines.migration import Migration
from fairway.workloads.machines.migration_record import ANNOTATION, RECORD_KIND, is_ours
from fairway.workloads.machines.migrator import OBJECT_DELETED
from fairway.workloads.machines.state import NOMINATION
from kubewire.client import Informer

log: Final = logging.getLogger(__name__)

STRAY: Final = "deleting the migration %s/%s of a %s: a former leader created it, or its record was deleted"
MACHINE_OBSERVED: Final = "virtual machine observed"


class MachineObservations:
    def __init__(
        self,
        *,
        hypervisors: Hypervisors,
        records: Informer[MachineMigration] | None,
        objects: MachineObjects,
        driver: MachineDriver,
        reports: MachineReports,
        hooks: SchedulingHooks,
        resources: tuple[str, ...],
    ) -> None:
        self._hypervisors, self._records = hypervisors, records
        self._objects, self._driver, self._reports = objects, driver, reports
        self._hooks, self._resources = hooks, resources
        self._store_changes = StoreChanges()

    def load(self) -> Steps[None]:
        """Take the nodes that the hub shows now. Changes of machines and migrations wait for ``release``."""
        changes = self._store_changes
        changes.hold()
        for hypervisor in self._hypervisors.values():
            changes.follow(hypervisor.machines, self._machine_changed, self._machine_changed)
            changes.follow(hypervisor.migrations, self._migration_changed, self._migration_deleted)
        if self._records is not None:
            changes.follow(self._records, self._record_changed, self._record_deleted)
        changes.hold()  # the first batches have all objects, which are listed now
        yield from self._objects.load_hosts()

    def release(self) -> None:
        """Report what changed since ``load``, and all later changes."""
        self._store_changes.release()

    def close(self) -> None:
        self._store_changes.close()

    def review_strays(self) -> None:
        """Cancel the migrations that a former leader left without a record."""
        for hypervisor in self._hypervisors.values():
            for migration in hypervisor.migrations.store.values():
                self._review_stray(migration)

    # Nodes and pods

    def upsert_node(self, node: Node) -> None:
        name, host = node.metadata.name, host_of(node)
        known = self._objects.hosts.get(name)
        if known is not None and known != host:
            self._lose(known)
            known = None
        self._objects.hosts[name] = host
        capacity = self._objects.capacity(node)
        account = self._driver.state.ledger.account(host)
        if account is None or account.capacity != capacity:
            self._driver.send(events.HostObserved(host, capacity))
        if known is None:
            for key in list(self._hooks.fleet.pods_on(name)):
                # The fleet has pods that are about to be bound, too: those count once the hub shows them there.
                pod = self._objects.pods.get(key)
                if pod is not None and pod.spec.nodeName == name:
                    self._observe_pod(pod)

    def delete_node(self, node: Node) -> None:
        if self._objects.hosts.get(node.metadata.name) == host_of(node):
            del self._objects.hosts[node.metadata.name]
        self._lose(host_of(node))

    def _lose(self, host: HostKey) -> None:
        if self._driver.state.ledger.account(host) is not None:
            self._driver.send(events.HostGone(host))

    def upsert_pod(self, pod: Pod) -> None:
        self._observe_pod(pod)
        self._review_nominations(key_of(pod))
        if pod.finished:  # KubeVirt keeps the pods that machines have left
            self._observe_machine(self._objects.machine_name(pod))
        else:
            self._observe_migrations(self._objects.machine_name(pod))

    def delete_pod(self, pod: Pod) -> None:
        self._remove(key_of(pod))
        self._review_nominations(key_of(pod))
        self._observe_machine(self._objects.machine_name(pod))

    def _observe_pod(self, pod: Pod) -> None:
        observed, key = self._objects.observed(pod), key_of(pod)
        if observed is None:
            self._remove(key)
            return
        known = self._driver.state.table.machine(key)
        if known is not None and known.vm and not observed.machine.vm:
            return  # the virtual machine was deleted, and its pod still uses the room
        machine = observed.machine
        if known is not None and known.moved is not None:
            # The annotation is written at the end of the migration, after the pod has got another owner.
            machine = replace(machine, moved=max(known.moved, machine.moved or 0))
        # After a migration that another client started, no pod runs the machine until the new one is observed again.
        if known != machine or (machine.vm and self._driver.state.table.owner_of(machine.identity) is None):
            self._driver.send(replace(observed, machine=machine))

    def _review_nominations(self, key: WorkloadKey) -> None:
        """Give back room that was kept for a pod which does not wait for it any more."""
        for host in self._driver.state.ledger.earmarked_for(key):
            account = self._driver.state.ledger.account(host)
            name = f"{NOMINATION}/{key.namespace}/{key.name}"
            waits = self._hooks.fleet.nominations.get((key.namespace, key.name)) == host.name
            if account is not None and name in account.earmarks and not waits:
                self._driver.send(events.HostObserved(host, account.capacity))

    def _remove(self, key: WorkloadKey) -> None:
        self._reports.forget(key)
        if key in self._driver.state.table.machines:
            self._driver.send(events.MachineGone(key))

    # Machines and migrations

    def _machine_changed(self, vm: MachineObject) -> None:
        self._observe_machine((vm.kind, vm.metadata.namespace, vm.metadata.name))

    def _observe_machine(self, vm: Identity | None) -> None:
        if vm is not None:
            pods = self._objects.pods_of(vm)
            for pod in pods:
                self._observe_pod(pod)
            self._observe_migrations(vm)
            if any(not pod.spec.nodeName for pod in pods):
                columns = {grantable(resource): Direction.UP for resource in self._resources}
                self._hooks.wake(QueueEvent(label=MACHINE_OBSERVED, columns=columns))

    def _observe_migrations(self, vm: Identity | None) -> None:
        for migration in self._driver.state.table.all_migrations():
            if migration.identity == vm:
                self._driver.observe_migration(migration)

    def _migration_changed(self, migration: MigrationObject) -> None:
        target = self._objects.target_of(migration)
        if target is not None:
            # The pod may have been reported before its owner.
            self._observe_pod(target)
        record = find_record(migration, self._driver.state.table.migration)
        if record is not None:
            self._driver.observe_migration(record)
        else:
            self._review_stray(migration)
        self._migrations_changed(migration)

    def _migrations_changed(self, migration: MigrationObject) -> None:
        if isinstance(migration, VirtualMachineInstanceMigration):
            self._driver.review_limits()

    def _review_stray(self, object_: MigrationObject) -> None:
        """Cancel a migration without a record, or one that a former leader created after this term began."""
        meta = object_.metadata
        if (
            not is_ours(object_)
            or meta.deletionTimestamp is not None
            or find_record(object_, self._driver.state.table.migration) is not None
            or (meta.namespace, meta.name) in self._objects.recorded
            or (ANNOTATION in meta.annotations and read_annotation(object_) is None)
        ):
            return
        kind = next(kind for kind, kinds in HYPERVISORS.items() if kinds.migrations.kind == object_.kind)
        self._delete_stray(DeleteStray(kind=kind, namespace=meta.namespace, name=meta.name))

    def _delete_stray(self, stray: DeleteStray) -> None:
        # Without the kind of records, a migration of an earlier term looks like a stray one.
        waiting = self._driver.lanes.is_waiting(MigrationLane(stray.namespace, stray.name))
        if self._driver.is_running and self._records is not None and not waiting:
            log.info(STRAY, stray.namespace, stray.name, stray.kind)
            self._driver.lanes.add(stray)

    def _migration_deleted(self, migration: MigrationObject) -> None:
        record = find_record(migration, self._driver.state.table.migration)
        if record is not None:
            self._note_deleted(record, migration.kind)
        self._migrations_changed(migration)

    def _note_deleted(self, record: Migration, kind: str) -> None:
        if record.cancellable:
            failed = Observation(stage=Stage.FAILED, message=OBJECT_DELETED.format(kind=kind))
            self._driver.send(events.MigrationObserved(record.id, failed))
        else:
            self._driver.observe_migration(record)

    def _record_changed(self, recorded: MachineMigration) -> None:
        meta = recorded.metadata
        if self._recorded_here(recorded) is None and meta.deletionTimestamp is None:
            record = read_record(recorded)
            if record is not None and record.kind in self._hypervisors:
                self._delete_stray(DeleteStray(kind=record.kind, namespace=meta.namespace, name=meta.name))

    def _record_deleted(self, recorded: MachineMigration) -> None:
        record = self._recorded_here(recorded)
        if record is not None:
            self._note_deleted(record, RECORD_KIND)

    def _recorded_here(self, recorded: MachineMigration) -> Migration | None:
        record = self._driver.state.table.migration(recorded.metadata.name)
        return (
            record if record is not None and record.source.namespace == recorded.metadata.namespace else None
        )
