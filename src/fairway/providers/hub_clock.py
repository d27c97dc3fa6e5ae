"""Compare our clock with the hub's, which decides when scores expire.

Every response of the hub contains its time. An agent whose clock is ten minutes behind publishes scores that are
expired on arrival, and nothing else would show it: so the clocks are compared periodically, and a difference is logged
and reported in readiness.
"""

import logging
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from kubewire.client import Client, Clock, KubeError
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

EVERY_SECONDS: Final = 600.0
AGAIN_SECONDS: Final = 30.0
"""Interval after a failed request."""
ANSWER_SECONDS: Final = 5.0
NOTEWORTHY: Final = timedelta(seconds=30)
PATH: Final = "/version"
"""Readable by every authenticated user."""

BEHIND: Final = (
    "this machine's clock is %.0f s behind the hub's, which decides when scores expire: they expire that much too "
    "early. Set the clock, or make the scores valid for longer"
)
AHEAD: Final = (
    "this machine's clock is %.0f s ahead of the hub's, which decides when scores expire: they expire that much too "
    "late. Set the clock"
)

_HALF_SECOND: Final = timedelta(seconds=0.5)


class HubClock:
    """``ahead`` is the difference between the hub's clock and ours; 0 while it is unknown or small."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.ahead = timedelta(0)
        self._client, self._clock = client, clock
        self._throttle = LogThrottle(log, every=3600.0)

    async def compare(self) -> float:
        """Request the hub's time. Return the seconds until the next comparison."""
        began = self._clock.wall()
        try:
            answer = await self._client.request("GET", PATH, timeout=ANSWER_SECONDS)
        except KubeError:
            return AGAIN_SECONDS
        ended = self._clock.wall()
        there = _date(answer.headers.get("Date", ""))
        if there is None:
            return EVERY_SECONDS
        # The hub wrote the Date header between request and response, in whole seconds.
        ahead = there + _HALF_SECOND - (began + (ended - began) / 2)
        # A slow response says little about the time: only a difference that its duration cannot explain counts.
        slack = _HALF_SECOND + (ended - began) / 2
        self.ahead = ahead if abs(ahead) > slack + NOTEWORTHY else timedelta(0)
        if self.ahead:
            words, seconds = (BEHIND, ahead) if ahead > timedelta(0) else (AHEAD, -ahead)
            self._throttle.log(logging.WARNING, words, words, seconds.total_seconds())
        return EVERY_SECONDS


def _date(text: str) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
