"""How checks of values report: the shape of a check, and the faults it appends."""

from collections.abc import Callable
from typing import Any, Final

from fairway.hub import status
from fairway.hub.status import Cause

Check = Callable[[Any, str, list[Cause], Any], int]
"""Takes a value, its path, the faults so far, and the old value it continues or ABSENT. Returns how much of the
value made sense: when no alternative of an ``anyOf`` fits, that decides whose faults are told."""

ROOT: Final = "<nil>"
"""What Kubernetes calls the field of a fault of the whole document."""


def at(path: str) -> str:
    return path or ROOT


def invalid(path: str, value: object, detail: str) -> Cause:
    return status.invalid_value(at(path), value, detail)


def general(detail: str) -> Cause:
    """A fault that names its place in its words only."""
    return status.invalid_value(ROOT, "", detail)
