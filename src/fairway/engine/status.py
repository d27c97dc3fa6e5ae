"""The status that a plugin returns."""

from collections.abc import Callable
from enum import Enum


class Code(Enum):
    SUCCESS = "Success"
    WARNING = "Warning"
    """Continue, report it and retry later."""
    ERROR = "Error"
    """An internal error."""
    MISCONFIGURED = "Misconfigured"
    """The workload is invalid; only its author can fix it."""
    UNSCHEDULABLE = "Unschedulable"
    """Not feasible on this host in the current state."""
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """Not feasible on this host, even if other workloads are evicted."""
    WAIT = "Wait"
    """From Permit only: not yet."""
    SKIP = "Skip"
    """This plugin does not apply to this workload."""
    PENDING = "Pending"
    """The choice is valid, but an external action must complete first."""


_ABORTING = (Code.ERROR, Code.MISCONFIGURED)
_REJECTING = (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)


class Status:
    """Immutable. Long messages, such as a list of a thousand names, are formatted when first read."""

    __slots__ = ("_reasons", "code", "field", "plugin")

    def __init__(
        self,
        code: Code = Code.SUCCESS,
        reasons: tuple[str, ...] | Callable[[], tuple[str, ...]] = (),
        plugin: str = "",
        field: str = "",
    ) -> None:
        self.code = code
        self.plugin = plugin
        self.field = field
        """The field that its author must correct, such as ``spec.tolerations``; empty if it is unknown."""
        self._reasons = reasons

    @property
    def reasons(self) -> tuple[str, ...]:
        if not isinstance(self._reasons, tuple):
            self._reasons = self._reasons()
        return self._reasons

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @property
    def aborts(self) -> bool:
        """Whether the cycle ends here without a choice."""
        return self.code in _ABORTING

    @property
    def rejects(self) -> bool:
        """Whether this host is rejected."""
        return self.code in _REJECTING

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return (self.code, self.plugin, self.reasons) == (other.code, other.plugin, other.reasons)

    def __hash__(self) -> int:
        return hash((self.code, self.plugin, self.reasons))

    def __repr__(self) -> str:
        return f"Status({self.code.value}, {self.reasons!r}, plugin={self.plugin!r})"


OK = Status()
SKIPPED = Status(code=Code.SKIP)


def unschedulable(reason: str, *, plugin: str) -> Status:
    return Status(code=Code.UNSCHEDULABLE, reasons=(reason,), plugin=plugin)


def misconfigured(reason: str, *, plugin: str = "", field: str = "") -> Status:
    """``field`` is the field of the workload's object to correct; explanations name it."""
    return Status(code=Code.MISCONFIGURED, reasons=(reason,), plugin=plugin, field=field)


def failed(reason: str, *, plugin: str = "", field: str = "") -> Status:
    return Status(code=Code.ERROR, reasons=(reason,), plugin=plugin, field=field)


def warning(words: Callable[[], str], *, plugin: str) -> Status:
    return Status(code=Code.WARNING, reasons=lambda: (words(),), plugin=plugin)
