"""KubeVirt: migrations as VirtualMachineInstanceMigrations.

KubeVirt's controller does all steps by itself once the object exists, and chooses the target among the nodes that the
object allows; deleting the object before it ends cancels the migration.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from fairway.api.kubevirt import (
    FAILED,
    KUBEVIRT_VERSION,
    PREPARING_TARGET,
    RUNNING,
    SCHEDULED,
    SUCCEEDED,
    TARGET_READY,
    VirtualMachineInstanceMigration,
)
from fairway.api.pod import Pod
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.machines.events import Observation, Stage
from fairway.machines.migration import Migration, encode_record
from fairway.machines.migrator import SelfDriven
from fairway.machines.neonvm import CREATED_BY, MANAGER, RECORD

MIGRATION_KIND: Final = "VirtualMachineInstanceMigration"
HOSTNAME: Final = "kubernetes.io/hostname"
MIGRATION_LABEL: Final = "kubevirt.io/migrationJobUID"
"""Label of a target pod: the uid of its migration."""

_STAGES: Final = {
    SCHEDULED: Stage.BOUND,
    PREPARING_TARGET: Stage.BOUND,
    TARGET_READY: Stage.BOUND,
    RUNNING: Stage.COPYING,
    SUCCEEDED: Stage.SWITCHED,
    FAILED: Stage.FAILED,
}


def migration_object(migration: Migration) -> dict[str, Any]:
    """Return the object for a migration to its planned node, with its record."""
    return {
        "apiVersion": KUBEVIRT_VERSION,
        "kind": MIGRATION_KIND,
        "metadata": {
            "namespace": migration.source.namespace,
            "name": migration.id,
            "labels": {CREATED_BY: MANAGER},
            "annotations": {RECORD: encode_record(migration)},
        },
        "spec": {
            "vmiName": migration.vm,
            "addedNodeSelector": {HOSTNAME: migration.target_host.name},
        },
    }


class KubeVirtMigrator(SelfDriven):
    def __init__(
        self,
        *,
        migrations: Callable[[str, str], VirtualMachineInstanceMigration | None],
        target_pods: Callable[[str, str], Pod | None],
        hosts: Mapping[str, HostKey],
    ) -> None:
        super().__init__(
            api_version=KUBEVIRT_VERSION,
            kind=MIGRATION_KIND,
            object_of=migration_object,
            uid_of=lambda namespace, name: (
                None if (found := migrations(namespace, name)) is None else found.metadata.uid
            ),
        )
        self._migrations = migrations
        self._target_pods = target_pods
        """Finds a pod by namespace and the value of ``MIGRATION_LABEL``."""
        self._hosts = hosts

    def observe(self, migration: Migration, /) -> Observation:
        namespace = migration.source.namespace
        found = self._migrations(namespace, migration.id)
        if found is None:
            return Observation(stage=Stage.ABSENT)
        pod = self._target_pods(namespace, found.metadata.uid)
        target = None if pod is None else WorkloadKey(namespace, pod.metadata.name, pod.metadata.uid)
        host = None if pod is None else self._hosts.get(pod.spec.nodeName)
        state = found.status.migrationState
        stage = _STAGES.get(found.status.phase, Stage.ABSENT if target is None else Stage.PENDING)
        if state is not None and state.failed:
            stage = Stage.FAILED
        return Observation(
            stage=stage,
            target=target,
            target_host=host,
            message="" if state is None else state.failureReason,
        )
