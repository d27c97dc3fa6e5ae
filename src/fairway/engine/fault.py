"""Faults of plugins: what a plugin raised, or returned against its protocol.

A fault is charged to the plugin's name and contained: other plugins and workloads go on.
"""

from dataclasses import dataclass

LONGEST_REASON = 500
"""Maximum length of a fault's reason, in characters: a plugin's error may quote whole objects."""
RAISED = "raised {kind}: {error}"
NONSENSE = "returned {value!r:.200}, not {expected}"


@dataclass(frozen=True, slots=True)
class Fault:
    plugin: str
    point: str
    """The extension point, such as ``Reserve``."""
    reason: str

    def __str__(self) -> str:
        return f"plugin {self.plugin} at {self.point} {self.reason}"


class FaultError(Exception):
    """Raised by the guard of a third-party plugin; the cycle then does what the profile says."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def raised(plugin: str, point: str, error: BaseException) -> Fault:
    if isinstance(error, FaultError):
        return error.fault
    try:
        words = str(error)
    except Exception:  # the error itself is the plugin's code
        words = "an error that cannot be printed"
    return Fault(plugin, point, RAISED.format(kind=type(error).__name__, error=words)[:LONGEST_REASON])


def nonsense(plugin: str, point: str, value: object, *, expected: str) -> Fault:
    try:
        reason = NONSENSE.format(value=value, expected=expected)
    except Exception:  # likewise
        reason = NONSENSE.format(value=type(value), expected=expected)
    return Fault(plugin, point, reason[:LONGEST_REASON])
