from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fairway.providers.http_scorer.breaker import CLOSED, HALF_OPEN, OPEN, Breaker, Limits

LIMITS = Limits(failures=3, pause=10, longest=35)


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker(limits=LIMITS)
    for _ in range(3):
        breaker, admitted = breaker.admit(now)
        assert admitted
        breaker = breaker.on_failure(now)
    return breaker


def test_consecutive_failures_open_breaker() -> None:
    breaker = Breaker(limits=LIMITS).on_failure(0).on_failure(1)
    assert breaker.state == CLOSED
    assert breaker.on_failure(2).state == OPEN
    assert breaker.on_success().on_failure(2).on_failure(3).state == CLOSED


def test_open_breaker_blocks_until_pause_ends() -> None:
    breaker = opened()
    assert breaker.admit(9.9) == (breaker, False)
    assert breaker.wait(9) == 1
    trial, admitted = breaker.admit(10)
    assert (trial.state, admitted) == (HALF_OPEN, True)


def test_half_open_breaker_admits_one_trial() -> None:
    trial, _ = opened().admit(10)
    assert trial.admit(11) == (trial, False)
    # A cancelled trial without a result does not block forever.
    again, admitted = trial.admit(20)
    assert (again.state, again.since, admitted) == (HALF_OPEN, 20, True)


def test_successful_trial_closes_breaker() -> None:
    trial, _ = opened().admit(10)
    assert trial.on_success() == Breaker(limits=LIMITS)


def test_failed_trial_doubles_pause_up_to_limit() -> None:
    breaker, now = opened(), 0.0
    pauses = []
    for _ in range(4):
        now += breaker.pause
        breaker, admitted = breaker.admit(now)
        assert admitted
        breaker = breaker.on_failure(now)
        pauses.append(breaker.pause)
    assert pauses == [20, 35, 35, 35]


def test_late_failure_does_not_change_open_breaker() -> None:
    breaker = opened(5)
    late = breaker.on_failure(9)
    assert (late.state, late.since, late.pause) == (OPEN, 5, 10)


@given(st.lists(st.sampled_from(["ok", "fail", "wait"]), max_size=60))
def test_breaker_without_trial_result_is_not_stuck(events: list[str]) -> None:
    breaker, now = Breaker(limits=LIMITS), 0.0
    for event in events:
        now += 1.0 if event != "wait" else 40.0
        if event == "wait":
            continue
        breaker, admitted = breaker.admit(now)
        if admitted:
            breaker = breaker.on_success() if event == "ok" else breaker.on_failure(now)
    assert breaker.admit(now + LIMITS.longest)[1]


class BreakerMachine(RuleBasedStateMachine):
    """However requests overlap: while it is open nothing passes, and at most one trial per pause."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(limits=LIMITS)
        self.now = 0.0
        self.flying = 0
        self.trials: list[float] = []

    @rule(seconds=st.floats(0, 20))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def ask(self) -> None:
        before = self.breaker
        self.breaker, admitted = before.admit(self.now)
        if before.state != CLOSED and admitted:
            assert self.now >= before.since + before.pause
            self.trials.append(self.now)
        self.flying += admitted

    @rule(well=st.booleans())
    def answer(self, well: bool) -> None:
        if self.flying:
            self.flying -= 1
            self.breaker = self.breaker.on_success() if well else self.breaker.on_failure(self.now)

    @invariant()
    def sane(self) -> None:
        assert (self.breaker.pause > 0) == (self.breaker.state != CLOSED)
        assert self.breaker.pause <= max(LIMITS.longest, LIMITS.pause)


TestBreakerMachine: Any = BreakerMachine.TestCase


@pytest.mark.parametrize("longest", [1.0, 10.0])
def test_longest_pause_is_at_least_the_first(longest: float) -> None:
    breaker = Breaker(limits=Limits(failures=1, pause=10, longest=longest)).on_failure(0)
    trial, _ = breaker.admit(10)
    assert trial.on_failure(10).pause == 10
