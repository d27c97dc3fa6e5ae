"""VirtualMachine and VirtualMachineMigration of NeonVM: the fields that permits and migrations read.

Other fields are dropped while decoding. Write these objects as patches only, never as a whole.
"""

from typing import Annotated, Any, Final

from msgspec import Struct, field

from kubewire.api.annotation import Field, Int32, Int64, QuantityText
from kubewire.api.meta import Condition, ObjectMeta

NEON_GROUP: Final = "vm.neon.tech"
NEON_VERSION: Final = f"{NEON_GROUP}/v1"

# Phases of a VirtualMachine.
VM_PENDING: Final = "Pending"
VM_RUNNING: Final = "Running"
VM_PRE_MIGRATING: Final = "PreMigrating"
VM_MIGRATING: Final = "Migrating"

# Phases of a VirtualMachineMigration.
MIGRATION_PENDING: Final = "Pending"
MIGRATION_RUNNING: Final = "Running"
MIGRATION_SUCCEEDED: Final = "Succeeded"
MIGRATION_FAILED: Final = "Failed"

VM_NAME_LABEL: Final = "vm.neon.tech/name"
"""Label of a runner pod: the name of its VirtualMachine."""
AUTO_MIGRATION_LABEL: Final = "autoscaling.neon.tech/auto-migration-enabled"
AUTOSCALING_LABEL: Final = "autoscaling.neon.tech/enabled"
SCALING_BOUNDS: Final = "autoscaling.neon.tech/bounds"
"""Annotation: the bounds within which agents scale a VirtualMachine, as JSON."""
SCALING_UNIT: Final = "autoscaling.neon.tech/scaling-unit"
REQUESTED: Final = "internal.autoscaling.neon.tech/resources-requested"
APPROVED: Final = "internal.autoscaling.neon.tech/resources-approved"


_NEEDED: Final = Field(required=True)


class ScalableAmount(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    min: Annotated[QuantityText, _NEEDED] = 0
    max: Annotated[QuantityText, _NEEDED] = 0
    use: Annotated[QuantityText, _NEEDED] = 0


class ScalableCount(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    min: Annotated[Int32, _NEEDED] = 0
    max: Annotated[Int32, _NEEDED] = 0
    use: Annotated[Int32, _NEEDED] = 0


class Guest(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    cpus: ScalableAmount = ScalableAmount()
    """CPUs, such as 2 or 250m."""
    memorySlots: ScalableCount = ScalableCount()
    memorySlotSize: Annotated[QuantityText, Field(default="1Gi")] = "1Gi"


class Overcommit(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Factors by which the machine's size counts less on its node."""

    cpu: QuantityText | None = None
    memory: QuantityText | None = None


class VirtualMachineSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    guest: Annotated[Guest, _NEEDED] = Guest()
    schedulerName: str = ""
    overcommit: Overcommit | None = None
    nodeSelector: dict[str, str] = field(default_factory=dict)
    affinity: dict[str, Any] = field(default_factory=dict)


class VirtualMachineStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    phase: str = ""
    podName: str = ""
    node: str = ""
    cpus: QuantityText | None = None
    memorySize: QuantityText | None = None
    conditions: tuple[Condition, ...] = ()


class VirtualMachine(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = NEON_VERSION
    kind: str = "VirtualMachine"
    metadata: ObjectMeta = ObjectMeta()
    spec: VirtualMachineSpec = VirtualMachineSpec()
    status: VirtualMachineStatus = VirtualMachineStatus()


class VirtualMachineMigrationSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    vmName: Annotated[str, Field(required=True, min_length=1)] = field(default_factory=str)
    preventMigrationToSameHost: Annotated[bool, Field(default=True)] = True
    incremental: Annotated[bool, Field(default=True)] = True
    autoConverge: Annotated[bool, Field(default=True)] = True
    allowPostCopy: Annotated[bool, Field(default=False)] = False
    completionTimeout: Annotated[Int32, Field(default=3600)] = 3600
    maxBandwidth: Annotated[QuantityText, Field(default="1Gi")] = "1Gi"
    nodeSelector: dict[str, str] = field(default_factory=dict)


class RamProgress(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    total: Int64 = 0
    transferred: Int64 = 0
    remaining: Int64 = 0


class MigrationInfo(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What the hypervisor reports."""

    status: str = ""
    downtimeMs: Int64 = 0
    totalTimeMs: Int64 = 0
    setupTimeMs: Int64 = 0
    ram: RamProgress = RamProgress()


class VirtualMachineMigrationStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    phase: str = ""
    sourcePodName: str = ""
    targetPodName: str = ""
    sourceNode: str = ""
    targetNode: str = ""
    info: MigrationInfo = MigrationInfo()
    conditions: tuple[Condition, ...] = ()


class VirtualMachineMigration(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = NEON_VERSION
    kind: str = "VirtualMachineMigration"
    metadata: ObjectMeta = ObjectMeta()
    spec: VirtualMachineMigrationSpec = VirtualMachineMigrationSpec()
    status: VirtualMachineMigrationStatus = VirtualMachineMigrationStatus()
