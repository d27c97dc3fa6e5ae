"""Regular expressions with linear-time matching.

The only module that uses the `re2` package. Its syntax is that of the reference (both derive from the same engine),
with extensions that are rejected here.

Compiling takes time proportional to the pattern with its repetitions written out, so that size is estimated and charged
before.
"""

from __future__ import annotations

import re as _python_re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Protocol, cast

import re2

from kubecel.errors import Failure
from kubecel.frame import Frame, Meter, charge_work

INVALID_PATTERN: Final = "error parsing regexp: {}"
MAX_NESTING: Final = 1000
MAX_LENGTH: Final = 10_000
"""Maximum characters of a pattern: compiling can take quadratic time."""

_MAX_REPEAT: Final = 1000
_MOST_INSTRUCTIONS: Final = 1_000_000
_UNICODE_CLASS: Final = 1200
_ANY_CHARACTER: Final = 9
_ESCAPE: Final = 4
"""Approximate instructions of ``\\pL``, ``.`` and ``\\w``."""
_SCAN: Final = 256
"""Characters searched per unit of work with a small pattern."""
_FOUND: Final = 10
"""Units of work per match, in addition to the search."""

# ``\\C`` matches one byte; the reference does not support it.
_BYTE_ESCAPE = _python_re.compile(r"(?:\\\\)*\\C")
_UNBOUNDED = _python_re.compile(r"[*+]|,\}")


class _Match(Protocol):
    def span(self) -> tuple[int, int]: ...


class _Compiled(Protocol):
    programsize: int

    def search(self, text: str, pos: int = 0) -> _Match | None: ...
    def finditer(self, text: str, pos: int = 0) -> Iterator[_Match]: ...


def _options() -> re2.Options:
    options = re2.Options()
    # Do not log bad patterns: the caller gets an error.
    options.log_errors = False
    return options


class Pattern:
    """A compiled pattern. ``unbounded``: a match may be as long as the text, and so is the search for its end."""

    __slots__ = ("_compiled", "_price", "unbounded")

    def __init__(self, compiled: _Compiled, *, unbounded: bool) -> None:
        self._compiled = compiled
        self.unbounded = unbounded
        # A program too large for a deterministic automaton is simulated state by state.
        self._price = 1 + compiled.programsize // 64

    def matches(self, meter: Meter, text: str) -> bool:
        charge_work(meter, self._scan(len(text)) + 4)
        return self._compiled.search(text) is not None

    def find(self, meter: Meter, text: str) -> str:
        """Return the leftmost match, or the empty string."""
        charge_work(meter, self._scan(len(text)) + 4)
        match = self._compiled.search(text)
        if match is None:
            return ""
        start, end = match.span()
        return text[start:end]

    def find_all(self, meter: Meter, text: str, limit: int) -> Iterator[str]:
        """Return successive matches, without empty ones adjacent to the previous match; a negative limit means all."""
        charge_work(meter, self._scan(len(text)) + 4)
        previous_end = -1
        if limit == 0:
            return
        for match in self._compiled.finditer(text):
            start, end = match.span()
            charge_work(meter, _FOUND + (self._scan(len(text) - end) if self.unbounded else self._price))
            if end > start or start != previous_end:
                limit -= 1
                yield text[start:end]
                if limit == 0:
                    return
            previous_end = end

    def _scan(self, length: int) -> int:
        return length * self._price // _SCAN


def pattern_for(frame: Frame, text: str) -> Pattern:
    """Return the compiled pattern: a constant of the program, or else compiled and charged once per evaluation.

    Raise `Failure` for an invalid pattern.
    """
    pattern: Pattern | None = frame.patterns.get(text)
    if pattern is not None:
        return pattern
    computed = frame.computed_patterns
    if computed is None:
        computed = frame.computed_patterns = {}
    pattern = computed.get(text)
    if pattern is None:
        charge_work(frame, compile_work(text))
        pattern = computed[text] = compile_pattern(text)
    return pattern


def compile_work(text: str) -> int:
    """Return the maximum work of compiling; for a pattern that will be rejected, the work of reading it."""
    if len(text) > MAX_LENGTH:
        return len(text) // _SCAN
    return 40 + len(text) // 8 + 2 * _instructions(text)


@lru_cache(maxsize=256)  # each may hold megabytes
def compile_pattern(text: str) -> Pattern:
    """Compile a pattern. Raise `Failure` if it is invalid."""
    if "\\C" in text and _BYTE_ESCAPE.search(text):
        raise Failure(INVALID_PATTERN.format("invalid escape sequence: `\\C`"))
    if len(text) > MAX_LENGTH:
        raise Failure(INVALID_PATTERN.format("expression too large"))
    if text.count("(") > MAX_NESTING and _nesting(text) > MAX_NESTING:
        raise Failure(INVALID_PATTERN.format("expression nests too deeply"))
    try:
        compiled = cast("_Compiled", re2.compile(text, _options()))
    except re2.error as error:
        reason = error.args[0]
        message = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise Failure(INVALID_PATTERN.format(message)) from None
    return Pattern(compiled, unbounded=_UNBOUNDED.search(text) is not None)


_ATOM = _python_re.compile(
    r"\\[pP](?:\{[^}]*\}|.)|\\Q.*?(?:\\E|$)|\\.|\[\^?\]?[^\]]*\]|\{(\d+)(?:,(\d*))?\}|.", _python_re.DOTALL
)


_IGNORES_CASE = _python_re.compile(r"\(\?[a-zA-Z]*i")


def _instructions(text: str) -> int:
    """Estimate the size of the compiled program: atoms times their repetitions."""
    totals, last = [0], 0
    # Without case, each letter matches two or three characters.
    fold = 3 if _IGNORES_CASE.search(text) else 1
    for match in _ATOM.finditer(text):
        atom = match.group()
        if match.group(1) is not None:
            times = max(int(match.group(1)[:5]), int((match.group(2) or "0")[:5]), 1)
            grown = min(last * min(times, _MAX_REPEAT), _MOST_INSTRUCTIONS)
            totals[-1] += grown - last
            last = grown
            continue
        if atom == "(":
            totals.append(1)
            continue
        if atom == ")" and len(totals) > 1:
            last = totals.pop()
            totals[-1] += last
            continue
        if atom in ("*", "+", "?", "|"):
            totals[-1] += 1
            continue
        last = _atom_instructions(atom) * fold
        totals[-1] += last
    return sum(totals)


def _atom_instructions(atom: str) -> int:
    wide = atom.count("\\p") + atom.count("\\P")
    if wide:
        return wide * _UNICODE_CLASS
    if atom[0] == "[":
        return len(atom) + (_ANY_CHARACTER if atom[1:2] == "^" or not atom.isascii() else 0)
    if atom == ".":
        return _ANY_CHARACTER
    return _ESCAPE if atom[0] == "\\" else (1 if atom.isascii() else 3)


def _nesting(text: str) -> int:
    depth = deepest = 0
    for char in text:
        if char == "(":
            depth += 1
            deepest = max(deepest, depth)
        elif char == ")":
            depth -= 1
    return deepest
