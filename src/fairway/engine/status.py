"""What a plugin answers."""

from dataclasses import dataclass
from enum import Enum


class Code(Enum):
    SUCCESS = "Success"
    WARNING = "Warning"
    """Go on, but say so and look again."""
    ERROR = "Error"
    """Something is broken; nobody's choice is to blame."""
    MISCONFIGURED = "Misconfigured"
    """The workload asks for something that makes no sense; only its author can mend it."""
    UNSCHEDULABLE = "Unschedulable"
    """Not on this host as things are."""
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """Not on this host, whatever else is moved away."""
    WAIT = "Wait"
    """From Permit only: not yet."""
    SKIP = "Skip"
    """This plugin has nothing to say about this workload."""
    PENDING = "Pending"
    """The choice is good, but somebody else must act first."""


_ABORTING = (Code.ERROR, Code.MISCONFIGURED)
_REJECTING = (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)


@dataclass(frozen=True, slots=True)
class Status:
    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @property
    def aborts(self) -> bool:
        """Whether the cycle ends here with nothing chosen."""
        return self.code in _ABORTING

    @property
    def rejects(self) -> bool:
        """Whether this host is out."""
        return self.code in _REJECTING


OK = Status()
SKIPPED = Status(code=Code.SKIP)


def unschedulable(reason: str, *, plugin: str) -> Status:
    return Status(code=Code.UNSCHEDULABLE, reasons=(reason,), plugin=plugin)


def misconfigured(reason: str, *, plugin: str = "") -> Status:
    return Status(code=Code.MISCONFIGURED, reasons=(reason,), plugin=plugin)


def failed(reason: str, *, plugin: str = "") -> Status:
    return Status(code=Code.ERROR, reasons=(reason,), plugin=plugin)


def warning(reason: str, *, plugin: str) -> Status:
    return Status(code=Code.WARNING, reasons=(reason,), plugin=plugin)
