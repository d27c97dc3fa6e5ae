"""What the machines' state asks its caller to do. Instructions are absolute: doing one twice is doing it once."""

from dataclasses import dataclass, field

from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.workloads.machines.machine import Demand
from fairway.workloads.machines.migration import Migration
from fairway.workloads.machines.permit_protocol import Permit, PermitError


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePermit:
    """Write request and permit to the VirtualMachine, if it still has the request ``after``.

    Answer with PermitWritten, PermitNotWritten or PermitConflict.
    """

    key: WorkloadKey
    demand: Demand
    after: int
    """Generation of the request that was written last."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the agents that asked for this pod."""

    namespace: str
    name: str
    answer: Permit | PermitError


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """Write the record to the migration's object, which is created with the first one.

    Answer with RecordWritten or RecordNotWritten.
    """

    migration: Migration


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    migration: Migration


@dataclass(frozen=True, slots=True)
class Prepare:
    """Create the target pod, which has the name in the record. One that exists already is adopted."""

    migration: Migration


@dataclass(frozen=True, slots=True)
class Transfer:
    """Start to copy the machine's state."""

    migration: Migration


@dataclass(frozen=True, slots=True)
class Cutover:
    """Let the target run the machine, and the VirtualMachine name it."""

    migration: Migration


@dataclass(frozen=True, slots=True)
class DeleteSource:
    migration: Migration


@dataclass(frozen=True, slots=True)
class Abort:
    """Delete the target pod, and let the machine run at its source."""

    migration: Migration


@dataclass(frozen=True, slots=True)
class Observe:
    """Report with MigrationObserved how far the migration is."""

    migration: Migration


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Count and report something that a person may have to look into."""

    reason: str
    message: str
    host: HostKey
    key: WorkloadKey | None = None
    missing: ResourceList = field(default_factory=dict)


Instruction = (
    WritePermit
    | Reply
    | WriteRecord
    | DeleteRecord
    | Prepare
    | Transfer
    | Cutover
    | DeleteSource
    | Abort
    | Observe
    | Alert
)
