"""Hours of the day and days of the week, in a time zone."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

BAD_TIME: Final = "expected a time of day such as '22:00', got {given!r}"
BAD_DAY: Final = "expected days such as mon or sat, got {given!r}"
NO_ZONE: Final = "there is no time zone {given!r} on this machine; write one such as Europe/Berlin, or UTC"
NO_LENGTH: Final = "from and to are the same: leave both out for the whole day"

_TIME: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)|24:00")
_DAY: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class Hours:
    """A period of the day, past midnight if ``end`` is before ``start``. ``days`` are those on which it starts."""

    start: int
    end: int
    days: frozenset[int]
    """0 is Monday."""
    zone: tzinfo

    @classmethod
    def parse(cls, *, start: str, end: str, days: tuple[str, ...], zone: str) -> "Hours":
        """Raises ValueError."""
        known = {day: number for number, day in enumerate(DAYS)}
        for day in days:
            if day.lower()[:3] not in known:
                raise ValueError(BAD_DAY.format(given=day))
        first, last = _minute(start or "00:00"), _minute(end or "24:00")
        if first == last:
            raise ValueError(NO_LENGTH)
        try:
            timezone = ZoneInfo(zone)
        except (OSError, ValueError, KeyError):
            raise ValueError(NO_ZONE.format(given=zone)) from None
        chosen = frozenset(known[day.lower()[:3]] for day in days or DAYS)
        return cls(first, last, chosen, timezone)

    def covers(self, moment: datetime) -> bool:
        local = moment.astimezone(self.zone)
        minute = local.hour * 60 + local.minute
        today = local.weekday()
        if self.start < self.end:
            return self.start <= minute < self.end and today in self.days
        yesterday = (local.date() - timedelta(days=1)).weekday()
        return (minute >= self.start and today in self.days) or (minute < self.end and yesterday in self.days)


def _minute(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(BAD_TIME.format(given=text))
    return _DAY if text == "24:00" else int(match[1]) * 60 + int(match[2])
