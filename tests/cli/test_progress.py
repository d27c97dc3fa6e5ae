import io

import pytest

from fairway.cli import progress as module
from fairway.cli.progress import progress, tracked


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Not a fixture: pytest replaces sys.stderr between a fixture and its test."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return stream


def test_short_work_shows_no_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    assert list(tracked(range(8), "placing", total=8)) == list(range(8))
    assert terminal.getvalue() == ""


def test_long_work_shows_a_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    clock = iter(range(100))
    monkeypatch.setattr(module, "monotonic", lambda: next(clock))
    assert list(tracked(range(4), "placing", total=4)) == list(range(4))
    assert "placing" in terminal.getvalue()
    assert "100%" in terminal.getvalue()


def test_no_progress_bar_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with progress("loading", total=1) as advance:
        advance(1)
    assert terminal.getvalue() == ""
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    with progress("loading", total=1) as advance:
        advance(1)
    assert pipe.getvalue() == ""
