from datetime import UTC, datetime

import pytest

from fairway.providers.static.schedule import BAD_DAY, BAD_TIME, NO_LENGTH, NO_ZONE, Hours


def hours(start: str = "", end: str = "", *days: str, zone: str = "UTC") -> Hours:
    return Hours.parse(start=start, end=end, days=days, zone=zone)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    """In the week of Monday, 2 March 2026."""
    return datetime(2026, 3, 1 + day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("covered", "moment", "expected"),
    [
        (hours("08:00", "18:00"), at(1, 8), True),
        (hours("08:00", "18:00"), at(1, 18), False),
        (hours("08:00", "18:00"), at(1, 7, 59), False),
        (hours("22:00", "06:00"), at(1, 23), True),
        (hours("22:00", "06:00"), at(2, 5, 59), True),
        (hours("22:00", "06:00"), at(2, 6), False),
        (hours("22:00", "06:00", "fri"), at(5, 23), True),
        (hours("22:00", "06:00", "fri"), at(6, 3), True),  # the night that began on Friday
        (hours("22:00", "06:00", "fri"), at(5, 3), False),
        (hours("", "", "sat", "Sunday"), at(6, 0), True),
        (hours("", "", "sat", "Sunday"), at(7, 23, 59), True),
        (hours("", "", "sat", "Sunday"), at(1, 0), False),
        (hours("18:00"), at(1, 23, 59), True),
        (hours("9:00", "24:00", zone="Asia/Tokyo"), at(1, 0), True),
        (hours("9:00", "24:00", zone="Asia/Tokyo"), at(1, 15), False),
    ],
)
def test_schedule_covers_hours_and_days(covered: Hours, moment: datetime, expected: bool) -> None:
    assert covered.covers(moment) is expected


@pytest.mark.parametrize(
    ("start", "end", "day", "zone", "words"),
    [
        ("25:00", "", "", "UTC", BAD_TIME.format(given="25:00")),
        ("", "12", "", "UTC", BAD_TIME.format(given="12")),
        ("12:00", "12:00", "", "UTC", NO_LENGTH),
        ("", "", "someday", "UTC", BAD_DAY.format(given="someday")),
        ("", "", "", "Mars/Olympus", NO_ZONE.format(given="Mars/Olympus")),
        ("", "", "", "../../etc/passwd", NO_ZONE.format(given="../../etc/passwd")),
    ],
)
def test_invalid_schedule_is_rejected(start: str, end: str, day: str, zone: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        Hours.parse(start=start, end=end, days=(day,) if day else (), zone=zone)
    assert str(caught.value) == words
