from datetime import UTC, datetime, timedelta, timezone

import pytest

from fairway.hosts.column import NEVER
from fairway.hosts.instant import SECOND, from_micros, to_micros

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "micros"),
    [
        pytest.param(EPOCH, 0, id="the beginning"),
        pytest.param(EPOCH + timedelta(seconds=1), SECOND, id="a second later"),
        pytest.param(EPOCH - timedelta(microseconds=1), -1, id="a microsecond earlier"),
        pytest.param(datetime(2026, 3, 1, 12, tzinfo=UTC), 1_772_366_400_000_000, id="some noon"),
        pytest.param(datetime.min.replace(tzinfo=UTC), -62_135_596_800_000_000, id="the year one"),
    ],
)
def test_instants_convert_to_microseconds_and_back(moment: datetime, micros: int) -> None:
    assert to_micros(moment) == micros
    assert from_micros(micros) == moment


def test_instants_of_other_time_zones_are_equal() -> None:
    assert to_micros(datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == 0


def test_instants_out_of_range_are_clamped() -> None:
    assert from_micros(int(NEVER)) == datetime.max.replace(tzinfo=UTC)
    assert from_micros(-(2**63)) == datetime.min.replace(tzinfo=UTC)
