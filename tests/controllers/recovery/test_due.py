"""Order of tainting and count of simultaneous failures: kept while clusters change, they equal those from scratch."""

from bisect import bisect_left
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.controllers.recovery.decision import (
    OVER_BUDGET,
    ClusterObserved,
    HealthReported,
    RecheckAfter,
    Taint,
    Withheld,
)
from fairway.controllers.recovery.low_bursts import LowBursts
from fairway.controllers.recovery.policy import Budget, RecoveryPolicy
from fairway.controllers.recovery.state_machine import WINDOW, RecoveryStateMachine

moments = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 300)), max_size=120)


def largest(moments: list[float], window: float) -> int:
    moments = sorted(moments)
    return max(
        (at + 1 - bisect_left(moments, moment - window) for at, moment in enumerate(moments)), default=0
    )


@given(steps=moments, window=st.sampled_from([0.5, 3.0, 50.0]))
def test_count_of_simultaneous_failures_equals_the_one_from_scratch(
    steps: list[tuple[int, int]], window: float
) -> None:
    bursts, now = LowBursts(window=window), 0.0
    present: list[float] = []
    for pause, choice in steps:
        now += pause
        if present and choice % 3 == 0:
            bursts.remove(present.pop(choice % len(present)))
        else:
            present.append(bursts.add(now))
        assert bursts.largest == largest(present, window)


@given(
    scores=st.lists(st.integers(-3, 3), min_size=1, max_size=30),
    sets=st.lists(st.frozensets(st.sampled_from("abc")), min_size=30, max_size=30),
    fleet=st.integers(1, 100),
    per_set=st.integers(1, 100),
)
def test_clusters_that_budgets_admit_equal_those_of_a_walk_through_all(
    scores: list[int], sets: list[frozenset[str]], fleet: int, per_set: int
) -> None:
    policy = RecoveryPolicy(
        fleet=Budget(percent=fleet), per_set=Budget(percent=per_set), suspect_window=1e-9, suspect_percent=100
    )
    machine = RecoveryStateMachine(policy)
    names = [f"c{number:02}" for number in range(30)]
    for name, of in zip(names, sets, strict=True):
        machine.handle(ClusterObserved(cluster=name, sets=of), now=0.0)
    for now, (name, score) in enumerate(zip(names, scores, strict=False), start=1):
        machine.handle(HealthReported(cluster=name, score=score), now=float(now))
    sizes = Counter(scope for of in sets for scope in ("", *of))
    used: Counter[str] = Counter()
    admitted = []
    for name in machine.due(now=1e6):
        scopes = ("", *sets[names.index(name)])
        budgets = {scope: policy.per_set if scope else policy.fleet for scope in scopes}
        if all(used[scope] < budgets[scope].of(sizes[scope]) for scope in scopes):
            admitted.append(name)
            used.update(scopes)
    assert machine.admitted(now=1e6) == admitted
    for name in names[: len(scores)]:
        decision = machine.decide(name, now=1e6)
        assert isinstance(decision, Taint) == (name in admitted)
        assert isinstance(decision, Taint | Withheld)


@pytest.mark.parametrize("refused", [False, True])
def test_all_low_clusters_are_tainted_in_order_a_window_at_a_time(refused: bool) -> None:
    policy = RecoveryPolicy(
        fleet=Budget(percent=100), per_set=Budget(percent=100), suspect_window=1e-9, suspect_percent=100
    )
    machine = RecoveryStateMachine(policy)
    names = [f"c{number:03}" for number in range(3 * WINDOW)]
    for name in (*names, "well"):
        machine.handle(ClusterObserved(cluster=name), now=0.0)
    for now, name in enumerate(names):
        machine.handle(HealthReported(cluster=name, score=0), now=float(now))
    assert machine.decide(names[WINDOW], now=1e6) == RecheckAfter()
    if refused:
        for name in names[:WINDOW]:
            machine.attempt(name)
            machine.refused(name)
    tainted = []
    while admitted := [name for name in machine.admitted(now=1e6) if name not in tainted]:
        assert len(admitted) == WINDOW
        for name in admitted:
            assert isinstance(machine.decide(name, now=1e6), Taint)
            machine.handle(ClusterObserved(cluster=name, tainted=True), now=1e6)
            tainted.append(name)
    assert tainted == (names[WINDOW:] + names[:WINDOW] if refused else names)


def test_requested_taints_do_not_keep_others_waiting() -> None:
    policy = RecoveryPolicy(
        fleet=Budget(percent=100, count=2 * WINDOW), suspect_window=1e-9, suspect_percent=100
    )
    machine = RecoveryStateMachine(policy)
    names = [f"c{number:03}" for number in range(3 * WINDOW)]
    for name in names:
        machine.handle(ClusterObserved(cluster=name), now=0.0)
    for now, name in enumerate(names):
        machine.handle(HealthReported(cluster=name, score=0), now=float(now))
    for name in names[:WINDOW]:
        assert isinstance(machine.decide(name, now=1e6), Taint)
        machine.attempt(name)
    assert machine.admitted(now=1e6) == names[WINDOW : 2 * WINDOW] + names[:WINDOW]
    assert isinstance(machine.decide(names[0], now=1e6), Taint)
    assert isinstance(machine.decide(names[WINDOW], now=1e6), Taint)
    for name in names[WINDOW : 2 * WINDOW]:
        machine.attempt(name)
    held = machine.decide(names[-1], now=1e6)
    assert isinstance(held, Withheld)
    assert (held.reason, held.used, held.limit) == (OVER_BUDGET, 2 * WINDOW, 2 * WINDOW)
