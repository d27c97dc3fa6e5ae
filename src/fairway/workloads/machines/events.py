"""What the machines' state is informed of."""

from dataclasses import dataclass
from enum import Enum, auto

from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.workloads.machines.machine import Demand, Machine
from fairway.workloads.machines.migration_limits import MigrationLimits
from fairway.workloads.machines.permit_protocol import PermitRequest


@dataclass(frozen=True, slots=True)
class HostObserved:
    host: HostKey
    capacity: ResourceList | None
    """Allocatable, in milli-units; None if it is unknown."""


@dataclass(frozen=True, slots=True)
class HostGone:
    host: HostKey


@dataclass(frozen=True, slots=True)
class MachineObserved:
    """A pod is bound to a node, or changed."""

    machine: Machine
    demand: Demand | None = None
    """What its VirtualMachine records as requested and approved. Used for a machine that is new here."""


@dataclass(frozen=True, slots=True)
class MachineGone:
    """A pod was deleted, or has finished."""

    key: WorkloadKey


@dataclass(frozen=True, slots=True)
class PodAssumed:
    """The scheduler is about to bind a pod to a node. Raises InsufficientCapacity if that has no room for it."""

    key: WorkloadKey
    host: HostKey
    amounts: ResourceList


@dataclass(frozen=True, slots=True)
class PodForgotten:
    """The scheduler gave up to bind a pod."""

    key: WorkloadKey


@dataclass(frozen=True, slots=True)
class Loaded:
    """All nodes, pods and migrations that exist were reported. Nothing is approved before."""


@dataclass(frozen=True, slots=True)
class PermitRequested:
    request: PermitRequest
    node: str = ""
    """The node that the agent proved to run on; empty for an agent that may ask for every pod."""


@dataclass(frozen=True, slots=True)
class PermitWritten:
    key: WorkloadKey


@dataclass(frozen=True, slots=True)
class PermitNotWritten:
    """The write failed, or its result is unknown."""

    key: WorkloadKey


@dataclass(frozen=True, slots=True)
class PermitConflict:
    """The write was refused: the VirtualMachine has another request by now."""

    key: WorkloadKey
    demand: Demand


@dataclass(frozen=True, slots=True)
class RecordWritten:
    id: str
    revision: int


@dataclass(frozen=True, slots=True)
class RecordNotWritten:
    id: str
    revision: int


class Stage(Enum):
    """How far a migration is, as its objects and the hypervisor report it."""

    UNKNOWN = auto()
    """Cannot be determined now."""
    ABSENT = auto()
    """No target pod, and the machine runs at its source."""
    PENDING = auto()
    """The target pod has no node yet."""
    BOUND = auto()
    """The target pod has a node, and the copy has not begun."""
    COPYING = auto()
    COPIED = auto()
    """The copy is complete; the VirtualMachine still names the source."""
    SWITCHED = auto()
    """The VirtualMachine names the target."""
    FAILED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    stage: Stage
    target: WorkloadKey | None = None
    """The target pod, if it exists."""
    target_host: HostKey | None = None
    message: str = ""
    waiting: bool = False
    """Whether the hypervisor will begin once it has finished others."""


@dataclass(frozen=True, slots=True)
class MigrationObserved:
    id: str
    observation: Observation


@dataclass(frozen=True, slots=True)
class TargetNominated:
    """The scheduler is about to bind the target pod of a migration to a node."""

    id: str
    host: HostKey


@dataclass(frozen=True, slots=True, kw_only=True)
class EarmarksPreempted:
    """A workload of higher priority is nominated to a node, and asks for room that is kept for machines."""

    host: HostKey
    earmarks: tuple[str, ...]
    by: WorkloadKey
    priority: int


@dataclass(frozen=True, slots=True)
class TargetsChanged:
    """Other nodes may be feasible for the machines of some nodes."""

    hosts: tuple[HostKey, ...]


@dataclass(frozen=True, slots=True)
class LimitsChanged:
    """A hypervisor carries out more or fewer migrations at once, or other clients began or ended some."""

    kind: str
    """Of the machines."""
    limits: MigrationLimits


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A moment that ``next_deadline`` named."""


Event = (
    HostObserved
    | HostGone
    | MachineObserved
    | MachineGone
    | PodAssumed
    | PodForgotten
    | Loaded
    | PermitRequested
    | PermitWritten
    | PermitNotWritten
    | PermitConflict
    | RecordWritten
    | RecordNotWritten
    | MigrationObserved
    | TargetNominated
    | EarmarksPreempted
    | TargetsChanged
    | LimitsChanged
    | TimePassed
)
