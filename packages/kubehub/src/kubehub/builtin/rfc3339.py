"""Parse and format times as kube-apiserver does: RFC 3339, in UTC."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from kubewire.api.lease import format_micro_time
from kubewire.api.meta import format_time

SECONDS_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
MICROS_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"
"""Go names a time format by its reference time."""

_ZERO: Final = datetime(1, 1, 1, tzinfo=UTC)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DATE_TIME: Final = (
    ("2006", "[0-9]{4}"), ("-", "-"), ("01", "[0-9]{2}"), ("-", "-"), ("02", "[0-9]{2}"), ("T", "T"),
    ("15", "[0-9]{1,2}"), (":", ":"), ("04", "[0-9]{2}"), (":", ":"), ("05", "[0-9]{2}(?:[.,][0-9]+)?"),
)  # fmt: skip
_ZONE: Final = ("Z07:00", "Z|[+-][0-9]{2}:[0-9]{2}")
_SECONDS: Final = (*_DATE_TIME, _ZONE)
_MICROS: Final = (*_DATE_TIME[:-1], ("05", "[0-9]{2}"), (".000000", "[.,][0-9]{6}"), _ZONE)
_WHOLE: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)


CACHED_LENGTH: Final = 40


class InstantError(ValueError):
    """The text is not a time; with kube-apiserver's message."""


def seconds(text: str) -> str | None:
    """Return the canonical text, in seconds; None for the zero time."""
    return _known_seconds(text) if len(text) <= CACHED_LENGTH else _seconds_in(text)


def micros(text: str) -> str | None:
    """Return the canonical text, in microseconds, of a text with six digits. None for the zero time."""
    return _micros(_parse(text, MICROS_LAYOUT, _MICROS))


def _seconds_in(text: str) -> str | None:
    return _seconds(_parse(text, SECONDS_LAYOUT, _SECONDS))


_known_seconds = lru_cache(maxsize=4096)(_seconds_in)
"""Objects written in the same second share its text, and every write encodes all times of an object twice."""


def seconds_of(since_epoch: int) -> str | None:
    """Raises InstantError beyond the years that can be formatted."""
    return _seconds(_moment(since_epoch, 0))


def micros_of(since_epoch: int, nanos: int) -> str | None:
    """Raises InstantError beyond the years that can be formatted."""
    return _micros(_moment(since_epoch, nanos))


def _seconds(moment: datetime) -> str | None:
    return None if moment == _ZERO else format_time(moment)


def _micros(moment: datetime) -> str | None:
    return None if moment == _ZERO else format_micro_time(moment)


def _moment(since_epoch: int, nanos: int) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=since_epoch, microseconds=nanos // 1000)
    except OverflowError as fault:
        raise InstantError("year outside of range [0,9999]") from fault


def _parse(text: str, layout: str, parts: tuple[tuple[str, str], ...]) -> datetime:
    whole = _WHOLE.fullmatch(text)
    if whole is None or (parts is _MICROS and len(whole[7] or "") != 6):
        raise InstantError(_parse_fault(text, layout, parts))
    year, month, day, hour, minute, second = (int(part) for part in whole.groups()[:6])
    away_hours, away_minutes = int(whole[9] or 0), int(whole[10] or 0)
    for value, least, most, what in (
        (month, 1, 12, "month"),
        (hour, 0, 23, "hour"),
        (minute, 0, 59, "minute"),
        (second, 0, 59, "second"),
        (away_hours, 0, 24, "time zone offset hour"),
        (away_minutes, 0, 60, "time zone offset minute"),
    ):
        if not least <= value <= most:
            raise InstantError(f'parsing time "{text}": {what} out of range')
    away = timedelta(hours=away_hours, minutes=away_minutes)
    fraction = int((whole[7] or "0")[:6].ljust(6, "0"))
    try:
        moment = datetime(year, month, day, hour, minute, second, fraction, tzinfo=UTC)
        return moment + away if whole[8] == "-" else moment - away
    except (ValueError, OverflowError) as fault:
        raise InstantError(f'parsing time "{text}": day out of range') from fault


def _parse_fault(text: str, layout: str, parts: tuple[tuple[str, str], ...]) -> str:
    rest = text
    for name, pattern in parts:
        match = re.match(pattern, rest)
        if match is None:
            return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{name}"'
        rest = rest[match.end() :]
    return f'parsing time "{text}": extra text: "{rest}"'
