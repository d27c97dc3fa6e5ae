"""What went wrong in a way that was not foreseen: controllers and agents log it, and go on."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Complaints(logging.Handler):
    def __init__(self) -> None:
        super().__init__(level=logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(self.format(record))


@contextmanager
def listening() -> Iterator[list[str]]:
    """The list grows as long as the block lasts."""
    handler, ours = Complaints(), logging.getLogger("fairway")
    ours.addHandler(handler)
    try:
        yield handler.heard
    finally:
        ours.removeHandler(handler)
