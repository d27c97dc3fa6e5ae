"""What the controller knows about one placement, and about its writes in flight.

A watch event about an object that is being written often arrives before the response. It is our own write or another
client's; which one is known when all responses have arrived. A write is identified by its resource version, a deletion
by the object's uid; either is a *write id*.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from fairway.api.placement import Placement
from fairway.controllers.runtime.decision_history import DecidedRecord
from fairway.engine.dependencies import Dependencies
from fairway.engine.fault import Fault
from fairway.engine.points import NEVER_CHANGES
from fairway.hosts.instant import Micros
from fairway.workloads.placement.plugins.contract import HOUR
from fairway.workloads.placement.plugins.stability import Stay
from fairway.workloads.placement.workload import PlacementWorkload


@dataclass(slots=True)
class InflightWrite:
    """Writes of one plan, and watch events about the same objects meanwhile."""

    pages: set[str] = field(default_factory=set)
    """Pages that count as written."""
    observed: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)

    @property
    def externally_modified(self) -> bool:
        """Whether another client wrote as well. Valid once all responses have arrived."""
        return bool(self.observed - self.answered)


@dataclass(slots=True, eq=False)
class PlacementRecord:
    placement: Placement
    """From the watch, or from the response to our own write if that is newer."""
    workload: PlacementWorkload
    """Of the current spec and annotations."""
    dependencies: Dependencies = field(default_factory=Dependencies)
    """What the last decision depends on."""
    memo: int | None = None
    """The number of the memo that the last decision continued from or made, which has the same dependencies."""
    settled: frozenset[str] | None = None
    """The clusters that were selected when the hub was last found, or made, up to date; None if it may not be."""
    until: Micros | None = None
    """When it was to be decided again, even if nothing changes, when it was settled."""
    externally_modified: bool = False
    """Whether another client changed the status or a decision since the last decision."""
    repairing: bool = False
    """Whether pages may have reasons of different cycles, until a plan is written completely."""
    recorded: datetime | None = None
    """When scores were last written. The placement's status follows later."""
    waits_for_status: float | None = None
    """Since when a status is due that was superseded before it was written, by the monotonic clock."""
    writing: InflightWrite | None = None
    decided: DecidedRecord | None = None
    """Of the last decision that changes what the hub has, until it is written."""
    suppressed: frozenset[str] = frozenset()
    """Better clusters that the stability contract kept out in the last decision."""
    reported_until: Micros = 0
    """Until when an Event about moves that wait is not repeated."""
    faulty: frozenset[tuple[str, str]] = frozenset()
    """Plugins and points with faults in the last decision, which were reported."""

    @property
    def last_recorded(self) -> datetime | None:
        """When scores were last written, as far as this process knows."""
        reported = self.placement.status.lastScoreUpdateTime
        return reported if self.recorded is None or (reported and reported > self.recorded) else self.recorded

    def report_faults(self, faults: Iterable[Fault]) -> tuple[Fault, ...]:
        """Return the faults of plugins that had none in the decision before."""
        known, current = self.faulty, tuple(faults)
        self.faulty = frozenset((fault.plugin, fault.point) for fault in current)
        return tuple(fault for fault in current if (fault.plugin, fault.point) not in known)

    def report_suppressed(self, stay: Stay | None, *, now: Micros) -> tuple[int, bool]:
        """Return how many more clusters a contract keeps out, and whether an Event is due about those that wait: one
        an hour, because with noise other clusters wait every minute."""
        suppressed = frozenset() if stay is None else stay.suppressed
        new, self.suppressed = len(suppressed - self.suppressed), suppressed
        if stay is None or not new or stay.ends == NEVER_CHANGES:
            return new, False
        # A clock that went back must not silence Events for longer.
        if now < self.reported_until <= now + HOUR:
            return new, False
        self.reported_until = now + HOUR
        return new, True

    def observe(self, write_id: str, *, pages: Iterable[str] = ()) -> bool:
        """Record a watch event. Return whether it may be our own write, so that it has to wait for the end; then
        ``pages`` are checked again."""
        if self.writing is None:
            return False
        self.writing.observed.add(write_id)
        self.writing.pages.update(pages)
        return True

    def answer(self, write_id: str) -> None:
        """Record the response to our own write."""
        if self.writing is not None:
            self.writing.answered.add(write_id)

    def mark_dirty(self, *, externally_modified: bool) -> None:
        """The hub may no longer have what was decided."""
        self.settled = None
        self.externally_modified = self.externally_modified or externally_modified
