"""The signature of a check, and the faults that it appends."""

from collections.abc import Callable
from typing import Any, Final

from kubehub import status
from kubehub.status import Cause

Check = Callable[[Any, str, list[Cause], Any], int]
"""Takes a value, its path, the faults so far, and the old value it replaces or ABSENT. Returns how well the value
fits: if no alternative of an ``anyOf`` does, the best one's faults are reported."""

ROOT: Final = "<nil>"
"""Kubernetes' field name for a fault of the whole document."""


def at(path: str) -> str:
    return path or ROOT


def invalid(path: str, value: object, detail: str) -> Cause:
    return status.invalid_value(at(path), value, detail)


def general(detail: str) -> Cause:
    """A fault whose message, not its field, contains the place."""
    return status.invalid_value(ROOT, "", detail)
