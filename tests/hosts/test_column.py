import numpy as np
import pytest

from fairway.hosts import bitmap
from fairway.hosts import column as column_module
from fairway.hosts.column import FEW_CODES, NEVER, CodeColumn, CountColumn, NumberColumn, ScoreColumn


def codes(*values: str | None) -> CodeColumn:
    column = CodeColumn(capacity=64)
    for row, value in enumerate(values):
        column.write(row, value)
    return column


def rows(column: CodeColumn, value: str | None) -> list[int]:
    """Return the rows of a value by its bitmap, among the first four."""
    code = 0 if value is None else column.code(value)
    assert code is not None
    return [row for row in bitmap.rows_of(column.bitmap(code)).tolist() if row < 4]


def test_equal_column_values_share_a_code() -> None:
    column = codes("eu", None, "us", "eu")
    assert column.codes[:4].tolist() == [1, 0, 2, 1]
    assert [column.value(row) for row in range(4)] == ["eu", None, "us", "eu"]
    assert column.items() == [("eu", 1), ("us", 2)]
    assert column.code("nowhere") is None
    assert column.uses(1) == 2


def test_column_write_returns_whether_the_cell_changed() -> None:
    column = codes("eu")
    assert not column.write(0, "eu")
    assert column.write(0, "us")
    assert column.write(0, None)
    assert not column.write(0, None)


def test_unused_column_code_is_reused() -> None:
    column = codes("eu", "us")
    column.write(0, None)
    assert column.code("eu") is None
    assert column.items() == [("us", 2)]
    column.write(1, "ap")
    assert column.value(1) == "ap"
    assert sorted(code for _, code in column.items()) == [1]
    column.write(0, "eu")
    assert column.code("eu") == 2
    assert len(column.values) == 3


def test_column_epoch_changes_only_with_new_values() -> None:
    column = codes("eu", "us")
    before = column.epoch
    column.write(0, "us")
    column.write(1, None)
    column.write(1, "us")
    assert column.epoch == before
    column.write(1, "ap")
    assert column.epoch == before + 1


def test_column_bitmaps_follow_every_write() -> None:
    column = codes("eu", "us", "eu", None)
    assert (rows(column, "eu"), rows(column, "us"), rows(column, None)) == ([0, 2], [1], [3])
    column.write(1, "eu")
    column.write(0, None)
    column.write(3, "us")
    assert (rows(column, "eu"), rows(column, "us"), rows(column, None)) == ([1, 2], [3], [0])


def test_bitmap_of_reused_code_has_rows_of_the_new_value() -> None:
    column = codes("eu", "us")
    assert rows(column, "eu") == [0]
    column.write(0, None)
    column.write(2, "ap")
    assert column.code("ap") == 1
    assert rows(column, "ap") == [2]


def test_column_fill_equals_single_writes() -> None:
    values = ["eu", None, "us", "eu"]
    filled = CodeColumn(capacity=64)
    filled.fill(list(values))
    written = codes(*values)
    assert filled.codes.tolist() == written.codes.tolist()
    assert filled.items() == written.items()
    assert [filled.uses(code) for _, code in filled.items()] == [2, 1]
    filled.write(0, None)
    filled.write(3, None)
    assert filled.code("eu") is None


def test_forked_column_is_independent() -> None:
    column = codes("eu", "us")
    assert rows(column, "eu") == [0]
    fork = column.fork()
    fork.write(0, "ap")
    fork.write(1, None)
    assert [column.value(row) for row in range(2)] == ["eu", "us"]
    assert [fork.value(row) for row in range(2)] == ["ap", None]
    assert (rows(column, "eu"), rows(fork, "ap")) == ([0], [0])
    column.write(0, None)
    assert fork.code("ap") is not None
    assert column.code("ap") is None


def test_grown_column_keeps_its_cells() -> None:
    column = codes("eu", "us", "eu")
    assert rows(column, "eu") == [0, 2]
    column.grow(128)
    assert (len(column.codes), column.codes.itemsize) == (128, 4)
    column.write(100, "eu")
    code = column.code("eu")
    assert code is not None
    assert bitmap.rows_of(column.bitmap(code)).tolist() == [0, 2, 100]
    assert [column.value(row) for row in (0, 1, 3, 100)] == ["eu", "us", None, "eu"]


def test_unreported_number_is_nan() -> None:
    column = NumberColumn(capacity=64)
    assert np.isnan(column.values).all()
    assert column.write(3, 2)
    assert not column.write(3, 2.0)
    assert column.write(3, None)
    assert not column.write(3, None)
    column.fill([1.5, None])
    assert column.values[0] == 1.5
    assert np.isnan(column.values[1])


def test_number_column_grows_and_forks() -> None:
    column = NumberColumn(capacity=64)
    column.write(1, 7)
    fork = column.fork()
    column.write(1, 8)
    column.grow(128)
    assert (fork.values[1], column.values[1], len(column.values)) == (7, 8, 128)
    assert np.isnan(column.values[127])


@pytest.mark.parametrize(
    ("value", "score", "expires", "present"),
    [
        pytest.param((5, 99), 5, 99, True, id="a score that ends"),
        pytest.param((5, NEVER), 5, NEVER, True, id="a score that does not end"),
        pytest.param((0, NEVER), 0, NEVER, True, id="a score of nought is a score"),
        pytest.param((None, 99), 0, 99, False, id="an object without the score"),
        pytest.param(None, 0, NEVER, False, id="no object"),
    ],
)
def test_score_column_has_values_and_expiries(
    value: tuple[int | None, int] | None, score: int, expires: int, present: bool
) -> None:
    column = ScoreColumn(capacity=64)
    column.write(0, (1, 1))
    assert column.write(0, value)
    assert not column.write(0, value)
    assert (column.values[0], column.expires[0], bool(column.present[0])) == (score, expires, present)
    fork = column.fork()
    column.write(0, (42, 42))
    column.grow(128)
    assert (fork.values[0], fork.expires[0], bool(fork.present[0])) == (score, expires, present)
    assert (column.values[0], column.expires[0], bool(column.present[0])) == (42, 42, True)
    assert (column.values[127], column.expires[127], bool(column.present[127])) == (0, NEVER, False)


def test_count_column_counts_rows() -> None:
    column = CountColumn(capacity=64)
    assert column.write(2, 3)
    assert not column.write(2, 3)
    fork = column.fork()
    column.write(2, 4)
    column.grow(128)
    assert (int(fork.values[2]), int(column.values[2]), len(column.values)) == (3, 4, 128)


@pytest.mark.parametrize("count", [1, 3, FEW_CODES, FEW_CODES + 1, 60])
def test_column_rows_of_several_codes(count: int) -> None:
    column = codes(*(f"v{row}" for row in range(60)), None)
    wanted = [f"v{row}" for row in range(60)][:count]
    bits = column.bitmap_of([code for value in wanted if (code := column.code(value)) is not None])
    assert bitmap.rows_of(bits).tolist() == list(range(count))


def test_column_rows_of_no_codes_are_empty() -> None:
    assert not codes("eu").bitmap_of([]).any()


def test_query_of_many_codes_caches_no_bitmaps() -> None:
    """A bitmap for each of 100,000 values of 100,000 hosts would exhaust the memory."""
    column = codes(*(f"v{row}" for row in range(60)))
    column.bitmap_of([code for _, code in column.items()])
    assert len(column._bitmaps) == 0
    column.bitmap_of([1, 2])
    assert len(column._bitmaps) == 2


def test_number_of_cached_bitmaps_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_module, "KEPT_BITMAPS", 4)
    column = codes(*(f"v{row}" for row in range(8)))
    for code in range(1, 9):
        assert bitmap.rows_of(column.bitmap(code)).tolist() == [code - 1]
    assert len(column._bitmaps) == 4
    column.write(0, "v7")
    assert rows(column, "v7") == [0]


def test_earliest_expiry_follows_every_write() -> None:
    column = ScoreColumn(capacity=4)
    assert column.earliest() == NEVER
    column.write(0, (1, 50))
    assert column.earliest() == 50
    column.write(1, (1, 20))
    assert column.earliest() == 20
    column.write(0, (1, 10))
    assert column.earliest() == 10
    column.write(0, (1, 90))
    assert column.earliest() == 20
    column.write(1, None)
    assert column.earliest() == 90
