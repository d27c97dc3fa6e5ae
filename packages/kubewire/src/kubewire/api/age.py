"""Format ages as kubectl does."""

from datetime import datetime
from typing import Final

from kubewire.api.lease import parse_micro_time

UNKNOWN: Final = "<unknown>"


def since(text: object, *, now: datetime) -> str:
    """Format the age of a timestamp; missing or invalid ones are unknown."""
    moment = parse_micro_time(text) if isinstance(text, str) else None
    return UNKNOWN if moment is None else format_age(int((now - moment).total_seconds()))


def _pair(big: int, unit: str, small: int, smaller: str) -> str:
    return f"{big}{unit}{small}{smaller}" if small else f"{big}{unit}"


def format_age(seconds: int) -> str:
    """Format a duration, with a second unit while it is small."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 10:
        return _pair(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _pair(hours // 24, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{hours // 24}d"
    if hours < 24 * 365 * 8:
        return _pair(hours // 24 // 365, "y", hours // 24 % 365, "d")
    return f"{hours // 24 // 365}y"
