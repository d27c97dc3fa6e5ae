"""Recovery keeps its guarantees after any events in a fleet.

The instructions of the state machine are carried out sooner or later, and other clients change clusters; a model keeps
the facts that each guarantee is about.
"""

from collections import defaultdict
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fairway.controllers.recovery.decision import (
    EXEMPT,
    HELD,
    REASONS,
    ClusterDeleted,
    ClusterObserved,
    HealthReported,
    HealthUnobserved,
    RecheckAfter,
    Taint,
    Untaint,
    Withheld,
)
from fairway.controllers.recovery.policy import IGNORE, UNHEALTHY, Budget, RecoveryPolicy
from fairway.controllers.recovery.state_machine import RecoveryStateMachine

NAMES = [f"c{number}" for number in range(8)]
SETS = ["east", "west"]

names = st.sampled_from(NAMES)
sets = st.frozensets(st.sampled_from(SETS))
scores = st.one_of(st.none(), st.sampled_from([-100, -21, -20, 0, 19, 20, 100]))
policies = st.builds(
    RecoveryPolicy,
    dwell=st.just(30.0),
    recovery_dwell=st.just(90.0),
    missing=st.sampled_from([IGNORE, UNHEALTHY]),
    fleet=st.builds(Budget, percent=st.sampled_from([10, 30, 100]), count=st.sampled_from([None, 1, 3])),
    per_set=st.builds(Budget, percent=st.sampled_from([20, 50, 100]), count=st.sampled_from([None, 2])),
    suspect_percent=st.sampled_from([30, 60, 100]),
    suspect_window=st.sampled_from([10.0, 40.0]),
)


class Fleet(RuleBasedStateMachine):
    """``low_since`` and ``healthy_since``: by cluster, the time from which it is so without interruption."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.clusters: dict[str, ClusterObserved] = {}
        self.scores: dict[str, int | None] = defaultdict(lambda: None)
        self.low_since: dict[str, float] = {}
        self.healthy_since: dict[str, float] = {}
        self.fell: dict[str, float] = {}
        self.uncertain: set[str] = set()

    @initialize(policy=policies, of=st.lists(sets, min_size=len(NAMES), max_size=len(NAMES)))
    def begin(self, policy: RecoveryPolicy, of: list[frozenset[str]]) -> None:
        self.policy = policy
        self.machine = RecoveryStateMachine(policy)
        for name, state in zip(NAMES, of, strict=True):
            self.join(name, state)
            self.publish(name, 100)

    # What happens

    @rule(name=names, of=sets)
    def join(self, name: str, of: frozenset[str]) -> None:
        known = self.clusters.get(name, ClusterObserved(cluster=name))
        self._see(replace(known, sets=of, exempt=False))

    @rule(name=names, score=scores)
    def publish(self, name: str, score: int | None) -> None:
        was_low, seen = name in self.low_since, self.clusters.get(name)
        self.scores[name] = score
        self.machine.handle(HealthReported(cluster=name, score=score), now=self.now)
        self._book(name)
        if name not in self.low_since:
            self.fell.pop(name, None)
        elif not was_low and seen is not None and not seen.tainted:
            self.fell[name] = self.now

    @rule(some=st.lists(names, min_size=1, max_size=5, unique=True), score=scores)
    def publish_together(self, some: list[str], score: int | None) -> None:
        for name in some:
            self.publish(name, score)

    @rule(name=names)
    def leave(self, name: str) -> None:
        self.clusters.pop(name, None)
        self.uncertain.discard(name)
        self.fell.pop(name, None)
        self.machine.handle(ClusterDeleted(cluster=name), now=self.now)

    @rule(seconds=st.sampled_from([1.0, 10.0, 29.0, 31.0, 60.0, 91.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def look_away(self) -> None:
        self.machine.handle(HealthUnobserved(), now=self.now)
        for name in self.low_since:
            self.low_since[name] = self.now
        for name in self.healthy_since:
            self.healthy_since[name] = self.now

    @precondition(lambda self: self.clusters)
    @rule(data=st.data(), off=st.booleans())
    def override(self, data: st.DataObject, off: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.clusters)))
        self._see(replace(self.clusters[name], exempt=off))

    @precondition(lambda self: self.clusters)
    @rule(data=st.data())
    def take_the_taint_away(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.clusters)))
        self._see(replace(self.clusters[name], tainted=False))

    @precondition(lambda self: self.clusters)
    @rule(data=st.data(), unavailable=st.booleans())
    def lose_sight_of(self, data: st.DataObject, unavailable: bool) -> None:
        """The lease of a cluster expires, and is renewed later."""
        name = data.draw(st.sampled_from(sorted(self.clusters)))
        self._see(replace(self.clusters[name], unavailable=unavailable))

    @rule()
    def restart(self) -> None:
        """Another process starts, with only the objects on the hub."""
        self.machine = RecoveryStateMachine(self.policy)
        self.low_since, self.healthy_since, self.fell, self.uncertain = {}, {}, {}, set()
        clusters, self.clusters = self.clusters, {}
        for seen in clusters.values():
            self._see(seen)
        for name, score in sorted(self.scores.items()):
            self.publish(name, score)

    # What is done about it

    @precondition(lambda self: self.clusters)
    @rule(data=st.data(), fate=st.sampled_from(["done", "done", "done", "refused", "lost"]))
    def act(self, data: st.DataObject, fate: str) -> None:
        self._act(data.draw(st.sampled_from(sorted(self.clusters))), fate)

    @rule(seconds=st.sampled_from([0.0, 31.0, 61.0, 91.0]))
    def act_on_all(self, seconds: float) -> None:
        self.now += seconds
        for name in sorted(self.clusters):
            self._act(name, "done")

    def _act(self, name: str, fate: str) -> None:
        decision, known = self.machine.decide(name, now=self.now), self.clusters[name]
        match decision:
            case Taint():
                self._justify(name, decision)
                self.machine.attempt(name)
                self.uncertain.add(name)
                if fate == "refused":
                    self.machine.refused(name)
                    self.uncertain.discard(name)
                elif fate == "done":
                    self._see(replace(known, tainted=True))
            case Untaint():
                self._justify_return(name, decision)
                if fate == "done":
                    self._see(replace(known, tainted=False))
            case Withheld():
                assert decision.reason in HELD
                assert not known.tainted
                assert self.now - self.low_since[name] >= self.policy.dwell
            case RecheckAfter():
                assert decision.until is None or decision.until > self.now

    def _justify(self, name: str, decision: Taint) -> None:
        known = self.clusters[name]
        assert decision.reason in REASONS
        assert not known.tainted
        assert not known.exempt
        assert self.now - self.low_since[name] >= self.policy.dwell
        assert not self._together()
        for scope in ("", *known.sets):
            inside = [cluster for cluster in self.clusters.values() if not scope or scope in cluster.sets]
            out = {
                cluster.cluster for cluster in inside if cluster.tainted or cluster.cluster in self.uncertain
            }
            assert len(out | {name}) <= self._budget(scope).of(len(inside))
            assert len(out | {name}) < len(inside)
            # Somewhere it can go.
            assert any(not cluster.unavailable for cluster in inside if cluster.cluster not in out | {name})
        for other, moment in self.low_since.items():
            if other in self.clusters and other not in self.uncertain and self._is_sicker(other, than=name):
                # A worse cluster that has waited long enough is skipped only if no budget has room for it.
                assert isinstance(self.machine.decide(other, now=self.now), Taint | Withheld), moment

    def _justify_return(self, name: str, decision: Untaint) -> None:
        assert self.clusters[name].tainted
        if decision.reason == EXEMPT:
            assert self.clusters[name].exempt
        else:
            assert self.now - self.healthy_since[name] >= self.policy.recovery_dwell
            assert name not in self.low_since

    def _is_sicker(self, other: str, *, than: str) -> bool:
        seen, worst = self.clusters[other], -101
        mine, theirs = self.scores[than], self.scores[other]
        return (
            not (seen.tainted or seen.exempt)
            and self.now - self.low_since[other] >= self.policy.dwell
            and (worst if theirs is None else theirs) < (worst if mine is None else mine)
        )

    # The second book

    def _see(self, seen: ClusterObserved) -> None:
        before = self.clusters.get(seen.cluster)
        self.clusters[seen.cluster] = seen
        self.uncertain.discard(seen.cluster)
        self.machine.handle(seen, now=self.now)
        if self.policy.missing == UNHEALTHY and self.scores[seen.cluster] is None:
            self.machine.handle(HealthReported(cluster=seen.cluster, score=None), now=self.now)
        self._book(seen.cluster)
        if before is None or before.tainted != seen.tainted:
            for moments in (self.low_since, self.healthy_since):
                if seen.cluster in moments:
                    moments[seen.cluster] = self.now

    def _book(self, name: str) -> None:
        score = self.scores[name]
        has_health = score is not None or (self.policy.missing == UNHEALTHY and name in self.clusters)
        value = -101 if score is None else score
        for holds, moments in (
            (has_health and value < self.policy.below, self.low_since),
            (has_health and value >= self.policy.above, self.healthy_since),
        ):
            if holds:
                moments.setdefault(name, self.now)
            else:
                moments.pop(name, None)

    def _budget(self, scope: str) -> Budget:
        return self.policy.per_set if scope else self.policy.fleet

    def _together(self) -> bool:
        """Whether too many clusters failed within one window, of those that were not given up."""
        known = [name for name in self.clusters if self.scores[name] is not None]
        total = len(self.clusters) if self.policy.missing == UNHEALTHY else len(known)
        moments = self.fell.values()
        window = self.policy.suspect_window
        most = max((sum(0 <= end - moment <= window for moment in moments) for end in moments), default=0)
        return most >= 2 and most * 100 >= self.policy.suspect_percent * total

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "machine"):
            return
        census = self.machine.census()
        assert census.fleet == len(self.clusters)
        out = {name for name, seen in self.clusters.items() if seen.tainted} | self.uncertain
        assert census.tainted == len(out)
        assert census.low == len([name for name in self.low_since if name in self.clusters])
        assert census.known == len([name for name in self.clusters if self.scores[name] is not None])


Fleet.TestCase.settings = settings(max_examples=40, stateful_step_count=50)
TestFleet = Fleet.TestCase
