"""The room on nodes with virtual machines, as the plugin VirtualMachineAutoscaling asks for it."""

from fairway.controllers.machines.driver import MachineDriver
from fairway.controllers.machines.objects import NO_MACHINE, MachineObjects, key_of
from fairway.engine.ledger import Earmark, Ledger, LedgerError
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.nodes.pod_template import PodInfo
from fairway.workloads.machines import events


class LedgerRoom:
    """It is the plugin's ``MachineRoom``: it answers from the ledger of the term, and reserves in it."""

    def __init__(self, driver: MachineDriver, objects: MachineObjects) -> None:
        self._driver, self._objects = driver, objects

    @property
    def ledger(self) -> Ledger:
        return self._driver.state.ledger

    def amounts_of(self, info: PodInfo, /) -> ResourceList:
        return self._driver.amounts(info.pod)

    def objection(self, info: PodInfo, /) -> str | None:
        meta = info.pod.metadata
        pod = self._objects.pods.get((meta.namespace, meta.name))
        return NO_MACHINE if pod is not None and self._objects.lacks_machine(pod) else None

    def is_target(self, namespace: str, name: str, /) -> bool:
        return self._driver.state.table.migration_to(namespace, name) is not None

    def target_rejection(self, namespace: str, name: str, host: HostKey, /) -> str | None:
        return self._driver.state.target_rejection(namespace, name, host)

    def preemptible(self, info: PodInfo, host: HostKey, /) -> list[Earmark]:
        return self._driver.state.preemptible(host, by=key_of(info.pod), priority=info.priority)

    # The scheduler reports what these two change: the pod that they are called for must not wake by it.

    def assume(self, key: WorkloadKey, host: HostKey, amounts: ResourceList, /) -> str | None:
        migration = self._driver.state.table.migration_to(key.namespace, key.name)
        if migration is not None:
            self._driver.handle_all(events.TargetNominated(migration.id, host))
            rejection = self._driver.state.target_rejection(key.namespace, key.name, host)
            if rejection is not None:
                return rejection
        try:
            # Not with ``handle_all``, which takes any error for a broken state: the ledger may refuse the room.
            self._driver.handle(events.PodAssumed(key, host, amounts))
        except LedgerError as refused:
            return str(refused)
        return None

    def forget(self, key: WorkloadKey, /) -> None:
        if key in self._driver.state.table.assumed:
            self._driver.handle_all(events.PodForgotten(key))
