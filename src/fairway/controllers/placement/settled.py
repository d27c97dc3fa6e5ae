"""Whether a placement that the hub has as it was decided stays so.

Most changes of a score change no decision. Such placements need no plan and no place in the queue.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from fairway.api.placement import SORT_BY_SCORE
from fairway.controllers.placement.queue import Owner
from fairway.controllers.placement.record import PlacementRecord
from fairway.engine.outcome import Outcome
from fairway.hosts.instant import Micros, from_micros
from fairway.workloads.placement.plugins.predicate import has_expressions
from fairway.workloads.placement.reconcile_plan import due_of, stamp_due_of
from fairway.workloads.placement.unscored import UNSCORED, unscored_condition
from kubewire.api.meta import find_condition

_TICK: Final = timedelta(milliseconds=1)
"""Timers use another clock than expiry times; a margin so that none fires too early."""
MOST_CYCLES: Final = 64
"""Incremental cycles after one change, in about a millisecond. Placements beyond them are queued."""
MOST_CHECKS: Final = 512
"""Placements that are checked after one change; more are queued."""


class SettledCheck:
    """Whether placements stay as they are after one change, without the cost of deciding them.

    ``follow(record)`` runs an incremental cycle; None if that is not possible. Placements that share a memo share its
    outcome. ``lower_deadline(owner, until)`` is called for a placement that must be decided earlier than planned.
    """

    __slots__ = ("_checks", "_cycles", "_follow", "_lower_deadline", "_now", "_outcomes", "_records")

    def __init__(
        self,
        records: Mapping[Owner, PlacementRecord],
        *,
        now: datetime,
        follow: Callable[[PlacementRecord], Outcome | None],
        lower_deadline: Callable[[Owner, Micros], None],
    ) -> None:
        self._records, self._now, self._follow, self._lower_deadline = records, now, follow, lower_deadline
        self._outcomes: dict[int, Outcome | None] = {}
        """By the number of the memo."""
        self._checks = self._cycles = 0

    def __call__(self, owner: Owner) -> bool:
        record = self._records.get(owner)
        self._checks += 1
        if record is None or not record.settled or record.memo is None or self._checks > MOST_CHECKS:
            return False
        if record.workload.idle or has_expressions(record.workload):
            return False
        outcome = self._outcome_of(record, record.memo)
        until = None if outcome is None else settled_until(record, outcome, now=self._now)
        if until is None:
            return False
        if record.until is None or until < record.until:
            record.until = until
            self._lower_deadline(owner, until)
        return True

    def _outcome_of(self, record: PlacementRecord, memo: int) -> Outcome | None:
        if memo in self._outcomes:
            return self._outcomes[memo]
        self._cycles += 1
        outcome = None if self._cycles > MOST_CYCLES else self._follow(record)
        self._outcomes[memo] = outcome
        return outcome


def delay_until(until: Micros, now: datetime) -> float:
    """Return the seconds until a time of the wall clock."""
    return max(0.0, (from_micros(until) - now + _TICK).total_seconds())


def settled_until(record: PlacementRecord, outcome: Outcome, *, now: datetime) -> Micros | None:
    """Return until when the hub is up to date as it is; None if something may have to be written."""
    placement, last = record.placement, record.last_recorded
    due = due_of(placement, last=last, now=now)
    if due is None or outcome.status.aborts or not _as_before(record, outcome):
        return None
    until = min(outcome.until, due)
    stamp_due = stamp_due_of(placement, last=last, now=now)
    if stamp_due is not None:
        return min(until, stamp_due)
    return until if last == placement.status.lastScoreUpdateTime else None


def _as_before(record: PlacementRecord, outcome: Outcome) -> bool:
    """Whether only scores can differ: the same clusters, and no groups that depend on anything else."""
    spec = record.placement.spec
    groups = spec.decisionStrategy.groupStrategy
    # In order of score the best clusters form groups, whose members may change.
    ranked = spec.sortBy == SORT_BY_SCORE and groups.clustersPerDecisionGroup is not None
    return (
        bool(record.settled)
        and not groups.decisionGroups
        and not ranked
        and record.settled == outcome.selected_names
        and _is_scored_as_before(record, outcome)
    )


def _is_scored_as_before(record: PlacementRecord, outcome: Outcome) -> bool:
    """Whether the status is right about scores that no candidate has.

    The last candidate with a score may leave, or the first one get it, while the selection stays.
    """
    before = find_condition(record.placement.status.conditions, UNSCORED)
    now = outcome.derive(unscored_condition)
    return before is now is None or (before is not None and now is not None and before.message == now.message)
