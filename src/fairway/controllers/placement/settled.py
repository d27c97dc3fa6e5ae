"""Whether a placement that the hub has as it was decided stays so.

Most changes of a score change no decision. Such placements need no plan and no place in the queue.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from fairway.api.placement import SORT_BY_SCORE
from fairway.controllers.placement.queue import Owner
from fairway.controllers.placement.record import PlacementRecord
from fairway.engine.outcome import Outcome
from fairway.fleet.instant import Micros, from_micros
from fairway.placement.reconcile_plan import due_of, stamp_due_of

_TICK: Final = timedelta(milliseconds=1)
"""Timers use another clock than expiry times; a margin so that none fires too early."""
MOST_CHECKS: Final = 64
"""Placements that are checked at once, in about a millisecond; more are queued."""


class LimitedCheck:
    """Calls ``check`` a limited number of times."""

    __slots__ = ("_check", "_left")

    def __init__(self, check: Callable[[Owner], bool]) -> None:
        self._check, self._left = check, MOST_CHECKS

    def __call__(self, owner: Owner) -> bool:
        self._left -= 1
        return self._left >= 0 and self._check(owner)


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
        and record.settled == frozenset(outcome.selected)
    )
