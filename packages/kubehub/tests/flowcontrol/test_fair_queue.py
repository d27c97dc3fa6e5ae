"""The fair queue: which user's work is next, by the seconds that the users' work takes."""

from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubehub.flowcontrol.fair_queue import FLOWS, HEAD_START, TYPICAL, FairQueue, Full

COSTS = st.floats(min_value=0.0001, max_value=0.05)
FLOODS = st.dictionaries(st.sampled_from("abcdef"), COSTS, min_size=1)
"""Users with any amount of waiting work, and the seconds that each piece takes."""


def serve(queue: FairQueue[str], costs: dict[str, float]) -> str:
    """Return the user whose work was next, after it is done."""
    name, flow, charged = queue.pop()
    queue.settle(flow, charged=charged, took=costs[name])
    return name


def flooded(floods: dict[str, float], *, rounds: int, urgent: str = "") -> FairQueue[str]:
    """Return a queue that has served these users for a while and still has work of all of them."""
    queue: FairQueue[str] = FairQueue(per_flow=100_000, most=1_000_000)
    for name in floods:
        queue.put(name, name, urgent=name == urgent)
    for _ in range(rounds):
        queue.put(name := serve(queue, floods), name, urgent=name == urgent)
    return queue


@given(FLOODS, COSTS, st.integers(0, 200))
def test_newcomer_waits_for_at_most_two_pieces_of_each_other_user(
    floods: dict[str, float], cost: float, rounds: int
) -> None:
    queue = flooded(floods, rounds=rounds)
    queue.put("new", "new")
    served: Counter[str] = Counter()
    while (name := serve(queue, {**floods, "new": cost})) != "new":
        served[name] += 1
        queue.put(name, name)
    assert all(served[name] * floods[name] <= 2 * max(floods[name], TYPICAL) for name in floods)


@settings(max_examples=50, deadline=None)
@given(FLOODS)
def test_busy_users_get_equal_seconds(floods: dict[str, float]) -> None:
    queue = flooded(floods, rounds=0)
    seconds: dict[str, float] = defaultdict(float)
    for _ in range(1000):
        name = serve(queue, floods)
        seconds[name] += floods[name]
        queue.put(name, name)
    assert max(seconds.values()) - min(seconds[name] for name in floods) <= 3 * max(*floods.values(), TYPICAL)


@settings(max_examples=50, deadline=None)
@given(FLOODS, st.integers(0, 200))
def test_urgent_work_precedes_other_flows(floods: dict[str, float], rounds: int) -> None:
    queue = flooded(floods, rounds=rounds)
    queue.put("controller", "controller", urgent=True)
    assert serve(queue, {**floods, "controller": 0.001}) == "controller"


def test_user_with_only_urgent_work_gains_one_head_start() -> None:
    floods = {"honest": 0.01, "greedy": 0.01}
    queue = flooded(floods, rounds=0, urgent="greedy")
    seconds: dict[str, float] = defaultdict(float)
    for _ in range(2000):
        name = serve(queue, floods)
        seconds[name] += floods[name]
        queue.put(name, name, urgent=name == "greedy")
    assert HEAD_START - 0.03 <= seconds["greedy"] - seconds["honest"] <= HEAD_START + 0.03


def test_full_flow_leaves_room_for_others() -> None:
    queue: FairQueue[int] = FairQueue(per_flow=2, most=3)
    queue.put("greedy", 1)
    queue.put("greedy", 2)
    with pytest.raises(Full):
        queue.put("greedy", 3)
    queue.put("other", 4)
    with pytest.raises(Full):
        queue.put("third", 5)


def test_idle_flows_are_removed() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(20 * FLOWS):
        name = f"user-{number}"
        queue.put(name, name)
        serve(queue, {name: 0.001})
    assert len(queue._flows) <= 2 * FLOWS
