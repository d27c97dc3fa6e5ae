"""Decide which scores are silent, from what was observed and when. No I/O.

A score is silent when its validUntil has passed by more than a grace period, because clocks differ. A valid score is
silent too, if its cluster has been unavailable for as long and nothing was written since: a write means that its
provider runs elsewhere.

A provider that overwrites the replacement values was slow, not dead: from then on its grace period is twice as long,
until it renews in time. After a start, and after a watch gap of scores or clusters, all grace periods start again.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fairway.api.cluster import CONDITION_AVAILABLE, ManagedCluster
from fairway.api.meta import TRUE, Condition, find_condition
from fairway.api.score import AddOnPlacementScore
from fairway.clusters.scores import is_silent
from fairway.controllers.scores import silence_marker
from fairway.controllers.scores.policy import SilencePolicy
from fairway.controllers.scores.silence_marker import EXPIRED, UNAVAILABLE, OriginalScores

LONGEST_AWAY: Final = 10 * 365 * 86400.0
WINDOW: Final = 900.0
"""Seconds. When many clusters lose their hub at once, their scores expire within this time, each at its own."""

Key = tuple[str, str]
"""(cluster, resource)"""


@dataclass(frozen=True, slots=True)
class RecheckAfter:
    """Check again after so many seconds, if nothing changes."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Silent:
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Returned:
    """The provider has written to a score that was marked silent."""


@dataclass(frozen=True, slots=True)
class Restorable:
    """Its cluster is available again, and the original values are still valid."""

    original: OriginalScores


@dataclass(frozen=True, slots=True)
class Orphan:
    """Its cluster was deleted."""


@dataclass(frozen=True, slots=True)
class NoAction:
    """Nothing to do."""


StalenessVerdict = RecheckAfter | Silent | Returned | Restorable | Orphan | NoAction


@dataclass(frozen=True, slots=True)
class Census:
    """Counts of one resource's scores with validUntil, without those marked a while ago."""

    quiet: int
    """Expired, or of unavailable clusters, or marked within the window."""
    live: int

    @property
    def all(self) -> int:
        return self.quiet + self.live

    def too_many(self, share: float, *, least: int) -> bool:
        """Whether so many are silent at once that a hub-side fault is likely."""
        return self.quiet >= least and self.quiet > share * self.all


class StalenessTracker:
    """``now`` is the monotonic clock, ``wall`` the hub's clock at that moment."""

    def __init__(self, policy: SilencePolicy) -> None:
        self._policy = policy
        self._observed: dict[Key, float] = {}
        self._away: dict[str, float] = {}
        self._deleted: dict[Key, float] = {}
        self._grace_periods: dict[Key, float] = {}
        self._reported: dict[Key, datetime | None] = {}
        self._given_up: dict[str, deque[float]] = {}
        """Times of marking within the window, by resource."""
        self._unrest: dict[str, float] = {}
        self._blind = -math.inf

    # Observations

    def record_watch_gap(self, now: float) -> None:
        """Scores or clusters could not be watched until now."""
        self._blind = now

    def record_too_many(self, resource: str, now: float) -> None:
        """Too many of the resource's scores were silent until now."""
        self._unrest[resource] = now

    def observe(self, key: Key, score: AddOnPlacementScore, *, now: float, in_time: bool) -> bool:
        """Record a changed status. ``in_time``: before the previous one expired. Return whether to decide again,
        because the score may become silent sooner than before."""
        if is_silent(score):
            return True
        self._observed[key] = now
        recheck = in_time and self._grace_periods.pop(key, None) is not None
        if key in self._reported and self._reported[key] != score.status.validUntil:
            del self._reported[key]
            recheck = True
        return recheck

    def seen(self, cluster: ManagedCluster, *, now: float, wall: datetime) -> None:
        name, available = cluster.metadata.name, available_of(cluster)
        if available is None or available.status == TRUE:
            self._away.pop(name, None)
        elif name not in self._away:
            moment = available.lastTransitionTime
            # An agent may write any time, and year 1 causes overflows.
            self._away[name] = now - min(max(0.0, (wall - (moment or wall)).total_seconds()), LONGEST_AWAY)

    def left(self, cluster: str) -> None:
        self._away.pop(cluster, None)

    def forget(self, key: Key) -> None:
        for known in (self._observed, self._deleted, self._grace_periods):
            known.pop(key, None)
        self._reported.pop(key, None)

    def record_report(self, key: Key, score: AddOnPlacementScore) -> None:
        """Record that the silence was reported, where nothing else is to be done."""
        self._reported[key] = score.status.validUntil

    def is_reported(self, key: Key) -> bool:
        return key in self._reported

    def count_marked(self, resource: str, *, now: float) -> None:
        """Count a marked score."""
        self._given_up.setdefault(resource, deque()).append(now)

    def record_return(self, key: Key, *, now: float, silent_for: float) -> None:
        """The provider published again after so many seconds."""
        self._observed[key] = now
        self._grace_periods[key] = max(self.grace_period(key), 2 * silent_for)

    def grace_period(self, key: Key) -> float:
        return self._grace_periods.get(key, self._policy.grace)

    # Decisions

    def judge(
        self, score: AddOnPlacementScore, cluster: ManagedCluster | None, *, now: float, wall: datetime
    ) -> StalenessVerdict:
        key = (score.metadata.namespace, score.metadata.name)
        if is_silent(score) and not silence_marker.untouched(score, self._policy):
            return Returned()
        if cluster is None:
            since = self._deleted.setdefault(key, now)
            return self._in_time(max(since, self._blind) + self._policy.grace - now, Orphan())
        self._deleted.pop(key, None)
        if is_silent(score):
            return self._marked(score, cluster, wall=wall)
        until = score.status.validUntil
        if until is None:
            return NoAction()
        grace = self.grace_period(key)
        left, found = grace - (wall - until).total_seconds(), Silent(EXPIRED, until)
        away = self._away_since(key)
        if away is not None and away + grace - now < left:
            left, found = away + grace - now, Silent(UNAVAILABLE, wall - timedelta(seconds=now - away))
        calm = max(self._blind, self._unrest.get(key[1], -math.inf)) + self._policy.grace
        return self._in_time(max(left, calm - now), found)

    @staticmethod
    def _in_time(left: float, found: StalenessVerdict) -> StalenessVerdict:
        return found if left <= 0 else RecheckAfter(left)

    @staticmethod
    def _marked(score: AddOnPlacementScore, cluster: ManagedCluster, *, wall: datetime) -> StalenessVerdict:
        original, available = silence_marker.before(score), available_of(cluster)
        if (
            silence_marker.reason_of(score) == UNAVAILABLE
            and original is not None
            and original.valid_until is not None
            and original.valid_until > wall
            and available is not None
            and available.status == TRUE
        ):
            return Restorable(original)
        return NoAction()

    def _away_since(self, key: Key) -> float | None:
        """Return since when the cluster is unavailable, if the score was not written since."""
        away = self._away.get(key[0])
        return None if away is None or self._observed.get(key, -math.inf) > away else away

    def census(
        self, resource: str, scores: Iterable[AddOnPlacementScore], *, now: float, wall: datetime
    ) -> Census:
        recent = self._given_up.get(resource, deque())
        while recent and recent[0] < now - WINDOW:
            recent.popleft()
        quiet, live = len(recent), 0
        for each in scores:
            key, until = (each.metadata.namespace, each.metadata.name), each.status.validUntil
            if until is None or key in self._reported or is_silent(each):
                continue
            if until < wall or self._away_since(key) is not None:
                quiet += 1
            else:
                live += 1
        return Census(quiet, live)


def available_of(cluster: ManagedCluster) -> Condition | None:
    return find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
