"""Policies: defaults, quiet hours and conflicts."""

from datetime import UTC, datetime

import pytest

from fairway.hosts.instant import SECOND, from_micros, to_micros
from fairway.workloads.hosting import policy_of
from fairway.workloads.hosting.rules.policy import (
    CONFLICT,
    NO_POLICY,
    Limits,
    Policy,
    PolicyError,
    find_policy,
)
from workloads.hosting.hosts import host, load, policy, state_of


def test_policy_without_fields_has_the_defaults() -> None:
    assert policy_of(policy("default")) == Policy()
    assert Policy().limits.max_per_host == 80


def test_missing_default_policy_is_the_built_in_one_and_other_names_are_refused() -> None:
    assert find_policy({}, "") == Policy()
    with pytest.raises(PolicyError) as refused:
        find_policy({"gold": Policy(name="gold")}, "glod")
    assert str(refused.value) == NO_POLICY.format(name="glod", known="default, gold")


@pytest.mark.parametrize(
    ("hours", "now", "end"),
    [
        ([{"start": "22:00", "end": "06:00"}], "2026-03-02T23:00", "2026-03-03T06:00"),
        ([{"start": "22:00", "end": "06:00"}], "2026-03-02T05:59", "2026-03-02T06:00"),
        ([{"start": "22:00", "end": "06:00"}], "2026-03-02T06:00", None),
        ([{"start": "22:00", "end": "06:00", "days": ["Sun"]}], "2026-03-02T01:00", "2026-03-02T06:00"),
        ([{"start": "22:00", "end": "06:00", "days": ["Mon"]}], "2026-03-02T01:00", None),
        (
            [{"start": "20:00", "end": "23:00"}, {"start": "23:00", "end": "01:00"}],
            "2026-03-02T21:00",
            "2026-03-03T01:00",
        ),
    ],
)
def test_quiet_hours_end_as_written_in_utc(hours: list[dict[str, object]], now: str, end: str | None) -> None:
    until = policy_of(policy(quietHours=hours)).quiet_until(
        to_micros(datetime.fromisoformat(now).replace(tzinfo=UTC))
    )
    assert (None if until is None else from_micros(until).strftime("%Y-%m-%dT%H:%M")) == end


def test_quiet_hours_around_the_clock_are_reported_without_a_loop() -> None:
    endless = policy_of(
        policy(quietHours=[{"start": "00:00", "end": "12:00"}, {"start": "12:00", "end": "00:00"}])
    )
    assert endless.quiet_until(0) is not None


def test_policies_that_cover_one_host_must_agree_on_its_limits() -> None:
    first, second = policy("gold", maxPerHost=10), policy("silver", capacity={"maxAge": "5m"})
    state = state_of(host("h1"), load("h1", count=0), first, second)
    fields = "capacity.maxAge, maxPerHost"
    expected = CONFLICT.format(first="gold", second="silver", host="h1", fields=fields)
    assert state.conflict_of("gold") == state.conflict_of("silver") == expected
    assert state.facts["h1"].limits == Limits(max_per_host=10, max_age=300 * SECOND)


def test_policies_of_separate_cluster_sets_may_differ() -> None:
    state = state_of(
        host("h1"), load("h1", count=0), policy("gold", maxPerHost=10, clusterSets=["a"]), policy("default")
    )
    assert state.conflict_of("gold") == ""
