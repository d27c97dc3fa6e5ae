"""Nodes, pods, virtual machines and migrations as the scheduler would see them, rebuilt from objects alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from msgspec import structs

from fairway.api.kubevirt import VirtualMachineInstance, VirtualMachineInstanceMigration
from fairway.api.node import Node
from fairway.api.persistent_volume import PersistentVolume, PersistentVolumeClaim
from fairway.api.pod import Pod
from fairway.api.pod_disruption_budget import PodDisruptionBudget
from fairway.api.pod_owner import PodOwner
from fairway.api.virtual_machine import VirtualMachine, VirtualMachineMigration
from fairway.controllers.kinds import Namespace
from fairway.controllers.machines.machine_objects import NO_MACHINE, MachineObjects
from fairway.controllers.machines.machine_options import EXTENDED_POINTS
from fairway.engine import cycle
from fairway.engine.ledger import Earmark, Ledger, LedgerColumns
from fairway.engine.outcome import Outcome
from fairway.engine.profile import ProfileSpec, build_profile
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.fleet.instant import Micros
from fairway.fleet.steps import finish
from fairway.kube.resource import Key, KubeStruct, key_of
from fairway.machines.machine import Machine
from fairway.machines.settings import MachineSettings
from fairway.machines.size import charge
from fairway.machines.state import MachineState
from fairway.nodes import NodeFleet
from fairway.nodes.pod_owners import PodOwners
from fairway.nodes.pod_template import PodInfo
from fairway.plugins.pods import pod_registry, pod_workload
from fairway.plugins.pods.vm_scaling import VirtualMachineAutoscaling
from fairway.scheduling import Scheduling

NOT_BOOKED = "a what-if books nothing"
EPOCH = 1
_COMMITTING = ("Reserve", "Permit", "PreBind", "Bind", "PostBind")

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
    namespaces: Mapping[Key, Namespace] = field(default_factory=dict)
    claims: Mapping[Key, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[Key, PersistentVolume] = field(default_factory=dict)
    budgets: Mapping[Key, PodDisruptionBudget] = field(default_factory=dict)
    owners: Sequence[PodOwner] = ()

    @classmethod
    def of(cls, objects: Iterable[Any]) -> "ClusterObjects":
        """Sort objects by kind; others are ignored."""
        found = list(objects)

        def by_key(kind: type[T]) -> dict[Key, T]:
            return {key_of(each): each for each in found if isinstance(each, kind)}

        return cls(
            nodes=by_key(Node),
            pods=by_key(Pod),
            machines=by_key(VirtualMachine),
            migrations=by_key(VirtualMachineMigration),
            instances=by_key(VirtualMachineInstance),
            instance_migrations=by_key(VirtualMachineInstanceMigration),
            namespaces=by_key(Namespace),
            claims=by_key(PersistentVolumeClaim),
            volumes=by_key(PersistentVolume),
            budgets=by_key(PodDisruptionBudget),
            owners=[each for each in found if isinstance(each, PodOwner)],
        )

    def without_pod(self, key: Key) -> "ClusterObjects":
        pods = {each: pod for each, pod in self.pods.items() if each != key}
        return ClusterObjects(**{**vars(self), "pods": pods})

    def with_nodes(self, nodes: Mapping[Key, Node]) -> "ClusterObjects":
        return ClusterObjects(**{**vars(self), "nodes": nodes})


class NoTargets:
    """A what-if plans no migrations."""

    def feasible(self, _machine: Machine) -> Sequence[HostKey]:
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
    )
    finish(objects.index_all())
    state = MachineState.rebuild(
        epoch=EPOCH,
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
        found = self._objects.machine_in(pod, HostKey("", ""))
        if found is None:
            return self._objects.requests(pod)
        if key_of(pod) in self._sizes:
            return self._sizes[key_of(pod)]
        migration = self._state.migrations.of_target(pod.metadata.namespace, pod.metadata.name)
        if migration is not None:
            return migration.amounts
        machine, demand = found.machine, found.demand
        approved = machine.using if demand is None else demand.approved
        size = {name: max(amount, approved.get(name, 0)) for name, amount in machine.using.items()}
        return charge(size, machine.factors)

    def objection(self, info: PodInfo, /) -> str | None:
        return NO_MACHINE if self._objects.lacks_machine(info.pod) else None

    def is_target(self, namespace: str, name: str, /) -> bool:
        return self._state.migrations.of_target(namespace, name) is not None

    def target_rejection(self, namespace: str, name: str, host: HostKey, /) -> str | None:
        return self._state.target_rejection(namespace, name, host)

    def preemptible(self, info: PodInfo, host: HostKey, /) -> list[Earmark]:
        meta = info.pod.metadata
        by = WorkloadKey(meta.namespace, meta.name, meta.uid)
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
        for pod in cluster.pods.values():
            self.fleet.upsert_pod(pod)
        for namespace in cluster.namespaces.values():
            self.fleet.upsert_namespace(namespace.metadata.name, namespace.metadata.labels)
        for claim in cluster.claims.values():
            self.fleet.upsert_claim(claim)
        for volume in cluster.volumes.values():
            self.fleet.upsert_volume(volume)
        for budget in cluster.budgets.values():
            self.fleet.upsert_budget(budget)
        owners = PodOwners()
        for owner in cluster.owners:
            owners.upsert(owner)
        LedgerColumns(self.state.ledger, self.fleet)
        registry = pod_registry(
            fleet=self.fleet,
            room=self.room if cluster.machines or cluster.instances else None,
            owners=owners,
        )
        scheduling.add_third_party(registry)
        self.profiles = {
            spec.name: build_profile(_without_commit(spec, settings), registry)
            for spec in scheduling.specs.values()
        }

    def preview(self, pod: Pod) -> Outcome | None:
        """Return what a cycle of the pod would decide, as if it had no node; None if no profile has its scheduler."""
        profile = self.profiles.get(pod.spec.schedulerName)
        if profile is None:
            return None
        waiting = structs.replace(pod, spec=structs.replace(pod.spec, nodeName=""))
        return cycle.run(self.fleet.snapshot(), pod_workload(waiting), profile, now=self._now)


def _without_commit(spec: ProfileSpec, settings: MachineSettings) -> ProfileSpec:
    """Return the profile without the points after the choice, and with the plugin for virtual machines."""
    name = VirtualMachineAutoscaling.name
    points = {point: enabled for point, enabled in spec.points.items() if point not in _COMMITTING}
    for point, more in EXTENDED_POINTS.items():
        own = points.get(point, ())
        if point not in _COMMITTING and all(each.plugin != name for each in own):
            # Taking earmarked room evicts no pod.
            points[point] = (*more, *own) if point == "PostFilter" else (*own, *more)
    args = {**spec.args, name: settings.plugin}
    return replace(spec, points=points, args=args)
