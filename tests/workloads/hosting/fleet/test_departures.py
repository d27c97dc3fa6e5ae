"""Which changes of a host wake requests that wait: those that give something back."""

import pytest

from fairway.api.hosted_request import HostedClusterRequest
from fairway.hosts.direction import Direction
from fairway.hosts.resources import grantable
from fairway.workloads.hosting import HostingState
from fairway.workloads.hosting.resources import HOSTED
from workloads.hosting.hosts import NOW, host, load, placed, policy, request, state_of


def crowded() -> HostingState:
    return state_of(policy(), host("h1"), load("h1", count=3), placed("web", "h1"))


def directions(state: HostingState, changed: HostedClusterRequest) -> list[Direction]:
    return [event.columns[grantable(HOSTED)] for event in state.upsert(changed, now=NOW)]


def test_place_that_is_observed_wakes_none() -> None:
    assert directions(crowded(), placed("shop", "h1")) == []


def test_progress_of_a_resident_wakes_none() -> None:
    assert directions(crowded(), placed("web", "h1", phase="Confirmed")) == []


@pytest.mark.parametrize("rebuilt", [False, True])
def test_place_that_is_given_up_wakes_what_waits_for_room(rebuilt: bool) -> None:
    state = crowded()
    if rebuilt:
        state.upsert(placed("shop", "h1"), now=NOW)
    assert directions(state, request("web")) == [Direction.UP]


def test_name_that_is_given_up_wakes_what_waits_for_it() -> None:
    state = crowded()
    state.upsert(placed("web", "h1", nodePools=[{"name": "workers", "spec": {}}]), now=NOW)
    assert directions(state, placed("web", "h1")) == [Direction.UP]


def test_load_that_rises_wakes_none_and_one_that_falls_does() -> None:
    state = crowded()
    (risen,) = state.upsert(load("h1", count=9), now=NOW)[1:]
    (fallen,) = state.upsert(load("h1", count=1), now=NOW)[1:]
    assert [event.columns[grantable(HOSTED)] for event in (risen, fallen)] == [Direction.DOWN, Direction.UP]
