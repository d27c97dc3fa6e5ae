import multiprocessing
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.providers.forecast.history import History

KEY = ("c1", "free")


def book(**more: int) -> History:
    return History(**{"step": 10, "columns": 5, "most": 100, **more})


def row(history: History) -> list[float]:
    return [round(float(value), 6) for value in history.complete()[history.keys[KEY]]]


def test_bucket_is_mean_of_its_values() -> None:
    history = book()
    assert history.record({KEY: 1}, moment=100)
    assert not history.record({KEY: 3}, moment=104)
    assert not history.record({KEY: 5}, moment=109)
    assert history.record({KEY: 9}, moment=110)
    assert row(history)[-1] == 3


def test_missing_bucket_stays_empty() -> None:
    history = book()
    history.record({KEY: 1}, moment=100)
    history.record({KEY: 2}, moment=125)
    history.record({KEY: 3}, moment=130)
    np.testing.assert_equal(row(history), [np.nan, 1, np.nan, 2])


def test_small_clock_step_over_bucket_border_is_ignored() -> None:
    history = book()
    history.record({KEY: 1}, moment=100)
    assert not history.record({KEY: 50}, moment=99)
    history.record({KEY: 2}, moment=110)
    assert row(history)[-1] == 1


def test_future_buckets_are_dropped_after_clock_step() -> None:
    """A clock that was wrong must not stop the recording until it has caught up."""
    history = book()
    for moment, value in ((100, 1.0), (110, 2.0), (130, 7.0)):
        history.record({KEY: value}, moment=moment)
    assert history.record({KEY: 4.0}, moment=111)
    assert history.last == 11
    assert history.record({KEY: 5.0}, moment=120)
    np.testing.assert_equal(row(history), [np.nan, np.nan, 1, 3])


def test_clock_wrong_by_years_resets_history() -> None:
    history = book()
    history.record({KEY: 1.0}, moment=10**9)
    assert history.record({KEY: 2.0}, moment=100)
    assert history.record({KEY: 3.0}, moment=110)
    np.testing.assert_equal(row(history), [np.nan, np.nan, np.nan, 2])


def test_history_is_empty_after_long_silence() -> None:
    history = book()
    history.record({KEY: 1}, moment=100)
    history.record({("c2", "free"): 2}, moment=10_000)
    assert list(history.keys) == [("c2", "free")]


def test_number_of_series_is_limited() -> None:
    history = book(most=2)
    history.record({(f"c{number}", "free"): number for number in range(5)}, moment=100)
    assert len(history.keys) == 2
    assert history.full()


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc"), st.floats(-1e6, 1e6)), max_size=15))
def test_saved_history_continues(events: list[tuple[int, str, float]]) -> None:
    straight, broken = book(), book()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state")
        moment = 100.0
        for seconds, cluster, value in events:
            moment += seconds
            for history in (straight, broken):
                history.record({(cluster, "free"): value}, moment=moment)
            broken.save(path)
            broken = book()
            assert broken.load(path) == ""
    assert dict(straight.keys) == dict(broken.keys)
    assert straight.last == broken.last
    np.testing.assert_allclose(straight.complete(), broken.complete())


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 but no more"])
def test_damaged_history_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state"
    path.write_bytes(content)
    history = book()
    assert "starting a new history" in history.load(path)
    assert not history.keys


def test_truncated_history_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "state"
    history = book()
    history.record({KEY: 1}, moment=100)
    history.save(path)
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        other = book()
        assert "starting a new history" in other.load(path)
        assert not other.keys


def test_history_with_another_step_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "state"
    history = book()
    history.record({KEY: 1}, moment=100)
    history.save(path)
    assert "with another step" in book(step=20).load(path)
    longer = book(columns=9)
    assert longer.load(path) == ""
    longer.record({KEY: 2}, moment=110)
    assert row(longer)[-1] == 1


def test_missing_history_file_is_accepted(tmp_path: Path) -> None:
    assert book().load(tmp_path / "state") == ""


def _save_for_ever(path: str) -> None:
    history = book(columns=2000)
    history.record({(f"c{number}", "free"): number for number in range(50)}, moment=100)
    while True:
        history.save(Path(path))


def test_kill_during_save_leaves_complete_file(tmp_path: Path) -> None:
    path = tmp_path / "state"
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_save_for_ever, args=(str(path),), daemon=True)
    process.start()
    try:
        seen: set[int] = set()
        while len(seen) < 3:  # it has been replaced more than once
            if path.exists():
                seen.add(os.stat(path).st_mtime_ns)
    finally:
        process.kill()
        process.join()
    history = book(columns=2000)
    assert history.load(path) == ""
    assert len(history.keys) == 50


def test_backfill_fills_only_empty_buckets() -> None:
    history = book()
    history.record({KEY: 7}, moment=120)
    history.backfill({KEY: [(95, 1), (99, 3), (105, 4), (125, 50), (10, 9), (135, 60)]}, moment=130)
    np.testing.assert_equal(row(history), [2, 4, np.nan, 7])
    assert history.last == 13
