"""Kinds of KubeVirt: the fields that migrations read.

Other fields are dropped while decoding. Write these objects as patches only, never as a whole.
"""

from typing import Final

from msgspec import Struct, field

from kubewire.api.annotation import QuantityText
from kubewire.api.meta import ObjectMeta

KUBEVIRT_GROUP: Final = "kubevirt.io"
KUBEVIRT_VERSION: Final = f"{KUBEVIRT_GROUP}/v1"

# Phases of a migration.
PENDING: Final = "Pending"
SCHEDULED: Final = "Scheduled"
PREPARING_TARGET: Final = "PreparingTarget"
TARGET_READY: Final = "TargetReady"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"

PARALLEL_IN_CLUSTER: Final = 5
PARALLEL_FROM_NODE: Final = 2
"""Migrations that KubeVirt carries out at once, unless its configuration has other numbers."""

LIVE_MIGRATABLE: Final = "LiveMigratable"
"""Condition of an instance: whether its disks, network and devices allow it to move."""
LIVE_MIGRATE: Final = "LiveMigrate"
LIVE_MIGRATE_IF_POSSIBLE: Final = "LiveMigrateIfPossible"


class DomainResources(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    requests: dict[str, QuantityText] = field(default_factory=dict)


class DomainMemory(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    guest: QuantityText | None = None


class Domain(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    resources: DomainResources = DomainResources()
    memory: DomainMemory | None = None


class InstanceSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    domain: Domain = Domain()
    evictionStrategy: str | None = None
    nodeSelector: dict[str, str] = field(default_factory=dict)


class InstanceMigrationSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    vmiName: str = field(default_factory=str)
    addedNodeSelector: dict[str, str] = field(default_factory=dict)
    """Labels that a target node must have, besides those that the instance asks for."""


class InstanceMigrationState(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    sourceNode: str = ""
    sourcePod: str = ""
    targetNode: str = ""
    targetPod: str = ""
    completed: bool = False
    failed: bool = False
    failureReason: str = ""
    abortRequested: bool = False
    abortStatus: str = ""


class InstanceCondition(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Its times may be null, other than those of Kubernetes' conditions."""

    type: str = field(default_factory=str)
    status: str = field(default_factory=str)


class InstanceMemoryStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    guestCurrent: QuantityText | None = None


class InstanceStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    phase: str = ""
    nodeName: str = ""
    """The node on which it runs; during a migration, the source."""
    memory: InstanceMemoryStatus | None = None
    migrationState: InstanceMigrationState | None = None
    """Of the last migration."""
    conditions: tuple[InstanceCondition, ...] = ()


class VirtualMachineInstance(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = KUBEVIRT_VERSION
    kind: str = "VirtualMachineInstance"
    metadata: ObjectMeta = ObjectMeta()
    spec: InstanceSpec = InstanceSpec()
    status: InstanceStatus = InstanceStatus()


class InstanceMigrationStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    phase: str = ""
    migrationState: InstanceMigrationState | None = None


class VirtualMachineInstanceMigration(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = KUBEVIRT_VERSION
    kind: str = "VirtualMachineInstanceMigration"
    metadata: ObjectMeta = ObjectMeta()
    spec: InstanceMigrationSpec = InstanceMigrationSpec()
    status: InstanceMigrationStatus = InstanceMigrationStatus()


class MigrationConfiguration(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    parallelMigrationsPerCluster: int | None = None
    parallelOutboundMigrationsPerNode: int | None = None


class KubeVirtConfiguration(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    migrations: MigrationConfiguration | None = None


class KubeVirtSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    configuration: KubeVirtConfiguration | None = None


class KubeVirt(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The installation of KubeVirt in a cluster."""

    apiVersion: str = KUBEVIRT_VERSION
    kind: str = "KubeVirt"
    metadata: ObjectMeta = ObjectMeta()
    spec: KubeVirtSpec = KubeVirtSpec()
