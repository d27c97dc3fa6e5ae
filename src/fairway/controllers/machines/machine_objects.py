"""Machines in what the informers show: which pods run which virtual machines, on which nodes."""

import logging
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from fairway.api.kubevirt import KUBEVIRT_GROUP, VirtualMachineInstance, VirtualMachineInstanceMigration
from fairway.api.node import Node
from fairway.api.pod import Pod
from fairway.api.pod_requests import amount_of
from fairway.api.quantity import QuantityError
from fairway.api.virtual_machine import NEON_GROUP, VirtualMachine, VirtualMachineMigration
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.fleet.instant import to_micros
from fairway.fleet.steps import Steps, strides
from fairway.machines import kubevirt
from fairway.machines.events import MachineObserved
from fairway.machines.kubevirt import INSTANCE_KIND, MIGRATION_LABEL
from fairway.machines.machine import VIRTUAL_MACHINE, Identity, Machine
from fairway.machines.migration import Migration, RecordError
from fairway.machines.neonvm import MIGRATION_KIND, demand_of, machine_of, record_of
from fairway.nodes.cells import in_milli_units
from fairway.nodes.pod_template import template_of

log: Final = logging.getLogger(__name__)

NO_MACHINE: Final = "the virtual machine of the pod is not known yet"
UNREADABLE_RECORD: Final = "ignoring %s %s/%s: %s"

K = TypeVar("K", bound=Hashable)
ObjectKey = tuple[str, str]
"""(namespace, name)."""


class MachineObjects:
    """The stores are live views of informers. ``index_all`` comes first; ``index`` and ``drop`` follow the changes of
    pods and nodes."""

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
    ) -> None:
        self.nodes, self.pods, self.machines, self.migrations = nodes, pods, machines, migrations
        self.instances = {} if instances is None else instances
        self.instance_migrations = {} if instance_migrations is None else instance_migrations
        self._has_instances = instances is not None
        self._resources = resources
        self.hosts: dict[str, HostKey] = {}
        self._on_node: dict[str, dict[ObjectKey, None]] = {}
        self._of_machine: dict[Identity, dict[ObjectKey, None]] = {}
        self._indexed: dict[ObjectKey, tuple[str, Identity | None]] = {}
        """Node and virtual machine under which a pod is indexed."""
        self._targets: dict[ObjectKey, ObjectKey] = {}
        """KubeVirt's target pods, by namespace and uid of their migration."""

    def index_all(self) -> Steps[None]:
        """Index all nodes and pods as they are now."""
        nodes, pods = list(self.nodes.values()), list(self.pods.values())
        for node in nodes:
            self.hosts[node.metadata.name] = host_of(node)
        for some in strides(pods):
            yield
            for pod in some:
                self.index(pod)

    def index(self, pod: Pod) -> None:
        key, vm = _key(pod), self.machine_name(pod)
        found = (pod.spec.nodeName, vm)
        if self._indexed.get(key) == found:
            return
        self.drop(pod)
        self._indexed[key] = found
        if found[0]:
            self._on_node.setdefault(found[0], {})[key] = None
        if vm is not None:
            self._of_machine.setdefault(vm, {})[key] = None
            if vm[0] == INSTANCE_KIND and MIGRATION_LABEL in pod.metadata.labels:
                self._targets[key[0], pod.metadata.labels[MIGRATION_LABEL]] = key

    def drop(self, pod: Pod) -> None:
        key = _key(pod)
        node, vm = self._indexed.pop(key, ("", None))
        _discard(self._on_node, node, key)
        if vm is not None:
            _discard(self._of_machine, vm, key)
        job = (key[0], pod.metadata.labels.get(MIGRATION_LABEL, ""))
        if self._targets.get(job) == key:
            del self._targets[job]

    def pods_on(self, node: str) -> list[Pod]:
        return self._existing(self._on_node.get(node, {}))

    def pods_of(self, vm: Identity) -> list[Pod]:
        """Return the pods of a virtual machine: the one that runs it, and targets of its migrations."""
        return self._existing(self._of_machine.get(vm, {}))

    def pod_of_migration(self, namespace: str, uid: str) -> Pod | None:
        """Return the target pod of a VirtualMachineInstanceMigration."""
        return self.pods.get(self._targets.get((namespace, uid), ("", "")))

    def target_of(self, migration: VirtualMachineMigration | VirtualMachineInstanceMigration) -> Pod | None:
        meta = migration.metadata
        if isinstance(migration, VirtualMachineInstanceMigration):
            return self.pod_of_migration(meta.namespace, meta.uid)
        return self.pods.get((meta.namespace, migration.status.targetPodName))

    def _existing(self, keys: Mapping[ObjectKey, None]) -> list[Pod]:
        return [self.pods[key] for key in keys if key in self.pods]

    def machine_name(self, pod: Pod) -> Identity | None:
        """Return the virtual machine of a pod. Owners decide: every user of the namespace may set a label."""
        namespace = pod.metadata.namespace
        for owner in pod.metadata.ownerReferences:
            group = owner.apiVersion.partition("/")[0]
            if group == KUBEVIRT_GROUP and owner.kind == INSTANCE_KIND and self._has_instances:
                return INSTANCE_KIND, namespace, owner.name
            if group != NEON_GROUP:
                continue
            if owner.kind == VIRTUAL_MACHINE:
                return VIRTUAL_MACHINE, namespace, owner.name
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
        owners = [each for each in pod.metadata.ownerReferences if each.kind == VIRTUAL_MACHINE]
        return vm if all(each.uid == vm.metadata.uid for each in owners) else None

    def instance_of_pod(self, pod: Pod) -> VirtualMachineInstance | None:
        """Return the VirtualMachineInstance of a pod; None if there is none."""
        name = self.machine_name(pod)
        found = None if name is None or name[0] != INSTANCE_KIND else self.instances.get(name[1:])
        if found is None:
            return None
        owners = [each for each in pod.metadata.ownerReferences if each.kind == INSTANCE_KIND]
        return found if all(each.uid == found.metadata.uid for each in owners) else None

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
        owned = any(
            each.apiVersion.partition("/")[0] == NEON_GROUP and each.kind in (VIRTUAL_MACHINE, MIGRATION_KIND)
            for each in pod.metadata.ownerReferences
        )
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

    def requests(self, pod: Pod) -> dict[str, int]:
        return self._counted(template_of(pod).requests)

    def capacity(self, node: Node) -> dict[str, int] | None:
        """Return what a node has of the counted resources; None if it does not say."""
        found: dict[str, int] = {}
        for resource in self._resources:
            if resource in node.status.allocatable:
                try:
                    amount = amount_of(resource, node.status.allocatable[resource])
                except QuantityError:
                    continue
                found[resource] = max(0, in_milli_units(resource, amount))
        return found or None

    def _counted(self, amounts: ResourceList) -> dict[str, int]:
        return {each: amounts[each] for each in self._resources if amounts.get(each)}

    def capacities(self) -> Steps[dict[HostKey, ResourceList | None]]:
        found: dict[HostKey, ResourceList | None] = {}
        for some in strides(list(self.nodes.values())):
            yield
            found.update({host_of(node): self.capacity(node) for node in some})
        return found

    def observe_all(self) -> Steps[list[MachineObserved]]:
        found: list[MachineObserved] = []
        for some in strides(list(self.pods.values())):
            yield
            found += [each for pod in some if (each := self.observed(pod)) is not None]
        return found

    def records(self) -> Iterator[Migration]:
        """Yield the migrations that this scheduler started, an earlier leader included."""
        for kind, objects in (
            (VIRTUAL_MACHINE, self.migrations.values()),
            (INSTANCE_KIND, self.instance_migrations.values()),
        ):
            for each in objects:
                try:
                    record = record_of(each)
                except RecordError as error:
                    log.warning(
                        UNREADABLE_RECORD, each.kind, each.metadata.namespace, each.metadata.name, error
                    )
                    continue
                if record is not None:
                    yield replace(record, kind=kind)


def _discard(index: dict[K, dict[ObjectKey, None]], entry: K, key: ObjectKey) -> None:
    keys = index.get(entry, {})
    keys.pop(key, None)
    if not keys:
        index.pop(entry, None)


def host_of(node: Node) -> HostKey:
    return HostKey(node.metadata.name, node.metadata.uid)


def key_of(pod: Pod) -> WorkloadKey:
    meta = pod.metadata
    return WorkloadKey(meta.namespace, meta.name, meta.uid)


def _key(pod: Pod) -> ObjectKey:
    return pod.metadata.namespace, pod.metadata.name
