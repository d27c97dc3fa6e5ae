"""Which clusters a rollout strategy releases, without a hub."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.addon import RolloutStrategy
from fairway.controllers.addons.rollout_plan import Group, InvalidStrategy, Member, Phase, RolloutPlan, plan
from fairway.hosts.steps import finish

NOW = datetime(2031, 5, 5, 12, 0, tzinfo=UTC)
AGO = timedelta(seconds=1)
WAITING = Member(Phase.TO_APPLY)
FLYING = Member(Phase.PROGRESSING, NOW - 10 * AGO)
FAILED = Member(Phase.FAILED, NOW - 10 * AGO)
DONE = Member(Phase.SUCCEEDED, NOW - 10 * AGO)


def groups(*names: str) -> list[Group]:
    """``"ab"`` is the group of clusters a and b."""
    return [Group(index, f"g{index}", frozenset(clusters)) for index, clusters in enumerate(names)]


def planned(
    kind: str, members: dict[str, Member], *, of: list[Group] | None = None, **limits: Any
) -> RolloutPlan:
    field = {"All": "all", "Progressive": "progressive", "ProgressivePerGroup": "progressivePerGroup"}[kind]
    strategy = msgspec.convert({"type": kind, field: limits}, RolloutStrategy)
    return finish(plan(strategy, of or groups("".join(members)), members, now=NOW))


def listed(kind: str, members: dict[str, Member], *, of: list[Group] | None = None, **limits: Any) -> str:
    return "".join(sorted(planned(kind, members, of=of, **limits).listed))


def test_all_releases_every_cluster_and_counts_deadlines() -> None:
    members = {"a": WAITING, "b": FLYING, "c": DONE, "d": FAILED}
    assert listed("All", members) == "abd"
    result = planned("All", members, progressDeadline="10s")
    assert (result.listed, result.timed_out) == (frozenset("a"), frozenset("bd"))
    assert (result.released, result.done, result.failed) == (frozenset("a"), 1, 1)
    result = planned("All", members, progressDeadline="15s")
    assert result.listed == frozenset("abd")
    assert result.recheck == NOW + 5 * AGO


@pytest.mark.parametrize(
    ("members", "limits", "released"),
    [
        ({"a": WAITING, "b": WAITING, "c": WAITING}, {"maxConcurrency": 2}, "ab"),
        ({"a": WAITING, "b": WAITING, "c": WAITING}, {"maxConcurrency": "50%"}, "ab"),
        ({"a": WAITING, "b": WAITING, "c": WAITING}, {}, "abc"),
        ({"a": WAITING, "b": WAITING, "c": WAITING}, {"maxConcurrency": "0%"}, "a"),
        ({"a": WAITING, "b": WAITING, "c": WAITING}, {"maxConcurrency": 9}, "abc"),
        ({"a": WAITING, "b": FLYING, "c": WAITING}, {"maxConcurrency": 2}, "ab"),
        ({"a": WAITING, "b": FLYING, "c": FLYING}, {"maxConcurrency": 2}, "bc"),
        ({"a": WAITING, "b": FAILED}, {}, "b"),
        ({"a": WAITING, "b": FAILED}, {"maxFailures": 1}, "ab"),
        ({"a": WAITING, "b": FAILED}, {"maxFailures": 1, "maxConcurrency": 1}, "b"),
        ({"a": WAITING, "b": FLYING}, {"progressDeadline": "5s"}, ""),
        ({"a": WAITING, "b": FLYING}, {"progressDeadline": "5s", "maxFailures": "50%"}, "a"),
        ({"a": DONE, "b": WAITING}, {"minSuccessTime": "15s", "maxConcurrency": 1}, "a"),
        ({"a": DONE, "b": WAITING}, {"minSuccessTime": "10s", "maxConcurrency": 1}, "b"),
    ],
)
def test_progressive_fills_the_free_slots(
    members: dict[str, Member], limits: dict[str, Any], released: str
) -> None:
    assert listed("Progressive", members, **limits) == released


def test_placement_gives_the_default_concurrency() -> None:
    strategy = RolloutStrategy(type="Progressive")
    members = {"a": WAITING, "b": WAITING}
    result = finish(plan(strategy, groups("ab"), members, now=NOW, default_concurrency=1))
    assert result.listed == {"a"}


@pytest.mark.parametrize(
    ("members", "limits", "released"),
    [
        ({"a": WAITING, "b": WAITING, "c": WAITING}, {}, "ab"),
        ({"a": DONE, "b": FLYING, "c": WAITING}, {}, "b"),
        ({"a": DONE, "b": DONE, "c": WAITING}, {}, "c"),
        ({"a": DONE, "b": FAILED, "c": WAITING}, {}, "b"),
        ({"a": DONE, "b": FAILED, "c": WAITING}, {"maxFailures": 1}, "bc"),
        ({"a": FAILED, "b": FLYING, "c": WAITING}, {"maxFailures": 1}, "ab"),
        ({"a": FLYING, "b": DONE, "c": WAITING}, {"progressDeadline": "5s"}, ""),
        ({"a": DONE, "b": DONE, "c": WAITING}, {"minSuccessTime": "15s"}, "ab"),
    ],
)
def test_next_group_waits_for_the_one_before(
    members: dict[str, Member], limits: dict[str, Any], released: str
) -> None:
    assert listed("ProgressivePerGroup", members, of=groups("ab", "c"), **limits) == released


@pytest.mark.parametrize("kind", ["Progressive", "ProgressivePerGroup"])
@pytest.mark.parametrize("mandatory", [{"groupName": "g1"}, {"groupIndex": 1}])
def test_mandatory_group_is_first_and_must_not_fail(kind: str, mandatory: dict[str, Any]) -> None:
    of, limits = groups("a", "b", "c"), {"mandatoryDecisionGroups": [mandatory], "maxFailures": 1}
    assert listed(kind, {"a": WAITING, "b": WAITING, "c": WAITING}, of=of, **limits) == "b"
    assert listed(kind, {"a": WAITING, "b": FAILED, "c": WAITING}, of=of, **limits) == "b"
    rest = "ac" if kind == "Progressive" else "a"
    assert listed(kind, {"a": WAITING, "b": DONE, "c": WAITING}, of=of, **limits) == rest


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("progressDeadline", "xNone"),
        ("minSuccessTime", "soon"),
        ("maxConcurrency", "x%"),
        ("maxFailures", "%"),
    ],
)
def test_invalid_value_is_named(field: str, value: str) -> None:
    limits: dict[str, Any] = {field: value}
    with pytest.raises(InvalidStrategy, match=rf"rolloutStrategy\.{field} is invalid; got '{value}'"):
        planned("Progressive", {"a": WAITING}, **limits)


@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"), st.sampled_from([WAITING, FLYING, FAILED, DONE]), min_size=1
    ),
    st.integers(1, 8),
    st.integers(0, 8),
)
def test_release_never_exceeds_the_concurrency(members: dict[str, Member], size: int, failures: int) -> None:
    result = planned("Progressive", members, maxConcurrency=size, maxFailures=failures)
    released = {cluster for cluster in result.listed if members[cluster] is WAITING}
    assert not released or len(result.listed) <= size
    failed = sum(member is FAILED for member in members.values())
    assert not released or failed <= failures
    if failed <= failures and len(result.listed) < size:
        assert released == {cluster for cluster, member in members.items() if member is WAITING}
