"""Decide which clusters to taint and to untaint: events and a monotonic clock in, decisions out. No I/O.

The state of a cluster follows from two times: since when its health is low without interruption, and since when it is
healthy without interruption. What concerns many clusters (budgets, order, a suspected provider) is computed from these
times on demand.

Nothing is remembered across processes. The taints are read from the hub; the times count from when this process first
observed them. So a new process waits longer than necessary, and never acts on what it has not observed itself.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairway.controllers.recovery.decision import (
    EXEMPT,
    LOW,
    MISSING,
    OVER_BUDGET,
    RECOVERED,
    SUSPECT,
    WAIT,
    ClusterDeleted,
    ClusterObserved,
    Decision,
    Event,
    Evidence,
    HealthReported,
    HealthUnobserved,
    RecheckAfter,
    Taint,
    Untaint,
    Withheld,
)
from fairway.controllers.recovery.policy import UNHEALTHY, RecoveryPolicy

_WORST: Final = -(2**63)
"""Rank of a cluster with missing health, where that is unhealthy: below every score."""


_Full = tuple[str, int, int, bool]
"""A scope, how many of its budget are used, the budget, and whether no other cluster is available there."""


@dataclass(slots=True)
class _ClusterState:
    """State of one cluster."""

    name: str
    present: bool = False
    sets: frozenset[str] = frozenset()
    tainted: bool = False
    exempt: bool = False
    away: bool = False
    attempted: bool = False
    """A taint was requested, and its outcome is unknown."""
    refused: bool = False
    """The hub refused the taint, and the cluster has not changed since."""
    heard: bool = False
    score: int | None = None
    low_since: float | None = None
    well_since: float | None = None
    fell_at: float | None = None
    """When it became low. None while it is not low, and for a cluster that was tainted before this process observed
    it."""

    @property
    def counts(self) -> bool:
        """Whether it counts against the budgets."""
        return self.present and (self.tainted or self.attempted)

    @property
    def open(self) -> bool:
        """Whether placements could move there."""
        return self.present and not (self.counts or self.away)

    def rank(self) -> tuple[bool, int, float, str]:
        """Sort key: the most unhealthy first, then the longest unhealthy; refused ones last, so that they do not block
        others."""
        assert self.low_since is not None
        return (self.refused, _WORST if self.score is None else self.score, self.low_since, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    fleet: int
    known: int
    """Clusters with known health."""
    low: int
    tainted: int
    exempt: int


class RecoveryStateMachine:
    """Pass events to ``handle``, then call ``decide`` for a cluster. Time only runs forward.

    Before writing a taint, the controller calls ``attempt``; afterwards it reports the outcome by
    ``handle(ClusterObserved(...))``, or by ``refused`` if the hub certainly did not write it. Until then the taint
    counts as written.
    """

    def __init__(self, policy: RecoveryPolicy) -> None:
        self.policy = policy
        self._cases: dict[str, _ClusterState] = {}
        self._low: set[str] = set()
        self._sizes: Counter[str] = Counter()
        """Clusters per set; the fleet has the empty name."""
        self._used: Counter[str] = Counter()
        """Those that count against the budgets."""
        self._open: Counter[str] = Counter()
        """Those that placements could move to."""
        self._known = 0
        self._exempt = 0
        self._together: int | None = None
        """Cached: the largest number of clusters that became low within one window."""

    # Events

    def handle(self, event: Event, *, now: float) -> bool:
        """Process an event. Return whether decisions about other clusters may have changed."""
        match event:
            case ClusterObserved():
                return self._seen(event, now=now)
            case ClusterDeleted():
                return self._on_cluster_deleted(event.cluster)
            case HealthReported():
                return self._on_health_reported(event, now=now)
            case HealthUnobserved():
                for case in self._cases.values():
                    self._restart_times(case, now=now)
                return False

    def _seen(self, event: ClusterObserved, *, now: float) -> bool:
        case = self._case(event.cluster)
        first, was, counted = not case.present, case.tainted, case.counts
        others = first or (case.sets, case.exempt, case.away) != (event.sets, event.exempt, event.away)
        self._count(case, -1)
        case.present, case.sets = True, event.sets
        case.tainted, case.exempt, case.away = event.tainted, event.exempt, event.away
        case.attempted = case.refused = False
        self._count(case, 1)
        if first:
            # Health that was published before the cluster existed, or for an earlier one of its name, has no duration.
            self._restart_times(case, now=now)
            self._set_fell_at(case, now if case.low_since is not None and not event.tainted else None)
        elif was != event.tainted:
            # Tainted: the time out of service starts now, however healthy it is. Untainted by another client, on
            # purpose:
            # its dwell time starts again.
            self._restart_times(case, now=now)
        return others or (counted and not case.counts)

    def _on_cluster_deleted(self, cluster: str) -> bool:
        case = self._cases.get(cluster)
        if case is None or not case.present:
            return False
        self._count(case, -1)
        # Scores may outlive the cluster, and exist before it returns.
        case.present = case.tainted = case.exempt = case.away = case.attempted = case.refused = False
        case.sets = frozenset()
        self._forget(case)
        return True

    def _on_health_reported(self, event: HealthReported, *, now: float) -> bool:
        case = self._case(event.cluster)
        self._count(case, -1)
        before, case.heard, case.score = case.heard, event.score is not None, event.score
        self._count(case, 1)
        worth = _WORST if event.score is None else event.score
        told = event.score is not None or self.policy.missing == UNHEALTHY
        low, well = told and worth < self.policy.below, told and worth >= self.policy.above
        was_low = case.low_since is not None
        case.well_since = (now if case.well_since is None else case.well_since) if well else None
        if low and not was_low:
            case.low_since = now
            self._low.add(case.name)
            self._set_fell_at(case, None if case.tainted and not before else now)
        elif was_low and not low:
            case.low_since = None
            self._low.discard(case.name)
            self._set_fell_at(case, None)
        self._forget(case)
        return before != case.heard or (was_low and not low)

    def attempt(self, cluster: str) -> None:
        case = self._cases[cluster]
        self._count(case, -1)
        case.attempted = True
        self._count(case, 1)

    def refused(self, cluster: str) -> None:
        case = self._cases.get(cluster)
        if case is not None:
            self._count(case, -1)
            case.attempted, case.refused = False, True
            self._count(case, 1)

    def is_taint_uncertain(self, cluster: str) -> bool:
        """Whether a taint was requested and its outcome is unknown."""
        case = self._cases.get(cluster)
        return case is not None and case.attempted

    # Decisions

    def decide(self, cluster: str, *, now: float) -> Decision:
        case = self._cases.get(cluster)
        if case is None or not case.present:
            return WAIT
        if case.exempt:
            return Untaint(reason=EXEMPT) if case.tainted else WAIT
        if case.tainted:
            if case.well_since is None:
                return WAIT
            due = case.well_since + self.policy.recovery_dwell
            if now < due:
                return RecheckAfter(until=due)
            return Untaint(reason=RECOVERED, facts=Evidence(score=case.score, since=case.well_since))
        if case.low_since is None:
            return WAIT
        due = case.low_since + self.policy.dwell
        if now < due:
            return RecheckAfter(until=due)
        facts = Evidence(score=case.score, since=case.low_since)
        together = self.most_low_at_once()
        if self._suspicious(together):
            return Withheld(reason=SUSPECT, facts=facts, used=together, limit=self._known_or_fleet())
        return self._within_budget(case, facts, now=now)

    def _within_budget(self, case: _ClusterState, facts: Evidence, *, now: float) -> Decision:
        # Ranking is only needed if the budget has room.
        full = self._full(case, self._used, self._open) or self._admit(self.due(now=now), upto=case.name)[1]
        if full is not None:
            scope, used, limit, alone = full
            return Withheld(reason=OVER_BUDGET, facts=facts, scope=scope, used=used, limit=limit, alone=alone)
        return Taint(reason=LOW if case.score is not None else MISSING, facts=facts)

    def admitted(self, *, now: float) -> list[str]:
        """Return the clusters to taint now: the most unhealthy that the budgets allow."""
        return [] if self.suspicious else self._admit(self.due(now=now))[0]

    def _admit(self, due: Iterable[str], *, upto: str = "") -> tuple[list[str], _Full | None]:
        """Return the clusters that fit the budgets, in order, and for the others the budget that is used up."""
        used, left = self._used.copy(), self._open.copy()
        found: list[str] = []
        for name in due:
            case = self._cases[name]
            full = self._full(case, used, left)
            if name == upto:
                return found, full
            if full is None:
                found.append(name)
                if not case.attempted:
                    used.update(("", *case.sets))
                if case.open:
                    left.subtract(("", *case.sets))
        return found, None

    def _full(self, case: _ClusterState, used: Counter[str], left: Counter[str]) -> _Full | None:
        """``left``: clusters per scope that placements could move to."""
        own = 1 if case.attempted else 0  # it occupies the slot itself
        for scope in ("", *sorted(case.sets)):
            limit = (self.policy.per_set if scope else self.policy.fleet).of(self._sizes[scope])
            if used[scope] - own >= limit:
                return scope, used[scope] - own, limit, False
            if left[scope] - case.open < 1:
                return scope, used[scope] - own, limit, True
        return None

    def due(self, *, now: float) -> list[str]:
        """Return the clusters to taint if no budget applied, the most unhealthy first."""
        cases = (self._cases[name] for name in self._low)
        found = [
            case
            for case in cases
            if case.present
            and not (case.tainted or case.exempt)
            and case.low_since is not None
            and now >= case.low_since + self.policy.dwell
        ]
        return [case.name for case in sorted(found, key=_ClusterState.rank)]

    def most_low_at_once(self) -> int:
        """Return the largest number of clusters, of those low now, that became low within one window."""
        if self._together is None:
            low = (self._cases[name] for name in self._low)
            moments = sorted(each.fell_at for each in low if each.present and each.fell_at is not None)
            self._together = max(
                (
                    at + 1 - bisect_left(moments, moment - self.policy.suspect_window)
                    for at, moment in enumerate(moments)
                ),
                default=0,
            )
        return self._together

    @property
    def suspicious(self) -> bool:
        """Whether so many clusters became low at once that the provider is suspected."""
        return self._suspicious(self.most_low_at_once())

    def _suspicious(self, together: int) -> bool:
        return together >= 2 and together * 100 >= self.policy.suspect_percent * self._known_or_fleet()

    def _known_or_fleet(self) -> int:
        return self._sizes[""] if self.policy.missing == UNHEALTHY else self._known

    def is_low_or_tainted(self, cluster: str) -> bool:
        """Whether to reconcile the cluster whenever its health is reported."""
        case = self._cases.get(cluster)
        return case is not None and case.present and (case.low_since is not None or case.tainted)

    def low(self) -> frozenset[str]:
        return frozenset(self._low)

    def score(self, cluster: str) -> int | None:
        case = self._cases.get(cluster)
        return None if case is None else case.score

    def census(self) -> Census:
        low = sum(self._cases[name].present for name in self._low)
        return Census(
            fleet=self._sizes[""], known=self._known, low=low, tainted=self._used[""], exempt=self._exempt
        )

    # Counters

    def _case(self, name: str) -> _ClusterState:
        case = self._cases.get(name)
        if case is None:
            case = self._cases[name] = _ClusterState(name)
        return case

    @staticmethod
    def _restart_times(case: _ClusterState, *, now: float) -> None:
        """Restart the times of its current state."""
        case.low_since = None if case.low_since is None else now
        case.well_since = None if case.well_since is None else now

    def _set_fell_at(self, case: _ClusterState, moment: float | None) -> None:
        case.fell_at = moment
        self._together = None

    def _count(self, case: _ClusterState, sign: int) -> None:
        if not case.present:
            return
        scopes = ("", *case.sets)
        for scope in scopes:
            self._sizes[scope] += sign
            if case.counts:
                self._used[scope] += sign
            if case.open:
                self._open[scope] += sign
        self._known += sign * case.heard
        self._exempt += sign * case.exempt
        self._together = None

    def _forget(self, case: _ClusterState) -> None:
        """Drop a cluster without state."""
        if not case.present and not case.heard:
            self._low.discard(case.name)
            self._cases.pop(case.name, None)
