"""Incremental cycles: they follow changed rows, or start over."""

from datetime import timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from engine.toys import Work, fleet_of
from fairway.api.placement import PlacementSpec
from fairway.engine import cycle
from fairway.engine.following import MOST_CHANGED_ROWS
from fairway.engine.memory import Memory
from fairway.engine.points import Context, Reads, Timeless, Weighted
from fairway.engine.profile import assemble
from fairway.engine.ranking import TOTAL_BOUND
from fairway.engine.status import OK, SKIPPED, Code, Status, unschedulable
from fairway.hosts.bitmap import Rows
from fairway.hosts.instant import SECOND
from fairway.testing.builders import (
    addon,
    binding,
    builtin,
    cluster,
    cluster_set,
    decision,
    placement,
    policy,
    score,
)
from fairway.whatif.world import World
from fairway.workloads.placement import PlacementWorkload, default_profile
from strategies import AMOUNTS, NAMES, NOW, NOW_MICROS


def world_of(count: int) -> World:
    return World(
        [
            cluster_set("default"),
            binding("default"),
            *(cluster(f"c{at:03d}", allocatable={"cpu": str(at + 1)}) for at in range(count)),
            *(score(f"c{at:03d}", {"cpu": at % 7}) for at in range(count)),
        ]
    )


def workload_of(wanted: int | None = 2) -> PlacementWorkload:
    spec = PlacementSpec(
        numberOfClusters=wanted,
        prioritizerPolicy=policy(addon("cpu", 10), builtin("ResourceAllocatableCPU")),
    )
    return PlacementWorkload(placement("p1", spec=spec))


class Cycles:
    """Runs every cycle incrementally and from scratch, and compares the outcomes."""

    def __init__(self, world: World, workload: PlacementWorkload) -> None:
        self.world = world
        self.workload = workload
        self.memory = Memory()
        self.now = NOW_MICROS

    def run(self) -> list[str]:
        snapshot = self.world.fleet.snapshot()
        outcome = self.memory.run(snapshot, self.workload, default_profile(), now=self.now)
        fresh = cycle.run(snapshot, self.workload, default_profile(), now=self.now)
        assert outcome.selected == fresh.selected
        assert outcome.status == fresh.status
        assert outcome.totals_by_name() == fresh.totals_by_name()
        return outcome.selected


def test_changed_row_is_followed_incrementally() -> None:
    cycles = Cycles(world_of(20), workload_of())
    assert cycles.run() == ["c019", "c018"]
    cycles.world.put(score("c005", {"cpu": 100}))
    assert cycles.run() == ["c005", "c019"]
    cycles.world.put(cluster("c005", labels={"x": "y"}, allocatable={"cpu": "6"}, member_of="elsewhere"))
    assert cycles.run() == ["c019", "c018"]
    cycles.world.fleet.delete_cluster("c013")
    cycles.run()
    assert cycles.memory.followed == 3


def test_change_outside_the_reads_calls_no_plugin() -> None:
    cycles = Cycles(world_of(20), workload_of())
    cycles.run()
    cycles.world.put(score("c005", {"cpu": 100}, name="unrelated"))
    assert cycles.run() == ["c019", "c018"]
    assert cycles.memory.followed == 1


def test_changed_score_range_starts_over() -> None:
    cycles = Cycles(world_of(20), workload_of())
    cycles.run()
    cycles.world.put(cluster("c003", allocatable={"cpu": "400"}))
    assert cycles.run()[0] == "c003"
    assert cycles.memory.followed == 0


@pytest.mark.parametrize("cpu", ["1", "20"])
def test_score_range_stays_while_another_host_is_at_its_end(cpu: str) -> None:
    world = world_of(20)
    world.put(cluster("twin", allocatable={"cpu": cpu}))
    cycles = Cycles(world, workload_of())
    cycles.run()
    world.put(cluster("twin", allocatable={"cpu": "7"}))
    cycles.run()
    assert cycles.memory.followed == 1
    end = {"1": "c000", "20": "c019"}[cpu]
    world.put(cluster(end, allocatable={"cpu": "7"}))
    cycles.run()
    assert cycles.memory.followed == 1


def test_sets_bindings_and_own_decisions_start_over() -> None:
    cycles = Cycles(world_of(20), workload_of())
    cycles.run()
    cycles.world.put(decision("p1-decision-1", ["c001"], placement="p1"))
    assert cycles.run() == ["c019", "c018"]
    cycles.world.fleet.delete_set("default")
    assert cycles.run() == []
    cycles.world.put(cluster_set("default"))
    assert cycles.run() == ["c019", "c018"]
    assert cycles.memory.followed == 0


def test_decisions_of_others_are_followed_while_the_most_held_stays() -> None:
    world = world_of(20)
    world.put(decision("other", ["c010", "c010", "c010"]))
    cycles = Cycles(world, workload_of())
    cycles.run()
    world.put(decision("another", ["c013"]))
    cycles.run()
    assert cycles.memory.followed == 1
    world.put(decision("more", ["c010"]))
    cycles.run()
    assert cycles.memory.followed == 1


def test_more_changed_rows_than_the_limit_start_over() -> None:
    cycles = Cycles(world_of(200), workload_of())
    cycles.run()
    for at in range(MOST_CHANGED_ROWS + 1):
        cycles.world.put(score(f"c{at:03d}", {"cpu": 50}))
    cycles.run()
    assert cycles.memory.followed == 0


def test_expired_result_starts_over() -> None:
    world = world_of(20)
    world.put(score("c005", {"cpu": 100}, valid_until=NOW + timedelta(seconds=5)))
    cycles = Cycles(world, workload_of())
    assert cycles.run()[0] == "c005"
    cycles.now += 5 * SECOND
    assert cycles.run()[0] == "c005"
    assert cycles.memory.followed == 1
    cycles.now += 1
    assert cycles.run()[0] == "c019"
    assert cycles.memory.followed == 1


def test_warnings_of_changed_rows_are_followed() -> None:
    world = world_of(20)
    world.put(score("c002", {"cpu": 100}, valid_until=NOW - timedelta(seconds=5)))
    cycles = Cycles(world, workload_of())
    cycles.run()
    world.put(score("c004", {"cpu": 100}, valid_until=NOW - timedelta(seconds=5)))
    cycles.run()
    snapshot = world.fleet.snapshot()
    outcome = cycles.memory.run(snapshot, cycles.workload, default_profile(), now=cycles.now)
    assert outcome.status.code is Code.WARNING
    assert outcome.status.message == "AddOnPlacementScores c002/default c004/default expired"
    world.put(score("c002", {"cpu": 1}))
    world.put(score("c004", {"cpu": 1}))
    cycles.run()
    assert cycles.memory.followed == 3


def test_memory_of_outcomes_is_bounded() -> None:
    world = world_of(20)
    memory = Memory(limit=8000)
    for name in ("a", "b", "c"):
        workload = PlacementWorkload(placement(name, spec=PlacementSpec(numberOfClusters=1)))
        for _ in range(3):
            memory.run(world.fleet.snapshot(), workload, default_profile(), now=NOW_MICROS)
            assert memory.size <= 8000
    assert memory.followed == 4
    first = PlacementWorkload(placement("a", spec=PlacementSpec(numberOfClusters=1)))
    memory.run(world.fleet.snapshot(), first, default_profile(), now=NOW_MICROS)
    assert memory.followed == 4


def test_forgotten_workload_starts_over() -> None:
    cycles = Cycles(world_of(5), workload_of())
    cycles.run()
    cycles.memory.forget("ns1", "p1")
    cycles.memory.forget("ns1", "never-was")
    cycles.run()
    assert cycles.memory.followed == 0


small_changes = st.one_of(
    st.builds(
        lambda name, cpu: cluster(name, allocatable={"cpu": cpu} if cpu else {}),
        st.sampled_from(NAMES),
        st.sampled_from([*AMOUNTS, ""]),
    ),
    st.builds(
        lambda name, value, late: score(
            name, {"cpu": value}, valid_until=NOW - timedelta(1) if late else None
        ),
        st.sampled_from(NAMES),
        st.integers(-100, 100),
        st.sampled_from([False, False, False, True]),
    ),
    st.builds(
        lambda name, clusters: decision(name, clusters, placement=name),
        st.sampled_from(["x", "y"]),
        st.lists(st.sampled_from(NAMES), max_size=3),
    ),
)


@given(
    wanted=st.integers(0, 8),
    start=st.lists(small_changes, max_size=12),
    steps=st.lists(st.lists(small_changes, min_size=1, max_size=2), min_size=1, max_size=8),
)
@settings(max_examples=80)
def test_following_agrees_with_starting_over(
    wanted: int, start: list[object], steps: list[list[object]]
) -> None:
    world = World([cluster_set("default"), binding("default")])
    for obj in start:
        world.put(obj)
    cycles = Cycles(world, workload_of(wanted))
    cycles.run()
    for things in steps:
        for obj in things:
            world.put(obj)
        cycles.run()


def test_clock_that_steps_back_starts_over() -> None:
    """A clock that steps back makes expired results valid again."""
    spec = PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy(addon("cpu"), mode="Exact"))
    world = World([cluster_set("default"), binding("default"), cluster("c1"), cluster("c2")])
    world.put(score("c2", {"cpu": 9}, valid_until=NOW))
    cycles = Cycles(world, PlacementWorkload(placement("p1", spec=spec)))
    cycles.now = NOW_MICROS + SECOND
    assert cycles.run() == ["c1"]
    cycles.now = NOW_MICROS
    assert cycles.run() == ["c2"]


def test_deleted_host_is_followed_by_profile_without_reads() -> None:
    class Equal(Timeless):
        name = "Equal"

        def score(self, _context: Context, _row: int, /) -> int:
            return 0

        def reads(self, _context: Context, /) -> Reads:
            return Reads()

    profile = assemble(name="toy", scores=(Weighted(Equal(), 1),))
    fleet, memory = fleet_of("a", "b", "c"), Memory()
    assert memory.run(fleet.snapshot(), Work(wanted=2), profile, now=0).selected == ["a", "b"]
    fleet.delete_cluster("a")
    assert memory.run(fleet.snapshot(), Work(wanted=2), profile, now=0).selected == ["b", "c"]
    fleet.upsert_cluster(cluster("bb"))
    assert memory.run(fleet.snapshot(), Work(wanted=2), profile, now=0).selected == ["b", "bb"]
    assert memory.followed == 2


def test_following_a_row_computes_no_basis_that_cannot_have_changed() -> None:
    """Computing a basis may take time proportional to the fleet."""
    asked: list[str] = []

    class Based(Timeless):
        name = "Based"

        def pre_score(self, _context: Context, _rows: Rows, /) -> Status:
            return OK

        def score(self, _context: Context, _row: int, /) -> int:
            return 0

        def reads(self, _context: Context, /) -> Reads:
            return Reads(cells=frozenset({("label", "env")}))

        def basis(self, _context: Context, /) -> object:
            asked.append("basis")
            return "same"

    class Labelled(Timeless):
        name = "Labelled"

        def score(self, context: Context, row: int, /) -> int:
            return len(context.snapshot.host(row).metadata.labels)

        def reads(self, _context: Context, /) -> Reads:
            return Reads(cells=frozenset({("label", "tier")}))

    profile = assemble(name="toy", scores=(Weighted(Based(), 1), Weighted(Labelled(), 1)))
    fleet, memory = fleet_of("a", "b", "c"), Memory()
    memory.run(fleet.snapshot(), Work(wanted=1), profile, now=0)
    asked.clear()
    fleet.upsert_cluster(cluster("b", labels={"tier": "gold"}))
    assert memory.run(fleet.snapshot(), Work(wanted=1), profile, now=0).selected == ["b"]
    assert memory.followed == 1
    assert not asked
    fleet.upsert_cluster(cluster("c", labels={"env": "prod"}))
    memory.run(fleet.snapshot(), Work(wanted=1), profile, now=0)
    assert asked == ["basis"]


def test_the_best_rows_in_order_count_as_memory() -> None:
    """A placement that wants nearly all clusters keeps nearly all of them in order."""
    world = world_of(0)
    memory = Memory(limit=60_000)
    workload = PlacementWorkload(placement("p1", spec=PlacementSpec(numberOfClusters=250)))
    for at in range(250):
        world.put(cluster(f"c{at:03d}"))
        memory.run(world.fleet.snapshot(), workload, default_profile(), now=NOW_MICROS)
    assert memory.followed == 249
    assert memory.size > 250 * 64
    other = PlacementWorkload(placement("p2", spec=PlacementSpec(numberOfClusters=250)))
    memory.run(world.fleet.snapshot(), other, default_profile(), now=NOW_MICROS)
    assert memory.size < 60_000
    memory.forget("ns1", "p1")
    memory.forget("ns1", "p2")
    assert memory.size == 0


def test_outcome_that_outgrows_the_memory_limit_is_dropped() -> None:
    world = world_of(0)
    memory = Memory(limit=20_000)
    workload = PlacementWorkload(placement("p1", spec=PlacementSpec(numberOfClusters=250)))
    for at in range(250):
        world.put(cluster(f"c{at:03d}"))
        memory.run(world.fleet.snapshot(), workload, default_profile(), now=NOW_MICROS)
        assert memory.size <= 20_000
    assert 0 < memory.followed < 249


@pytest.mark.parametrize("said", [Status(), SKIPPED], ids=["another success", "nothing to say"])
def test_filter_that_passes_with_a_message_continues_the_filters(said: Status) -> None:
    class Easy(Timeless):
        name = "Easy"

        def filter(self, _context: Context, _row: int, /) -> Status:
            return said

        def reads(self, _context: Context, /) -> Reads:
            return Reads()

    class Tagged(Timeless):
        name = "Tagged"

        def filter(self, context: Context, row: int, /) -> Status:
            tagged = "tag" in context.snapshot.host(row).metadata.labels
            return unschedulable("is tagged", plugin=self.name) if tagged else OK

        def reads(self, _context: Context, /) -> Reads:
            return Reads(cells=frozenset({("label", "tag")}))

    profile = assemble(name="toy", filters=(Easy(), Tagged()))
    fleet, memory = fleet_of("a", "b"), Memory()
    assert memory.run(fleet.snapshot(), Work(wanted=1), profile, now=0).selected == ["a"]
    fleet.upsert_cluster(cluster("a", labels={"tag": "x"}))
    assert memory.run(fleet.snapshot(), Work(wanted=1), profile, now=0).selected == ["b"]
    assert memory.followed == 1


class Sweeps:
    """A memory with room for two of the workloads that it is asked for."""

    def __init__(self) -> None:
        self._snapshot = world_of(20).fleet.snapshot()
        self._workloads: dict[str, PlacementWorkload] = {}
        self.memory = Memory()
        self.follows("any")
        self.memory = Memory(limit=2 * self.memory.size)

    def follows(self, name: str) -> bool:
        before = self.memory.followed
        if name not in self._workloads:
            spec = PlacementSpec(numberOfClusters=1)
            self._workloads[name] = PlacementWorkload(placement(name, spec=spec))
        self.memory.run(self._snapshot, self._workloads[name], default_profile(), now=NOW_MICROS)
        return self.memory.followed > before


def test_workloads_that_take_turns_stay_incremental_as_far_as_they_fit() -> None:
    sweeps = Sweeps()
    for _ in range(2):
        for name in "abc":
            sweeps.follows(name)
    assert [[sweeps.follows(name) for name in "abc"] for _ in range(2)] == [[True, True, False]] * 2


def test_workload_that_is_used_twice_takes_the_place_of_one_that_is_used_no_more() -> None:
    sweeps = Sweeps()
    for name in ("idle", "first", "second", "first"):
        sweeps.follows(name)
    assert not sweeps.follows("second")
    assert sweeps.follows("second")
    assert sweeps.follows("first")
    assert not sweeps.follows("idle")


@pytest.mark.parametrize("total", [TOTAL_BOUND, 1 - TOTAL_BOUND, -TOTAL_BOUND, -TOTAL_BOUND - 1])
def test_total_at_the_bound_of_the_ranking_agrees_with_starting_over(total: int) -> None:
    class ByLabel(Timeless):
        name = "ByLabel"

        def score(self, context: Context, row: int, /) -> int:
            return int(context.snapshot.host(row).metadata.labels.get("total", "0"))

        def reads(self, _context: Context, /) -> Reads:
            return Reads(cells=frozenset({("label", "total")}))

    profile = assemble(name="toy", scores=(Weighted(ByLabel(), 1),))
    fleet, memory = fleet_of("a", "b", "c"), Memory()
    memory.run(fleet.snapshot(), Work(wanted=2), profile, now=0)
    fleet.upsert_cluster(cluster("b", labels={"total": str(total)}))
    snapshot = fleet.snapshot()
    expected = cycle.run(snapshot, Work(wanted=2), profile, now=0).selected
    assert memory.run(snapshot, Work(wanted=2), profile, now=0).selected == expected


@pytest.mark.parametrize("count", [MOST_CHANGED_ROWS, MOST_CHANGED_ROWS + 1])
def test_as_many_changed_rows_as_allowed_are_followed(count: int) -> None:
    cycles = Cycles(world_of(MOST_CHANGED_ROWS + 20), workload_of())
    cycles.run()
    for at in range(count):
        cycles.world.put(score(f"c{at:03d}", {"cpu": 50}))
    cycles.run()
    assert cycles.memory.followed == (count == MOST_CHANGED_ROWS)


def test_cycle_of_an_earlier_snapshot_is_not_mistaken_for_the_present() -> None:
    world, workload, memory = world_of(20), workload_of(), Memory()
    earlier = world.fleet.snapshot()
    world.put(score("c005", {"cpu": 100}))
    world.fleet.delete_cluster("c019")
    for snapshot in (earlier, world.fleet.snapshot(), earlier):
        outcome = memory.run(snapshot, workload, default_profile(), now=NOW_MICROS)
        assert outcome.selected == cycle.run(snapshot, workload, default_profile(), now=NOW_MICROS).selected


def test_change_that_the_journal_forgot_starts_over() -> None:
    cycles = Cycles(world_of(20), workload_of())
    cycles.run()
    cycles.world.fleet.load_scores([score("c005", {"cpu": 100})])
    assert cycles.run() == ["c005", "c019"]
    assert cycles.memory.followed == 0
