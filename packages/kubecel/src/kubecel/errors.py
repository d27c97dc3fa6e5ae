"""Errors of compilation and evaluation, and the two internal signals of an evaluation.

In CEL a failure is a value (``false && 1/0 > 0`` is false), so evaluation raises a light `Failure` that logical
operators may absorb. An `Abort` ends the whole evaluation; no operator absorbs it.
"""

from __future__ import annotations

COST_LIMIT_MESSAGE = "operation cancelled: actual cost limit exceeded"
WORK_LIMIT_MESSAGE = "operation cancelled: work limit of {} units exceeded"
NO_SUCH_OVERLOAD = "no such overload"
DIVISION_BY_ZERO = "division by zero"
MODULUS_BY_ZERO = "modulus by zero"
INT_OVERFLOW = "integer overflow"
UINT_OVERFLOW = "unsigned integer overflow"
TIMESTAMP_OVERFLOW = "timestamp overflow"


class CelError(Exception):
    """Base of all errors of this package."""


class CompileError(CelError):
    """The text is not a valid expression of its environment.

    ``str()`` is the report of all problems, each an ``ERROR: <input>:LINE:COLUMN: …`` entry with its source line;
    ``line``, ``column`` and ``message`` are those of the first. A problem of the whole text has line -1 and column 0.
    """

    def __init__(self, text: str, *, line: int, column: int, message: str) -> None:
        super().__init__(text)
        self.line = line
        self.column = column
        self.message = message


class InstantiationError(CompileError):
    """The expression is well typed, but has an invalid constant, such as a malformed regular expression."""


class CompileWorkExceeded(CompileError):
    """Compiling the expression takes more work than the limit."""


class EvaluationError(CelError):
    """The expression failed for these inputs."""


class CostLimitExceeded(EvaluationError):
    """The evaluation was stopped at its cost limit."""


class WorkLimitExceeded(EvaluationError):
    """The evaluation was stopped at its work limit, whatever its cost."""


class Failure(Exception):
    """An error value of the language, while it propagates."""

    __slots__ = ()


class Abort(Exception):
    """Ends the evaluation; no operator absorbs it."""

    __slots__ = ()


class Overrun(Abort):
    """A limit of cost or work was exceeded."""

    __slots__ = ()
