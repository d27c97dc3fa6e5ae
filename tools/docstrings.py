"""Report docstrings whose first verb contradicts the return annotation of the function.

"Return" needs an annotation other than None, "Yield" that of an iterator or generator.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = (
    "src/**/*.py",
    "packages/**/*.py",
    "tests/**/*.py",
    "tools/*.py",
    "benchmarks/**/*.py",
    "deploy/*.py",
)
ITERATORS: Final = frozenset({"Iterator", "Generator", "AsyncIterator", "AsyncGenerator", "Steps"})
"""``Steps`` of fairway.hosts.steps is a Generator."""
NOTHING: Final = frozenset({"None", "NoReturn", "Never"})

RETURNS_NOTHING: Final = '"Return" on a function that returns None'
YIELDS_NOTHING: Final = '"Yield" on a function that returns {annotation}, not an iterator'

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Violation:
    path: str
    line: int
    function: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.function}: {self.problem}"


def check(path: str, text: str) -> Iterator[Violation]:
    """Yield the functions whose docstring contradicts their annotation."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function) and (problem := _problem(node)):
            yield Violation(path, node.lineno, node.name, problem)


def _problem(function: Function) -> str:
    words = (ast.get_docstring(function) or "").split(maxsplit=1)
    if function.returns is None or not words:
        return ""
    annotation = ast.unparse(function.returns).strip("'\"")
    match words[0]:
        case "Return" if annotation in NOTHING:
            return RETURNS_NOTHING
        case "Yield" if annotation.partition("[")[0].rpartition(".")[2] not in ITERATORS:
            return YIELDS_NOTHING.format(annotation=annotation)
        case _:
            return ""


def main() -> int:
    paths = sorted({path for glob in SOURCES for path in ROOT.glob(glob)})
    violations = [
        violation
        for path in paths
        for violation in check(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    ]
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
