import io
import json
import re

import pytest
import yaml

from fairway.cli.output import emit, plain_table, say

ROWS = [
    {"name": "a", "score": 12, "labels": {"z": "1", "b": None}, "hidden": 1},
    {"name": "x" * 300, "score": -7, "labels": {}, "hidden": True},
]
COLUMNS = {"name": "Name", "score": "Score", "labels": "Labels"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_table_is_aligned_and_complete() -> None:
    lines = plain_table(ROWS, columns=COLUMNS).splitlines()
    assert lines == [f"{'NAME':300}  SCORE  LABELS", f"{'a':300}     12  b=-,z=1", f"{'x' * 300}     -7"]


def test_table_cell_is_one_line() -> None:
    rows = [{"a": "two\nlines", "b": [], "c": ["x", 1], "d": True, "e": None, "f": 1.5}]
    table = plain_table(rows, columns={key: key for key in "abcdef"})
    assert table.splitlines()[1].split("  ") == ["two lines", "-", "x,1", "yes", "-", "1.5"]


def test_table_without_rows_says_so() -> None:
    assert plain_table([], columns=COLUMNS) == "No rows.\n"


def test_pipe_gets_the_plain_table() -> None:
    stream = io.StringIO()
    emit(ROWS, columns=COLUMNS, stream=stream)
    assert stream.getvalue() == plain_table(ROWS, columns=COLUMNS)


def test_terminal_gets_a_drawn_table_with_all_cells() -> None:
    stream = Terminal()
    emit([{"name": "[bold]x[/bold]", "score": 1}], columns=COLUMNS, stream=stream)
    assert "[bold]x[/bold]" in stream.getvalue()
    assert "SCORE" in stream.getvalue()
    stream = Terminal()
    emit([], columns=COLUMNS, stream=stream)
    assert "No rows." in stream.getvalue()


def test_only_the_last_table_column_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"name": "everywhere/three-regions", "score": 3, "labels": "one, two, three, four, five, six"}
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    emit([row], columns=COLUMNS, stream=stream)
    assert "everywhere/three-regions" in stream.getvalue()
    words = stream.getvalue().split()
    assert words[-7:] == ["3", "one,", "two,", "three,", "four,", "five,", "six"]
    assert len(stream.getvalue().splitlines()) == 3
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    emit([row], columns=COLUMNS, stream=stream)
    assert stream.getvalue() == plain_table([row], columns=COLUMNS)


def test_wide_table_is_wrapped_to_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "name": "southeastasia-prod-azure-00012" * 2,
        "score": 3,
        "labels": "Rank 1 of 12 with 44 points " * 3,
    }
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    emit([row], columns=COLUMNS, stream=stream)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()
    assert max(map(len, lines)) <= 80
    assert "".join(line[:50].strip() for line in lines[1:]).startswith("southeastasia-prod-azure-00012")


def test_json_and_yaml_output_has_every_key_in_order() -> None:
    stream = io.StringIO()
    emit(ROWS[:1], columns=COLUMNS, output="json", stream=stream)
    text = stream.getvalue()
    assert json.loads(text) == ROWS[:1]
    assert text.index("hidden") < text.index("labels") < text.index("name") < text.index("score")
    again = io.StringIO()
    emit([dict(reversed(ROWS[0].items()))], columns=COLUMNS, output="json", stream=again)
    assert again.getvalue() == text
    stream = io.StringIO()
    emit(ROWS[:1], columns=COLUMNS, output="yaml", stream=stream)
    assert yaml.safe_load(stream.getvalue()) == ROWS[:1]


def test_document_replaces_rows_in_json_output() -> None:
    stream = io.StringIO()
    emit(ROWS, columns=COLUMNS, output="json", document={"kind": "Whole"}, stream=stream)
    assert json.loads(stream.getvalue()) == {"kind": "Whole"}


def test_control_characters_are_escaped_in_output(capsys: pytest.CaptureFixture[str]) -> None:
    emit([{"name": "a\x1b[31mb\x07"}], columns={"name": "Name"})
    say("claim is \x9b2J\x7f\x00\n  next")
    assert capsys.readouterr().out == "NAME\na\\x1b[31mb\\x07\nclaim is \\x9b2J\\x7f\\x00\n  next\n"


def test_json_output_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["a\x1b[31m", "b\x9b2J\x7f", "ü"]
    emit([], columns={}, output="json", document=names)
    text = capsys.readouterr().out
    assert json.loads(text) == names
    assert "\\u009b2J\\u007f" in text
    assert "ü" in text
