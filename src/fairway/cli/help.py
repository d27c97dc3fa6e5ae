"""Help that fits the terminal."""

import shutil
import sys
from typing import Final

import click

from fairway.cli.layout import NARROWEST, fold_sentence

CLICKS_NARROWEST: Final = 50
"""Click's help is never narrower, unless its width is given."""


class HelpFormatter(click.HelpFormatter):
    """Folds long lines of examples and notes, which click prints as they are written."""

    def write_text(self, text: str) -> None:
        before = len(self.buffer)
        super().write_text(text)
        if sys.stdout.isatty():
            written = "".join(self.buffer[before:]).split("\n")
            self.buffer[before:] = [
                "\n".join(part for line in written for part in fold_sentence(line, self.width))
            ]


def terminal_width() -> int | None:
    """Return the width of help on a narrow terminal; None for click's own choice."""
    columns = shutil.get_terminal_size().columns
    return max(NARROWEST, columns) if sys.stdout.isatty() and columns < CLICKS_NARROWEST + 2 else None
