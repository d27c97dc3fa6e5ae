"""Errors that end a command, with their exit codes.

A message names what failed, where, and what to do, on at most one screen. Commands raise these errors; only `main`
prints them and turns them into an exit status.
"""

from dataclasses import dataclass
from typing import ClassVar

from fairway.cli.interrupt import EXIT_INTERRUPTED as EXIT_INTERRUPTED

EXIT_OK = 0
EXIT_NO = 1
EXIT_BAD_INPUT = 2
EXIT_CHANGES = 2
"""Of `plan`, whose errors end with EXIT_NO."""

PROBLEMS_SHOWN = 20
DEBUG_VARIABLE = "FAIRWAY_DEBUG"
MORE_PROBLEMS = "and {count} more"


class CommandError(Exception):
    """Base class of errors that end a command with a message."""

    exit_code: ClassVar[int] = EXIT_BAD_INPUT

    def lines(self) -> list[str]:
        """The whole message, without the leading `fairway:`."""
        return str(self).splitlines()


class NegativeAnswerError(CommandError):
    """The answer is no: a failed check, findings of severity error, a timeout."""

    exit_code = EXIT_NO


class BadInputError(CommandError):
    """The input or the command line is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem in the input. `line` counts from 1; 0 means unknown."""

    file: str
    message: str
    line: int = 0
    subject: str = ""
    path: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        parts = [part for part in (place, self.subject, self.path, self.message) if part]
        text = ": ".join(parts)
        return f"{text}; {self.remedy}" if self.remedy else text


class InputProblemsError(BadInputError):
    """All problems in the input."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))

    def lines(self) -> list[str]:
        shown = [str(problem) for problem in self.problems[:PROBLEMS_SHOWN]]
        hidden = len(self.problems) - len(shown)
        if hidden:
            shown.append(MORE_PROBLEMS.format(count=hidden))
        return shown
