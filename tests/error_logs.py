"""Record the errors that controllers and agents log: they continue after unexpected ones."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from fairway.observe.logs import OWN_LOGGERS


class _Handler(logging.Handler):
    def __init__(self) -> None:
        super().__init__(level=logging.ERROR)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.errors.append(self.format(record))


@contextmanager
def recorded_errors() -> Iterator[list[str]]:
    """Append the errors that Fairway logs within the block to the returned list."""
    handler = _Handler()
    loggers = [logging.getLogger(name) for name in OWN_LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield handler.errors
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
