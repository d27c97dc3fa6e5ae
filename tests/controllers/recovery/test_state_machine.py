"""Decisions of the state machine: order, suspicion and messages."""

from datetime import UTC, datetime

import pytest

from fairway.controllers.recovery.conditions import ConditionMessages
from fairway.controllers.recovery.decision import (
    LOW,
    MISSING,
    OVER_BUDGET,
    RECOVERED,
    SUSPECT,
    WAIT,
    ClusterDeleted,
    ClusterObserved,
    HealthReported,
    HealthUnobserved,
    RecheckAfter,
    Taint,
    Untaint,
    Withheld,
)
from fairway.controllers.recovery.policy import UNHEALTHY, Budget, RecoveryPolicy
from fairway.controllers.recovery.state_machine import RecoveryStateMachine

ROOMY = RecoveryPolicy(fleet=Budget(percent=100), per_set=Budget(percent=100), suspect_percent=100)


class StateMachineHarness:
    """A state machine with a manual clock."""

    def __init__(self, policy: RecoveryPolicy, *names: str, score: int = 100) -> None:
        self.machine, self.now = RecoveryStateMachine(policy), 0.0
        for name in names:
            self.see(name)
            self.hear(name, score)

    def see(
        self, name: str, *, tainted: bool = False, exempt: bool = False, away: bool = False, sets: str = ""
    ) -> bool:
        seen = ClusterObserved(
            cluster=name, tainted=tainted, exempt=exempt, away=away, sets=frozenset(sets.split())
        )
        return self.machine.handle(seen, now=self.now)

    def hear(self, name: str, score: int | None) -> bool:
        return self.machine.handle(HealthReported(cluster=name, score=score), now=self.now)

    def after(self, seconds: float) -> "StateMachineHarness":
        self.now += seconds
        return self

    def decide(self, name: str) -> object:
        return self.machine.decide(name, now=self.now)


def test_unknown_cluster_has_no_decision() -> None:
    told = StateMachineHarness(ROOMY)
    assert told.decide("a") == WAIT
    told.hear("a", -100)
    assert told.after(1000).decide("a") == WAIT  # there is no such cluster
    assert not told.machine.handle(ClusterDeleted(cluster="b"), now=0.0)


def test_recheck_time_is_the_end_of_the_dwell() -> None:
    told = StateMachineHarness(ROOMY, "a", "b")
    told.after(10).hear("a", 39)
    assert told.decide("a") == RecheckAfter(until=310.0)
    told.see("a", tainted=True)
    assert told.decide("a") == WAIT
    told.after(10).hear("a", 60)
    assert told.decide("a") == RecheckAfter(until=920.0)


@pytest.mark.parametrize(("score", "low"), [(39, True), (40, False), (60, False)])
def test_health_at_the_threshold_is_not_low(score: int, low: bool) -> None:
    told = StateMachineHarness(ROOMY, "a", "b")
    told.hear("a", score)
    assert isinstance(told.after(300).decide("a"), Taint) == low


def test_clusters_are_tainted_by_health_then_duration_then_name() -> None:
    told = StateMachineHarness(ROOMY, *"abcdefgh")
    told.hear("d", -50)
    told.after(1)
    for name, score in (("a", -50), ("b", -50), ("c", -70)):
        told.hear(name, score)
    assert told.after(300).machine.due(now=told.now) == ["c", "d", "a", "b"]
    assert told.machine.admitted(now=told.now) == ["c", "d", "a", "b"]


def test_budget_goes_to_the_first_in_order() -> None:
    told = StateMachineHarness(
        RecoveryPolicy(fleet=Budget(percent=100, count=2), per_set=Budget(percent=100)), *"abcdefghij"
    )
    for name, score in (("a", -30), ("b", -90), ("c", -60)):
        told.hear(name, score)
    told.after(300)
    assert isinstance(told.decide("b"), Taint)
    assert isinstance(told.decide("c"), Taint)
    held = told.decide("a")
    assert isinstance(held, Withheld)
    assert (held.reason, held.used, held.limit) == (OVER_BUDGET, 2, 2)
    told.machine.attempt("b")
    assert isinstance(told.decide("c"), Taint)
    assert isinstance(told.decide("b"), Taint)  # its place is its own
    assert isinstance(told.decide("a"), Withheld)
    told.see("b", tainted=True)
    told.see("c", tainted=True)
    assert isinstance(told.decide("a"), Withheld)
    assert told.machine.handle(ClusterDeleted(cluster="c"), now=told.now)
    assert isinstance(told.decide("a"), Taint)


def test_untaintable_cluster_does_not_block_others() -> None:
    told = StateMachineHarness(
        RecoveryPolicy(fleet=Budget(percent=100, count=1), per_set=Budget(percent=100)), *"abcd"
    )
    told.hear("a", -90)
    told.after(700).hear("b", -30)
    told.after(300)
    assert isinstance(told.decide("b"), Withheld)
    told.machine.attempt("a")
    told.machine.refused("a")
    assert isinstance(told.decide("b"), Taint)
    told.see("a")  # something has changed about it
    assert isinstance(told.decide("b"), Withheld)


def test_budget_applies_to_every_set() -> None:
    policy = RecoveryPolicy(fleet=Budget(percent=100), per_set=Budget(percent=50), suspect_percent=100)
    told = StateMachineHarness(policy)
    for name in "abcd":
        told.see(name, sets="east")
    for name in "cdef":
        told.see(name, sets="east west" if name in "cd" else "west")
    for name in "abcdef":
        told.hear(name, 100)
    for name in "abd":
        told.hear(name, -50)
    told.after(300)
    assert told.machine.admitted(now=told.now) == ["a", "b"]
    held = told.decide("d")
    assert isinstance(held, Withheld)
    assert (held.scope, held.used, held.limit) == ("east", 2, 2)
    assert told.see("b", sets="west")  # others may be decided upon differently
    assert told.machine.admitted(now=told.now) == ["a", "b"]


def test_budget_is_a_number_or_a_percentage() -> None:
    tenth = Budget(percent=10)
    assert [tenth.of(size) for size in (0, 1, 2, 9, 10, 19, 20, 1000)] == [0, 0, 1, 1, 1, 1, 2, 100]
    assert [Budget(percent=100, count=3).of(size) for size in (1, 2, 3, 4, 5)] == [0, 1, 2, 3, 3]
    assert Budget(percent=29).of(100) == 29


def test_simultaneous_failures_pause_tainting_while_they_last() -> None:
    told = StateMachineHarness(RecoveryPolicy(fleet=Budget(percent=100), suspect_window=600.0), *"abcd")
    told.hear("a", -50)
    told.after(600).hear("b", -50)
    assert told.machine.suspicious
    held = told.after(100_000).decide("a")
    assert isinstance(held, Withheld)
    assert (held.reason, held.used, held.limit) == (SUSPECT, 2, 4)
    assert told.machine.admitted(now=told.now) == []
    assert told.hear("b", 50)  # others may be decided upon differently
    assert isinstance(told.decide("a"), Taint)


def test_failures_spread_over_time_are_not_suspicious() -> None:
    told = StateMachineHarness(RecoveryPolicy(fleet=Budget(percent=100), suspect_window=600.0), *"abcd")
    told.hear("a", -50)
    told.after(601).hear("b", -50)
    assert not told.machine.suspicious
    assert told.machine.most_low_at_once() == 1


def test_single_failure_is_never_suspicious() -> None:
    told = StateMachineHarness(RecoveryPolicy(suspect_percent=1), "a", "b")
    told.hear("a", -50)
    assert isinstance(told.after(300).decide("a"), Taint)


def test_earlier_tainted_clusters_do_not_count_as_simultaneous() -> None:
    told = StateMachineHarness(RecoveryPolicy(fleet=Budget(percent=100)))
    for name in "ab":
        told.see(name, tainted=True)
        told.hear(name, -50)
    for name in "cdefg":
        told.see(name)
        told.hear(name, 100)
    assert told.machine.most_low_at_once() == 0
    told.hear("c", -50)
    assert told.machine.most_low_at_once() == 1


def test_watch_gap_restarts_all_dwell_times() -> None:
    told = StateMachineHarness(ROOMY, "a", "b")
    told.hear("a", -50)
    told.after(299)
    told.machine.handle(HealthUnobserved(), now=told.now)
    assert told.after(299).decide("a") == RecheckAfter(until=599.0)
    assert isinstance(told.after(1).decide("a"), Taint)
    told.see("a", tainted=True)
    told.hear("a", 60)
    told.after(899)
    told.machine.handle(HealthUnobserved(), now=told.now)
    assert isinstance(told.after(899).decide("a"), RecheckAfter)
    found = told.after(1).decide("a")
    assert isinstance(found, Untaint)
    assert found.reason == RECOVERED


def test_health_of_a_deleted_cluster_of_the_same_name_is_ignored() -> None:
    told = StateMachineHarness(ROOMY, "a", "b")
    told.hear("a", -50)
    told.after(299)
    told.machine.handle(ClusterDeleted(cluster="a"), now=told.now)
    told.see("a")
    assert told.after(299).decide("a") == RecheckAfter(until=599.0)


def test_missing_health_is_unhealthy_by_policy() -> None:
    policy = RecoveryPolicy(missing=UNHEALTHY, fleet=Budget(percent=100))
    told = StateMachineHarness(policy, *"abcd")
    told.hear("a", None)
    decision = told.after(300).decide("a")
    assert decision == Taint(reason=MISSING, facts=decision.facts) if isinstance(decision, Taint) else False
    told = StateMachineHarness(RecoveryPolicy(fleet=Budget(percent=100)), *"abcd")
    told.hear("a", None)
    assert told.after(300).decide("a") == WAIT


def test_deleted_clusters_leave_no_state() -> None:
    told = StateMachineHarness(ROOMY, "a", "b")
    told.hear("a", -50)
    told.machine.handle(ClusterDeleted(cluster="a"), now=0.0)
    assert told.machine.low() == {"a"}
    told.hear("a", None)
    assert told.machine.low() == set()
    assert told.machine._cases.keys() == {"b"}


def test_no_cluster_is_tainted_without_an_available_replacement() -> None:
    told = StateMachineHarness(ROOMY, *"abc")
    told.see("b", away=True)
    told.see("c", away=True, sets="east")
    told.hear("a", -50)
    held = told.after(300).decide("a")
    assert isinstance(held, Withheld)
    assert (held.reason, held.scope, held.alone) == (OVER_BUDGET, "", True)
    words = ConditionMessages(ROOMY, now=300.0, wall=datetime(2031, 5, 5, 12, 5, tzinfo=UTC))
    assert words.held(held).message.endswith("not tainted: no other cluster of the fleet is available")
    assert told.see("b")  # others may be decided upon differently now
    assert isinstance(told.decide("a"), Taint)
    told.see("a", sets="east")
    told.after(300)
    held = told.decide("a")
    assert isinstance(held, Withheld)
    assert words.held(held).message.endswith("no other cluster of cluster set east is available")


def test_last_available_of_several_due_clusters_stays() -> None:
    told = StateMachineHarness(ROOMY, *"abcd")
    told.see("d", away=True)
    for name, score in (("a", -30), ("b", -90), ("c", -60)):
        told.after(1000).hear(name, score)
    told.after(300)
    assert told.machine.admitted(now=told.now) == ["b", "c"]
    assert isinstance(told.decide("a"), Withheld)


def test_unavailable_cluster_can_be_tainted() -> None:
    told = StateMachineHarness(ROOMY, *"ab")
    told.see("a", away=True)
    told.hear("a", -50)
    assert isinstance(told.after(300).decide("a"), Taint)


def test_message_for_the_only_cluster_of_the_fleet() -> None:
    told = StateMachineHarness(ROOMY, "a")
    told.hear("a", -50)
    held = told.after(300).decide("a")
    assert isinstance(held, Withheld)
    words = ConditionMessages(ROOMY, now=300.0, wall=datetime(2031, 5, 5, 12, 5, tzinfo=UTC))
    assert words.held(held).message == (
        "health-score/health is -50, below 40 since 2031-05-05T12:00:00Z, but it is not tainted: "
        "it is the only cluster of the fleet"
    )
    assert LOW not in words.held(held).reason
