"""Times as integers, for columns and exact comparisons."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND

Micros = int
"""Microseconds since 1970-01-01T00:00:00Z."""

SECOND: Micros = 1_000_000


def to_micros(moment: datetime) -> Micros:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds


def from_micros(micros: Micros) -> datetime:
    """Convert; times beyond the range of datetime are clamped."""
    return _EPOCH + timedelta(microseconds=max(_FIRST, min(micros, _LAST)))
