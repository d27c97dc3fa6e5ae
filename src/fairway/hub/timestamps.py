"""Timestamps in objects."""

from datetime import UTC, datetime


def timestamp(moment: datetime) -> str:
    """Format as RFC 3339, in whole seconds and UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
