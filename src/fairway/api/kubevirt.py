"""VirtualMachineInstanceMigration of KubeVirt, as far as a migrator reads it."""

from typing import Final

from msgspec import Struct, field

from fairway.api.meta import ObjectMeta

KUBEVIRT_GROUP: Final = "kubevirt.io"
KUBEVIRT_VERSION: Final = f"{KUBEVIRT_GROUP}/v1"

PENDING: Final = "Pending"
SCHEDULING: Final = "Scheduling"
SCHEDULED: Final = "Scheduled"
PREPARING_TARGET: Final = "PreparingTarget"
TARGET_READY: Final = "TargetReady"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"


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


class InstanceMigrationStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    phase: str = ""
    migrationState: InstanceMigrationState | None = None


class VirtualMachineInstanceMigration(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = KUBEVIRT_VERSION
    kind: str = "VirtualMachineInstanceMigration"
    metadata: ObjectMeta = ObjectMeta()
    spec: InstanceMigrationSpec = InstanceMigrationSpec()
    status: InstanceMigrationStatus = InstanceMigrationStatus()
