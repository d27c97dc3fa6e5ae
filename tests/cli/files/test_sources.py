import gzip
import io
import os
import socket
from itertools import count
from pathlib import Path

import pytest

from fairway.cli import progress
from fairway.cli.errors import InputProblemsError, Problem
from fairway.cli.files import sources
from fairway.cli.files.loader import load


def refused(path: Path | str, *, max_bytes: int = 1 << 20) -> Problem:
    with pytest.raises(sources.SourceError) as caught:
        sources.read(str(path), max_bytes=max_bytes)
    return caught.value.problem


def test_directories_are_searched_in_name_order(tmp_path: Path) -> None:
    names = ["b.yaml", "a/z.yml", "a/c.json", "x.jsonl.gz", "a/b/deep.yaml.gz"]
    for name in [*names, "readme.md", ".hidden.yaml", ".git/x.yaml", "script.py"]:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("a: 1")
    problems: list[Problem] = []
    files = sources.find_files([str(tmp_path)], problems=problems)
    assert files == sorted(str(tmp_path / name) for name in names)
    assert problems == []


def test_binary_file_in_a_directory_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, text = tmp_path / "a.yaml", tmp_path / "b.yaml"
    picture.write_bytes(b"\x89PNG\0")
    text.write_text("a: 1")
    (tmp_path / "c.yaml.gz").write_bytes(gzip.compress(b"a: 1"))
    (tmp_path / "d.yaml").write_text("a: 1", encoding="utf-16")
    (tmp_path / "photo.jpg").write_bytes(b"\0")
    os.mkfifo(tmp_path / "e.yaml")
    files = sources.find_files([str(tmp_path)], problems=[])
    assert [Path(file).name for file in files] == ["b.yaml", "c.yaml.gz", "d.yaml", "e.yaml"]
    assert capsys.readouterr().err == f"fairway: skipped 1 binary file: {picture}\n"
    assert sources.find_files([str(picture)], problems=[]) == [str(picture)], "a named file is reported"


def test_search_and_loading_of_many_files_show_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for number in range(101):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "x.yaml").write_text("a: [")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    clock = count()
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with pytest.raises(InputProblemsError):
        load([str(tmp_path)])
    assert "searching" in terminal.getvalue()
    assert "loading" in terminal.getvalue()


def test_file_named_twice_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: 1")
    (tmp_path / "link.yaml").symlink_to(file)
    paths = [str(file), str(tmp_path), "-", str(tmp_path / "." / "a.yaml"), "-"]
    assert sources.find_files(paths, problems=[]) == [str(file), "-"]


def test_missing_file_is_a_problem(tmp_path: Path) -> None:
    problems: list[Problem] = []
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "dangling.yaml").symlink_to(tmp_path / "gone")
    files = sources.find_files([str(tmp_path / "no"), str(empty), str(tmp_path), "a\0b"], problems=problems)
    assert files == []
    *others, null = [(problem.file, problem.message) for problem in problems]
    assert others == [
        (str(tmp_path / "no"), sources.NOT_FOUND),
        (str(empty), sources.NO_FILES),
        (str(tmp_path / "dangling.yaml"), sources.NOT_FOUND),
    ]
    assert null[0] == "a\0b"
    assert "embedded null" in null[1]  # the rest of the words differ between versions of Python


@pytest.mark.parametrize(
    ("content", "message", "line"),
    [
        (b"", sources.EMPTY, 0),
        (b" \n\t\n", sources.EMPTY, 0),
        (b"\x7fELF\x00\x01", sources.BINARY, 0),
        (b"a: 1\n" * 20000 + b"\x00", sources.BINARY, 0),
        ("a: 1".encode("utf-16"), sources.UTF16, 0),
        (b"a: 1\nb: caf\xe9\n", sources.NOT_UTF8.format(byte=0xE9), 2),
        (b"\x1f\x8bgarbage", None, 0),
        (gzip.compress(b"a: 1\n" * 999)[:-12], None, 0),
        (gzip.compress(b"\x00\x01"), sources.BINARY, 0),
        (gzip.compress(b""), sources.EMPTY, 0),
    ],
    # Bytes in the names of tests would carry gzip's clock, and differ between workers.
    ids=[
        "nothing", "white space", "a program", "a null at the end", "UTF-16", "Latin-1", "not gzip after all",
        "cut gzip", "binary in gzip", "nothing in gzip",
    ],
)  # fmt: skip
def test_binary_file_is_rejected(tmp_path: Path, content: bytes, message: str | None, line: int) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(content)
    problem = refused(file)
    assert (problem.file, problem.line) == (str(file), line)
    assert problem.message == message if message else "damaged gzip" in problem.message
    assert problem.remedy


def test_gzip_is_detected_by_content_and_bom_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(gzip.compress("\ufeffa: ü".encode()) + gzip.compress(b"\nb: 1"))
    assert sources.read(str(file)).data == "a: ü\nb: 1".encode()


def test_large_file_is_rejected_unread(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    with file.open("wb") as stream:
        stream.write(b"a: 1\n" * 20_000)
        stream.truncate(3 << 30)  # sparse: takes no room on the disk
    problem = refused(file, max_bytes=512 << 20)
    assert problem.message == "is 3 GiB, larger than the limit of 512 MiB"
    assert "--max-file-size" in problem.remedy


def test_large_binary_file_is_reported_as_binary(tmp_path: Path) -> None:
    file = tmp_path / "disk.yaml"
    with file.open("wb") as stream:
        stream.truncate(2 << 30)
    assert refused(file).message == sources.BINARY


def test_gzip_bomb_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "bomb.yaml.gz"
    file.write_bytes(gzip.compress(b"a" * (8 << 20)))
    assert refused(file).message == "is larger than the limit of 1 MiB when uncompressed"


def test_special_file_is_rejected(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.yaml"
    os.mkfifo(fifo)
    assert refused(fifo).message == "is a named pipe, not a file or directory"
    assert refused("/dev/zero").message == "is a character device, not a file or directory"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s.yaml"))
        assert refused(tmp_path / "s.yaml").message == "is a socket, not a file or directory"


def test_unreadable_file_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("a: 1")

    def denied(*args: object) -> None:
        raise PermissionError(13, "Permission denied", str(file))

    # Tests may run as root, which can read every file.
    monkeypatch.setattr("builtins.open", denied)
    assert refused(file).message == sources.NO_PERMISSION
