"""Faults of plugins: what a plugin raised, or returned against its protocol.

A fault is charged to the plugin's name and contained: other plugins and workloads go on.
"""

import os.path
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

LONGEST_REASON = 500
"""Maximum length of a fault's reason, in characters: a plugin's error may quote whole objects."""
RAISED = "raised {kind}: {error}"
SHOWN_OF_A_VALUE = 200
NONSENSE = "returned {value}, not {expected}"

PLACE = " ({file}:{line})"
"""The name of the file only: users who cannot read the machine read faults in conditions."""

_TRACEBACK: Final[Any] = BaseException.__dict__["__traceback__"].__get__
_NAME: Final[Any] = type.__dict__["__name__"].__get__


@dataclass(frozen=True, slots=True)
class Fault:
    plugin: str
    point: str
    """The extension point, such as ``Reserve``."""
    reason: str

    def __str__(self) -> str:
        return f"plugin {self.plugin} at {self.point} {self.reason}"


class Stalled(BaseException):
    """Raised inside a call that exceeded its limit. Not an Exception, so that plugins rarely catch it."""


class FaultError(Exception):
    """Raised by the guard of a third-party plugin; the cycle then does what the profile says."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def raised(plugin: str, point: str, error: BaseException) -> Fault:
    if isinstance(error, FaultError):
        return error.fault
    return raised_by(plugin, point, error)


def raised_by(plugin: str, point: str, error: BaseException, *, file: str | None = None) -> Fault:
    """Like ``raised``, but charge the plugin itself if it raises a FaultError of its own making.

    The reason ends with the last line of ``file``, which is the plugin's, that the error passed.
    """
    words = RAISED.format(kind=_class_name(error), error=words_of(error))
    place = "" if file is None else place_of(file, _last_line(file, error))
    return Fault(plugin, point, words[: LONGEST_REASON - len(place)] + place)


def place_of(file: str, line: int | None) -> str:
    return "" if line is None else PLACE.format(file=os.path.basename(file), line=line)


def _last_line(file: str, error: BaseException) -> int | None:
    # Not the innermost frame: that is often in a library, which the plugin called with a wrong argument.
    line = None
    step: TracebackType | None = _TRACEBACK(error)
    while step is not None:
        if step.tb_frame.f_code.co_filename == file:
            line = step.tb_lineno
        step = step.tb_next
    return line


def _class_name(value: object) -> str:
    # Not ``type(value).__name__``: a metaclass of the plugin could answer.
    name: str = _NAME(type(value))
    return str.__getitem__(name, slice(LONGEST_REASON))


def description_of(error: BaseException) -> str:
    """Return the class and the words of an error that code of a plugin raised."""
    kind, words = _class_name(error), words_of(error)
    return f"{kind}: {words}" if words else kind


def words_of(error: BaseException) -> str:
    """Return what the error says, as plain text: its ``__str__`` is the plugin's code, and may return a subclass."""
    try:
        return str.__getitem__(str(error), slice(LONGEST_REASON))
    except Stalled:
        raise
    except BaseException:
        return "an error that cannot be printed"


def nonsense(plugin: str, point: str, value: object, *, expected: str, place: str = "") -> Fault:
    try:
        shown = str.__getitem__(repr(value), slice(SHOWN_OF_A_VALUE))
    except Stalled:
        raise
    except BaseException:  # likewise
        shown = f"an object of class {_class_name(value)}"
    words = NONSENSE.format(value=shown, expected=expected)
    return Fault(plugin, point, words[: LONGEST_REASON - len(place)] + place)
