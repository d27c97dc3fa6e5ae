"""Nodes, pods, virtual machines and migrations as the scheduler would see them, rebuilt from objects alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec import structs

from fairway.api.kubevirt import VirtualMachineInstance, VirtualMachineInstanceMigration
from fairway.api.machine_migration import MachineMigration
from fairway.api.node import Node
from fairway.api.persistent_volume import PersistentVolume, PersistentVolumeClaim
from fairway.api.pod import Pod
from fairway.api.pod_disruption_budget import PodDisruptionBudget
from fairway.api.pod_owner import PodOwner
from fairway.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from fairway.api.virtual_machine import VirtualMachine, VirtualMachineMigration
from fairway.controllers.kinds import Namespace
from fairway.controllers.machines.objects import NO_MACHINE, MachineObjects
from fairway.engine import cycle
from fairway.engine.ledger import Earmark, Ledger, LedgerColumns
from fairway.engine.outcome import Outcome
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import Micros
from fairway.hosts.nodes import NodeFleet
from fairway.hosts.nodes.pod_owners import PodOwners
from fairway.hosts.nodes.pod_template import PodInfo
from fairway.hosts.steps import finish
from fairway.scheduling import Scheduling
from fairway.workloads.machines.machine import Machine
from fairway.workloads.machines.moves import Work
from fairway.workloads.machines.settings import MachineSettings
from fairway.workloads.machines.state import MachineState
from fairway.workloads.pods import pod_registry, pod_workload
from fairway.workloads.pods.profile import profile_beside_machines
from kubewire.api.resource import Key, KubeStruct, key_of

NOT_BOOKED = "a what-if books nothing"

T = TypeVar("T", bound=KubeStruct)


@dataclass(frozen=True, kw_only=True)
class ClusterObjects:
    """Objects by namespace and name."""

    nodes: Mapping[Key, Node] = field(default_factory=dict)
    pods: Mapping[Key, Pod] = field(default_factory=dict)
    machines: Mapping[Key, VirtualMachine] = field(default_factory=dict)
    migrations: Mapping[Key, VirtualMachineMigration] = field(default_factory=dict)
    instances: Mapping[Key, VirtualMachineInstance] = field(default_factory=dict)
    instance_migrations: Mapping[Key, VirtualMachineInstanceMigration] = field(default_factory=dict)
    recorded: Mapping[Key, MachineMigration] = field(default_factory=dict)
    namespaces: Mapping[Key, Namespace] = field(default_factory=dict)
    claims: Mapping[Key, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[Key, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[Key, StorageClass] = field(default_factory=dict)
    drivers: Mapping[Key, CSIDriver] = field(default_factory=dict)
    csi_nodes: Mapping[Key, CSINode] = field(default_factory=dict)
    capacities: Mapping[Key, CSIStorageCapacity] = field(default_factory=dict)
    attachments: Mapping[Key, VolumeAttachment] = field(default_factory=dict)
    budgets: Mapping[Key, PodDisruptionBudget] = field(default_factory=dict)
    owners: Sequence[PodOwner] = ()

    @classmethod
    def of(cls, objects: Iterable[Any]) -> "ClusterObjects":
        """Sort objects by kind; others are ignored."""
        every = list(objects)

        def by_key(kind: type[T]) -> dict[Key, T]:
            return {key_of(object_): object_ for object_ in every if isinstance(object_, kind)}

        return cls(
            nodes=by_key(Node),
            pods=by_key(Pod),
            machines=by_key(VirtualMachine),
            migrations=by_key(VirtualMachineMigration),
            instances=by_key(VirtualMachineInstance),
            instance_migrations=by_key(VirtualMachineInstanceMigration),
            recorded=by_key(MachineMigration),
            namespaces=by_key(Namespace),
            claims=by_key(PersistentVolumeClaim),
            volumes=by_key(PersistentVolume),
            classes=by_key(StorageClass),
            drivers=by_key(CSIDriver),
            csi_nodes=by_key(CSINode),
            capacities=by_key(CSIStorageCapacity),
            attachments=by_key(VolumeAttachment),
            budgets=by_key(PodDisruptionBudget),
            owners=[object_ for object_ in every if isinstance(object_, PodOwner)],
        )

    def without_pod(self, key: Key) -> "ClusterObjects":
        pods = {other: pod for other, pod in self.pods.items() if other != key}
        return ClusterObjects(**{**vars(self), "pods": pods})

    def with_nodes(self, nodes: Mapping[Key, Node]) -> "ClusterObjects":
        return ClusterObjects(**{**vars(self), "nodes": nodes})


class NoTargets:
    """A what-if plans no migrations."""

    def feasible(self, _machine: Machine, _work: Work) -> Sequence[HostKey]:
        return ()


def machine_state(
    cluster: ClusterObjects, settings: MachineSettings, *, now: Micros
) -> tuple[MachineState, MachineObjects]:
    """Return the state of the machines, and what it was rebuilt from."""
    objects = MachineObjects(
        nodes=cluster.nodes,
        pods=cluster.pods,
        machines=cluster.machines,
        migrations=cluster.migrations,
        resources=settings.resources,
        # Without them, the pods of instances count as other pods.
        instances=cluster.instances or None,
        instance_migrations=cluster.instance_migrations,
        recorded=cluster.recorded,
    )
    finish(objects.load_hosts())
    state = MachineState.rebuild(
        policy=settings.policy,
        oracle=NoTargets(),
        hosts=finish(objects.capacities()).items(),
        machines=finish(objects.observe_all()),
        records=objects.records(),
        now=now,
    )
    return state, objects


class ObservedRoom:
    """The room on nodes with virtual machines, for the plugin VirtualMachineAutoscaling."""

    def __init__(
        self,
        state: MachineState,
        objects: MachineObjects,
        *,
        sizes: Mapping[Key, ResourceList] | None = None,
    ) -> None:
        self._state, self._objects = state, objects
        self._sizes = sizes or {}
        """Sizes that replace those of the machines of some pods."""

    @property
    def ledger(self) -> Ledger:
        return self._state.ledger

    def runs_machine(self, pod: Pod) -> bool:
        return self._objects.machine_in(pod, HostKey("", "")) is not None

    def amounts_of(self, info: PodInfo, /) -> ResourceList:
        return self.amounts(info.pod)

    def amounts(self, pod: Pod) -> ResourceList:
        """Return what a pod counts on a node: the size of its machine, or its requests."""
        if self.runs_machine(pod):
            if key_of(pod) in self._sizes:
                return self._sizes[key_of(pod)]
            migration = self._state.table.migration_to(pod.metadata.namespace, pod.metadata.name)
            if migration is not None:
                return migration.amounts
        return self._objects.amounts(pod)

    def objection(self, info: PodInfo, /) -> str | None:
        return NO_MACHINE if self._objects.lacks_machine(info.pod) else None

    def is_target(self, namespace: str, name: str, /) -> bool:
        return self._state.table.migration_to(namespace, name) is not None

    def target_rejection(self, namespace: str, name: str, host: HostKey, /) -> str | None:
        return self._state.target_rejection(namespace, name, host)

    def preemptible(self, info: PodInfo, host: HostKey, /) -> list[Earmark]:
        meta = info.pod.metadata
        by = WorkloadKey.of(meta)
        return self._state.preemptible(host, by=by, priority=info.priority)

    def assume(self, _key: WorkloadKey, _host: HostKey, _amounts: ResourceList, /) -> str | None:
        return NOT_BOOKED

    def forget(self, _key: WorkloadKey, /) -> None:
        """Nothing was booked."""


class PodWorld:
    """The profiles of pods over the objects: it dry-runs cycles, and commits nothing."""

    def __init__(
        self,
        cluster: ClusterObjects,
        scheduling: Scheduling,
        settings: MachineSettings,
        *,
        now: Micros,
        sizes: Mapping[Key, ResourceList] | None = None,
    ) -> None:
        self._now = now
        self.state, objects = machine_state(cluster, settings, now=now)
        self.room = ObservedRoom(self.state, objects, sizes=sizes)
        self.fleet = NodeFleet()
        self.fleet.load(cluster.nodes.values())
        self.fleet.load_others(
            namespaces={
                namespace.metadata.name: namespace.metadata.labels
                for namespace in cluster.namespaces.values()
            },
            claims=cluster.claims.values(),
            volumes=cluster.volumes.values(),
            classes=cluster.classes.values(),
            drivers=cluster.drivers.values(),
            csi_nodes=cluster.csi_nodes.values(),
            capacities=cluster.capacities.values(),
            attachments=cluster.attachments.values(),
            budgets=cluster.budgets.values(),
        )
        for pod in cluster.pods.values():
            self.fleet.upsert_pod(pod)
        owners = PodOwners()
        for owner in cluster.owners:
            owners.upsert(owner)
        LedgerColumns(self.state.ledger, self.fleet)
        registry = pod_registry(
            fleet=self.fleet,
            room=self.room if cluster.machines or cluster.instances else None,
            owners=owners,
        )
        profiles = scheduling.build(
            registry, change=lambda spec: profile_beside_machines(spec, settings.plugin).deciding()
        )
        self.profiles = {profile.name: profile for profile in profiles}

    def preview(self, pod: Pod) -> Outcome | None:
        """Return what a cycle of the pod would decide, as if it had no node; None if no profile has its scheduler."""
        profile = self.profiles.get(pod.spec.schedulerName)
        if profile is None:
            return None
        waiting = structs.replace(pod, spec=structs.replace(pod.spec, nodeName=""))
        return cycle.run(self.fleet.snapshot(), pod_workload(waiting), profile, now=self._now)
