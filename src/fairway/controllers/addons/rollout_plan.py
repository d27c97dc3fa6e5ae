"""Decide which clusters of a Placement get a changed configuration now, by the rollout strategy of the add-on.

The results are those of OCM wherever its tests define them. Where OCM's answer depends on the order of names, this is
stricter: all failures and time-outs count before any cluster is released, and clusters that are still progressing keep
their slots, so that never more than ``maxConcurrency`` clusters progress at a time.
"""

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from math import ceil
from typing import Final

from fairway.api.addon import (
    ROLLOUT_ALL,
    ROLLOUT_PER_GROUP,
    ROLLOUT_PROGRESSIVE,
    MandatoryDecisionGroup,
    RolloutAll,
    RolloutPerGroup,
    RolloutProgressive,
    RolloutStrategy,
)
from fairway.hosts.steps import Steps, strides
from kubecel.instants import parse_duration

NO_DEADLINE: Final = ("", "None")
INVALID: Final = "rolloutStrategy.{field} is invalid; got {value!r}"


class InvalidStrategy(Exception):
    """A strategy that cannot be followed: no cluster gets a changed configuration."""


class Phase(Enum):
    TO_APPLY = auto()
    PROGRESSING = auto()
    FAILED = auto()
    SUCCEEDED = auto()


@dataclass(frozen=True, slots=True)
class Member:
    """A cluster with the add-on. ``since``: when the phase began, if known."""

    phase: Phase
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A decision group."""

    index: int
    name: str
    clusters: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPlan:
    listed: frozenset[str] = frozenset()
    """Clusters that get the configuration now, are progressing, or soak."""
    released: frozenset[str] = frozenset()
    """Those of them that get it now."""
    done: int = 0
    """Clusters that succeeded and do not soak any more."""
    failed: int = 0
    """Clusters that failed and are not listed any more."""
    timed_out: frozenset[str] = frozenset()
    recheck: datetime | None = None
    """The next end of a deadline or of a soak time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    deadline: timedelta | None = None
    soak: timedelta = timedelta()
    failures: int | str | None = None
    concurrency: int | str | None = None
    mandatory: tuple[MandatoryDecisionGroup, ...] = ()


@dataclass(slots=True)
class _Census:
    """The members by what they do."""

    waiting: set[str]
    in_flight: set[str]
    """Progressing, failed within the deadline, or soaking."""
    failed: set[str]
    timed_out: set[str]
    done: int = 0
    recheck: datetime | None = None

    def until(self, moment: datetime) -> None:
        self.recheck = moment if self.recheck is None else min(self.recheck, moment)


def plan(
    strategy: RolloutStrategy,
    groups: Sequence[Group],
    members: Mapping[str, Member],
    *,
    now: datetime,
    default_concurrency: int | str | None = None,
) -> Steps[RolloutPlan]:
    """Raise InvalidStrategy. ``members`` are the clusters for which this strategy is in effect."""
    limits = _limits(strategy)
    census = yield from _census(members, limits, now=now)
    if strategy.type in ("", ROLLOUT_ALL):
        return _result(census, released=census.waiting)
    # Mandatory groups first, in both strategies: nothing else begins before they are complete.
    ordered = sorted(groups, key=lambda group: (group.index, group.name))
    first = [group for group in ordered if _is_mandatory(group, limits.mandatory)]
    released, complete = _by_group(first, census, failures=None)
    if not complete:
        return _result(census, released=released)
    rest = [group for group in ordered if group not in first]
    if strategy.type == ROLLOUT_PER_GROUP:
        released, _ = _by_group(rest, census, failures=limits.failures)
        return _result(census, released=released)
    clusters = frozenset[str]().union(*(group.clusters for group in rest))
    # maxFailures is a share of all clusters, maxConcurrency one of those that are not mandatory.
    total = len(frozenset[str]().union(*(group.clusters for group in groups)))
    wanted = limits.concurrency or default_concurrency
    size = max(_amount(wanted, len(clusters), "maxConcurrency") if wanted else len(clusters), 1)
    failures = len((census.failed | census.timed_out) & clusters)
    breached = failures > _amount(limits.failures, total, "maxFailures")
    # Those in progress keep their slots after a breach, too: what a cluster has begun cannot be taken back.
    free = 0 if breached else max(size - len(census.in_flight & clusters), 0)
    waiting = census.waiting & clusters
    # The first by name: with the same members, a new leader releases the same clusters. The heap avoids sorting
    # 100,000 names for a few slots.
    released = waiting if free >= len(waiting) else set(heapq.nsmallest(free, waiting))
    return _result(census, released=released)


def _census(members: Mapping[str, Member], limits: _Limits, *, now: datetime) -> Steps[_Census]:
    census = _Census(waiting=set(), in_flight=set(), failed=set(), timed_out=set())
    for part in strides(members.items()):
        for cluster, member in part:
            _count(census, cluster, member, limits, now=now)
        yield
    return census


def _count(census: _Census, cluster: str, member: Member, limits: _Limits, *, now: datetime) -> None:
    if member.phase is Phase.TO_APPLY:
        census.waiting.add(cluster)
    elif member.phase is Phase.SUCCEEDED:
        if not limits.soak:
            census.done += 1
        elif member.since is None:
            # It reported a problem after it had succeeded, and soaks again once that is over.
            census.in_flight.add(cluster)
        elif now < (end := member.since + limits.soak):
            census.in_flight.add(cluster)
            census.until(end)
        else:
            census.done += 1
    else:
        if member.phase is Phase.FAILED:
            census.failed.add(cluster)
        if limits.deadline is None:
            census.in_flight.add(cluster)
        # Without a time, the deadline begins now, each time: a late time-out is better than one without a wait.
        elif now < (end := (member.since or now) + limits.deadline):
            census.in_flight.add(cluster)
            census.until(end)
        else:
            census.timed_out.add(cluster)


def _by_group(
    groups: Sequence[Group], census: _Census, *, failures: int | str | None
) -> tuple[set[str], bool]:
    """Return the clusters to release, and whether all groups are complete."""
    released: set[str] = set()
    for group in groups:
        waiting = census.waiting & group.clusters
        failed = (census.failed | census.timed_out) & group.clusters
        released |= waiting
        breached = len(failed) > _amount(failures, len(group.clusters), "maxFailures")
        # A failed cluster does not keep the next group waiting, unless too many have failed.
        if waiting or (census.in_flight - failed) & group.clusters or breached:
            return released, False
    return released, True


def _is_mandatory(group: Group, mandatory: Collection[MandatoryDecisionGroup]) -> bool:
    return any(
        group.name == wanted.groupName if wanted.groupName else group.index == wanted.groupIndex
        for wanted in mandatory
    )


def _result(census: _Census, *, released: set[str]) -> RolloutPlan:
    return RolloutPlan(
        listed=frozenset(census.in_flight | released),
        released=frozenset(released),
        done=census.done,
        failed=len(census.failed - census.in_flight),
        timed_out=frozenset(census.timed_out),
        recheck=census.recheck,
    )


def _limits(strategy: RolloutStrategy) -> _Limits:
    given: RolloutPerGroup
    concurrency = None
    if strategy.type in ("", ROLLOUT_ALL):
        return _Limits(deadline=_deadline((strategy.all or RolloutAll()).progressDeadline))
    if strategy.type == ROLLOUT_PROGRESSIVE:
        given = progressive = strategy.progressive or RolloutProgressive()
        concurrency = progressive.maxConcurrency
    elif strategy.type == ROLLOUT_PER_GROUP:
        given = strategy.progressivePerGroup or RolloutPerGroup()
    else:
        raise InvalidStrategy(INVALID.format(field="type", value=strategy.type))
    return _Limits(
        deadline=_deadline(given.progressDeadline),
        soak=_duration(given.minSuccessTime or "0", "minSuccessTime"),
        failures=given.maxFailures,
        concurrency=concurrency,
        mandatory=given.mandatoryDecisionGroups,
    )


def _deadline(text: str) -> timedelta | None:
    return None if text in NO_DEADLINE else _duration(text, "progressDeadline")


def _duration(text: str, name: str) -> timedelta:
    length = parse_duration(text)
    if length is None or length.nanos < 0:
        raise InvalidStrategy(INVALID.format(field=name, value=text))
    return timedelta(microseconds=length.nanos // 1000)


def _amount(value: int | str | None, total: int, name: str) -> int:
    """A number or a percentage, rounded up, of a total; never more than that."""
    match value:
        case None:
            return 0
        case int():
            number = value
        case str():
            digits = value.removesuffix("%")
            if not (digits.isascii() and digits.isdecimal()) or len(digits) > 9:
                raise InvalidStrategy(INVALID.format(field=name, value=value))
            number = int(digits)
            if value.endswith("%"):
                number = ceil(number * total / 100)
    return min(max(number, 0), total)
