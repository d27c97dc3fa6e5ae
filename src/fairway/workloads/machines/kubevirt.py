"""KubeVirt: machines from VirtualMachineInstances and their pods, migrations as VirtualMachineInstanceMigrations.

KubeVirt's controller does all steps by itself once the object exists, and chooses the target among the nodes that the
object allows; deleting the object before it ends cancels the migration. Its machines have no agents, and no permits.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from fairway.api.kubevirt import (
    FAILED,
    KUBEVIRT_VERSION,
    LIVE_MIGRATABLE,
    LIVE_MIGRATE,
    LIVE_MIGRATE_IF_POSSIBLE,
    PARALLEL_FROM_NODE,
    PARALLEL_IN_CLUSTER,
    PENDING,
    PREPARING_TARGET,
    RUNNING,
    SCHEDULED,
    SUCCEEDED,
    TARGET_READY,
    KubeVirt,
    MigrationConfiguration,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
)
from fairway.api.pod import Pod
from fairway.api.pod_requests import CPU, MEMORY
from fairway.api.virtual_machine import AUTO_MIGRATION_LABEL
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import to_micros
from fairway.workloads.machines.events import Observation, Stage
from fairway.workloads.machines.machine import Machine
from fairway.workloads.machines.migration import Migration
from fairway.workloads.machines.migration_limits import MigrationLimits
from fairway.workloads.machines.migration_record import hypervisor_labels
from fairway.workloads.machines.migrator import OBJECT_DELETED, SelfDriven, has_created
from fairway.workloads.machines.neonvm import milli
from kubewire.api.meta import TRUE

INSTANCE_KIND: Final = "VirtualMachineInstance"
MIGRATION_KIND: Final = "VirtualMachineInstanceMigration"
HOSTNAME: Final = "kubernetes.io/hostname"
MIGRATION_LABEL: Final = "kubevirt.io/migrationJobUID"
"""Label of a target pod: the uid of its migration. The pod keeps it when it runs the machine."""

_STAGES: Final = {
    SCHEDULED: Stage.BOUND,
    PREPARING_TARGET: Stage.BOUND,
    TARGET_READY: Stage.BOUND,
    RUNNING: Stage.COPYING,
    SUCCEEDED: Stage.SWITCHED,
    FAILED: Stage.FAILED,
}


def machine_of(
    instance: VirtualMachineInstance, pod: Pod, host: HostKey, *, requests: ResourceList, priority: int = 0
) -> Machine:
    """Return the machine that runs in a pod on a node. ``requests`` are those of the pod."""
    meta = pod.metadata
    created = 0 if meta.creationTimestamp is None else to_micros(meta.creationTimestamp)
    return Machine(
        key=WorkloadKey.of(meta),
        host=host,
        using=size_of(instance, requests),
        vm=instance.metadata.name,
        kind=INSTANCE_KIND,
        grows=False,
        priority=priority,
        created=created,
        moved=created if MIGRATION_LABEL in meta.labels else None,
        migratable=_may_move(instance) and instance.status.nodeName == pod.spec.nodeName,
    )


def size_of(instance: VirtualMachineInstance, requests: ResourceList) -> dict[str, int]:
    """Return what an instance counts on its node: the requests of its pod, and at least what its domain asks for.

    The pod has what only KubeVirt knows: the overhead of memory, and the share of a CPU that a virtual one counts.
    """
    domain, reported = instance.spec.domain, instance.status.memory
    asked = domain.resources.requests
    guest = None if domain.memory is None else domain.memory.guest
    if reported is not None and reported.guestCurrent is not None:
        guest = reported.guestCurrent
    return {
        **requests,
        CPU: max(requests.get(CPU, 0), milli(asked.get(CPU))),
        MEMORY: max(requests.get(MEMORY, 0), milli(asked.get(MEMORY)), milli(guest)),
    }


def _may_move(instance: VirtualMachineInstance) -> bool:
    """Return whether an instance can move, does not move now, and its owner agrees: with the label, or the strategy."""
    label = instance.metadata.labels.get(AUTO_MIGRATION_LABEL)
    strategy = instance.spec.evictionStrategy
    agreed = strategy in (LIVE_MIGRATE, LIVE_MIGRATE_IF_POSSIBLE) if label is None else label == TRUE.lower()
    able = any(
        condition.type == LIVE_MIGRATABLE and condition.status == TRUE
        for condition in instance.status.conditions
    )
    last = instance.status.migrationState
    moving = last is not None and not last.completed and not last.failed
    return agreed and able and not moving and instance.status.phase == RUNNING


def migration_object(migration: Migration) -> dict[str, Any]:
    """Return the object for a migration to its planned node."""
    return {
        "apiVersion": KUBEVIRT_VERSION,
        "kind": MIGRATION_KIND,
        "metadata": {
            "namespace": migration.source.namespace,
            "name": migration.id,
            "labels": hypervisor_labels(),
        },
        "spec": {
            "vmiName": migration.vm,
            "addedNodeSelector": {HOSTNAME: migration.target_host.name},
        },
    }


def is_unfinished(migration: VirtualMachineInstanceMigration) -> bool:
    """Return whether a migration takes one of the places that KubeVirt limits, or waits for one."""
    return migration.status.phase not in (SUCCEEDED, FAILED)


def limits_of(
    installations: Iterable[KubeVirt], *, others: Mapping[HostKey, int], elsewhere: int
) -> MigrationLimits:
    """Return the limits in the configuration of KubeVirt, which has one installation in a cluster; the defaults
    without it. ``others`` and ``elsewhere`` count the migrations of other clients."""
    installation = next(iter(installations), None)
    configuration = None if installation is None else installation.spec.configuration
    limits = (configuration and configuration.migrations) or MigrationConfiguration()
    in_fleet, from_host = limits.parallelMigrationsPerCluster, limits.parallelOutboundMigrationsPerNode
    return MigrationLimits(
        in_fleet=PARALLEL_IN_CLUSTER if in_fleet is None else in_fleet,
        from_host=PARALLEL_FROM_NODE if from_host is None else from_host,
        others=others,
        others_elsewhere=elsewhere,
    )


class KubeVirtMigrator(SelfDriven):
    def __init__(
        self,
        *,
        migrations: Callable[[str, str], VirtualMachineInstanceMigration | None],
        target_pods: Callable[[str, str], Pod | None],
        pods: Callable[[str, str], Pod | None],
        hosts: Mapping[str, HostKey],
    ) -> None:
        super().__init__(
            api_version=KUBEVIRT_VERSION,
            kind=MIGRATION_KIND,
            object_of=migration_object,
            find=migrations,
        )
        self._migrations = migrations
        self._target_pods = target_pods
        """Finds a pod by namespace and the value of ``MIGRATION_LABEL``."""
        self._pods = pods
        self._hosts = hosts

    def observe(self, migration: Migration, /) -> Observation:
        namespace = migration.source.namespace
        created = self._migrations(namespace, migration.id)
        pod = (
            self._pods(namespace, migration.target.name)
            if created is None
            else self._target_pods(namespace, created.metadata.uid)
        )
        if pod is not None and pod.finished:
            pod = None  # KubeVirt keeps the pods of migrations that failed
        target = None if pod is None else WorkloadKey(namespace, pod.metadata.name, pod.metadata.uid)
        host = None if pod is None else self._hosts.get(pod.spec.nodeName)
        if created is None:
            stage, message = Stage.ABSENT if target is None else Stage.UNKNOWN, ""
            if has_created(migration):
                # KubeVirt deletes old migrations of an instance, also those that have succeeded.
                source = self._pods(namespace, migration.source.name)
                moved = target is not None and (source is None or source.finished)
                stage = Stage.SWITCHED if moved else Stage.FAILED
                message = "" if moved else OBJECT_DELETED.format(kind=MIGRATION_KIND)
            return Observation(stage=stage, target=target, target_host=host, message=message)
        state = created.status.migrationState
        stage = _STAGES.get(created.status.phase, Stage.ABSENT if target is None else Stage.PENDING)
        if state is not None and state.failed:
            stage = Stage.FAILED
        return Observation(
            stage=stage,
            target=target,
            target_host=host,
            message="" if state is None else state.failureReason,
            waiting=created.status.phase == PENDING and target is None,
        )
