"""Moments as objects carry them."""

from datetime import UTC, datetime


def timestamp(moment: datetime) -> str:
    """To the second, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
