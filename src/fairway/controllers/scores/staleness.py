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
from fairway.api.score import AddOnPlacementScore
from fairway.controllers.scores import silence_marker
from fairway.controllers.scores.keys import ScoreKey, key_of
from fairway.controllers.scores.policy import SilencePolicy
from fairway.controllers.scores.silence_marker import EXPIRED, UNAVAILABLE, OriginalScores
from fairway.hosts.clusters.scores import is_silent
from kubewire.api.meta import TRUE, Condition, find_condition

LONGEST_UNAVAILABLE: Final = 10 * 365 * 86400.0
WINDOW: Final = 900.0
"""Seconds. When many clusters lose their hub at once, their scores expire within this time, each at its own."""


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
        self._observed: dict[ScoreKey, float] = {}
        """When a status was last observed to change: its provider is alive, wherever it runs."""
        self._unavailable: dict[str, float] = {}
        """Since when, by cluster."""
        self._deleted: dict[ScoreKey, float] = {}
        """Since when the cluster of a score is observed to be missing."""
        self._grace_periods: dict[ScoreKey, float] = {}
        """Longer ones, of providers that were slow."""
        self._reported: dict[ScoreKey, datetime | None] = {}
        """The validUntil of scores whose silence was reported, and that stay as they are."""
        self._marked_at: dict[str, deque[float]] = {}
        """Times of marking within the window, by resource."""
        self._mass_silence_at: dict[str, float] = {}
        self._watch_gap_at = -math.inf

    # Observations

    def record_watch_gap(self, now: float) -> None:
        """Scores or clusters could not be watched until now."""
        self._watch_gap_at = now

    def record_too_many(self, resource: str, now: float) -> None:
        """Too many of the resource's scores were silent until now."""
        self._mass_silence_at[resource] = now

    def observe(self, key: ScoreKey, score: AddOnPlacementScore, *, now: float, in_time: bool) -> bool:
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

    def observe_cluster(self, cluster: ManagedCluster, *, now: float, wall: datetime) -> None:
        name, available = cluster.metadata.name, available_of(cluster)
        if available is None or available.status == TRUE:
            self._unavailable.pop(name, None)
        elif name not in self._unavailable:
            moment = available.lastTransitionTime
            # An agent may write any time, and year 1 causes overflows.
            self._unavailable[name] = now - min(
                max(0.0, (wall - (moment or wall)).total_seconds()), LONGEST_UNAVAILABLE
            )

    def forget_cluster(self, cluster: str) -> None:
        self._unavailable.pop(cluster, None)

    def forget(self, key: ScoreKey) -> None:
        for known in (self._observed, self._deleted, self._grace_periods):
            known.pop(key, None)
        self._reported.pop(key, None)

    def record_report(self, key: ScoreKey, score: AddOnPlacementScore) -> None:
        """Record that the silence was reported, where nothing else is to be done."""
        self._reported[key] = score.status.validUntil

    def is_reported(self, key: ScoreKey) -> bool:
        return key in self._reported

    def count_marked(self, resource: str, *, now: float) -> None:
        """Count a marked score."""
        self._marked_at.setdefault(resource, deque()).append(now)

    def record_return(self, key: ScoreKey, *, now: float, silent_for: float) -> None:
        """The provider published again after so many seconds."""
        self._observed[key] = now
        self._grace_periods[key] = max(self.grace_period(key), 2 * silent_for)

    def grace_period(self, key: ScoreKey) -> float:
        return self._grace_periods.get(key, self._policy.grace)

    # Decisions

    def judge(
        self, score: AddOnPlacementScore, cluster: ManagedCluster | None, *, now: float, wall: datetime
    ) -> StalenessVerdict:
        key = key_of(score)
        # First: what a provider has written counts, whatever the state of its cluster.
        if is_silent(score) and not silence_marker.is_unchanged(score, self._policy):
            return Returned()
        if cluster is None:
            # The cluster may be listed later than its scores, or be recreated: wait as for a silence.
            since = self._deleted.setdefault(key, now)
            return self._in_time(max(since, self._watch_gap_at) + self._policy.grace - now, Orphan())
        self._deleted.pop(key, None)
        if is_silent(score):
            return self._marked(score, cluster, wall=wall)
        until = score.status.validUntil
        if until is None:
            return NoAction()
        # By the hub's clock, because validUntil was written by another machine; everything else by the monotonic clock.
        grace = self.grace_period(key)
        left, silent = grace - (wall - until).total_seconds(), Silent(EXPIRED, until)
        unavailable_since = self._unavailable_since(key)
        if unavailable_since is not None and unavailable_since + grace - now < left:
            left, silent = (
                unavailable_since + grace - now,
                Silent(UNAVAILABLE, wall - timedelta(seconds=now - unavailable_since)),
            )
        # A hub-side fault silences healthy providers. After it, all of them get the time to publish again.
        grace_ends_at = (
            max(self._watch_gap_at, self._mass_silence_at.get(key.resource, -math.inf)) + self._policy.grace
        )
        return self._in_time(max(left, grace_ends_at - now), silent)

    @staticmethod
    def _in_time(left: float, verdict: StalenessVerdict) -> StalenessVerdict:
        return verdict if left <= 0 else RecheckAfter(left)

    @staticmethod
    def _marked(score: AddOnPlacementScore, cluster: ManagedCluster, *, wall: datetime) -> StalenessVerdict:
        original, available = silence_marker.original_values(score), available_of(cluster)
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

    def _unavailable_since(self, key: ScoreKey) -> float | None:
        """Return since when the cluster is unavailable, if the score was not written since."""
        since = self._unavailable.get(key.cluster)
        return None if since is None or self._observed.get(key, -math.inf) > since else since

    def census(
        self, resource: str, scores: Iterable[AddOnPlacementScore], *, now: float, wall: datetime
    ) -> Census:
        # Marked scores are no longer expired, so they are counted here: otherwise a slow wave of expiries would never
        # look like too many.
        recent = self._marked_at.get(resource, deque())
        while recent and recent[0] < now - WINDOW:
            recent.popleft()
        quiet, live = len(recent), 0
        for score in scores:
            key, until = key_of(score), score.status.validUntil
            if until is None or key in self._reported or is_silent(score):
                continue
            if until < wall or self._unavailable_since(key) is not None:
                quiet += 1
            else:
                live += 1
        return Census(quiet, live)


def available_of(cluster: ManagedCluster) -> Condition | None:
    return find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
