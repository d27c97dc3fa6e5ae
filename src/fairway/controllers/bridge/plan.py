"""Plan the copies that should exist, and the writes that lead there. No I/O.

Only originals are read, only copies are written, and no object is both. So the bridge's writes never cause further
writes, in either direction: a second round finds nothing to do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from fairway.api.score import (
    AddOnPlacementScore,
    ManagedClusterScore,
    ManagedClusterScoreStatus,
    managed_cluster_score_name,
)
from fairway.controllers.bridge.options import LONGEST_NAME, NAME, BridgeOptions
from fairway.controllers.bridge.origin import (
    DETAIL,
    FROM_ADD_ON,
    FROM_MANAGED,
    is_made_from,
    is_original,
    labels,
)
from fairway.engine.points import Extent
from fairway.hosts.clusters.scores import calculator_of, is_stand_in
from fairway.workloads.placement.plugins.calculator import Calculator
from kubewire.api.meta import FALSE, TRUE, Condition, ObjectMeta, find_condition, format_time

UPDATED: Final = "AddOnPlacementScoreUpdated"
CALCULATED: Final = "ManagedClusterScoreUpdated"
CALCULATED_MESSAGE: Final = "ManagedClusterScore updated successfully"
INCOMPLETE: Final = "ScoresMissing"
FAILING: Final = "CalculatorFailing"

CONDITIONS: Final = {
    ("AddOnPlacementScore", UPDATED): {
        UPDATED: "The copied scores are current.",
        FAILING: "A calculator that the bridge copies reports a failure.",
        INCOMPLETE: "The bridge could not copy a calculator.",
    },
    ("ManagedClusterScore", CALCULATED): {CALCULATED: "The copied score is current."},
}

FAILS: Final = "{name} reports: {message}"
NO_TIME: Final = "{name} has no lastUpdateTime"
TOO_OLD: Final = "{name} was last updated at {time}"
UNREADABLE: Final = "{name}: status.score cannot be read"
SAME_NAME: Final = "{name} would get the same score name {score} as another one"
TAKEN: Final = "{kind} {name} has another owner; skipped"
NO_NAME: Final = "score {score} of {resource} is not valid in an object name"
LONG_NAME: Final = "score {score} of {resource} would need an object name longer than {longest} characters"
ANOTHERS: Final = (
    "score {score} of {resource} and of {other} would both be copied to {name}; only {other}'s is"
)

_ORIGINAL: Final = Calculator(name="any")

Extents = Mapping[str, tuple[int, int]]
"""The smallest and largest value in the fleet, by calculator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A desired object, and the ``current`` one; None if it does not exist."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    status: Mapping[str, Any]
    current: ObjectMeta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    put: tuple[Draft, ...] = ()
    drop: tuple[ObjectMeta, ...] = ()
    recheck_at: datetime | None = None
    """When the plan changes without an event."""
    problems: tuple[str, ...] = ()


def updated(score: ManagedClusterScore) -> datetime | None:
    moments = [
        condition.lastUpdateTime
        for condition in score.status.conditions
        if condition.lastUpdateTime is not None
    ]
    return max(moments, default=None)


def stretched(value: int, extent: tuple[int, int]) -> int:
    """Scale as for a Placement whose candidates are the whole fleet."""
    low, high = extent
    return _ORIGINAL.normalize(value, Extent(low=low, high=high))


# ManagedClusterScores to one AddOnPlacementScore


def plan_add_on(
    managed: Iterable[ManagedClusterScore],
    current: AddOnPlacementScore | None,
    *,
    observed_at: Mapping[str, datetime],
    options: BridgeOptions,
    extents: Extents,
    now: datetime,
) -> Plan:
    """Plan one cluster. ``managed`` are all scores in its namespace. ``observed_at`` has, by name, when the current
    update time of each was first observed."""
    if current is not None and not is_made_from(FROM_MANAGED, current.metadata):
        taken = TAKEN.format(kind="AddOnPlacementScore", name=_full(current.metadata))
        return Plan(problems=(taken,) if options.to_add_on and any(_originals(managed, options)) else ())
    managed = tuple(managed)
    values, raw, ends, problems = _scores(managed, observed_at, options=options, extents=extents, now=now)
    if not values:
        return Plan(drop=() if current is None else (current.metadata,), problems=tuple(problems))
    valid_until = min(ends)
    failing = [] if problems else list(_failing(managed, options))
    condition = Condition(
        type=UPDATED,
        status=FALSE if problems or failing else TRUE,
        reason=INCOMPLETE if problems else FAILING if failing else UPDATED,
        message="; ".join(
            [*problems, *failing, ", ".join(f"{name} {value}" for name, value in sorted(raw.items()))]
        ),
    )
    if current is not None:
        recheck_at = _unchanged_until(current, values, condition, valid_until, ttl=options.ttl, now=now)
        if recheck_at is not None:
            return Plan(recheck_at=min(recheck_at, valid_until), problems=tuple(problems))
    status = {
        "conditions": [_written(condition, None if current is None else current.status.conditions, now=now)],
        "scores": [{"name": name, "value": value} for name, value in sorted(values.items())],
        "validUntil": format_time(valid_until),
    }
    draft = Draft(
        name=options.resource,
        labels=labels(FROM_MANAGED),
        status=status,
        current=None if current is None else current.metadata,
    )
    return Plan(put=(draft,), recheck_at=valid_until, problems=tuple(problems))


def _originals(
    managed: Iterable[ManagedClusterScore], options: BridgeOptions
) -> Iterable[ManagedClusterScore]:
    if not options.to_add_on:
        return
    for score in sorted(managed, key=lambda score: score.metadata.name):
        calculator = calculator_of(score)
        if calculator and options.bridges_calculator(calculator) and is_original(score.metadata):
            yield score


def _failing(managed: Iterable[ManagedClusterScore], options: BridgeOptions) -> Iterable[str]:
    """The condition of scores whose calculator failed, which keep their last value."""
    for score in _originals(managed, options):
        reported = find_condition(score.status.conditions, CALCULATED)
        if reported is not None and reported.status == FALSE:
            message = " ".join((reported.message or reported.reason).split())
            yield FAILS.format(name=score.metadata.name, message=message)


def _scores(
    managed: Iterable[ManagedClusterScore],
    observed_at: Mapping[str, datetime],
    *,
    options: BridgeOptions,
    extents: Extents,
    now: datetime,
) -> tuple[dict[str, int], dict[str, int], list[datetime], list[str]]:
    """By name: scaled and original values, expiry times, and missing scores."""
    scaled: dict[str, int] = {}
    raw: dict[str, int] = {}
    ends: list[datetime] = []
    problems: list[str] = []
    for score in _originals(managed, options):
        calculator, moment = calculator_of(score), updated(score)
        assert calculator is not None
        name = options.score_of(calculator)
        if score.status == ManagedClusterScoreStatus() and score.value is not None:
            continue  # just created, without a status
        if moment is None:
            problems.append(NO_TIME.format(name=score.metadata.name))
            continue
        # A time in the future, from a clock that is ahead, counts as the time at which it was observed.
        end = (
            min(moment, now, observed_at.get(score.metadata.name, now)) + timedelta(seconds=options.ttl)
        ).replace(microsecond=0)
        if end <= now:
            problems.append(TOO_OLD.format(name=score.metadata.name, time=format_time(moment)))
            continue
        if name in scaled:
            problems.append(SAME_NAME.format(name=score.metadata.name, score=name))
            continue
        value = score.value
        if value is None:
            problems.append(UNREADABLE.format(name=score.metadata.name))
            continue
        limits = options.ranges.get(calculator)
        extent = extents.get(calculator, (value, value))
        scaled[name] = limits.score(value) if limits is not None else stretched(value, extent)
        raw[name] = value
        ends.append(end)
    return scaled, raw, ends, problems


def _unchanged_until(
    current: AddOnPlacementScore,
    values: Mapping[str, int],
    condition: Condition,
    valid_until: datetime,
    *,
    ttl: float,
    now: datetime,
) -> datetime | None:
    """When to plan again if there is nothing to write; None if there is."""
    status = current.status
    reported = find_condition(status.conditions, UPDATED)
    same = (
        reported is not None
        and len(status.conditions) == 1
        and (reported.status, reported.reason) == (condition.status, condition.reason)
        and [(item.name, item.value) for item in status.scores] == sorted(values.items())
    )
    if not same or status.validUntil is None or status.validUntil > valid_until:
        return None
    if status.validUntil == valid_until:
        return valid_until
    if status.validUntil <= now:
        return None
    # Half of the time: an expiry that moves with every update of a calculator would be a write for each of them.
    renewal = status.validUntil - timedelta(seconds=ttl / 2)
    return renewal if now < renewal else None


# AddOnPlacementScores to ManagedClusterScores


def plan_managed(
    add_ons: Iterable[AddOnPlacementScore],
    managed: Mapping[str, ManagedClusterScore],
    *,
    cluster: str,
    confirmed: Mapping[str, datetime],
    options: BridgeOptions,
    now: datetime,
) -> Plan:
    """Plan one cluster. ``managed`` are all scores in its namespace, by name. ``confirmed`` has, by name of an
    AddOnPlacementScore, when its provider last published.
    """
    put: list[Draft] = []
    ends: list[datetime] = []
    problems: list[str] = []
    sources: dict[str, tuple[str, str, int]] = {}
    conditions: dict[str, Condition] = {}
    for add_on in sorted(add_ons, key=lambda add_on: add_on.metadata.name):
        resource, end = add_on.metadata.name, add_on.status.validUntil
        if not (options.to_managed and options.bridges_resource(resource) and is_original(add_on.metadata)):
            continue
        if is_stand_in(add_on):
            continue  # its values are replacements by the score controller
        if end is not None:
            if end <= now:
                continue
            ends.append(end)
        conditions[resource] = _calculated(add_on)
        for score, value in {item.name: item.value for item in add_on.status.scores}.items():
            problem, name = _name(cluster, resource, score)
            if name in sources and not problem:
                problem = ANOTHERS.format(score=score, resource=resource, other=sources[name][0], name=name)
            if problem:
                problems.append(problem)
            else:
                sources[name] = (resource, score, value)
    for name, (resource, score, value) in sources.items():
        current = managed.get(name)
        if current is not None and not is_made_from(FROM_ADD_ON, current.metadata):
            problems.append(TAKEN.format(kind="ManagedClusterScore", name=_full(current.metadata)))
            continue
        detail = {DETAIL: f"{resource}/{score}"}
        # The clock may have been set back since, so never use a time in the future.
        seen = min(confirmed[resource], now) if resource in confirmed else None
        condition = conditions[resource]
        moment = _refreshed(current, value, condition, detail, seen, ttl=options.ttl, now=now)
        if moment is None:
            continue
        before = None if current is None else current.status.conditions
        status = {
            "conditions": [{**_written(condition, before, now=now), "lastUpdateTime": format_time(moment)}],
            "score": value,
        }
        draft = Draft(
            name=name,
            labels=labels(FROM_ADD_ON),
            annotations=detail,
            status=status,
            current=None if current is None else current.metadata,
        )
        put.append(draft)
    drop = tuple(
        score.metadata
        for name, score in sorted(managed.items())
        if name not in sources and is_made_from(FROM_ADD_ON, score.metadata)
    )
    return Plan(put=tuple(put), drop=drop, recheck_at=min(ends, default=None), problems=tuple(problems))


def _calculated(source: AddOnPlacementScore) -> Condition:
    """The condition of a copy: updated, unless the original's provider reports a failure."""
    reported = find_condition(source.status.conditions, UPDATED)
    if reported is not None and reported.status == FALSE:
        return Condition(type=CALCULATED, status=FALSE, reason=reported.reason, message=reported.message)
    return Condition(type=CALCULATED, status=TRUE, reason=CALCULATED, message=CALCULATED_MESSAGE)


def _name(cluster: str, resource: str, score: str) -> tuple[str, str]:
    """The error of a score, and the name of its ManagedClusterScore."""
    name = managed_cluster_score_name(cluster=cluster, calculator=score)
    if not NAME.fullmatch(score.lower()):
        return NO_NAME.format(score=repr(score), resource=resource), name
    if len(name) > LONGEST_NAME:
        return LONG_NAME.format(score=repr(score), resource=resource, longest=LONGEST_NAME), name
    return "", name


def _refreshed(
    current: ManagedClusterScore | None,
    value: int,
    condition: Condition,
    detail: Mapping[str, str],
    confirmed: datetime | None,
    *,
    ttl: float,
    now: datetime,
) -> datetime | None:
    """The update time to write; None if the current one suffices."""
    if current is None:
        return confirmed or now
    status, known = current.status, updated(current)
    reported = find_condition(status.conditions, CALCULATED)
    same = (
        current.value == value
        and len(status.conditions) == 1
        and reported is not None
        and (reported.status, reported.reason) == (condition.status, condition.reason)
        and current.metadata.annotations.get(DETAIL) == detail[DETAIL]
    )
    # A time in the future, of a clock that was ahead, would keep the copy from ever being refreshed.
    if known is None or known > now:
        return confirmed or now
    if not same:
        # A failed measurement keeps its time.
        stale = condition.status == FALSE and current.value == value
        return max(known, confirmed or known) if stale else confirmed or now
    due = confirmed is not None and confirmed - known >= timedelta(seconds=ttl / 2)
    return confirmed if due else None


def _written(condition: Condition, before: Iterable[Condition] | None, *, now: datetime) -> dict[str, Any]:
    old = find_condition(before or (), condition.type)
    same = old is not None and old.status == condition.status and old.lastTransitionTime is not None
    moment = old.lastTransitionTime if same and old is not None and old.lastTransitionTime else now
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": format_time(moment),
    }


def _full(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}"
