"""Fit tables and sentences to terminals.

A line that the terminal wraps in the middle cannot be read as a row, so no line of a table is wider than the terminal:
columns become narrower first, then the least important ones are left out, and named. Sentences are folded at blanks.
"""

import re
import shutil
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import IO, Final

from fairway.cli.options.output import is_wide

GAP: Final = "  "
NARROWEST: Final = 20
"""Characters that a column of text keeps before another column is left out."""
LEFT_OUT: Final = "(not shown: {titles}; show all with -o wide)"

_COMMAND: Final = re.compile(
    r"(?:^(?P<indent> *)|(?<=: ))(?P<command>(?:[A-Z_]+=\S+ +)*(?:\S*/)?(?:fairway|kubectl|export) .*?)"
    r"(?P<comment> {2,}\S.*)?$"
)
"""A command at the end of a line, and the comment that follows it after more than one blank."""


@dataclass(frozen=True, slots=True)
class Column:
    key: str
    title: str
    width: int
    """Of its widest cell or of its title."""
    is_number: bool = False
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    shown: tuple[int, ...]
    """Indexes of columns."""
    widths: tuple[int, ...]
    """Of the shown columns."""
    note: str = ""
    """Names the columns that are left out."""


def fit(columns: Sequence[Column], *, width: int | None, less: Collection[str] = ()) -> Layout:
    """Lay out columns in a width; None is unlimited. ``less`` are the keys to leave out first, in order."""
    shown = list(range(len(columns)))
    widths = [column.width for column in columns]
    if width is None:
        return Layout(tuple(shown), tuple(widths))
    floors = [_floor(column, width, first=at == 0) for at, column in enumerate(columns)]
    for at in _order(columns, less):
        if _total(floors, shown) <= width:
            break
        shown.remove(at)
    fitting = {at: widths[at] for at in shown}
    excess = _total(widths, shown) - width
    # The last column is usually a sentence, and the others names, which are easier to copy in one piece.
    for at in sorted(shown, key=lambda at: (at != len(columns) - 1, -widths[at])):
        taken = min(max(0, excess), max(0, fitting[at] - floors[at]))
        fitting[at] -= taken
        excess -= taken
    if excess > 0:
        fitting[shown[0]] = max(1, fitting[shown[0]] - excess)
    hidden = [column.title.upper() for at, column in enumerate(columns) if at not in shown]
    note = LEFT_OUT.format(titles=", ".join(hidden)) if hidden else ""
    return Layout(tuple(shown), tuple(fitting[at] for at in shown), note)


def fold(text: str, width: int) -> list[str]:
    """Split a cell into lines of at most a width, at blanks where possible."""
    if len(text) <= width:
        return [text]
    return wrap(text, width, break_on_hyphens=False)


def terminal_width(stream: IO[str] | None = None, *, indent: str = "") -> int | None:
    """Return the width for lines; None if it is unlimited: with -o wide, and if the output is no terminal."""
    target = sys.stdout if stream is None else stream
    if is_wide() or not target.isatty():
        return None
    return max(NARROWEST, shutil.get_terminal_size().columns - len(indent))


def fold_sentence(line: str, width: int) -> list[str]:
    """Split a line at blanks, and indent what follows. A command at its end stays in one piece, to be copied."""
    if len(line) <= width:
        return [line]
    command = _COMMAND.search(line)
    end = len(line) if command is None else command.start("command")
    deeper = " " * (len(line) - len(line.lstrip()) + len(GAP))
    lines = wrap(line[:end], width, subsequent_indent=deeper, break_long_words=False, break_on_hyphens=False)
    if command is not None:
        lines.append(f"{deeper if lines else command['indent']}{command['command']}")
        if command["comment"]:
            lines += fold_sentence(f"{deeper}{GAP}{command['comment'].strip()}", width)
    return lines


def _floor(column: Column, width: int, *, first: bool) -> int:
    if column.is_number:
        return column.width
    if first:
        return min(column.width, max(NARROWEST, width * 2 // 3))
    return min(column.width, max(NARROWEST, len(column.title)))


def _order(columns: Sequence[Column], less: Collection[str]) -> list[int]:
    """Return the indexes of columns in the order in which to leave them out; never the first column."""
    last = len(columns) - 1
    order = [at for at in range(last, 0, -1) if columns[at].is_empty]
    keys = [column.key for column in columns]
    order += [keys.index(key) for key in less if key in keys[1:]]
    order += [*range(last - 1, 0, -1), last]
    return [at for at in dict.fromkeys(order) if at > 0]


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[at] for at in shown) + len(GAP) * (len(shown) - 1)
