"""Print lines of text. Names and messages come from objects of other users, and must not control the terminal."""

import sys
from collections.abc import Mapping
from typing import IO, Final

from fairway.cli.layout import fold_sentence, terminal_width

_CONTROL: Final = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"
}


def say(text: str = "", *, stream: IO[str] | None = None) -> None:
    """Print lines of text, folded on a terminal. Unlike click's echo, it leaves the encoding to the stream."""
    target = sys.stdout if stream is None else stream
    shown, width = visible(text), terminal_width(target)
    if width is not None:
        shown = "\n".join(part for line in shown.split("\n") for part in fold_sentence(line, width))
    target.write(f"{shown}\n")


def visible(text: str) -> str:
    """Escape control characters: text from clusters must not control the user's terminal."""
    return text.translate(_CONTROL)


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
