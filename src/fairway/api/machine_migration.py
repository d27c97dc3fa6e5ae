"""MachineMigration: the record of a migration of a virtual machine, from its plan to its end."""

from typing import Annotated, Final

from msgspec import Struct, field

from fairway.api.hosting_policy import HOSTING_VERSION
from kubewire.api.annotation import Field, Int32, Int64, Time
from kubewire.api.meta import ObjectMeta

MACHINE_KINDS: Final = ("VirtualMachine", "VirtualMachineInstance")
REASONS: Final = ("DeniedDemand", "AboveWatermark")
PHASES: Final = (
    "Planned",
    "TargetPending",
    "TargetBound",
    "Copying",
    "Cutover",
    "SwapCommitted",
    "Cleaned",
    "Cancelling",
    "Cancelled",
    "Failed",
)
OUTCOMES: Final = ("Cancelled", "Failed")

MilliAmounts = Annotated[dict[str, Int64], Field("Amounts by resource, in thousandths of its base unit.")]


class MigratedMachine(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    kind: Annotated[str, Field("VirtualMachine is NeonVM's.", required=True, enum=MACHINE_KINDS)] = field(
        default_factory=str
    )
    name: Annotated[str, Field("Its name, in the namespace of the migration.", required=True)] = field(
        default_factory=str
    )


class PodOnNode(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    pod: Annotated[str, Field("The pod, in the namespace of the migration.", required=True)] = field(
        default_factory=str
    )
    podUID: Annotated[str, Field("Absent until the pod exists.")] = ""
    node: Annotated[str, Field("Its node, or the one that is planned for it.", required=True)] = field(
        default_factory=str
    )
    nodeUID: Annotated[str, Field("Uid of the node.")] = ""


class KeptRoom(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    namespace: Annotated[str, Field("Namespace of the pod that gets the room.", required=True)] = field(
        default_factory=str
    )
    pod: Annotated[str, Field("The pod that gets the room.", required=True)] = field(default_factory=str)
    podUID: Annotated[str, Field("Uid of the pod.")] = ""
    amounts: MilliAmounts = field(default_factory=dict)
    wasFree: Annotated[bool, Field("Whether the room was free; otherwise the machine leaves it.")] = False


class MigrationStep(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    phase: Annotated[str, Field("The phase.", required=True, enum=PHASES)] = field(default_factory=str)
    time: Annotated[Time | None, Field("When the phase began.", required=True)] = None


class MachineMigrationSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    machine: Annotated[MigratedMachine, Field("What moves.", required=True)] = field(
        default_factory=MigratedMachine
    )
    source: Annotated[PodOnNode, Field("Where the machine runs before its cutover.", required=True)] = field(
        default_factory=PodOnNode
    )
    target: Annotated[PodOnNode, Field("Where it is going to run.", required=True)] = field(
        default_factory=PodOnNode
    )
    amounts: Annotated[MilliAmounts, Field("What the machine counts on a node, in milli-units.")] = field(
        default_factory=dict
    )
    reason: Annotated[str, Field("Why it was started.", required=True, enum=REASONS)] = field(
        default_factory=str
    )
    phase: Annotated[str, Field("The step that is under way.", required=True, enum=PHASES)] = field(
        default_factory=str
    )
    rooms: Annotated[tuple[KeptRoom, ...], Field("Room that is kept now.", list_type="atomic")] = ()
    plannedRooms: Annotated[
        tuple[KeptRoom, ...], Field("Room that the migration was started for.", list_type="atomic")
    ] = ()
    startTime: Annotated[Time | None, Field("When it was planned.", required=True)] = None
    phaseTime: Annotated[Time | None, Field("When the phase began.", required=True)] = None
    deadline: Annotated[Time | None, Field("When the room is no longer kept.", required=True)] = None
    attempt: Annotated[Int32, Field("Counts the migrations of the source pod.", minimum=1)] = 1
    outcome: Annotated[str, Field("How it ends once it is cancelled.", enum=OUTCOMES)] = ""
    message: Annotated[str, Field("Why it is cancelled, or has failed.")] = ""
    revision: Annotated[Int64, Field("Counts the writes of this record.")] = 0
    steps: Annotated[tuple[MigrationStep, ...], Field("The phases since Planned.", list_type="atomic")] = ()


class MachineMigration(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The record of a migration of a virtual machine. Only Fairway writes it; deleting it cancels the migration."""

    apiVersion: str = HOSTING_VERSION
    kind: str = "MachineMigration"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        MachineMigrationSpec,
        Field(
            "All of the record. There is no status: one write must change all of it, or nothing.",
            required=True,
        ),
    ] = MachineMigrationSpec()
