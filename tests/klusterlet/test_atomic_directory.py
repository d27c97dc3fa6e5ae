"""Files that change together."""

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from fairway.klusterlet.atomic_directory import CURRENT, AtomicDirectory, InvalidName, replace_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_written_files_are_read_by_name(tmp_path: Path) -> None:
    folder = AtomicDirectory(tmp_path / "deep" / "hub")
    assert folder.read() == {}
    assert folder.write({"a": b"1", "b": b"2"})
    assert (folder.path / "a").read_bytes() == b"1"
    assert folder.read() == {"a": b"1", "b": b"2"}


def test_files_are_readable_by_owner_only(tmp_path: Path) -> None:
    folder = AtomicDirectory(tmp_path / "hub")
    folder.write({"key": b"secret"})
    assert mode(folder.path) == 0o700
    assert mode(folder.path / "key") == 0o600
    assert mode(folder.path / CURRENT) == 0o700


def test_unchanged_files_are_not_written(tmp_path: Path) -> None:
    folder = AtomicDirectory(tmp_path)
    folder.write({"a": b"1"})
    before = (folder.path / CURRENT).readlink()
    assert not folder.write({"a": b"1"})
    assert (folder.path / CURRENT).readlink() == before


def test_omitted_files_and_old_versions_are_removed(tmp_path: Path) -> None:
    folder = AtomicDirectory(tmp_path)
    folder.write({"a": b"1", "b": b"2"})
    folder.write({"b": b"3", "c": b"4"})
    assert folder.read() == {"b": b"3", "c": b"4"}
    state = (folder.path / CURRENT).readlink().name
    assert {path.name for path in tmp_path.iterdir()} == {CURRENT, state, "b", "c"}


def test_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = AtomicDirectory(tmp_path)
    folder.write({"a": b"1"})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            folder.write({"a": b"2"})
    assert folder.read() == {"a": b"1"}
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    "name", ["../x", "no/such", "/etc/x", "..data", "..", ".", "", "a b", "x\n", "a\0", "\u00e4", "n" * 254]
)
def test_unsafe_file_name_is_rejected(tmp_path: Path, name: str) -> None:
    folder = AtomicDirectory(tmp_path / "in")
    folder.write({"a": b"1"})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidName):
        folder.write({"a": b"2", name: b""})
    assert sorted(tmp_path.rglob("*")) == before
    assert folder.read() == {"a": b"1"}


def test_concurrent_reader_sees_complete_versions(tmp_path: Path) -> None:
    """Through the one link that is replaced: both files are of the same state."""
    folder = AtomicDirectory(tmp_path)
    folder.write({"key": b"0", "certificate": b"0"})
    over, first = threading.Event(), threading.Event()
    seen: list[tuple[bytes, bytes]] = []

    def read() -> None:
        while not over.is_set():
            try:
                state = (tmp_path / CURRENT).resolve()
                seen.append(((state / "key").read_bytes(), (state / "certificate").read_bytes()))
                first.set()
            except FileNotFoundError:
                continue  # the state that was read was replaced: the next one is complete, too

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 25):
        text = str(number).encode()
        folder.write({"key": text, "certificate": text})
    assert first.wait(120)
    over.set()
    reader.join()
    assert all(key == certificate for key, certificate in seen)


def test_file_is_replaced_atomically(tmp_path: Path) -> None:
    file = tmp_path / "new" / "file"
    replace_private(file, b"1")
    replace_private(file, b"2")
    assert file.read_bytes() == b"2"
    assert mode(file) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["file"]
