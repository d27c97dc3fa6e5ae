"""The story of a migration: its steps with their times, from its record or from the event at its end.

The object of a migration goes when it ends. What happened stays readable in an Event about the VirtualMachine, whose
message ``describe`` writes and ``parse`` reads.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairway.api.pod_requests import MEMORY
from fairway.engine.workload import WorkloadKey
from fairway.hosts.instant import SECOND, Micros, to_micros
from fairway.workloads.machines.machine import VIRTUAL_MACHINE
from fairway.workloads.machines.migration import ENDED, Claim, Migration, Phase
from fairway.workloads.machines.size import ONE, added, describe
from kubewire.api.event import CoreEvent
from kubewire.api.lease import parse_micro_time

REASONS: Final[Mapping[Phase, str]] = {
    Phase.PLANNED: "MigrationPlanned",
    Phase.CUTOVER: "MigrationCutover",
    Phase.CLEANED: "MigrationCompleted",
    Phase.CANCELLED: "MigrationCancelled",
    Phase.FAILED: "MigrationFailed",
}
"""Reasons of events about a VirtualMachine, by the phase that its migration has reached."""
PHASES: Final[Mapping[str, Phase]] = {reason: phase for phase, reason in REASONS.items()}

STORY: Final = "Migration {id} from {source} to {target} ({reason}, {size} bytes): {steps}{purpose}{message}"
PURPOSE: Final = "; makes room for {beneficiaries}"
MESSAGE: Final = "; {message}"

_STORY: Final = re.compile(
    r"Migration (?P<id>\S+) from (?P<source>\S+) to (?P<target>\S+) \((?P<reason>\w+), (?P<size>\d+) bytes\): "
    r"(?P<steps>[^;]*)"
    r"(?:; makes room for (?P<purpose>[^;]*))?(?:; (?P<message>.*))?\Z",
    re.DOTALL,
)
_STEP: Final = re.compile(r"(?P<phase>\w+)(?: \+(?P<seconds>\d+(?:\.\d+)?) s)?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    phase: Phase
    seconds: float
    """Since the migration was planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    id: str
    namespace: str
    vm: str
    kind: str = VIRTUAL_MACHINE
    source: str
    target: str
    """Names of nodes."""
    reason: str
    started: Micros
    steps: tuple[Step, ...]
    beneficiaries: tuple[str, ...] = ()
    """Machines or pods that it makes room for, with amounts."""
    message: str = ""
    size: int | None = None
    """Bytes of memory to copy; None if unknown."""
    copied: int | None = None

    @property
    def phase(self) -> Phase:
        return self.steps[-1].phase

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    @property
    def latest(self) -> Micros:
        return self.started + round(self.steps[-1].seconds * SECOND)


def describe_migration(migration: Migration, names: Mapping[WorkloadKey, str] | None = None) -> str:
    """Return the message of an event about a migration. ``names`` are those of the machines that pods run."""
    story = story_of(migration, names=names)
    steps = ", ".join(
        step.phase if not at else f"{step.phase} +{step.seconds:.1f} s" for at, step in enumerate(story.steps)
    )
    return STORY.format(
        id=story.id,
        source=story.source,
        target=story.target,
        reason=story.reason,
        size=story.size,
        steps=steps,
        purpose=PURPOSE.format(beneficiaries=", ".join(story.beneficiaries)) if story.beneficiaries else "",
        message=MESSAGE.format(message=story.message) if story.message else "",
    )


def story_in_event(event: CoreEvent) -> Story | None:
    """Return the story that an event about a virtual machine tells; None for other events."""
    if event.reason not in PHASES:
        return None
    about = event.involvedObject
    # A repeated event has the same steps: its first occurrence is when the last of them began.
    moment = (
        parse_micro_time(event.eventTime) if event.eventTime else event.firstTimestamp or event.lastTimestamp
    )
    if moment is None:
        return None
    story = parse_story(event.message, namespace=about.namespace, vm=about.name, at=to_micros(moment))
    return None if story is None else replace(story, kind=about.kind or VIRTUAL_MACHINE)


def parse_story(text: str, *, namespace: str, vm: str, at: Micros) -> Story | None:
    """Return the story in the message of an event that was recorded at a time; None for another text."""
    match = _STORY.match(text)
    if match is None:
        return None
    steps: list[Step] = []
    for word in match["steps"].split(", "):
        step = _STEP.match(word)
        if step is None or step["phase"] not in set(Phase):
            return None
        steps.append(Step(phase=Phase(step["phase"]), seconds=float(step["seconds"] or 0)))
    return Story(
        id=match["id"],
        namespace=namespace,
        vm=vm,
        source=match["source"],
        target=match["target"],
        reason=match["reason"],
        started=at - round(steps[-1].seconds * SECOND),
        steps=tuple(steps),
        beneficiaries=tuple(_BENEFICIARIES.split(match["purpose"])) if match["purpose"] else (),
        message=match["message"] or "",
        size=int(match["size"]),
    )


_BENEFICIARIES: Final = re.compile(r"(?<=\)), ")


def story_of(
    migration: Migration,
    *,
    names: Mapping[WorkloadKey, str] | None = None,
    copied: int | None = None,
) -> Story:
    """Return the story of a record. ``copied`` are the bytes that the hypervisor reports."""
    steps = [Step(phase=Phase.PLANNED, seconds=0.0)]
    steps += (
        Step(phase=phase, seconds=max(0, at - migration.started) / SECOND) for phase, at in migration.steps
    )
    return Story(
        id=migration.id,
        namespace=migration.source.namespace,
        vm=migration.vm,
        kind=migration.kind,
        source=migration.source_host.name,
        target=migration.target_host.name,
        reason=migration.reason,
        started=migration.started,
        steps=tuple(steps),
        beneficiaries=_beneficiaries(migration.purpose or migration.claims, names or {}),
        message=migration.message,
        size=migration.amounts.get(MEMORY, 0) // ONE,
        copied=copied,
    )


def _beneficiaries(claims: Sequence[Claim], names: Mapping[WorkloadKey, str]) -> tuple[str, ...]:
    amounts: dict[str, dict[str, int]] = {}
    for claim in claims:
        key = claim.beneficiary
        name = f"{key.namespace}/{names.get(key) or key.name}"
        amounts[name] = added(amounts.get(name, {}), claim.amounts)
    return tuple(f"{name} ({describe(total)})" for name, total in amounts.items())
