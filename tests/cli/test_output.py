import io
import json
import re
from collections.abc import Sequence

import click
import pytest
import yaml

from fairway.cli.options.output import output_option
from fairway.cli.output import Row, emit, plain_table
from fairway.cli.text import say

ROWS = [
    {"name": "a", "score": 12, "labels": {"z": "1", "b": None}, "hidden": 1},
    {"name": "x" * 300, "score": -7, "labels": {}, "hidden": True},
]
COLUMNS = {"name": "Name", "score": "Score", "labels": "Labels"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def drawn(
    rows: Sequence[Row],
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    columns: dict[str, str] = COLUMNS,
    less: tuple[str, ...] = (),
) -> list[str]:
    """Return the lines of a table on a terminal of that width, without colours."""
    monkeypatch.setenv("COLUMNS", str(width))
    stream = Terminal()
    emit(rows, columns=columns, less=less, stream=stream)
    return COLOUR.sub("", stream.getvalue()).splitlines()


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


def test_last_table_column_is_folded_before_others_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"name": "everywhere/three-regions", "score": 3, "labels": "one, two, three, four, five, six"}
    assert drawn([row], 60, monkeypatch) == [
        "NAME                      SCORE  LABELS",
        "everywhere/three-regions      3  one, two, three, four,",
        "                                 five, six",
    ]
    assert drawn([row], 40, monkeypatch) == [
        "NAME",
        "everywhere/three-regions",
        "(not shown: SCORE, LABELS; show all with",
        "-o wide)",
    ]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_of_a_table_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    columns = {f"c{number}": f"Column {number}" for number in range(12)}
    row = {key: f"southeastasia-prod-azure-{key}" for key in columns}
    table = drawn([row, row], width, monkeypatch, columns=columns, less=("c3",))
    assert max(map(len, table)) <= width
    assert any("southeastasia-prod-azure-c0" in line for line in table)
    assert "COLUMN 3" in " ".join(table[-8:])


def test_empty_columns_are_left_out_first(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"name": "n" * 20, "score": "s" * 20, "labels": ""}
    columns = {"name": "Name", "labels": "Labels", "score": "Score"}
    assert drawn([row], 45, monkeypatch, columns=columns)[-1] == "(not shown: LABELS; show all with -o wide)"


def test_wide_output_is_complete_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    command = click.Command(
        "probe", params=[], callback=lambda **_: emit(ROWS, columns=COLUMNS, stream=stream)
    )
    output_option(command)
    command.main(["-o", "wide"], standalone_mode=False)
    assert COLOUR.sub("", stream.getvalue()) == plain_table(ROWS, columns=COLUMNS)


def test_colours_are_omitted_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    emit([{"name": "False"}], columns={"name": "Name"}, stream=stream)
    assert stream.getvalue() == "NAME\nFalse\n"
    monkeypatch.delenv("NO_COLOR")
    stream = Terminal()
    emit([{"name": "False"}], columns={"name": "Name"}, stream=stream)
    assert stream.getvalue() == "\x1b[1mNAME\x1b[0m\n\x1b[31mFalse\x1b[0m\n"


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
