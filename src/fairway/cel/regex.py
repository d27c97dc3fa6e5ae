"""Regular expressions with linear-time matching.

The one place that touches the `re2` package. Its patterns are the reference's (both descend from the same engine);
what it accepts beyond the reference is refused here.
"""

from __future__ import annotations

import re as _python_re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Protocol, cast

import re2

from fairway.cel.errors import Failure, Overrun

MAX_WORK: Final = 100_000_000
"""Pattern size times text size. Functions whose cost ignores the text would otherwise be a way to stall."""

INVALID_PATTERN: Final = "error parsing regexp: {}"
MAX_NESTING: Final = 1000
MAX_LENGTH: Final = 10_000
"""Characters of a pattern: compiling can take time in proportion to their square."""
TOO_LARGE: Final = "expression too large"
TOO_DEEP: Final = "expression nests too deeply"

# One byte, whatever the character: the reference has no such thing.
_BYTE_ESCAPE = _python_re.compile(r"(?:\\\\)*\\C")


class _Match(Protocol):
    def span(self) -> tuple[int, int]: ...


class _Compiled(Protocol):
    programsize: int

    def search(self, text: str, pos: int = 0) -> _Match | None: ...


def _options() -> re2.Options:
    options = re2.Options()
    # A bad pattern is the caller's error, not something to print.
    options.log_errors = False
    return options


class Pattern:
    __slots__ = ("_compiled",)

    def __init__(self, compiled: _Compiled) -> None:
        self._compiled = compiled

    def matches(self, text: str) -> bool:
        self._charge(text)
        return self._compiled.search(text) is not None

    def find(self, text: str) -> str:
        """The leftmost match, or the empty string."""
        self._charge(text)
        found = self._compiled.search(text)
        if found is None:
            return ""
        start, end = found.span()
        return text[start:end]

    def find_all(self, text: str, limit: int) -> Iterator[str]:
        """Successive matches, without empty ones that touch the match before; a negative limit means all."""
        self._charge(text)
        position, previous_end = 0, -1
        while limit != 0 and position <= len(text):
            found = self._compiled.search(text, position)
            if found is None:
                return
            start, end = found.span()
            if end > start:
                position = end
                accepted = True
            else:
                accepted = start != previous_end
                position = end + 1
            previous_end = end
            if accepted:
                limit -= 1
                yield text[start:end]

    def _charge(self, text: str) -> None:
        if self._compiled.programsize * len(text) > MAX_WORK:
            raise Overrun


@lru_cache(maxsize=128)  # each may hold megabytes
def compile_pattern(text: str) -> Pattern:
    """Raises `Failure` for a text that is no pattern."""
    if "\\C" in text and _BYTE_ESCAPE.search(text):
        raise Failure(INVALID_PATTERN.format("invalid escape sequence: `\\C`"))
    if len(text) > MAX_LENGTH:
        raise Failure(INVALID_PATTERN.format(TOO_LARGE))
    if text.count("(") > MAX_NESTING and _nesting(text) > MAX_NESTING:
        raise Failure(INVALID_PATTERN.format(TOO_DEEP))
    try:
        return Pattern(cast("_Compiled", re2.compile(text, _options())))
    except re2.error as error:
        reason = error.args[0]
        message = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise Failure(INVALID_PATTERN.format(message)) from None


def _nesting(text: str) -> int:
    depth = deepest = 0
    for char in text:
        if char == "(":
            depth += 1
            deepest = max(deepest, depth)
        elif char == ")":
            depth -= 1
    return deepest
