"""Log repeated problems at most once per period: an unreachable hub must not flood the log."""

import logging
import time
from collections.abc import Callable
from typing import Final

from kubewire.client.errors import KubeError

RACES: Final = 10
"""Retries after which a race is worth a warning: more than another client's writes explain."""
REPEATED: Final = " (and %d times more since)"
_MOST: Final = 1000


def retry_level(error: Exception, *, retries: int = 0) -> int:
    """Return the level for a failure that is retried: DEBUG for a race, WARNING otherwise."""
    race = isinstance(error, KubeError) and error.is_race
    return logging.DEBUG if race and retries < RACES else logging.WARNING


class LogThrottle:
    """Log each ``topic`` at most once in ``every`` seconds; the next line contains the number of suppressed ones."""

    def __init__(
        self, log: logging.Logger, *, every: float = 30.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._every, self._clock = log, every, clock
        self._said: dict[object, tuple[float, int]] = {}

    def log(self, level: int, topic: object, text: str, *arguments: object) -> None:
        now = self._clock()
        last = self._said.get(topic)
        if last is not None and now - last[0] < self._every:
            self._said[topic] = (last[0], last[1] + 1)
            return
        if len(self._said) >= _MOST:
            self._said.clear()
        self._said[topic] = (now, 0)
        left_out = last[1] if last else 0
        if left_out:
            self._log.log(level, text + REPEATED, *arguments, left_out)
        else:
            self._log.log(level, text, *arguments)
