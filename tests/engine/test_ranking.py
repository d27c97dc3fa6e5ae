import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.toys import rows
from fairway.engine import ranking
from fairway.engine.ranking import ABSENT, TOTAL_BOUND, Front
from fairway.hosts.hosts import RANK_BITS

LAST_RANK = (1 << RANK_BITS) - 2
"""The highest possible rank of a host."""


def best(totals: list[int], *, wanted: int | None, ranks: list[int] | None = None) -> list[int]:
    """Return the best of the rows 10, 11, 12, …; ranks are ascending by default."""
    count = len(totals)
    selected = ranking.best(
        np.arange(10, 10 + count),
        np.array(totals, dtype=np.int64),
        np.array(range(1, count + 1) if ranks is None else ranks, dtype=np.int64),
        wanted=wanted,
    )
    return [int(row) for row in selected]


@pytest.mark.parametrize(
    ("totals", "wanted", "expected"),
    [
        pytest.param([1, 3, 2], None, [11, 12, 10], id="all, highest first"),
        pytest.param([1, 3, 2], 2, [11, 12], id="the best two"),
        pytest.param([1, 3, 2], 3, [11, 12, 10], id="exactly as many as there are"),
        pytest.param([1, 3, 2], 9, [11, 12, 10], id="more than there are"),
        pytest.param([1, 3, 2], 0, [], id="none"),
        pytest.param([1, 3, 2], -4, [], id="less than none"),
        pytest.param([], 3, [], id="of nobody"),
        pytest.param([5, 5, 5, 6], 2, [13, 10], id="ties by rank"),
        pytest.param([-5, 0, 5], 2, [12, 11], id="negative totals"),
        pytest.param([0, TOTAL_BOUND, -TOTAL_BOUND], 2, [11, 10], id="totals beyond the bound"),
        pytest.param([2**62, 2**62, -(2**62)], 2, [10, 11], id="totals far beyond the bound"),
    ],
)
def test_best_rows_by_total_and_rank(totals: list[int], wanted: int | None, expected: list[int]) -> None:
    assert best(totals, wanted=wanted) == expected


def test_equal_totals_are_ordered_by_name_rank() -> None:
    assert best([7, 7, 7], wanted=2, ranks=[30, 10, 20]) == [11, 12]


@pytest.mark.parametrize(
    ("totals", "fits"),
    [
        ([], True),
        ([0], True),
        ([TOTAL_BOUND - 1, 1 - TOTAL_BOUND], True),
        ([TOTAL_BOUND], False),
        ([-TOTAL_BOUND], False),
    ],
)
def test_ranking_key_bounds_of_totals(totals: list[int], fits: bool) -> None:
    assert ranking.fits(np.array(totals, dtype=np.int64)) is fits


def test_ranking_keys_keep_order_at_bounds() -> None:
    totals = [TOTAL_BOUND - 1, TOTAL_BOUND - 1, 0, 1 - TOTAL_BOUND, 1 - TOTAL_BOUND]
    ranks = [1, LAST_RANK, 5, 1, LAST_RANK]
    keys = ranking.keys_of(np.array(totals, dtype=np.int64), np.array(ranks, dtype=np.int64))
    assert keys.tolist() == sorted(keys.tolist())
    assert len(set(keys.tolist())) == 5
    assert keys.min() > 0
    assert keys.max() < ABSENT
    assert [ranking.key_of(total, rank) for total, rank in zip(totals, ranks, strict=True)] == keys.tolist()


totals_of_any_size = st.one_of(
    st.integers(-3, 3),
    st.integers(TOTAL_BOUND - 3, TOTAL_BOUND + 3),
    st.integers(-TOTAL_BOUND - 3, -TOTAL_BOUND + 3),
    st.integers(-(2**62), 2**62),
)


@given(
    hosts=st.lists(
        st.tuples(totals_of_any_size, st.integers(1, LAST_RANK)), max_size=20, unique_by=lambda host: host[1]
    ),
    wanted=st.one_of(st.none(), st.integers(-1, 25)),
)
def test_best_equals_sorting_for_any_totals(hosts: list[tuple[int, int]], wanted: int | None) -> None:
    expected = sorted(range(len(hosts)), key=lambda at: (-hosts[at][0], hosts[at][1]))
    count = len(hosts) if wanted is None else max(0, wanted)
    selected = best([total for total, _ in hosts], wanted=wanted, ranks=[rank for _, rank in hosts])
    assert selected == [at + 10 for at in expected[:count]]


def front_of(count: int, *, wanted: int) -> Front:
    """Return a front in which row n has key 10 n."""
    return Front(np.arange(count), np.arange(count) * 10, wanted=wanted)


def test_front_tracks_best_rows_through_changes() -> None:
    front = front_of(5, wanted=2)
    assert front.take() == [0, 1]
    front.move(4, 40, 5)
    assert front.take() == [0, 4]
    front.move(0, 0, ABSENT)
    assert front.take() == [4, 1]
    front.move(7, ABSENT, 1)
    assert front.take() == [7, 4]
    front.move(7, 1, 1)
    assert front.take() == [7, 4]


def test_front_of_small_fleet_has_all_rows() -> None:
    front = front_of(3, wanted=5)
    for row in range(3):
        front.move(row, row * 10, ABSENT)
    assert front.take() == []


def test_front_reports_when_too_many_rows_left() -> None:
    wanted = 2
    front = front_of(1000, wanted=wanted)
    kept = wanted + Front.SLACK
    for row in range(kept - wanted):
        front.move(row, row * 10, ABSENT)
        assert front.take() == [row + 1, row + 2]
    front.move(kept - wanted, (kept - wanted) * 10, ABSENT)
    assert front.take() is None


def test_rows_behind_the_front_enter_when_they_improve() -> None:
    front = front_of(1000, wanted=1)
    front.move(999, 9990, 9000)
    assert front.take() == [0]
    front.move(999, 9000, -5)
    assert front.take() == [999]
    front.move(999, -5, 9990)
    assert front.take() == [0]


def test_best_of_zero_rows_is_empty() -> None:
    assert front_of(5, wanted=0).take() == []
    assert Front(rows(), rows(), wanted=3).take() == []


class FrontMachine(RuleBasedStateMachine):
    """A front returns the result of sorting all rows, or that it is unknown."""

    @initialize(keys=st.lists(st.integers(0, 60), max_size=12, unique=True), wanted=st.integers(0, 6))
    def start(self, keys: list[int], wanted: int) -> None:
        self.keys = dict(enumerate(keys))
        self.wanted = wanted
        self.front = self.made()

    def made(self) -> Front:
        return Front(rows(*self.keys), rows(*self.keys.values()), wanted=self.wanted)

    @rule(row=st.integers(0, 15), key=st.one_of(st.just(ABSENT), st.integers(0, 60)))
    def move(self, row: int, key: int) -> None:
        if key != ABSENT and key in self.keys.values():
            return
        self.front.move(row, self.keys.get(row, ABSENT), key)
        if key == ABSENT:
            self.keys.pop(row, None)
        else:
            self.keys[row] = key

    @invariant()
    def answers_what_sorting_gives(self) -> None:
        if not hasattr(self, "front"):
            return
        front = self.front.take()
        if front is None:
            self.front = self.made()
            front = self.front.take()
        assert front == sorted(self.keys, key=self.keys.__getitem__)[: self.wanted]


class NarrowFront(Front):
    SLACK = 1


class NarrowFrontMachine(FrontMachine):
    """With minimal slack, so that rows often leave and enter the front."""

    def made(self) -> Front:
        return NarrowFront(rows(*self.keys), rows(*self.keys.values()), wanted=self.wanted)


FrontMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=20)
NarrowFrontMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=20)
TestFront = FrontMachine.TestCase
TestNarrowFront = NarrowFrontMachine.TestCase


def test_row_that_returns_to_the_last_place_of_the_front_is_kept_there() -> None:
    front = NarrowFront(rows(0, 1, 2, 3), rows(10, 20, 30, 40), wanted=2)  # holds rows 0, 1 and 2
    front.move(2, 30, ABSENT)
    front.move(2, ABSENT, 30)
    front.move(0, 10, ABSENT)
    assert front.take() == [1, 2]
    front.move(2, 30, 50)
    assert front.take() is None
