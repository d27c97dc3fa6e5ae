"""The state of one workload in the queue, its back-off, and its explanation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from fairway.engine.dependencies import Dependencies, Event
from fairway.engine.points import Reads
from fairway.engine.workload import Workload, WorkloadKey
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.instant import Micros

ANYTHING = "any change"
OWN_CHANGE = "a change of its own spec"
_CHANGES = {Direction.UP: "increases", Direction.DOWN: "decreases", Direction.ANY: "changes"}


class State(Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"
    BINDING = "binding"
    """Still in flight, but events are no longer tracked: a failure from here is always retried."""
    SETTLED = "settled"
    """Placed; tried again when something that the decision depends on changes."""


FLUSHED = (State.UNSCHEDULABLE, State.GATED)
WAITS_FOR_EVENT = (*FLUSHED, State.SETTLED)
HANDED_OUT = (State.IN_FLIGHT, State.BINDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A plugin that turned the workload away, and what it read."""

    plugin: str
    reads: Reads
    reasons: tuple[str, ...] = ()
    pending: bool = False
    """The choice is good and waits for an external action: an event that helps skips the back-off."""


@dataclass(slots=True)
class Entry:
    workload: Workload[Any]
    """Its key never changes: a workload that is recreated gets a new entry."""
    name: tuple[str, str]
    """Namespace and name."""
    added: Micros
    queued: Micros
    """Last failure, or arrival."""
    state: State = State.ACTIVE
    since: Micros = 0
    """Start of this state."""
    parked: Micros = 0
    """When it last began to wait for an event."""
    attempts: int = 0
    rejected: int = 0
    """Attempts that plugins rejected."""
    errors: int = 0
    """Consecutive attempts that failed by an error."""
    backoff_end: Micros = 0
    rejections: tuple[Rejection, ...] = ()
    """Of the last attempt, or of the plugin that gates it."""
    depends: Dependencies = field(default_factory=Dependencies)
    """What wakes it."""
    error: str = ""
    """Of the last attempt."""
    trigger: str = ""
    """What put it where it is."""
    changed: bool = False
    """Whether it was updated or activated in flight, or an event concerned it while it was bound."""
    woken: Micros | None = None
    """When it was first woken for its next attempt, or for the attempt in flight."""
    woken_again: Micros | None = None
    """When it was first woken since it is in flight."""
    deadline: Micros | None = None
    """When it is tried again without an event, if it is settled."""
    deleted: bool = False
    """Whether it was deleted in flight."""
    watched: bool = False
    """Whether ``depends`` is of the attempt in flight."""

    @property
    def key(self) -> WorkloadKey:
        return self.workload.key

    @property
    def is_pending(self) -> bool:
        return any(rejection.pending for rejection in self.rejections)

    def is_concerned_by(self, event: Event) -> bool:
        return self.key != event.excluded and self.depends.concerned_by(event)

    def is_helped_by(self, event: Event) -> bool:
        """Whether the event may be the external action that a pending rejection waits for."""
        pending = [rejection.reads for rejection in self.rejections if rejection.pending]
        return bool(pending) and any(Dependencies.of((reads,)).concerned_by(event) for reads in pending)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a workload waits, and what would end that."""

    key: WorkloadKey
    state: State
    since: Micros
    added: Micros
    attempts: int
    trigger: str
    reasons: tuple[str, ...] = ()
    """One for each plugin that rejects or gates it, or the last error."""
    wakes: tuple[str, ...] = ()
    """Changes that would wake it."""
    next_try: Micros | None = None
    """When it is tried without any change; None if it is ready, or being tried."""


def explain(
    entry: Entry, *, next_try: Micros | None, describe: Callable[[Key], str] = " ".join
) -> Explanation:
    return Explanation(
        key=entry.key,
        state=entry.state,
        since=entry.since,
        added=entry.added,
        attempts=entry.attempts,
        trigger=entry.trigger,
        reasons=tuple(_reasons(entry)),
        wakes=tuple(_wakes(entry.depends, describe)) if entry.state in WAITS_FOR_EVENT else (),
        next_try=next_try,
    )


def _reasons(entry: Entry) -> Iterator[str]:
    if entry.error:
        yield entry.error
    for rejection in entry.rejections:
        yield f"{rejection.plugin}: {', '.join(rejection.reasons)}" if rejection.reasons else rejection.plugin


def _wakes(dependencies: Dependencies, describe: Callable[[Key], str]) -> Iterator[str]:
    if dependencies.anything:
        yield ANYTHING
    for key, direction in sorted(dependencies.columns.items()):
        if direction:
            yield f"{describe(key)} {_CHANGES[direction]}"
    for key, direction in sorted(dependencies.of_hosts.items()):
        if direction:
            yield f"{describe(key)} {_CHANGES[direction]} on a host that it considers"
    yield OWN_CHANGE
