"""What users see of permits and migrations: events about VirtualMachines and nodes, and metrics."""

from typing import Any

from fairway.controllers.machines.objects import MachineObjects
from fairway.controllers.machines.permit_metrics import PermitMetrics
from fairway.controllers.runtime.decision_history import MIGRATION, DecisionHistory
from fairway.engine.workload import WorkloadKey
from fairway.hosts.instant import SECOND, Micros
from fairway.workloads.machines.instructions import Alert
from fairway.workloads.machines.machine import Demand, Machine
from fairway.workloads.machines.migration import Migration, Phase
from fairway.workloads.machines.migration_story import REASONS, describe_migration
from kubewire.api.event import NORMAL, WARNING
from kubewire.client import Recorder


class MachineReports:
    def __init__(
        self,
        recorder: Recorder,
        metrics: PermitMetrics,
        objects: MachineObjects,
        *,
        history: DecisionHistory | None = None,
    ) -> None:
        self._history = history
        self._recorder, self._metrics, self._objects = recorder, metrics, objects
        self._denied: dict[WorkloadKey, Micros] = {}
        """Since when a machine's demand is denied."""

    def note_permit(self, key: WorkloadKey, demand: Demand, now: Micros) -> None:
        """Measure how long a machine waited until nothing of its demand is denied."""
        if demand.since is not None:
            self._denied.setdefault(key, demand.since)
        elif (began := self._denied.pop(key, None)) is not None:
            self._metrics.waited((now - began) / SECOND)

    def forget(self, key: WorkloadKey) -> None:
        self._denied.pop(key, None)

    def note_record(self, migration: Migration) -> None:
        """Record an event about a migration that begins, switches over or ends."""
        reason = REASONS.get(migration.phase)
        vm = self._objects.object_of(migration.identity)
        if reason is None or vm is None or (migration.phase is Phase.PLANNED and migration.revision > 1):
            return
        kind = WARNING if migration.phase is Phase.FAILED else NORMAL
        message = describe_migration(migration, self._names(migration))
        self._recorder.event(vm, reason=reason, message=message, type_=kind)
        if self._history is not None and (migration.phase is Phase.PLANNED or kind is WARNING):
            self._history.decided(
                MIGRATION,
                namespace=migration.source.namespace,
                name=migration.vm,
                before=(migration.source_host.name,),
                after=(migration.target_host.name,),
                cause=migration.reason.value,
                message=message,
                error=migration.message or reason if kind is WARNING else "",
            )

    def _names(self, migration: Migration) -> dict[WorkloadKey, str]:
        """Return the names of the machines that a migration makes room for."""
        names: dict[WorkloadKey, str] = {}
        for claim in migration.purpose:
            key = claim.beneficiary
            pod = self._objects.pods.get((key.namespace, key.name))
            vm = None if pod is None else self._objects.machine_name(pod)
            if vm is not None:
                names[key] = vm[2]
        return names

    def note_end(self, migration: Migration) -> None:
        self._metrics.ended(migration.phase)

    def alert(self, alert: Alert, machine: Machine | None) -> None:
        self._metrics.alerted(alert.reason)
        about: Any = self._objects.nodes.get(("", alert.host.name))
        if machine is not None and machine.vm:
            about = self._objects.object_of(machine.identity) or about
        if about is not None:
            self._recorder.event(about, reason=alert.reason, message=alert.message, type_=WARNING)
