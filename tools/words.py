"""Report words that users stumble over, in docs and in the strings of src. The list is words.toml, beside this file."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
WORDS: Final = Path(__file__).with_name("words.toml")
DOCUMENTS: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**/*.md", "deploy/**/*.md")
SOURCES: Final = "src/fairway/**/*.py"
LITERAL: Final = re.compile(r"<!-- generated: .*?<!-- end -->|```.*?```|`[^`\n]*`", re.DOTALL)
"""Code and generated parts in Markdown: their strings are checked in src."""


@dataclass(frozen=True, slots=True)
class Word:
    pattern: re.Pattern[str]
    reason: str


@dataclass(frozen=True, slots=True)
class Violation:
    path: str
    line: int
    found: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found!r}: {self.reason}"


def load(text: str) -> tuple[tuple[Word, ...], tuple[str, ...]]:
    """Return the words and the pending folders of a words.toml."""
    document = tomllib.loads(text)
    words = tuple(
        Word(re.compile(rf"\b(?:{each['pattern']})\b", re.IGNORECASE), each["reason"])
        for each in document["word"]
    )
    return words, tuple(document["pending"]["folders"])


def check_markdown(path: str, text: str, words: tuple[Word, ...]) -> Iterator[Violation]:
    prose = LITERAL.sub(lambda code: re.sub(r"[^\n]", " ", code.group()), text)
    yield from _matches(path, 1, prose, words)


def check_source(path: str, text: str, words: tuple[Word, ...]) -> Iterator[Violation]:
    """Check every string except docstrings, which users do not see."""
    tree = ast.parse(text)
    docstrings = {
        id(each.value)
        for each in ast.walk(tree)
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
    }
    for each in ast.walk(tree):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in docstrings:
            yield from _matches(path, each.lineno, each.value, words)


def _matches(path: str, first: int, text: str, words: tuple[Word, ...]) -> Iterator[Violation]:
    for word in words:
        for match in word.pattern.finditer(text):
            yield Violation(path, first + text.count("\n", 0, match.start()), match.group(), word.reason)


def main() -> int:
    words, pending = load(WORDS.read_text(encoding="utf-8"))
    unclean: set[str] = set()
    reported = 0
    for kind, globs in ((check_markdown, DOCUMENTS), (check_source, (SOURCES,))):
        for file in sorted({file for glob in globs for file in ROOT.glob(glob)}):
            path = file.relative_to(ROOT).as_posix()
            folder = next((each for each in pending if path.startswith(f"{each}/")), "")
            for violation in kind(path, file.read_text(encoding="utf-8"), words):
                if folder:
                    unclean.add(folder)
                else:
                    reported += 1
                    print(violation)
    for folder in sorted(set(pending) - unclean):
        print(f"{folder} is clean: delete it from [pending] in {WORDS.relative_to(ROOT)}")
    return 1 if reported else 0


if __name__ == "__main__":
    sys.exit(main())
