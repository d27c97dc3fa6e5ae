"""Decide which clusters to taint and to untaint: events and a monotonic clock in, decisions out. No I/O.

The state of a cluster follows from two times: since when its health is low without interruption, and since when it is
healthy without interruption. What concerns many clusters (budgets, order, a suspected provider) follows from these
times too, and is kept while clusters change (``due``, ``low_bursts``): a decision must not visit all low clusters.

Nothing is remembered across processes. The taints are read from the hub; the times count from when this process first
observed them. So a new process waits longer than necessary, and never acts on what it has not observed itself.
"""

from collections import Counter
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from typing import Final

from fairway.controllers.recovery.cluster_state import WORST, ClusterState, Rank
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
from fairway.controllers.recovery.due import DueClusters
from fairway.controllers.recovery.low_bursts import LowBursts
from fairway.controllers.recovery.policy import UNHEALTHY, RecoveryPolicy
from fairway.hosts.steps import Steps, finish

WINDOW: Final = 100
"""So many clusters are considered for the budgets at a time. Those behind them wait until one of these is tainted."""

_Full = tuple[str, int, int, bool]
"""A scope, how many of its budget are used, the budget, and whether no other cluster is available there."""


@dataclass(frozen=True, slots=True)
class _Promises:
    """What clusters that come first use up, by scope, beyond what is on the hub."""

    used: Counter[str] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)
    """Clusters that placements can then no longer move to."""

    def add(self, state: ClusterState) -> None:
        scopes = ("", *state.sets)
        self.used.update(scopes)
        if state.open:
            self.moved.update(scopes)


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
        self._states: dict[str, ClusterState] = {}
        self._low: set[str] = set()
        self._sizes: Counter[str] = Counter()
        """Clusters per set; the fleet has the empty name."""
        self._used: Counter[str] = Counter()
        """Those that count against the budgets."""
        self._open: Counter[str] = Counter()
        """Those that placements could move to."""
        self._known = 0
        self._exempt = 0
        self._low_present = 0
        self._bursts = LowBursts(window=policy.suspect_window)
        self._due = DueClusters(self._states, dwell=policy.dwell)

    # Events

    def handle(self, event: Event, *, now: float) -> bool:
        """Process an event. Return whether decisions about other clusters may have changed."""
        match event:
            case ClusterObserved():
                return self._on_cluster_observed(event, now=now)
            case ClusterDeleted():
                return self._on_cluster_deleted(event.cluster)
            case HealthReported():
                return self._on_health_reported(event, now=now)
            case HealthUnobserved():
                self._due.restart(now=now)
                return False

    def _on_cluster_observed(self, event: ClusterObserved, *, now: float) -> bool:
        state = self._state(event.cluster)
        first, was, counted = not state.present, state.tainted, state.counts
        others = first or (state.sets, state.exempt, state.unavailable) != (
            event.sets,
            event.exempt,
            event.unavailable,
        )
        # The counters change by what the cluster was and by what it is now, so that no event recounts the fleet.
        self._count(state, -1)
        state.present, state.sets = True, event.sets
        state.tainted, state.exempt, state.unavailable = event.tainted, event.exempt, event.unavailable
        # The hub shows what became of an attempt. A refused cluster may be tainted now that it has changed.
        state.attempted = state.refused = False
        self._count(state, 1)
        if first:
            # Health that was published before the cluster existed, or for an earlier one of its name, has no duration.
            self._restart_times(state, now=now)
            self._set_burst_time(state, now if state.low_since is not None and not event.tainted else None)
        elif was != event.tainted:
            # Tainted: the time out of service starts now, however healthy it is. Untainted by another client, on
            # purpose: its dwell time starts again, or recovery would undo at once what a user has done.
            self._restart_times(state, now=now)
        self._due.file(state)
        return others or (counted and not state.counts)

    def _on_cluster_deleted(self, cluster: str) -> bool:
        state = self._states.get(cluster)
        if state is None or not state.present:
            return False
        self._count(state, -1)
        self._set_burst_time(state, None)
        # Scores may outlive the cluster, and exist before it returns.
        state.present = state.tainted = state.exempt = state.unavailable = state.attempted = state.refused = (
            False
        )
        state.sets = frozenset()
        self._due.file(state)
        self._forget(state)
        return True

    def _on_health_reported(self, event: HealthReported, *, now: float) -> bool:
        state = self._state(event.cluster)
        self._count(state, -1)
        before, state.reported, state.score = state.reported, event.score is not None, event.score
        score = WORST if event.score is None else event.score
        has_health = event.score is not None or self.policy.missing == UNHEALTHY
        is_low = has_health and score < self.policy.below
        is_healthy = has_health and score >= self.policy.above
        was_low = state.low_since is not None
        # Between the two thresholds a cluster is neither low nor healthy: a score that swings around one of them
        # restarts its time again and again, and changes nothing.
        if not is_healthy:
            state.healthy_since = None
        elif state.healthy_since is None:
            state.healthy_since = now
        if is_low and not was_low:
            state.low_since = now
            self._low.add(state.name)
            # A taint that was there before the first health says nothing about when the cluster became low: all
            # tainted clusters would look like a burst after each start.
            self._set_burst_time(state, None if state.tainted and not before else now)
        elif was_low and not is_low:
            state.low_since = None
            self._low.discard(state.name)
            self._set_burst_time(state, None)
        self._count(state, 1)
        self._due.file(state)
        self._forget(state)
        return before != state.reported or (was_low and not is_low)

    def attempt(self, cluster: str) -> None:
        # It counts as tainted until the hub says otherwise: after a lost response, another cluster must not get the
        # same room.
        state = self._states[cluster]
        self._count(state, -1)
        state.attempted = True
        self._count(state, 1)
        self._due.file(state)

    def refused(self, cluster: str) -> None:
        state = self._states.get(cluster)
        if state is not None:
            self._count(state, -1)
            state.attempted, state.refused = False, True
            self._count(state, 1)
            self._due.file(state)

    def is_taint_uncertain(self, cluster: str) -> bool:
        """Whether a taint was requested and its outcome is unknown."""
        state = self._states.get(cluster)
        return state is not None and state.attempted

    # Decisions

    def advance(self, *, now: float) -> Steps[None]:
        """Prepare decisions in steps; without it the first decision does all at once."""
        yield from self._due.advance(now=now)

    def decide(self, cluster: str, *, now: float) -> Decision:
        finish(self.advance(now=now))
        state = self._states.get(cluster)
        if state is None or not state.present:
            return WAIT
        if state.exempt:
            return Untaint(reason=EXEMPT) if state.tainted else WAIT
        if state.tainted:
            healthy_since = self._due.healthy_since(state)
            if healthy_since is None:
                return WAIT
            due = healthy_since + self.policy.recovery_dwell
            if now < due:
                return RecheckAfter(until=due)
            return Untaint(reason=RECOVERED, facts=Evidence(score=state.score, since=healthy_since))
        low_since = self._due.since(state)
        if low_since is None:
            return WAIT
        due = low_since + self.policy.dwell
        if now < due:
            return RecheckAfter(until=due)
        facts = Evidence(score=state.score, since=low_since)
        # Before the budgets: they would let a failing provider taint as many clusters as they allow.
        together = self.most_low_at_once()
        if self._suspicious(together):
            return Withheld(reason=SUSPECT, facts=facts, used=together, limit=self._known_or_fleet())
        return self._within_budget(state, state.rank(since=low_since), facts)

    def _within_budget(self, state: ClusterState, rank: Rank, facts: Evidence) -> Decision:
        # First without the clusters that come before: if the budget is used up even so, the order does not matter,
        # and it is the expensive part.
        promises = _Promises()
        full = self._full(state, promises)
        if full is None:
            considered, promises = self._admit(before=rank)
            full = self._full(state, promises)
            if full is None and len(considered) == WINDOW:
                return WAIT  # for its turn: a taint that is written requeues those that are then considered
        if full is not None:
            scope, used, limit, alone = full
            return Withheld(reason=OVER_BUDGET, facts=facts, scope=scope, used=used, limit=limit, alone=alone)
        return Taint(reason=LOW if state.score is not None else MISSING, facts=facts)

    def admitted(self, *, now: float) -> list[str]:
        """Return the clusters to taint now: the most unhealthy that the budgets allow, and that are considered."""
        finish(self.advance(now=now))
        return [] if self.suspicious else [*self._admit()[0], *self._due.attempted(WINDOW)]

    def _admit(self, *, before: Rank | None = None) -> tuple[list[str], _Promises]:
        """Return the first clusters that fit the budgets, in order, and what they use up.

        A group whose budget is used up is left out as a whole: while clusters are admitted, no budget becomes larger.
        """
        promises = _Promises()
        names: list[str] = []
        # A merge of sorted groups, which visits no more than WINDOW clusters and each group that is full once.
        heads = [(ranks[0], 0, ranks) for ranks in self._due.groups()]
        heapify(heads)
        while heads and len(names) < WINDOW:
            rank, at, ranks = heads[0]
            if before is not None and rank >= before:
                break
            state = self._states[rank[-1]]
            if self._full(state, promises) is not None:
                heappop(heads)
                continue
            names.append(state.name)
            promises.add(state)
            if at + 1 < len(ranks):
                heapreplace(heads, (ranks[at + 1], at + 1, ranks))
            else:
                heappop(heads)
        return names, promises

    def _full(self, state: ClusterState, promises: _Promises) -> _Full | None:
        """Return the budget that is used up for a cluster, after ``promises``."""
        # Sets in a fixed order, so that a condition names the same one each time.
        own = 1 if state.attempted else 0  # it occupies the slot itself
        for scope in ("", *sorted(state.sets)):
            limit = (self.policy.per_set if scope else self.policy.fleet).of(self._sizes[scope])
            used = self._used[scope] + promises.used[scope] - own
            if used >= limit:
                return scope, used, limit, False
            # A taint moves placements away. Where the last available cluster is tainted too, they have no other.
            if self._open[scope] - promises.moved[scope] - state.open < 1:
                return scope, used, limit, True
        return None

    def due(self, *, now: float, limit: int | None = None) -> list[str]:
        """Return the clusters to taint if no budget applied, the most unhealthy first; at most ``limit``."""
        finish(self.advance(now=now))
        return self._due.first(limit)

    def count_due(self, *, now: float) -> int:
        finish(self.advance(now=now))
        return len(self._due)

    def most_low_at_once(self) -> int:
        """Return the largest number of clusters, of those low now, that became low within one window."""
        return self._bursts.largest

    @property
    def suspicious(self) -> bool:
        """Whether so many clusters became low at once that the provider is suspected."""
        return self._suspicious(self.most_low_at_once())

    def _suspicious(self, together: int) -> bool:
        # One cluster is never suspicious: in a fleet of two it would be half of it.
        return together >= 2 and together * 100 >= self.policy.suspect_percent * self._known_or_fleet()

    def _known_or_fleet(self) -> int:
        return self._sizes[""] if self.policy.missing == UNHEALTHY else self._known

    def is_low_or_tainted(self, cluster: str) -> bool:
        """Whether to reconcile the cluster whenever its health is reported."""
        state = self._states.get(cluster)
        return state is not None and state.present and (state.low_since is not None or state.tainted)

    def low_clusters(self) -> frozenset[str]:
        return frozenset(self._low)

    def score(self, cluster: str) -> int | None:
        state = self._states.get(cluster)
        return None if state is None else state.score

    def census(self) -> Census:
        return Census(
            fleet=self._sizes[""],
            known=self._known,
            low=self._low_present,
            tainted=self._used[""],
            exempt=self._exempt,
        )

    # Counters

    def _state(self, name: str) -> ClusterState:
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = ClusterState(name)
        return state

    @staticmethod
    def _restart_times(state: ClusterState, *, now: float) -> None:
        """Restart the times of its current state."""
        state.low_since = None if state.low_since is None else now
        state.healthy_since = None if state.healthy_since is None else now

    def _set_burst_time(self, state: ClusterState, moment: float | None) -> None:
        if state.burst_time is not None:
            self._bursts.remove(state.burst_time)
        # Health of a cluster that the hub does not have counts from when it is created.
        state.burst_time = None if moment is None or not state.present else self._bursts.add(moment)

    def _count(self, state: ClusterState, sign: int) -> None:
        if not state.present:
            return
        scopes = ("", *state.sets)
        for scope in scopes:
            self._sizes[scope] += sign
            if state.counts:
                self._used[scope] += sign
            if state.open:
                self._open[scope] += sign
        self._known += sign * state.reported
        self._exempt += sign * state.exempt
        self._low_present += sign * (state.low_since is not None)

    def _forget(self, state: ClusterState) -> None:
        """Drop a cluster without state."""
        if not state.present and not state.reported:
            self._low.discard(state.name)
            self._due.forget(state)
            self._states.pop(state.name, None)
