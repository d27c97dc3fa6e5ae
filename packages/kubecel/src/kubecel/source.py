"""The text of an expression, and the report of its errors."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from kubecel.errors import CompileError

EXPRESSION_SIZE_LIMIT = 100_000
MAX_REPORTED = 100
MAX_SNIPPET_BYTES = 16_384
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Issue:
    """An error. ``offset`` is in code points; `NOWHERE` is the text as a whole."""

    offset: int
    message: str


class Source:
    __slots__ = ("_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = text.find("\n", at + 1)

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column as in the report."""
        if offset == NOWHERE:
            return -1, 0
        if not self.text:
            return 1, 0
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def snippet(self, line: int) -> str | None:
        if not 1 <= line <= len(self._starts):
            return None
        start = self._starts[line - 1]
        end = self._starts[line] - 1 if line < len(self._starts) else len(self.text)
        return self.text[start:end]

    def error(self, issues: list[Issue]) -> CompileError:
        """Return one error with all issues, ordered by position."""
        placed = sorted(
            ((self.position(issue.offset), issue.message) for issue in issues), key=lambda p: p[0]
        )
        (line, column), message = placed[0]
        lines = [self._display(place, text) for place, text in placed[:MAX_REPORTED]]
        if len(placed) > MAX_REPORTED:
            lines.append(f"{len(placed) - MAX_REPORTED} more errors were truncated")
        return CompileError("\n".join(lines), line=line, column=column, message=message)

    def _display(self, place: tuple[int, int], message: str) -> str:
        line, column = place
        head = f"ERROR: <input>:{line}:{column}: {message}"
        snippet = self.snippet(line)
        if (
            not self.text
            or snippet is None
            or len(snippet.encode("utf-8", "surrogatepass")) > MAX_SNIPPET_BYTES
        ):
            return head
        snippet = snippet.replace("\t", " ")
        before = "".join("." if char < "\x80" else "\uff0e" for char in snippet[: column - 1])
        here = snippet[column - 1 : column]
        mark = "\uff3e" if here and here >= "\x80" else "^"
        return f"{head}\n | {snippet}\n | {before}{mark}"
