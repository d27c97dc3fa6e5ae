"""The record of a migration: what a restart needs to continue it. It is written before every step takes effect."""

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import msgspec

from fairway.engine.ledger import Earmark
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import Micros
from fairway.workloads.machines.machine import VIRTUAL_MACHINE, Identity

LONGEST_NAME: Final = 200
MOST_STEPS: Final = 16
"""A migration takes fewer, but one that is cancelled and continued could repeat some."""

UNREADABLE: Final = "the record of migration {id} is unreadable: {reason}"
FORBIDDEN_STEP: Final = "migration {id} cannot go from {old} to {new}"


class Phase(StrEnum):
    PLANNED = "Planned"
    """The room is earmarked."""
    TARGET_PENDING = "TargetPending"
    """The target pod exists, and waits for a node."""
    TARGET_BOUND = "TargetBound"
    COPYING = "Copying"
    CUTOVER = "Cutover"
    """The copy is complete. From here on there is no way back."""
    SWAP_COMMITTED = "SwapCommitted"
    """The source is deleted, and its room given to the beneficiaries."""
    CLEANED = "Cleaned"
    CANCELLING = "Cancelling"
    CANCELLED = "Cancelled"
    FAILED = "Failed"


BEFORE_CUTOVER: Final = frozenset({Phase.PLANNED, Phase.TARGET_PENDING, Phase.TARGET_BOUND, Phase.COPYING})
ENDED: Final = frozenset({Phase.CLEANED, Phase.CANCELLED, Phase.FAILED})

_NEXT: Final = {
    Phase.PLANNED: {Phase.TARGET_PENDING, Phase.CANCELLING},
    Phase.TARGET_PENDING: {Phase.TARGET_BOUND, Phase.CANCELLING},
    Phase.TARGET_BOUND: {Phase.COPYING, Phase.CANCELLING},
    Phase.COPYING: {Phase.CUTOVER, Phase.CANCELLING},
    # Back only if the target is lost before it took over.
    Phase.CUTOVER: {Phase.SWAP_COMMITTED, Phase.CANCELLING},
    Phase.SWAP_COMMITTED: {Phase.CLEANED},
    # A hypervisor that switches by itself may finish before it learns of a cancellation.
    Phase.CANCELLING: {Phase.CANCELLED, Phase.FAILED, Phase.CUTOVER},
}


class Reason(StrEnum):
    """Why a migration was started."""

    DEMAND = "DeniedDemand"
    PRESSURE = "AboveWatermark"


class RecordError(ValueError):
    """A record that cannot be read, or a step that it does not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Room that a migration keeps for a machine."""

    beneficiary: WorkloadKey
    amounts: ResourceList
    from_source: bool = True
    """Whether the source leaves this room; otherwise it was free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    id: str
    vm: str
    """Name of the machine's object, in the namespace of the pods."""
    source: WorkloadKey
    source_host: HostKey
    target: WorkloadKey
    """The target pod; without uid until it exists."""
    target_host: HostKey
    """The planned node, then the one to which the target pod was bound."""
    amounts: ResourceList
    """What the machine counts on a node."""
    reason: Reason
    phase: Phase = Phase.PLANNED
    claims: tuple[Claim, ...] = ()
    purpose: tuple[Claim, ...] = ()
    """The claims that it was started with."""
    started: Micros
    since: Micros
    """When the phase began."""
    deadline: Micros
    """When the room is no longer kept."""
    attempt: int = 1
    outcome: Phase | None = None
    """How it ends once it is cancelled: Cancelled or Failed."""
    message: str = ""
    revision: int = 0
    """Counts the writes of this record."""
    steps: tuple[tuple[Phase, Micros], ...] = ()
    """The phases since Planned, each with the time at which it began."""
    kind: str = VIRTUAL_MACHINE
    """Kind of the machine, which decides how it is moved."""

    def step(self, phase: Phase, *, now: Micros, **changes: Any) -> "Migration":
        if phase not in _NEXT.get(self.phase, ()):
            raise RecordError(FORBIDDEN_STEP.format(id=self.id, old=self.phase, new=phase))
        steps = (*self.steps[: MOST_STEPS - 1], (phase, now))
        return replace(self, phase=phase, since=now, steps=steps, **changes)

    @property
    def identity(self) -> Identity:
        return (self.kind, self.source.namespace, self.vm)

    @property
    def active(self) -> bool:
        return self.phase not in ENDED

    @property
    def cancellable(self) -> bool:
        return self.phase in BEFORE_CUTOVER

    @property
    def leaving(self) -> bool:
        """Whether the source is going to leave its node."""
        return self.phase in BEFORE_CUTOVER or self.phase is Phase.CUTOVER

    @property
    def hold_id(self) -> str:
        """Id of the earmark that keeps room for the target pod until it is bound."""
        return f"{self.id}/target"

    def earmark_id(self, claim: Claim) -> str:
        kind = "room" if claim.from_source else "free"
        return f"{self.id}/{kind}/{claim.beneficiary.namespace}/{claim.beneficiary.name}"

    def earmark(self, claim: Claim) -> Earmark:
        return Earmark(
            id=self.earmark_id(claim),
            beneficiary=claim.beneficiary,
            amounts=claim.amounts,
            source=self.source if claim.from_source else None,
            deadline=self.deadline,
            freed=not claim.from_source,
        )

    def hold(self) -> Earmark:
        return Earmark(
            id=self.hold_id,
            beneficiary=self.target,
            amounts=self.amounts,
            deadline=self.deadline,
            freed=True,
        )

    def claimed(self) -> dict[str, int]:
        """Return what is kept of the source's room."""
        total: dict[str, int] = {}
        for claim in self.claims:
            if claim.from_source:
                for resource, amount in claim.amounts.items():
                    total[resource] = total.get(resource, 0) + amount
        return total


def migration_id(vm: str, source: WorkloadKey, attempt: int) -> str:
    """Return the name for a migration: the same for the same plan, so that a restart finds what it created."""
    digest = hashlib.sha256(f"{source.namespace}/{source.name}/{source.uid}".encode()).hexdigest()[:8]
    return f"{vm[:LONGEST_NAME]}-{digest}-{attempt}"


def decode_record(text: str, *, name: str) -> Migration:
    """Decode a record of an earlier version. ``name`` is that of its object, for the error. Raises RecordError."""
    try:
        return msgspec.json.decode(text, type=Migration)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RecordError(UNREADABLE.format(id=name, reason=error)) from None
