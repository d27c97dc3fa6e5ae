"""Print rows as a table, YAML or JSON.

On a terminal, rich draws the table with colours and wraps long cells. Elsewhere it is plain text with aligned columns,
never cut and never coloured, so that it can be piped and compared. YAML and JSON have sorted keys, so that the same
answer gives the same bytes.
"""

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Final, Literal, TypeVar

import click

OutputFormat = Literal["table", "yaml", "json"]
Row = Mapping[str, object]

FORMATS: Final[tuple[OutputFormat, ...]] = ("table", "yaml", "json")
NOTHING_FOUND = "No rows."
_GAP = "  "
_NARROWEST: Final = 20  # characters; a wrapped column of a table on a terminal keeps at least these
_STYLES: Final = {
    "True": "green",
    "true": "green",
    "fresh": "green",
    "False": "red",
    "false": "red",
    "Unknown": "yellow",
    "EXPIRED": "red",
    "expired": "red",
    "failing": "yellow",
    "missing": "yellow",
    "silent": "red",
}
"""Colours of states on a terminal, by the last word of a cell."""
_CONTROL: Final = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"
}

_ESCAPED: Final = {code: f"\\u{code:04x}" for code in range(127, 160)}
"""Control characters that JSON does not escape, but some terminals interpret. They occur only in strings."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def output_option(command: _Command) -> _Command:
    """Add `-o`, passed as `output`."""
    option = click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="Output format.",
    )
    return option(command)


def emit(
    rows: Sequence[Row],
    *,
    columns: Mapping[str, str],
    output: OutputFormat = "table",
    document: object = None,
    stream: IO[str] | None = None,
) -> None:
    """Print `rows`; `columns` maps keys of rows to headings, in order.

    YAML and JSON print `document` if given, otherwise all keys of all rows.
    """
    target = sys.stdout if stream is None else stream
    if output != "table" and isinstance(target, io.TextIOWrapper):
        # YAML and JSON are always UTF-8: they are read by programs.
        target.reconfigure(encoding="utf-8")
    if output == "json":
        target.write(to_json(rows if document is None else document))
    elif output == "yaml":
        target.write(to_yaml(rows if document is None else document))
    elif target.isatty():
        _draw(rows, columns, target)
    else:
        target.write(plain_table(rows, columns=columns))


def say(text: str = "", *, stream: IO[str] | None = None) -> None:
    """Print a line of text. Unlike click's echo, it leaves the encoding to the stream, as `emit` does."""
    (sys.stdout if stream is None else stream).write(f"{visible(text)}\n")


def visible(text: str) -> str:
    """Escape control characters: text from clusters must not control the user's terminal."""
    return text.translate(_CONTROL)


def plain_table(rows: Sequence[Row], *, columns: Mapping[str, str]) -> str:
    """Format aligned columns, two spaces apart, without trailing blanks; numbers are right-aligned."""
    if not rows:
        return f"{NOTHING_FOUND}\n"
    grid, widths = _grid(rows, columns)
    numeric = [all(_is_number(row.get(key)) for row in rows) for key in columns]
    return "".join(
        _GAP.join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        + "\n"
        for line in grid
    )


def _grid(rows: Sequence[Row], columns: Mapping[str, str]) -> tuple[list[list[str]], list[int]]:
    """Return all cells, the headings first, and the width of each column."""
    cells = [[cell(row.get(key)) for key in columns] for row in rows]
    grid = [[title.upper() for title in columns.values()], *cells]
    return grid, [max(len(line[index]) for line in grid) for index in range(len(columns))]


def cell(value: object) -> str:
    """Format a value as one line of text."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={cell(item)}" for key, item in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return ",".join(cell(item) for item in value) or "-"
    return visible(" ".join(str(value).split()))


def to_json(document: object) -> str:
    import msgspec

    encoded = msgspec.json.encode(document, order="sorted")
    return msgspec.json.format(encoded, indent=2).decode().translate(_ESCAPED) + "\n"


def to_yaml(document: object) -> str:
    import msgspec

    from fairway.documents.writer import dump_yaml

    return dump_yaml(msgspec.to_builtins(document, order="sorted"))


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _draw(rows: Sequence[Row], columns: Mapping[str, str], target: IO[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=target)
    if not rows:
        console.print(NOTHING_FOUND)
        return
    _, widths = _grid(rows, columns)
    fitting = _fit(widths, console.width)
    if fitting is None:
        # Names cut into small pieces can be neither read nor copied; lines that the terminal wraps can.
        target.write(plain_table(rows, columns=columns))
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, len(_GAP), 0, 0))
    for (key, title), width in zip(columns.items(), fitting, strict=True):
        right = all(_is_number(row.get(key)) for row in rows)
        table.add_column(title.upper(), overflow="fold", justify="right" if right else "left", width=width)
    for row in rows:
        cells = (cell(row.get(key)) for key in columns)
        table.add_row(*(Text(each, style=_STYLES.get(each.rpartition(" ")[2], "")) for each in cells))
    console.print(table)


def _fit(widths: Sequence[int], width: int) -> list[int] | None:
    """Narrow the widest columns until the table fits, the last one first; None if a column becomes unreadable."""
    fitting = list(widths)
    excess = sum(fitting) + len(_GAP) * (len(fitting) - 1) - width
    for index in sorted(range(len(fitting)), key=lambda at: (at != len(fitting) - 1, -fitting[at])):
        if excess <= 0:
            break
        taken = min(excess, max(0, fitting[index] - _NARROWEST))
        fitting[index] -= taken
        excess -= taken
    return fitting if excess <= 0 else None
