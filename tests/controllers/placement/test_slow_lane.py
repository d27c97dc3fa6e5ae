"""Placements with expensive expressions are decided in slices, and namespaces take turns."""

import asyncio

import pytest

from clocks import LoopClock, ManualClock
from fairway.api.placement import PlacementSpec
from fairway.controllers.placement.queue import PlacementQueue
from fairway.controllers.placement.slow_lane import (
    BURST,
    QUICK_RATE,
    QUICK_WORK,
    SHARE,
    SLICE_WORK,
    TOTAL_WORK,
    WORK_SECONDS,
    Allowance,
    Budget,
    Slice,
    SlowLane,
    inspect,
)
from fairway.controllers.placement.state import PlacementState
from fairway.controllers.runtime.reconciler import Key
from fairway.observe.meters import Meters
from fairway.testing import builders
from fairway.workloads.placement.plugins.work_budget import CLUSTER_WORK, FLEET_WORK


class Slices:
    """Counts down the slices that each placement still needs."""

    def __init__(self, needed: dict[Key, int]) -> None:
        self.needed = needed
        self.finished: list[Key] = []
        self.clock = ManualClock()
        self.is_idle = False
        self.waits: list[int] = []
        self.lane = SlowLane(
            advance=self._advance,
            done=self.finished.append,
            clock=self.clock,
            is_idle=lambda: self.is_idle,
            waits=self.waits.append,
        )
        for key in needed:
            self.lane.add(key)

    def _advance(self, key: Key, work: int) -> Slice:
        assert work == SLICE_WORK
        self.needed[key] -= 1
        return Slice(self.needed[key] <= 0, work)

    def use_up(self) -> None:
        """Compute slices until all namespaces wait."""
        while self.lane.step() is not None:
            pass


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

    def fail(_key: Key, _work: int) -> Slice:
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


BURST_SLICES = round(BURST * FLEET_WORK / SLICE_WORK)


def test_namespace_that_used_up_its_budget_waits_and_delays_no_other() -> None:
    slices = Slices({("hostile", f"p{at}"): 1000 for at in range(8)})
    slices.use_up()
    used = 8000 - sum(slices.needed.values())
    assert used == BURST_SLICES
    assert slices.waits[-1] == 8
    slices.needed["other", "p"] = 1
    slices.lane.add(("other", "p"))
    assert slices.lane.step() is True
    assert slices.finished == [("other", "p")]
    assert slices.lane.step() is None


def test_budget_comes_back_over_time() -> None:
    slices = Slices({("hostile", "p"): 10_000})
    slices.use_up()
    before = slices.needed["hostile", "p"]
    for _ in range(1000):
        slices.clock.advance(0.01)
        slices.lane.step()
    took = (before - slices.needed["hostile", "p"]) * SLICE_WORK * WORK_SECONDS
    assert took == pytest.approx(10 * SHARE, rel=0.02)


def test_waiting_placement_has_a_reason_with_the_time() -> None:
    slices = Slices({("hostile", "p"): 10_000, ("other", "p"): 1})
    assert slices.lane.describe(("hostile", "p")) == ""
    slices.use_up()
    words = slices.lane.describe(("hostile", "p"))
    assert words.startswith(
        "the CEL expressions of namespace hostile used up its share of the controller: they continue in"
    )
    assert slices.lane.describe(("other", "p")) == ""
    slices.clock.advance(60)
    assert slices.lane.describe(("hostile", "p")) == ""


def test_namespace_without_budget_continues_while_nothing_else_is_to_be_decided() -> None:
    slices = Slices({("busy", "p"): BURST_SLICES + 2})
    slices.use_up()
    slices.is_idle = True
    assert slices.lane.step() is False
    slices.is_idle = False
    assert slices.lane.step() is None
    slices.is_idle = True
    assert slices.lane.step() is False
    assert slices.finished == [("busy", "p")]


def test_budget_grows_with_the_limit_of_a_placement() -> None:
    clock = ManualClock()
    budget = Budget(clock, clusters=lambda: 10_000)
    limit = (FLEET_WORK + 10_000 * CLUSTER_WORK) * WORK_SECONDS
    budget.spend("a", BURST * limit - 0.001)
    assert budget.wait("a") == 0
    budget.spend("a", 0.101)
    assert budget.wait("a") == pytest.approx(0.1 / SHARE)
    assert budget.exhausted() == ["a"]
    clock.advance(1000)
    assert budget.exhausted() == []
    assert not budget._spaces, "namespaces with a full budget take no memory"


@pytest.mark.looptime
async def test_lane_continues_when_budget_is_back() -> None:
    clock = LoopClock()
    advanced: list[float] = []

    def advance(_key: Key, work: int) -> Slice:
        advanced.append(clock.monotonic())
        return Slice(len(advanced) == BURST_SLICES + 40, work)

    finished: list[Key] = []
    lane = SlowLane(advance=advance, done=finished.append, clock=clock)
    lane.add(("a", "p"))
    running = asyncio.create_task(lane.run())
    await lane.empty()
    assert finished == [("a", "p")]
    assert advanced[-1] - advanced[-10] == pytest.approx(9 * SLICE_WORK * WORK_SECONDS / SHARE, rel=0.1)
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


@pytest.mark.looptime
async def test_dry_run_of_a_placement_waits_for_the_budget_of_its_namespace() -> None:
    clock = LoopClock()
    state = PlacementState(PlacementQueue(clock), meters=Meters())
    state.fleet.load([builders.cluster("a")])
    budget = Budget(clock)
    budget.spend("ns1", 2 * FLEET_WORK * WORK_SECONDS + 0.5)
    spec = PlacementSpec(predicates=(builders.predicate(cel=["managedCluster.metadata.name == 'a'"]),))
    outcome = await inspect(state, builders.placement(spec=spec), clock, budget)
    assert not outcome.faults
    assert clock.monotonic() == pytest.approx(0.5 / SHARE)
    assert budget.wait("ns1") > 0, "what it used is charged"
