"""Ages as kubectl prints them."""

from datetime import UTC, datetime

import pytest

from kubewire.api import age

HOUR, DAY, YEAR = 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 60, "3h1m"),
        (8 * HOUR + 60, "8h"),
        (47 * HOUR, "47h"),
        (48 * HOUR, "2d"),
        (2 * DAY + HOUR, "2d1h"),
        (8 * DAY + HOUR, "8d"),
        (729 * DAY, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR + DAY, "8y"),
    ],
)
def test_durations_are_formatted_as_kubectl_does(seconds: int, told: str) -> None:
    assert age.format_age(seconds) == told


def test_age_of_invalid_timestamp_is_unknown() -> None:
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert age.since("2026-01-01T00:00:00Z", now=now) == "60s"
    for nothing in (None, "", "yesterday", 5, "2026-01-01T00:00:00"):
        assert age.since(nothing, now=now) == age.UNKNOWN
