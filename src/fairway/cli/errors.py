"""The errors a command may end with, each knowing its exit code.

A user's mistake must read as one screen of text that says what is wrong, where, and what to do. Commands
raise these; only `main` prints them and turns them into an exit status, so no command prints an error or
exits by itself.
"""

from dataclasses import dataclass
from typing import ClassVar

EXIT_OK = 0
EXIT_NO = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

PROBLEMS_SHOWN = 20
DEBUG_VARIABLE = "FAIRWAY_DEBUG"
MORE_PROBLEMS = "and {count} more"


class CommandError(Exception):
    """Ends a command with a message; the base of everything a command raises on purpose."""

    exit_code: ClassVar[int] = EXIT_BAD_INPUT

    def lines(self) -> list[str]:
        """The whole message, without the leading `fairway:`."""
        return str(self).splitlines()


class NegativeAnswerError(CommandError):
    """The question was understood and the answer is no: a failed check, findings at error level."""

    exit_code = EXIT_NO


class BadInputError(CommandError):
    """The input or the way the command was called cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with the input. `line` counts from 1; 0 means the place is not known."""

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
    """Everything wrong with the input, found in one go."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))

    def lines(self) -> list[str]:
        shown = [str(problem) for problem in self.problems[:PROBLEMS_SHOWN]]
        hidden = len(self.problems) - len(shown)
        if hidden:
            shown.append(MORE_PROBLEMS.format(count=hidden))
        return shown
