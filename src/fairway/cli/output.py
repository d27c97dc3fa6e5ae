"""Print rows as a table, YAML or JSON.

On a terminal, a table is never wider than the terminal (`layout`), and states are coloured. Elsewhere it is plain text
with aligned columns, never cut and never coloured, so that it can be piped and compared. YAML and JSON are always
complete, and have sorted keys, so that the same answer gives the same bytes.
"""

import io
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import IO, Final

import msgspec

from fairway.cli.layout import GAP, Column, Layout, fit, fold, terminal_width
from fairway.cli.options.output import OutputFormat
from fairway.cli.text import cell
from kubewire.documents.writer import dump_yaml

Row = Mapping[str, object]

NOTHING_FOUND: Final = "No rows."
_STYLES: Final = {
    "True": "32",
    "true": "32",
    "fresh": "32",
    "False": "31",
    "false": "31",
    "Unknown": "33",
    "EXPIRED": "31",
    "expired": "31",
    "failing": "33",
    "missing": "33",
    "silent": "31",
}
"""Colours of states on a terminal, by the last word of a cell: green, red and yellow."""
_BOLD: Final = "1"
_ESCAPED: Final = {code: f"\\u{code:04x}" for code in range(127, 160)}
"""Control characters that JSON does not escape, but some terminals interpret. They occur only in strings."""


def emit(
    rows: Sequence[Row],
    *,
    columns: Mapping[str, str],
    output: OutputFormat = "table",
    document: object = None,
    less: Collection[str] = (),
    stream: IO[str] | None = None,
) -> None:
    """Print `rows`; `columns` maps keys of rows to headings, in order.

    YAML and JSON print `document` if given, otherwise all keys of all rows. `less` are the columns that a narrow
    terminal leaves out first.
    """
    target = sys.stdout if stream is None else stream
    if output != "table" and isinstance(target, io.TextIOWrapper):
        # YAML and JSON are always UTF-8: they are read by programs.
        target.reconfigure(encoding="utf-8")
    if output == "json":
        target.write(to_json(rows if document is None else document))
    elif output == "yaml":
        target.write(to_yaml(rows if document is None else document))
    else:
        width = terminal_width(target)
        styled = target.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        target.write(plain_table(rows, columns=columns, width=width, less=less, styled=styled))


def plain_table(
    rows: Sequence[Row],
    *,
    columns: Mapping[str, str],
    width: int | None = None,
    less: Collection[str] = (),
    styled: bool = False,
    steady: bool = False,
) -> str:
    """Format aligned columns, two spaces apart, without trailing blanks; numbers are right-aligned.

    A table that is refreshed is ``steady``: a column does not come and go with its only value.
    """
    if not rows:
        return f"{NOTHING_FOUND}\n"
    cells = [[cell(row.get(key)) for key in columns] for row in rows]
    measured = columns_of(rows, columns, cells, steady=steady)
    layout = fit(measured, width=width, less=less)
    lines = _lines([column.title.upper() for column in measured], measured, layout, style=_BOLD * styled)
    for line in cells:
        lines += _lines(line, measured, layout, colours=_STYLES if styled else {})
    notes = fold(layout.note, width) if width is not None and layout.note else []
    return "".join(f"{line}\n" for line in (*lines, *notes))


def columns_of(
    rows: Sequence[Row], columns: Mapping[str, str], cells: Sequence[Sequence[str]], *, steady: bool
) -> list[Column]:
    return [
        Column(
            key=key,
            title=title,
            width=max(len(title), *(len(line[at]) for line in cells)),
            is_number=all(_is_number(row.get(key)) for row in rows),
            is_empty=not steady and all(line[at] == "-" for line in cells),
        )
        for at, (key, title) in enumerate(columns.items())
    ]


def _lines(
    cells: Sequence[str],
    columns: Sequence[Column],
    layout: Layout,
    *,
    style: str = "",
    colours: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Format a row: one line, or several if a cell is wider than its column."""
    folded = [fold(cells[at], width) for at, width in zip(layout.shown, layout.widths, strict=True)]
    lines: list[str] = []
    for parts in zip_longest(*folded, fillvalue=""):
        line: list[str] = []
        for at, width, part in zip(layout.shown, layout.widths, parts, strict=True):
            text = part.rjust(width) if columns[at].is_number else part.ljust(width)
            code = style or colours.get(cells[at].rpartition(" ")[2], "")
            line.append(text.replace(part, f"\x1b[{code}m{part}\x1b[0m", 1) if code and part else text)
        lines.append(GAP.join(line).rstrip())
    return lines


def to_json(document: object) -> str:
    encoded = msgspec.json.encode(document, order="sorted")
    return msgspec.json.format(encoded, indent=2).decode().translate(_ESCAPED) + "\n"


def to_yaml(document: object) -> str:
    return dump_yaml(msgspec.to_builtins(document, order="sorted"))


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
