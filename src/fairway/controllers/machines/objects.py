"""Machines in what the informers show: which pods run which virtual machines, on which nodes."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fairway.api.kubevirt import KUBEVIRT_GROUP, VirtualMachineInstance, VirtualMachineInstanceMigration
from fairway.api.machine_migration import MachineMigration
from fairway.api.node import Node
from fairway.api.pod import Pod
from fairway.api.pod_requests import amount_of
from fairway.api.virtual_machine import NEON_GROUP, VirtualMachine, VirtualMachineMigration
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import to_micros
from fairway.hosts.nodes.cells import in_milli_units
from fairway.hosts.nodes.pod_template import template_of
from fairway.hosts.steps import Steps, strides
from fairway.workloads.machines import kubevirt
from fairway.workloads.machines.events import MachineObserved
from fairway.workloads.machines.kubevirt import INSTANCE_KIND, MIGRATION_LABEL
from fairway.workloads.machines.machine import VIRTUAL_MACHINE, Identity, Machine
from fairway.workloads.machines.migration import Migration, RecordError
from fairway.workloads.machines.migration_record import HypervisorObject, annotated_record, migration_in
from fairway.workloads.machines.neonvm import MIGRATION_KIND, demand_of, machine_of
from fairway.workloads.machines.size import charge
from kubewire.api.quantity import QuantityError
from kubewire.client import Index

log: Final = logging.getLogger(__name__)

NO_MACHINE: Final = "the virtual machine of the pod is not known yet"
UNREADABLE_RECORD: Final = "ignoring %s %s/%s: %s"

UNFINISHED: Final = "unfinished"

ObjectKey = tuple[str, str]
"""(namespace, name)."""


OWNERS: Final[Mapping[str, str]] = {
    VIRTUAL_MACHINE: NEON_GROUP,
    MIGRATION_KIND: NEON_GROUP,
    INSTANCE_KIND: KUBEVIRT_GROUP,
}
"""The groups of the kinds that own the pods of virtual machines."""


def owners_of(pod: Pod) -> list[Identity]:
    """Return the machines and migrations that own a pod, and the migration of KubeVirt whose target its label says it
    is. These are the values of ``MachineIndexes.pods``."""
    meta = pod.metadata
    owners: list[Identity] = []
    for owner in meta.ownerReferences:
        # Most pods have an owner of another kind, and very many pods are indexed in one go.
        if owner.kind in OWNERS and OWNERS[owner.kind] == owner.apiVersion.partition("/")[0]:
            owners.append((owner.kind, meta.namespace, owner.name))
            if owner.kind == INSTANCE_KIND and MIGRATION_LABEL in meta.labels:
                owners.append((MIGRATION_LABEL, meta.namespace, meta.labels[MIGRATION_LABEL]))
    return owners


def moved_machine(migration: VirtualMachineMigration) -> tuple[ObjectKey]:
    return ((migration.metadata.namespace, migration.spec.vmName),)


def progress_of(migration: VirtualMachineInstanceMigration) -> tuple[str, ...]:
    return (UNFINISHED,) if kubevirt.is_unfinished(migration) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineIndexes:
    """What is found in the stores of informers without a search. Dry runs need none of it."""

    pods: Index[Pod] = field(default_factory=lambda: Index(owners_of, {}))
    migrations: Index[VirtualMachineMigration] = field(default_factory=lambda: Index(moved_machine, {}))
    instance_migrations: Index[VirtualMachineInstanceMigration] = field(
        default_factory=lambda: Index(progress_of, {})
    )
    """KubeVirt keeps very many that have ended; the others have the value ``UNFINISHED``."""


class MachineObjects:
    """The stores are live views of informers. ``load_hosts`` comes first."""

    def __init__(
        self,
        *,
        nodes: Mapping[ObjectKey, Node],
        pods: Mapping[ObjectKey, Pod],
        machines: Mapping[ObjectKey, VirtualMachine],
        migrations: Mapping[ObjectKey, VirtualMachineMigration],
        resources: tuple[str, ...],
        instances: Mapping[ObjectKey, VirtualMachineInstance] | None = None,
        instance_migrations: Mapping[ObjectKey, VirtualMachineInstanceMigration] | None = None,
        recorded: Mapping[ObjectKey, MachineMigration] | None = None,
        indexes: MachineIndexes | None = None,
    ) -> None:
        self.nodes, self.pods, self.machines, self.migrations = nodes, pods, machines, migrations
        self.instances = {} if instances is None else instances
        self.instance_migrations = {} if instance_migrations is None else instance_migrations
        self.recorded = {} if recorded is None else recorded
        self._has_instances = instances is not None
        self._resources = resources
        self.hosts: dict[str, HostKey] = {}
        self._indexes = MachineIndexes() if indexes is None else indexes

    def load_hosts(self) -> Steps[None]:
        """Take all nodes as they are now."""
        for nodes in strides(list(self.nodes.values())):
            yield
            for node in nodes:
                self.hosts[node.metadata.name] = host_of(node)

    def unfinished(self) -> list[VirtualMachineInstanceMigration]:
        """Return the migrations of KubeVirt that have not ended."""
        return self._indexes.instance_migrations.find(UNFINISHED)

    def pods_of(self, vm: Identity) -> list[Pod]:
        """Return the pods of a virtual machine: the one that runs it, and targets of its migrations."""
        migrations = self._indexes.migrations.find(vm[1:]) if vm[0] == VIRTUAL_MACHINE else []
        owners = [vm, *((MIGRATION_KIND, vm[1], migration.metadata.name) for migration in migrations)]
        pods = {key_of(pod): pod for owner in owners for pod in self._indexes.pods.find(owner)}
        return [pod for pod in pods.values() if self.machine_name(pod) == vm]

    def pod_of_migration(self, namespace: str, uid: str) -> Pod | None:
        """Return the target pod of a VirtualMachineInstanceMigration."""
        return next(reversed(self._indexes.pods.find((MIGRATION_LABEL, namespace, uid))), None)

    def target_of(self, migration: VirtualMachineMigration | VirtualMachineInstanceMigration) -> Pod | None:
        meta = migration.metadata
        if isinstance(migration, VirtualMachineInstanceMigration):
            return self.pod_of_migration(meta.namespace, meta.uid)
        return self.pods.get((meta.namespace, migration.status.targetPodName))

    def machine_name(self, pod: Pod) -> Identity | None:
        """Return the virtual machine of a pod. Owners decide: every user of the namespace may set a label."""
        namespace = pod.metadata.namespace
        for owner in pod.metadata.ownerReferences:
            if OWNERS.get(owner.kind) != owner.apiVersion.partition("/")[0]:
                continue
            if owner.kind == VIRTUAL_MACHINE or (owner.kind == INSTANCE_KIND and self._has_instances):
                return owner.kind, namespace, owner.name
            if owner.kind == MIGRATION_KIND:
                migration = self.migrations.get((namespace, owner.name))
                if migration is not None and migration.metadata.uid == owner.uid:
                    return VIRTUAL_MACHINE, namespace, migration.spec.vmName
        return None

    def machine_of_pod(self, pod: Pod) -> VirtualMachine | None:
        """Return the VirtualMachine that owns a pod, or None for other pods."""
        name = self.machine_name(pod)
        vm = None if name is None or name[0] != VIRTUAL_MACHINE else self.machines.get(name[1:])
        if vm is None:
            return None
        owners = [owner for owner in pod.metadata.ownerReferences if owner.kind == VIRTUAL_MACHINE]
        return vm if all(owner.uid == vm.metadata.uid for owner in owners) else None

    def instance_of_pod(self, pod: Pod) -> VirtualMachineInstance | None:
        """Return the VirtualMachineInstance of a pod; None if there is none."""
        name = self.machine_name(pod)
        instance = None if name is None or name[0] != INSTANCE_KIND else self.instances.get(name[1:])
        if instance is None:
            return None
        owners = [owner for owner in pod.metadata.ownerReferences if owner.kind == INSTANCE_KIND]
        return instance if all(owner.uid == instance.metadata.uid for owner in owners) else None

    def object_of(self, identity: Identity) -> VirtualMachine | VirtualMachineInstance | None:
        kind, namespace, name = identity
        if kind == INSTANCE_KIND:
            return self.instances.get((namespace, name))
        return self.machines.get((namespace, name))

    def machine_in(self, pod: Pod, host: HostKey) -> MachineObserved | None:
        """Return the virtual machine in a pod, with its request, as it is on a node; None for other pods."""
        priority = pod.spec.priority or 0
        if (vm := self.machine_of_pod(pod)) is not None:
            return MachineObserved(machine_of(vm, pod, host, priority=priority), demand_of(vm))
        if (instance := self.instance_of_pod(pod)) is not None:
            requests = self.requests(pod)
            return MachineObserved(
                kubevirt.machine_of(instance, pod, host, requests=requests, priority=priority)
            )
        return None

    def lacks_machine(self, pod: Pod) -> bool:
        """Return whether a pod belongs to a virtual machine that is not observed yet, or exists no longer."""
        name = self.machine_name(pod)
        if name is not None and name[0] == INSTANCE_KIND:
            return self.instance_of_pod(pod) is None
        owned = any(kind in (VIRTUAL_MACHINE, MIGRATION_KIND) for kind, _, _ in owners_of(pod))
        return owned and self.machine_of_pod(pod) is None

    def observed(self, pod: Pod) -> MachineObserved | None:
        """Return what the machines' state is to know about a pod; None if it uses no node that exists."""
        host = self.hosts.get(pod.spec.nodeName)
        if host is None or pod.finished:
            return None
        if (machine := self.machine_in(pod, host)) is not None:
            return machine
        created = pod.metadata.creationTimestamp
        return MachineObserved(
            Machine(
                key=key_of(pod),
                host=host,
                using=self.requests(pod),
                priority=pod.spec.priority or 0,
                created=0 if created is None else to_micros(created),
            )
        )

    def amounts(self, pod: Pod) -> ResourceList:
        """Return what a pod is going to count on a node: the size and permit of its machine, or its requests."""
        observed = self.machine_in(pod, HostKey("", ""))
        if observed is None:
            return self.requests(pod)
        machine, demand = observed.machine, observed.demand
        approved = machine.using if demand is None else demand.approved
        size = {name: max(amount, approved.get(name, 0)) for name, amount in machine.using.items()}
        return charge(size, machine.factors)

    def requests(self, pod: Pod) -> dict[str, int]:
        return self._counted(template_of(pod).requests)

    def capacity(self, node: Node) -> dict[str, int] | None:
        """Return what a node has of the counted resources; None if it does not say."""
        capacity: dict[str, int] = {}
        for resource in self._resources:
            if resource in node.status.allocatable:
                try:
                    amount = amount_of(resource, node.status.allocatable[resource])
                except QuantityError:
                    continue
                capacity[resource] = max(0, in_milli_units(resource, amount))
        return capacity or None

    def _counted(self, amounts: ResourceList) -> dict[str, int]:
        return {resource: amounts[resource] for resource in self._resources if amounts.get(resource)}

    def capacities(self) -> Steps[dict[HostKey, ResourceList | None]]:
        capacities: dict[HostKey, ResourceList | None] = {}
        for some in strides(list(self.nodes.values())):
            yield
            capacities.update({host_of(node): self.capacity(node) for node in some})
        return capacities

    def observe_all(self) -> Steps[list[MachineObserved]]:
        observations: list[MachineObserved] = []
        for some in strides(list(self.pods.values())):
            yield
            observations += [observation for pod in some if (observation := self.observed(pod)) is not None]
        return observations

    def records(self) -> Iterator[Migration]:
        """Yield the migrations that this scheduler started, an earlier leader or version included."""
        for recorded in self.recorded.values():
            record = read_record(recorded)
            if record is not None:
                yield record
        for kind, objects in (
            (VIRTUAL_MACHINE, self.migrations.values()),
            (INSTANCE_KIND, self.instance_migrations.values()),
        ):
            for object_ in objects:
                meta = object_.metadata
                record = None if (meta.namespace, meta.name) in self.recorded else read_annotation(object_)
                if record is not None:
                    yield replace(record, kind=kind)


def read_record(recorded: MachineMigration) -> Migration | None:
    """Return the migration that an object records; None if it is unreadable."""
    try:
        return migration_in(recorded)
    except RecordError as error:
        meta = recorded.metadata
        log.warning(UNREADABLE_RECORD, recorded.kind, meta.namespace, meta.name, error)
        return None


def read_annotation(object_: HypervisorObject) -> Migration | None:
    """Return the record that an earlier version wrote to an object; None if there is none, or an unreadable one."""
    try:
        return annotated_record(object_)
    except RecordError as error:
        meta = object_.metadata
        log.warning(UNREADABLE_RECORD, object_.kind, meta.namespace, meta.name, error)
        return None


def host_of(node: Node) -> HostKey:
    return HostKey.of(node.metadata)


def key_of(pod: Pod) -> WorkloadKey:
    meta = pod.metadata
    return WorkloadKey.of(meta)
