"""Timestamps and durations: reading, writing, and the calendar in any time zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from kubecel.errors import INT_OVERFLOW, TIMESTAMP_OVERFLOW, Failure
from kubecel.numbers import positional
from kubecel.scalars import INT_MAX, INT_MIN, Duration, Timestamp

MIN_SECONDS = -62_135_596_800
MAX_SECONDS = 253_402_300_799
SECOND = 1_000_000_000
LONGEST_ZONE = 64
"""Characters of a name that an error repeats."""

_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_COMPONENT = re.compile(r"(\d*)(?:(\.)(\d*))?([^\d.]+)", re.ASCII)
_OFFSET = re.compile(r"[+-]?\d+", re.ASCII)
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Calendar(NamedTuple):
    year: int
    month: int
    day: int
    day_of_year: int
    day_of_week: int
    hour: int
    minute: int
    second: int


def timestamp_of(seconds: int, nanos: int, zone: int = 0) -> Timestamp:
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise Failure(TIMESTAMP_OVERFLOW)
    return Timestamp(seconds, nanos, zone)


def parse_timestamp(text: str) -> Timestamp | None:
    """None if the text is not RFC 3339."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    if not 1 <= month <= 12 or not 1 <= day <= _month_days(year, month):
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = match.group(7)
    nanos = int(fraction[:9].ljust(9, "0")) if fraction else 0
    zone = 0
    if match.group(9):
        hours, minutes = int(match.group(10)), int(match.group(11))
        if hours > 24 or minutes > 60:
            return None
        zone = (hours * 60 + minutes) * 60 * (-1 if match.group(9) == "-" else 1)
    seconds = _days_before(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone
    return timestamp_of(seconds, nanos, zone)


def format_timestamp(value: Timestamp, *, utc: bool = False) -> str:
    zone = 0 if utc else value.zone
    local = calendar(value.seconds + zone)
    fraction = f".{value.nanos:09d}".rstrip("0") if value.nanos else ""
    if zone == 0:
        suffix = "Z"
    else:
        minutes = abs(zone) // 60
        suffix = f"{'-' if zone < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return (
        f"{local.year:04d}-{local.month:02d}-{local.day:02d}"
        f"T{local.hour:02d}:{local.minute:02d}:{local.second:02d}{fraction}{suffix}"
    )


def parse_duration(text: str) -> Duration | None:
    """None if the text is not a sequence of numbers with units, such as ``1h30m``."""
    negative = text.startswith("-")
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return Duration(0)
    if not body:
        return None
    total, position = 0, 0
    while position < len(body):
        component = _COMPONENT.match(body, position)
        if component is None:
            return None
        whole, _, fraction, unit = component.groups()
        if not whole and not fraction:
            return None
        scale = _UNITS.get(unit)
        if scale is None:
            return None
        if len(whole) > 30:
            return None
        total += int(whole or "0") * scale
        if fraction:
            total += _fraction(fraction, scale)
        if total > 1 << 63:
            return None
        position = component.end()
    if negative:
        return Duration(-total)
    return None if total > INT_MAX else Duration(total)


def _fraction(digits: str, scale: int) -> int:
    """Digits after the point, with the rounding of a double that the reference has."""
    value, places = 0, 0
    for digit in digits:
        if value > INT_MAX // 10:
            break
        grown = value * 10 + int(digit)
        if grown > 1 << 63:
            break
        value = grown
        places += 1
    return int(float(value) * (float(scale) / 10.0**places))


def format_duration(value: Duration) -> str:
    return f"{positional(seconds_of(value))}s"


def seconds_of(value: Duration) -> float:
    whole, rest = divmod(abs(value.nanos), SECOND)
    seconds = float(whole) + float(rest) / 1e9
    return -seconds if value.nanos < 0 else seconds


def duration_of(nanos: int) -> Duration:
    if INT_MIN <= nanos <= INT_MAX:
        return Duration(nanos)
    raise Failure(INT_OVERFLOW)


def shift(value: Timestamp, nanos: int) -> Timestamp:
    if nanos == -INT_MIN:
        raise Failure(INT_OVERFLOW)
    seconds, rest = divmod(value.seconds * SECOND + value.nanos + nanos, SECOND)
    return timestamp_of(seconds, rest, value.zone)


def between(later: Timestamp, earlier: Timestamp) -> Duration:
    return duration_of((later.seconds - earlier.seconds) * SECOND + later.nanos - earlier.nanos)


def in_zone(value: Timestamp, zone: str) -> Calendar:
    """The calendar as seen in an IANA zone or at an offset such as ``-08:00``."""
    return calendar(value.seconds + _offset(value, zone))


def _offset(value: Timestamp, zone: str) -> int:
    hours, colon, minutes = zone.partition(":")
    if colon:
        if len(zone) > 40 or not _OFFSET.fullmatch(hours) or not _OFFSET.fullmatch(minutes):
            raise Failure(f'strconv.Atoi: parsing "{zone[:LONGEST_ZONE]}": invalid syntax')
        shift_minutes = -int(minutes) if zone.startswith("-") else int(minutes)
        return (int(hours) * 60 + shift_minutes) * 60
    if zone in ("", "UTC", "Local"):
        return 0
    moment = min(max(value.seconds, MIN_SECONDS + 2 * 86400), MAX_SECONDS - 2 * 86400)
    local = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=moment)
    offset = local.astimezone(_zone(zone)).utcoffset()
    return 0 if offset is None else offset.days * 86400 + offset.seconds


def _zone(name: str) -> ZoneInfo:
    if name not in _zone_names():
        raise Failure(f"unknown time zone {name[:LONGEST_ZONE]}")
    return _load_zone(name)


@lru_cache(maxsize=1)
def _zone_names() -> frozenset[str]:
    """All there are, so that asking for one that does not exist reads no file."""
    return frozenset(available_timezones())


@lru_cache(maxsize=1024)
def _load_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise Failure(f"unknown time zone {name}") from None


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _month_days(year: int, month: int) -> int:
    return 29 if month == 2 and _leap(year) else _DAYS[month - 1]


def _days_before(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01, in the calendar extended to all years."""
    prior = year - 1
    days = prior * 365 + prior // 4 - prior // 100 + prior // 400
    days += sum(_month_days(year, m) for m in range(1, month)) + day - 1
    return days - 719_162


def calendar(seconds: int) -> Calendar:
    days, rest = divmod(seconds, 86400)
    year = 1970 + days * 400 // 146_097
    while _days_before(year, 1, 1) > days:
        year -= 1
    while _days_before(year + 1, 1, 1) <= days:
        year += 1
    day_of_year = days - _days_before(year, 1, 1)
    month, day = 1, day_of_year
    while day >= _month_days(year, month):
        day -= _month_days(year, month)
        month += 1
    hour, rest = divmod(rest, 3600)
    minute, second = divmod(rest, 60)
    return Calendar(year, month, day + 1, day_of_year, (days + 4) % 7, hour, minute, second)
