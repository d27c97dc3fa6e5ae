"""The errors an expression can meet, and the two internal signals evaluation is built on.

A failure inside an expression is a value in CEL's eyes (``false && 1/0 > 0`` is false), so evaluation raises
the light `Failure` that logical operators may absorb. An `Abort` ends the whole evaluation and nothing absorbs it.
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
    """Base of every error this package raises."""


class CompileError(CelError):
    """The text is not a valid expression of its environment.

    ``str()`` is the whole report, one ``ERROR: <input>:LINE:COLUMN: …`` entry with its source line per problem;
    ``line``, ``column`` and ``message`` are those of the first entry. A problem of the whole text has line -1
    and column 0.
    """

    def __init__(self, text: str, *, line: int, column: int, message: str) -> None:
        super().__init__(text)
        self.line = line
        self.column = column
        self.message = message


class InstantiationError(CompileError):
    """The expression is well typed, but a constant in it can never work, e.g. a malformed regular expression."""


class CompileWorkExceeded(CompileError):
    """Compiling the expression is more work than is allowed."""


class EvaluationError(CelError):
    """The expression failed for these inputs."""


class CostLimitExceeded(EvaluationError):
    """The evaluation was stopped because it became too expensive."""


class WorkLimitExceeded(EvaluationError):
    """The evaluation was stopped because it did too much work, whatever it had cost by then."""


class Failure(Exception):
    """An error value of the language on its way up."""

    __slots__ = ()


class Abort(Exception):
    """Ends the evaluation; no operator absorbs it."""

    __slots__ = ()


class Overrun(Abort):
    """A limit was passed, of cost or of work."""

    __slots__ = ()
