"""Lag on every connection, to find tests that only pass because everything comes in the order it was sent.

With this folder in PYTHONPATH and ``FAIRWAY_LAG`` set to a factor, every Python process reads some of its connections
late, by up to 0.4 s times the factor. Within a connection nothing changes places; between two of them it does.
"""

import os
import random
from asyncio import selector_events
from typing import Any, Final

SECONDS: Final = (0.0, 0.0, 0.0, 0.005, 0.03, 0.15, 0.4)
"""One of these is the longest lag of a connection. Some have none: that alone changes the order."""
AT_ONCE: Final = 0.3
"""The share of reads that do not wait even where there is lag."""


def install(factor: float) -> None:
    transport: Any = vars(selector_events)["_SelectorSocketTransport"]
    read = transport._read_ready
    luck = random.Random()

    def read_late(self: Any) -> None:
        state = vars(self)
        longest = state.setdefault("fairway_lag", luck.choice(SECONDS) * factor)
        if state.pop("fairway_waited", False) or not longest or luck.random() < AT_ONCE:
            read(self)
            return

        def again() -> None:
            if not (self._closing or self._paused or self._conn_lost) and self._sock is not None:
                state["fairway_waited"] = True
                self._loop._add_reader(self._sock_fd, self._read_ready)

        self._loop._remove_reader(self._sock_fd)
        self._loop.call_later(longest * luck.random(), again)

    transport._read_ready = read_late


if factor := float(os.environ.get("FAIRWAY_LAG") or 0):
    install(factor)
