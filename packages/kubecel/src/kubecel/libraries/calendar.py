"""The standard accessors of timestamps and durations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubecel.declarations import Function, Implementation, Overload
from kubecel.instants import Calendar, in_zone
from kubecel.scalars import Duration, Timestamp
from kubecel.types import DURATION, INT, STRING, TIMESTAMP


def _truncated(unit: int) -> Implementation:
    def units(value: Duration) -> object:
        whole = abs(value.nanos) // unit
        return -whole if value.nanos < 0 else whole

    return units


def _accessor(
    name: str,
    stem: str,
    read: Callable[[Calendar, Timestamp], int],
    duration: tuple[str, Implementation] | None = None,
) -> Function:
    def in_utc(value: Timestamp) -> object:
        return read(in_zone(value, "UTC"), value)

    def zoned(value: Timestamp, zone: str) -> object:
        return read(in_zone(value, zone), value)

    overloads = [
        Overload(f"timestamp_to_{stem}", (TIMESTAMP,), INT, in_utc, member=True),
        Overload(f"timestamp_to_{stem}_with_tz", (TIMESTAMP, STRING), INT, zoned, member=True),
    ]
    if duration is not None:
        overloads.append(Overload(duration[0], (DURATION,), INT, duration[1], member=True))
    return Function(name, tuple(overloads))


def accessors() -> Iterator[Function]:
    yield _accessor("getFullYear", "year", lambda c, _: c.year)
    yield _accessor("getMonth", "month", lambda c, _: c.month - 1)
    yield _accessor("getDayOfYear", "day_of_year", lambda c, _: c.day_of_year)
    yield _accessor("getDayOfMonth", "day_of_month", lambda c, _: c.day - 1)
    yield _accessor("getDate", "day_of_month_1_based", lambda c, _: c.day)
    yield _accessor("getDayOfWeek", "day_of_week", lambda c, _: c.day_of_week)
    yield _accessor("getHours", "hours", lambda c, _: c.hour, ("duration_to_hours", _truncated(3600 * 10**9)))
    yield _accessor(
        "getMinutes", "minutes", lambda c, _: c.minute, ("duration_to_minutes", _truncated(60 * 10**9))
    )
    yield _accessor(
        "getSeconds", "seconds", lambda c, _: c.second, ("duration_to_seconds", _truncated(10**9))
    )
    yield _accessor(
        "getMilliseconds",
        "milliseconds",
        lambda _, value: value.nanos // 10**6,
        ("duration_to_milliseconds", _truncated(10**6)),
    )
