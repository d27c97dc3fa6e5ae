import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from fairway.hosts import bitmap

row_sets = st.sets(st.integers(0, 191))


@given(chosen=row_sets, spread=st.sampled_from((1, 85, 341)))
def test_bitmap_round_trip_keeps_rows(chosen: set[int], spread: int) -> None:
    """Large bitmaps have another way for few rows."""
    chosen, capacity = {row * spread for row in chosen}, 192 if spread == 1 else 192 * 341 // 64 * 64
    bits = bitmap.from_rows(sorted(chosen), capacity)
    assert bits.dtype == np.uint64
    assert bitmap.rows_of(bits).tolist() == sorted(chosen)
    assert bitmap.count(bits) == len(chosen)
    assert bitmap.any_of(bits) is bool(chosen)
    assert (bitmap.pack(bitmap.unpack(bits)) == bits).all()
    assert all(bitmap.test(bits, row) is (row in chosen) for row in range(0, capacity, spread))


@given(first=row_sets, other=row_sets)
def test_bitmap_operations_equal_set_operations(first: set[int], other: set[int]) -> None:
    left, right = bitmap.from_rows(sorted(first), 192), bitmap.from_rows(sorted(other), 192)
    assert set(bitmap.rows_of(left & right).tolist()) == first & other
    assert set(bitmap.rows_of(left | right).tolist()) == first | other
    assert set(bitmap.rows_of(left & ~right).tolist()) == first - other


@given(chosen=row_sets, row=st.integers(0, 191), on=st.booleans())
def test_setting_a_bit_keeps_the_others(chosen: set[int], row: int, on: bool) -> None:
    bits = bitmap.from_rows(sorted(chosen), 192)
    bitmap.put(bits, row, on)
    assert set(bitmap.rows_of(bits).tolist()) == (chosen | {row} if on else chosen - {row})


def test_grown_bitmap_is_empty_in_the_new_part() -> None:
    grown = bitmap.grown(bitmap.from_rows([0, 63], 64), 256)
    assert bitmap.rows_of(grown).tolist() == [0, 63]
    assert len(grown) == 4
    assert grown.dtype == np.uint64


def test_empty_bitmap_has_no_rows() -> None:
    assert bitmap.rows_of(bitmap.empty(128)).tolist() == []
    assert not bitmap.any_of(bitmap.empty(128))
