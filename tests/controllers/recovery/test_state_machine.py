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
            self.observe(name)
            self.report_health(name, score)

    def observe(
        self,
        name: str,
        *,
        tainted: bool = False,
        exempt: bool = False,
        unavailable: bool = False,
        sets: str = "",
    ) -> bool:
        seen = ClusterObserved(
            cluster=name,
            tainted=tainted,
            exempt=exempt,
            unavailable=unavailable,
            sets=frozenset(sets.split()),
        )
        return self.machine.handle(seen, now=self.now)

    def report_health(self, name: str, score: int | None) -> bool:
        return self.machine.handle(HealthReported(cluster=name, score=score), now=self.now)

    def after(self, seconds: float) -> "StateMachineHarness":
        self.now += seconds
        return self

    def decide(self, name: str) -> object:
        return self.machine.decide(name, now=self.now)


def test_unknown_cluster_has_no_decision() -> None:
    harness = StateMachineHarness(ROOMY)
    assert harness.decide("a") == WAIT
    harness.report_health("a", -100)
    assert harness.after(1000).decide("a") == WAIT  # there is no such cluster
    assert not harness.machine.handle(ClusterDeleted(cluster="b"), now=0.0)


def test_recheck_time_is_the_end_of_the_dwell() -> None:
    harness = StateMachineHarness(ROOMY, "a", "b")
    harness.after(10).report_health("a", 39)
    assert harness.decide("a") == RecheckAfter(until=310.0)
    harness.observe("a", tainted=True)
    assert harness.decide("a") == WAIT
    harness.after(10).report_health("a", 60)
    assert harness.decide("a") == RecheckAfter(until=920.0)


@pytest.mark.parametrize(("score", "low"), [(39, True), (40, False), (60, False)])
def test_health_at_the_threshold_is_not_low(score: int, low: bool) -> None:
    harness = StateMachineHarness(ROOMY, "a", "b")
    harness.report_health("a", score)
    assert isinstance(harness.after(300).decide("a"), Taint) == low


def test_clusters_are_tainted_by_health_then_duration_then_name() -> None:
    harness = StateMachineHarness(ROOMY, *"abcdefgh")
    harness.report_health("d", -50)
    harness.after(1)
    for name, score in (("a", -50), ("b", -50), ("c", -70)):
        harness.report_health(name, score)
    assert harness.after(300).machine.due(now=harness.now) == ["c", "d", "a", "b"]
    assert harness.machine.admitted(now=harness.now) == ["c", "d", "a", "b"]


def test_budget_goes_to_the_first_in_order() -> None:
    harness = StateMachineHarness(
        RecoveryPolicy(fleet=Budget(percent=100, count=2), per_set=Budget(percent=100)), *"abcdefghij"
    )
    for name, score in (("a", -30), ("b", -90), ("c", -60)):
        harness.report_health(name, score)
    harness.after(300)
    assert isinstance(harness.decide("b"), Taint)
    assert isinstance(harness.decide("c"), Taint)
    held = harness.decide("a")
    assert isinstance(held, Withheld)
    assert (held.reason, held.used, held.limit) == (OVER_BUDGET, 2, 2)
    harness.machine.attempt("b")
    assert isinstance(harness.decide("c"), Taint)
    assert isinstance(harness.decide("b"), Taint)  # its place is its own
    assert isinstance(harness.decide("a"), Withheld)
    harness.observe("b", tainted=True)
    harness.observe("c", tainted=True)
    assert isinstance(harness.decide("a"), Withheld)
    assert harness.machine.handle(ClusterDeleted(cluster="c"), now=harness.now)
    assert isinstance(harness.decide("a"), Taint)


def test_untaintable_cluster_does_not_block_others() -> None:
    harness = StateMachineHarness(
        RecoveryPolicy(fleet=Budget(percent=100, count=1), per_set=Budget(percent=100)), *"abcd"
    )
    harness.report_health("a", -90)
    harness.after(700).report_health("b", -30)
    harness.after(300)
    assert isinstance(harness.decide("b"), Withheld)
    harness.machine.attempt("a")
    harness.machine.refused("a")
    assert isinstance(harness.decide("b"), Taint)
    harness.observe("a")  # something has changed about it
    assert isinstance(harness.decide("b"), Withheld)


def test_budget_applies_to_every_set() -> None:
    policy = RecoveryPolicy(fleet=Budget(percent=100), per_set=Budget(percent=50), suspect_percent=100)
    harness = StateMachineHarness(policy)
    for name in "abcd":
        harness.observe(name, sets="east")
    for name in "cdef":
        harness.observe(name, sets="east west" if name in "cd" else "west")
    for name in "abcdef":
        harness.report_health(name, 100)
    for name in "abd":
        harness.report_health(name, -50)
    harness.after(300)
    assert harness.machine.admitted(now=harness.now) == ["a", "b"]
    held = harness.decide("d")
    assert isinstance(held, Withheld)
    assert (held.scope, held.used, held.limit) == ("east", 2, 2)
    assert harness.observe("b", sets="west")  # others may be decided upon differently
    assert harness.machine.admitted(now=harness.now) == ["a", "b"]


def test_budget_is_a_number_or_a_percentage() -> None:
    tenth = Budget(percent=10)
    assert [tenth.of(size) for size in (0, 1, 2, 9, 10, 19, 20, 1000)] == [0, 0, 1, 1, 1, 1, 2, 100]
    assert [Budget(percent=100, count=3).of(size) for size in (1, 2, 3, 4, 5)] == [0, 1, 2, 3, 3]
    assert Budget(percent=29).of(100) == 29


def test_simultaneous_failures_pause_tainting_while_they_last() -> None:
    harness = StateMachineHarness(RecoveryPolicy(fleet=Budget(percent=100), suspect_window=600.0), *"abcd")
    harness.report_health("a", -50)
    harness.after(600).report_health("b", -50)
    assert harness.machine.suspicious
    held = harness.after(100_000).decide("a")
    assert isinstance(held, Withheld)
    assert (held.reason, held.used, held.limit) == (SUSPECT, 2, 4)
    assert harness.machine.admitted(now=harness.now) == []
    assert harness.report_health("b", 50)  # others may be decided upon differently
    assert isinstance(harness.decide("a"), Taint)


def test_failures_spread_over_time_are_not_suspicious() -> None:
    harness = StateMachineHarness(RecoveryPolicy(fleet=Budget(percent=100), suspect_window=600.0), *"abcd")
    harness.report_health("a", -50)
    harness.after(601).report_health("b", -50)
    assert not harness.machine.suspicious
    assert harness.machine.most_low_at_once() == 1


def test_single_failure_is_never_suspicious() -> None:
    harness = StateMachineHarness(RecoveryPolicy(suspect_percent=1), "a", "b")
    harness.report_health("a", -50)
    assert isinstance(harness.after(300).decide("a"), Taint)


def test_earlier_tainted_clusters_do_not_count_as_simultaneous() -> None:
    harness = StateMachineHarness(RecoveryPolicy(fleet=Budget(percent=100)))
    for name in "ab":
        harness.observe(name, tainted=True)
        harness.report_health(name, -50)
    for name in "cdefg":
        harness.observe(name)
        harness.report_health(name, 100)
    assert harness.machine.most_low_at_once() == 0
    harness.report_health("c", -50)
    assert harness.machine.most_low_at_once() == 1


def test_watch_gap_restarts_all_dwell_times() -> None:
    harness = StateMachineHarness(ROOMY, "a", "b")
    harness.report_health("a", -50)
    harness.after(299)
    harness.machine.handle(HealthUnobserved(), now=harness.now)
    assert harness.after(299).decide("a") == RecheckAfter(until=599.0)
    assert isinstance(harness.after(1).decide("a"), Taint)
    harness.observe("a", tainted=True)
    harness.report_health("a", 60)
    harness.after(899)
    harness.machine.handle(HealthUnobserved(), now=harness.now)
    assert isinstance(harness.after(899).decide("a"), RecheckAfter)
    decision = harness.after(1).decide("a")
    assert isinstance(decision, Untaint)
    assert decision.reason == RECOVERED


def test_health_of_a_deleted_cluster_of_the_same_name_is_ignored() -> None:
    harness = StateMachineHarness(ROOMY, "a", "b")
    harness.report_health("a", -50)
    harness.after(299)
    harness.machine.handle(ClusterDeleted(cluster="a"), now=harness.now)
    harness.observe("a")
    assert harness.after(299).decide("a") == RecheckAfter(until=599.0)


def test_missing_health_is_unhealthy_by_policy() -> None:
    policy = RecoveryPolicy(missing=UNHEALTHY, fleet=Budget(percent=100))
    harness = StateMachineHarness(policy, *"abcd")
    harness.report_health("a", None)
    decision = harness.after(300).decide("a")
    assert decision == Taint(reason=MISSING, facts=decision.facts) if isinstance(decision, Taint) else False
    harness = StateMachineHarness(RecoveryPolicy(fleet=Budget(percent=100)), *"abcd")
    harness.report_health("a", None)
    assert harness.after(300).decide("a") == WAIT


def test_deleted_clusters_leave_no_state() -> None:
    harness = StateMachineHarness(ROOMY, "a", "b")
    harness.report_health("a", -50)
    harness.machine.handle(ClusterDeleted(cluster="a"), now=0.0)
    assert harness.machine.low_clusters() == {"a"}
    harness.report_health("a", None)
    assert harness.machine.low_clusters() == set()
    assert harness.machine._states.keys() == {"b"}


def test_no_cluster_is_tainted_without_an_available_replacement() -> None:
    harness = StateMachineHarness(ROOMY, *"abc")
    harness.observe("b", unavailable=True)
    harness.observe("c", unavailable=True, sets="east")
    harness.report_health("a", -50)
    held = harness.after(300).decide("a")
    assert isinstance(held, Withheld)
    assert (held.reason, held.scope, held.alone) == (OVER_BUDGET, "", True)
    messages = ConditionMessages(ROOMY, now=300.0, wall=datetime(2031, 5, 5, 12, 5, tzinfo=UTC))
    assert messages.withheld(held).message.endswith("not tainted: no other cluster of the fleet is available")
    assert harness.observe("b")  # others may be decided upon differently now
    assert isinstance(harness.decide("a"), Taint)
    harness.observe("a", sets="east")
    harness.after(300)
    held = harness.decide("a")
    assert isinstance(held, Withheld)
    assert messages.withheld(held).message.endswith("no other cluster of cluster set east is available")


def test_last_available_of_several_due_clusters_stays() -> None:
    harness = StateMachineHarness(ROOMY, *"abcd")
    harness.observe("d", unavailable=True)
    for name, score in (("a", -30), ("b", -90), ("c", -60)):
        harness.after(1000).report_health(name, score)
    harness.after(300)
    assert harness.machine.admitted(now=harness.now) == ["b", "c"]
    assert isinstance(harness.decide("a"), Withheld)


def test_unavailable_cluster_can_be_tainted() -> None:
    harness = StateMachineHarness(ROOMY, *"ab")
    harness.observe("a", unavailable=True)
    harness.report_health("a", -50)
    assert isinstance(harness.after(300).decide("a"), Taint)


def test_message_for_the_only_cluster_of_the_fleet() -> None:
    harness = StateMachineHarness(ROOMY, "a")
    harness.report_health("a", -50)
    held = harness.after(300).decide("a")
    assert isinstance(held, Withheld)
    messages = ConditionMessages(ROOMY, now=300.0, wall=datetime(2031, 5, 5, 12, 5, tzinfo=UTC))
    assert messages.withheld(held).message == (
        "health-score/health is -50, below 40 since 2031-05-05T12:00:00Z, but it is not tainted: "
        "it is the only cluster of the fleet"
    )
    assert LOW not in messages.withheld(held).reason
