"""What is recorded survives crashes, and what cannot be recorded is a gap, never a failure."""

import logging
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from disks import small_disk
from fairway.history.archive import Archive
from fairway.history.files import delete, files_in, size_of
from fairway.history.recorder import Recorder, Retention
from fairway.history.replay import Replayer
from fairway.hosts.instant import SECOND
from fairway.workloads.placement import default_profile
from history.decided import KEY, MovingPlacement
from strategies import NOW_MICROS

MEBI = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "history"


def ids(folder: Path, *, warned: bool = False) -> list[str]:
    """Return the recorded ids, each of which replays to the same decision."""
    profile, replayer = default_profile(), Replayer()
    with Archive.open(folder) as archive:
        stored = list(archive.records())
        assert all(replayer.replay(one, profile=profile).same for one in stored if one.record.inputs)
        assert bool(archive.warnings) is warned, archive.warnings
        return [one.record.id for one in stored]


def test_records_say_what_changed_and_why(folder: Path) -> None:
    recorder = Recorder(folder)
    moving = MovingPlacement(recorder)
    for _ in range(3):
        moving.move()
    moving.move(error="conflict")
    recorder.close()
    with Archive.open(folder) as archive:
        records = [stored.record for stored in archive.records(namespace="ns1", name="web")]
        assert [(record.added, record.removed) for record in records] == [
            (("a",), ()),
            (("b",), ("a",)),
            (("a",), ("b",)),
            (("b",), ("a",)),
        ]
        assert [record.cause for record in records] == [f"move {number}" for number in (1, 2, 3, 4)]
        assert [record.error for record in records] == ["", "", "", "conflict"]
        trace = records[1].trace
        assert [(host.host, host.rank, host.total) for host in trace.added] == [("b", 1, 90)]
        assert [(host.host, host.rank, host.total) for host in trace.removed] == [("a", 2, 10)]
        assert trace.margin == 80
        # The hub has the decision before until the next one, and never had one whose write failed.
        held = archive.held_at(*KEY, NOW_MICROS + SECOND + SECOND // 2)
        assert held is not None
        assert held.record == records[1]
        last = archive.held_at(*KEY, NOW_MICROS + 100 * SECOND)
        assert last is not None
        assert last.record == records[2]
        assert archive.held_at(*KEY, NOW_MICROS - 1) is None


def test_a_killed_process_loses_at_most_its_last_batch(folder: Path, tmp_path: Path) -> None:
    recorder = Recorder(folder)
    moving = MovingPlacement(recorder)
    batches = []
    for _ in range(3):
        batches.append([moving.move(), moving.move()])
        assert recorder.flush()
    (file,) = files_in(folder)
    log = file.path.with_name(file.path.name + "-wal")
    written = log.read_bytes()
    possible = [list(chain(*batches[:count])) for count in range(len(batches) + 1)]
    least = 0
    for number, length in enumerate(range(0, len(written) + 4096, 4096)):
        # The log as a machine that loses power may leave it: cut anywhere.
        crashed = tmp_path / f"crash{number}"
        crashed.mkdir()
        shutil.copy(file.path, crashed)
        (crashed / log.name).write_bytes(written[: length - number])
        with Archive.open(crashed) as archive:
            recorded = [stored.record.id for stored in archive.records()]
        assert recorded in possible
        assert len(recorded) >= least
        least = len(recorded)
    assert recorded == possible[-1]
    recorder.close()
    assert ids(folder) == list(chain(*batches))


def test_the_next_process_continues(folder: Path) -> None:
    expected = []
    for _ in range(2):
        recorder = Recorder(folder)
        moving = MovingPlacement(recorder)
        expected += [moving.move(), moving.move()]
        recorder.close()
    assert ids(folder) == expected
    assert len(files_in(folder)) == 2


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _overwrite(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to look like one" * 100)


def _foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE record (number)")
    connection.close()


def _other_format(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def _spoil_blobs(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE record SET body = x'01ffff'")
    connection.close()


@pytest.mark.parametrize("spoil", [_truncate, _overwrite, _foreign, _other_format, _spoil_blobs])
def test_a_spoilt_file_is_named_and_the_others_are_read(folder: Path, spoil: Callable[[Path], None]) -> None:
    runs: list[list[str | None]] = []
    for _ in range(2):
        recorder = Recorder(folder)
        moving = MovingPlacement(recorder)
        runs.append([moving.move(), moving.move()])
        recorder.close()
    first = files_in(folder)[0].path
    spoil(first)
    with Archive.open(folder) as archive:
        recorded = [stored.record.id for stored in archive.records()]
        assert recorded[-2:] == runs[1]
        assert [str(first) in warning for warning in archive.warnings] == [True]
    # A process that starts in this folder is not disturbed by it.
    recorder = Recorder(folder)
    assert MovingPlacement(recorder).move() is not None
    recorder.close()


def test_missing_inputs_are_an_error_of_the_record(folder: Path) -> None:
    recorder = Recorder(folder)
    moving = MovingPlacement(recorder)
    moving.move()
    recorder.close()
    with sqlite3.connect(files_in(folder)[0].path) as connection:
        connection.execute("UPDATE change SET data = substr(data, 1, 20)")
    connection.close()
    with Archive.open(folder) as archive:
        (stored,) = archive.records()
        with pytest.raises(Exception, match=f"lacks inputs of record {stored.record.id}"):
            Replayer().replay(stored, profile=default_profile())


def test_a_full_queue_is_a_gap(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    counts: dict[str, int] = {}

    def count(what: str, number: int) -> None:
        counts[what] = counts.get(what, 0) + number

    recorder = Recorder(folder, metric=count, most_queued=4)
    moving = MovingPlacement(recorder)
    with caplog.at_level(logging.WARNING):
        moved = [moving.move() for _ in range(40)]
    while not recorder.flush():
        pass
    moved.append(moving.move())
    recorder.close()
    assert len(moved) == 41
    kept = ids(folder)
    with Archive.open(folder) as archive:
        lost = sum(gap.lost for gap in archive.gaps())
        replayable = sum(stored.record.inputs is not None for stored in archive.records())
    assert counts == {"recorded": len(kept), "lost": lost}
    assert lost
    assert replayable
    assert kept[-1] == moved[-1]
    assert len([record for record in caplog.records if "history has a gap" in record.getMessage()]) == 1


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", size="512k"):
        yield tmp_path / "disk"


def test_a_full_disk_is_a_gap_and_recording_goes_on(full_disk: Path) -> None:
    lost: list[int] = []
    recorder = Recorder(
        full_disk / "history",
        metric=lambda what, count: lost.append(count) if what == "lost" else None,
        retry=0.01,
    )
    moving = MovingPlacement(recorder)
    first = moving.move()
    assert recorder.flush()
    ballast = full_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        _fill(ballast)
    while not lost:
        moving.move()
        recorder.flush()
    ballast.unlink()
    kept = None
    while kept is None:
        before = sum(lost)
        kept = moving.move()
        recorder.flush()
        kept = kept if sum(lost) == before else None
    recorder.close()
    with Archive.open(full_disk / "history") as archive:
        recorded = [stored.record.id for stored in archive.records()]
        assert recorded[0] == first
        assert kept in recorded
        assert sum(gap.lost for gap in archive.gaps()) == sum(lost)
        assert any("full" in gap.why for gap in archive.gaps())


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    recorder = Recorder(tmp_path / "file" / "history", retry=0.01)
    moving = MovingPlacement(recorder)
    for _ in range(3):
        moving.move()
        recorder.flush()
    recorder.close()


def test_retention_deletes_the_oldest_files(folder: Path) -> None:
    for number in range(8):
        recorder = Recorder(folder, retention=Retention(size=MEBI // 4))
        moving = MovingPlacement(recorder)
        for _ in range(30):
            moving.move()
        recorder.close()
        assert sum(size_of(file.path) for file in files_in(folder)) <= MEBI // 2, number
    files = files_in(folder)
    assert 1 < len(files) < 8
    assert files[-1].number == 8
    delete(files[0].path)
    assert len(ids(folder)) == 30 * (len(files) - 1)


def test_a_clock_that_jumps_ahead_deletes_one_file_at_most(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for jump in (0, 0, 0, 3.2e9):
        moment = time.time() + jump
        monkeypatch.setattr("fairway.history.recorder.time.time", lambda moment=moment: moment)
        recorder = Recorder(folder)
        MovingPlacement(recorder).move()
        recorder.close()
    assert len(files_in(folder)) == 3


def test_a_clock_that_goes_back_keeps_the_order_of_decisions(folder: Path) -> None:
    recorder = Recorder(folder)
    moving = MovingPlacement(recorder)
    moved = [moving.move(), moving.move(at=NOW_MICROS - 3600 * SECOND), moving.move()]
    recorder.close()
    assert ids(folder, warned=True) == moved
