"""The result of deciding a placement: the writes that bring the hub up to date, as plain data.

A plan does not refer to the fleet it was made from, so it can wait for the network without keeping a snapshot alive.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from msgspec import structs

from fairway.api.decision import PlacementDecision
from fairway.api.placement import SORT_BY_SCORE, Placement, PlacementStatus
from fairway.engine.fault import Fault
from fairway.engine.outcome import Outcome
from fairway.engine.status import OK, Code, Status
from fairway.hosts.instant import Micros, to_micros
from fairway.workloads.placement import conditions, steps
from fairway.workloads.placement.pages import Page
from fairway.workloads.placement.plugins.stability import Stay
from fairway.workloads.placement.selection import Selection
from fairway.workloads.placement.steps import Create, Delete, Fill, Step
from fairway.workloads.placement.unscored import UNSCORED, unscored_condition
from fairway.workloads.placement.verdict import Verdict
from kubewire.api.meta import FALSE, Condition, ObjectMeta, OwnerReference, set_condition

ON_MISCONFIGURATION: Final = "fairway.dev/on-misconfiguration"
"""Annotation of a Placement. OCM's behaviour is ``evict``: a misconfigured placement gets an empty decision."""
KEEP: Final = "keep"

DECISION_RECORD: Final = "fairway.dev/decision-record"
"""Annotation of a PlacementDecision: the record of the history that explains it. The API server ignores metadata in a
write of the status, so it names the record of the last write that changed metadata; ``fairway history`` lists the later
ones of the Placement. Another write for each decision would double what a decision costs the hub."""

LONGEST_MESSAGE: Final = 32768
"""Characters of a condition's message."""

STAMP_EVERY: Final = timedelta(minutes=1)
"""A status in which nothing but ``lastScoreUpdateTime`` changed is written no more often, unless the placement's rate
limit for scores is shorter."""

SCORE_TEXT_LIMIT: Final = 1000
"""Bytes of the scores in an event."""
MOST_SCORES: Final = SCORE_TEXT_LIMIT // len("a:0 ") + 1
"""So many scores never fit."""

_RATE: Final = re.compile(r"([0-9]{1,9})([hms])", re.ASCII)
_SECONDS: Final = {"h": 3600, "m": 60, "s": 1}
_MICROSECOND: Final = timedelta(microseconds=1)
_DEFAULT_RATE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilePlan:
    placement: Placement
    """The placement as it was read."""
    pages: tuple[Page, ...] | None
    """The desired pages; None to leave them unchanged."""
    steps: tuple[Step, ...] = ()
    status: PlacementStatus | None = None
    """Status of the placement; None if it is up to date."""
    selected: frozenset[str] = frozenset()
    outcome: Status = OK
    """The cycle's status, with its messages formatted."""
    scores: str = ""
    """Scores of all feasible clusters, for an event; empty if no event needs them."""
    until: Micros | None = None
    """When to decide again even if nothing changes."""
    recorded: datetime | None = None
    """The time of the scores that the steps record; None if they record none."""
    faults: tuple[Fault, ...] = ()
    """Faults of third-party plugins that were not reported before."""
    waiting: Stay | None = None
    """Better clusters that a stability contract keeps out, where an Event is due."""
    record_id: str = ""
    """Of the decision in the history; empty if the decisions on the hub name the same clusters."""
    selection: Selection | None = None
    """What plugins commit before it is written; None if the profile has none, or if nothing was decided."""

    @property
    def empty(self) -> bool:
        return not self.steps and self.status is None

    @property
    def changes_decisions(self) -> bool:
        """Whether decisions on the hub will name other clusters, or be others."""
        return any(
            isinstance(step, Create | Delete) or (isinstance(step, Fill) and step.changed)
            for step in self.steps
        )


def rate_of(placement: Placement) -> timedelta:
    """How long recorded scores are not updated."""
    return _parse_rate(placement.spec.scoreRateLimit)


@lru_cache(maxsize=256)
def _parse_rate(text: str) -> timedelta:
    match = _RATE.fullmatch(text)
    if match is None:
        return _DEFAULT_RATE
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])


def due_of(placement: Placement, *, last: datetime | None, now: datetime) -> Micros | None:
    """Return when recorded scores may be written again; None if that is now.

    ``last`` is when they were written. A time in the future was written by a wrong clock, and is ignored.
    """
    if last is None or last > now:
        return None
    due = to_micros(last) + rate_of(placement) // _MICROSECOND
    return due if due > to_micros(now) else None


def stamp_due_of(placement: Placement, *, last: datetime | None, now: datetime) -> Micros | None:
    """Return when a status that lacks nothing but the time of the ``last`` scores is written; None if that is now."""
    reported = placement.status.lastScoreUpdateTime
    if reported is None or reported > now or last is None or last <= reported:
        return None
    due = reported + min(STAMP_EVERY, rate_of(placement))
    return to_micros(due) if due > now else None


def owner_of(placement: Placement) -> OwnerReference:
    meta = placement.metadata
    return OwnerReference(
        apiVersion=placement.apiVersion,
        kind=placement.kind,
        name=meta.name,
        uid=meta.uid,
        controller=True,
        blockOwnerDeletion=True,
    )


def decision_of(page: Page, placement: Placement, *, record_id: str = "") -> PlacementDecision:
    """Return the object to create for a page, without its clusters: those are status, and written next."""
    meta = placement.metadata
    return PlacementDecision(
        metadata=ObjectMeta(
            name=page.name,
            namespace=meta.namespace,
            labels=dict(page.labels),
            annotations={DECISION_RECORD: record_id} if record_id else {},
            ownerReferences=(owner_of(placement),),
        )
    )


def make_plan(
    verdict: Verdict,
    placement: Placement,
    *,
    named: Mapping[str, PlacementDecision],
    own: Mapping[str, PlacementDecision],
    refresh: bool,
    last: datetime | None,
    now: datetime,
    until: Micros | None,
) -> ReconcilePlan:
    """``named``: the namespace's decisions by name. ``own``: those with the placement's label. ``last``: when scores
    were last written, which the placement's status may not have yet."""
    # As in OCM, an invalid set changes no decision: an empty one would remove the workloads from all clusters.
    if verdict.frozen:
        return ReconcilePlan(
            placement=placement,
            pages=None,
            status=_status_with(placement, _merged(placement, (_undecided(verdict.status),), now=now)),
            until=until,
        )
    if (
        verdict.status.code is Code.MISCONFIGURED
        and placement.metadata.annotations.get(ON_MISCONFIGURATION) == KEEP
    ):
        status = _status_with(placement, _conditions_of(placement, verdict, now=now))
        return ReconcilePlan(placement=placement, pages=None, status=status, until=until)
    todo = steps.plan(
        verdict.pages,
        placement=placement.metadata.name,
        owner=owner_of(placement),
        named=named,
        own=own,
        refresh=refresh,
        ranked=placement.spec.sortBy == SORT_BY_SCORE,
    )
    fills = [step for step in todo if isinstance(step, Fill)]
    # In whole seconds, as the hub stores times: otherwise each comparison with the hub would find a difference.
    recorded = now.replace(microsecond=0) if fills else None
    stamp = recorded or last
    stamp_due = stamp_due_of(placement, last=stamp, now=now)
    before, conditions = placement.status, _conditions_of(placement, verdict, now=now)
    reported = (
        conditions == before.conditions
        and verdict.selected == before.numberOfSelectedClusters
        and verdict.groups == before.decisionGroups
    )
    status = None
    if not reported or (stamp != before.lastScoreUpdateTime and stamp_due is None):
        status = PlacementStatus(
            conditions=conditions,
            numberOfSelectedClusters=verdict.selected,
            decisionGroups=verdict.groups,
            lastScoreUpdateTime=stamp,
        )
    # The time of the scores alone waits, because it would add a write of the status to each published score.
    elif stamp_due is not None:
        until = stamp_due if until is None else min(until, stamp_due)
    changed = any(step.changed for step in fills)
    # Reasons and scores are text for an event. Without one they are not formatted.
    outcome = verdict.status
    return ReconcilePlan(
        placement=placement,
        pages=verdict.pages,
        steps=todo,
        status=status,
        selected=verdict.outcome.selected_names,
        outcome=Status(outcome.code, outcome.reasons if changed else (), outcome.plugin),
        scores=verdict.outcome.derive(_score_text) if changed or any(step.rescored for step in fills) else "",
        until=until,
        recorded=recorded,
    )


def withhold(plan: ReconcilePlan, message: str, *, now: datetime) -> ReconcilePlan:
    """Return a plan that keeps the earlier decision, and reports why."""
    placement, why = plan.placement, Status(Code.ERROR, (message,))
    status = _status_with(placement, _merged(placement, (_undecided(why),), now=now))
    return ReconcilePlan(placement=placement, pages=None, status=status, until=plan.until)


def _conditions_of(placement: Placement, verdict: Verdict, *, now: datetime) -> tuple[Condition, ...]:
    """The condition about missing scores exists only while scores are missing."""
    unscored = verdict.outcome.derive(unscored_condition)
    conditions = _merged(
        placement, verdict.conditions if unscored is None else (*verdict.conditions, unscored), now=now
    )
    if unscored is not None or not any(condition.type == UNSCORED for condition in conditions):
        return conditions
    return tuple(condition for condition in conditions if condition.type != UNSCORED)


def _merged(placement: Placement, conditions: Iterable[Condition], *, now: datetime) -> tuple[Condition, ...]:
    known, moment = placement.status.conditions, now.replace(microsecond=0)
    for condition in conditions:
        if len(condition.message) > LONGEST_MESSAGE:
            condition = structs.replace(condition, message=condition.message[: LONGEST_MESSAGE - 1] + "…")
        known = set_condition(known, condition, now=moment)
    return known


def _status_with(placement: Placement, conditions: tuple[Condition, ...]) -> PlacementStatus | None:
    """Return the status with these conditions; None if it has them."""
    before = placement.status
    return None if conditions == before.conditions else structs.replace(before, conditions=conditions)


def _undecided(status: Status) -> Condition:
    """Nothing can be decided, without a fault of the placement: the last decision stays."""
    return Condition(
        type=conditions.SATISFIED, status=FALSE, reason=conditions.NOT_ALL_SCHEDULED, message=status.message
    )


def _score_text(outcome: Outcome) -> str:
    return score_text(outcome.totals_by_name(first=MOST_SCORES))


def score_text(scores: Mapping[str, int]) -> str:
    """Return ``name:score `` for each, by name, truncated."""
    parts, left = [], SCORE_TEXT_LIMIT
    for name in sorted(scores):
        part = f"{name}:{scores[name]} "
        left -= len(part.encode())
        if left < 0:
            parts.append("......")
            break
        parts.append(part)
    return "".join(parts)
