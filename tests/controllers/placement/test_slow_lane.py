"""Placements with expensive expressions are decided in slices, and namespaces take turns."""

import asyncio

import pytest

from clocks import ManualClock
from fairway.controllers.placement.slow_lane import (
    QUICK_RATE,
    QUICK_WORK,
    SLICE_WORK,
    TOTAL_WORK,
    Allowance,
    SlowLane,
)
from fairway.controllers.reconciler import Key


class Slices:
    """Counts down the slices that each placement still needs."""

    def __init__(self, needed: dict[Key, int]) -> None:
        self.needed = needed
        self.finished: list[Key] = []
        self.lane = SlowLane(advance=self._advance, done=self.finished.append, clock=ManualClock())
        for key in needed:
            self.lane.add(key)

    def _advance(self, key: Key, work: int) -> bool:
        assert work == SLICE_WORK
        self.needed[key] -= 1
        return self.needed[key] <= 0


def test_other_namespace_waits_for_one_slice() -> None:
    hostile = {("hostile", f"p{at}"): 100 for at in range(100)}
    slices = Slices({**hostile, ("other", "p"): 1})
    slices.lane.step()
    slices.lane.step()
    assert slices.finished == [("other", "p")]


def test_namespaces_get_equal_shares() -> None:
    slices = Slices({("a", "p0"): 50, ("a", "p1"): 50, ("b", "p"): 50})
    for _ in range(40):
        slices.lane.step()
    assert slices.needed == {("a", "p0"): 40, ("a", "p1"): 40, ("b", "p"): 30}


def test_placement_that_is_added_twice_is_advanced_once() -> None:
    slices = Slices({("a", "p"): 1})
    slices.lane.add(("a", "p"))
    assert len(slices.lane) == 1
    slices.lane.step()
    assert slices.finished == [("a", "p")]
    assert len(slices.lane) == 0


def test_deleted_placement_is_not_advanced() -> None:
    slices = Slices({("a", "p"): 5})
    slices.lane.discard(("a", "p"))
    slices.lane.step()
    assert slices.needed == {("a", "p"): 5}
    assert slices.finished == []


def test_failing_slice_hands_the_placement_to_a_worker() -> None:
    finished: list[Key] = []

    def fail(_key: Key, _work: int) -> bool:
        raise RuntimeError

    lane = SlowLane(advance=fail, done=finished.append, clock=ManualClock())
    lane.add(("a", "p"))
    with pytest.raises(RuntimeError):
        lane.step()
    assert finished == [("a", "p")]


async def test_slow_lane_runs_until_it_is_empty() -> None:
    slices = Slices({("a", "p"): 3, ("b", "p"): 2})
    running = asyncio.create_task(slices.lane.run())
    await slices.lane.empty()
    assert slices.finished == [("b", "p"), ("a", "p")]
    slices.needed[("c", "p")] = 1
    slices.lane.add(("c", "p"))
    await slices.lane.empty()
    assert slices.finished[-1] == ("c", "p")
    running.cancel()
    await asyncio.wait([running])


def test_namespace_that_used_its_allowance_gets_it_back_with_time() -> None:
    clock = ManualClock()
    allowance = Allowance(clock)
    assert allowance.left("a") == QUICK_WORK
    allowance.spend("a", QUICK_WORK)
    assert allowance.left("a") == 0
    assert allowance.left("b") == QUICK_WORK
    clock.advance(QUICK_WORK / QUICK_RATE / 2)
    assert allowance.left("a") == QUICK_WORK // 2
    clock.advance(10)
    assert allowance.left("a") == QUICK_WORK
    assert not allowance._spaces, "namespaces with a full allowance take no memory"


def test_slow_placements_of_all_namespaces_share_a_limit() -> None:
    allowance = Allowance(ManualClock())
    allowance.left("n0")
    for at in range(2 * TOTAL_WORK // QUICK_WORK):
        allowance.spend(f"n{at}", QUICK_WORK)
    assert allowance.left("fresh") == 0
