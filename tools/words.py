"""Report words that readers stumble over, in docs, strings, docstrings and comments, and names that say nothing.

The lists are in words.toml, beside this file.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
WORDS: Final = Path(__file__).with_name("words.toml")
DOCUMENTS: Final = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
    "deploy/**/*.md",
    "packages/*/README.md",
)
SOURCES: Final = ("src/**/*.py", "packages/*/src/**/*.py")
"""Code whose strings users read."""
CODE: Final = (
    "src/**/*.py",
    "packages/**/*.py",
    "tests/**/*.py",
    "tools/*.py",
    "benchmarks/**/*.py",
    "deploy/*.py",
    "examples/**/*.py",
)
"""Code whose names, docstrings and comments developers read."""
LITERAL: Final = re.compile(r"<!-- generated: .*?<!-- end -->|```.*?```|``[^`\n]*``|`[^`\n]*`", re.DOTALL)
"""Code in prose, and generated parts of Markdown: their strings are checked in src."""


@dataclass(frozen=True, slots=True)
class Word:
    pattern: re.Pattern[str]
    reason: str


@dataclass(frozen=True, slots=True)
class Violation:
    path: str
    line: int
    match: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.match!r}: {self.reason}"


Check = Callable[[str, str], Iterable[Violation]]


@dataclass(frozen=True, slots=True)
class Lists:
    words: tuple[Word, ...]
    pending: tuple[str, ...]
    """Folders whose strings, docstrings and comments may still contain the words."""
    names: Mapping[str, str]
    """Names of variables that say nothing, with the reason."""
    pending_names: tuple[str, ...]
    """Folders whose code may still have variables with these names."""


def load(text: str) -> Lists:
    document = tomllib.loads(text)
    return Lists(
        words=tuple(
            Word(re.compile(rf"\b(?:{word['pattern']})\b", re.IGNORECASE), word["reason"])
            for word in document["word"]
        ),
        pending=tuple(document["pending"]["folders"]),
        names={name["name"]: name["reason"] for name in document.get("name", ())},
        pending_names=tuple(document.get("pending_names", {}).get("folders", ())),
    )


def check_markdown(path: str, text: str, words: tuple[Word, ...]) -> Iterator[Violation]:
    yield from _matches(path, 1, _without_code(text), words)


def check_source(path: str, text: str, words: tuple[Word, ...]) -> Iterator[Violation]:
    """Check every string except docstrings, which users do not see."""
    if not _any_of(words).search(text):
        return
    tree = ast.parse(text)
    docstrings = {id(docstring) for docstring in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from _matches(path, node.lineno, node.value, words)


def check_comments(path: str, text: str, words: tuple[Word, ...]) -> Iterator[Violation]:
    """Check docstrings and comments, except code in them."""
    # Few files have such words, and a search is faster than parsing and splitting into tokens.
    if not _any_of(words).search(text):
        return
    for docstring in _docstrings(ast.parse(text)):
        if isinstance(docstring.value, str):
            yield from _matches(path, docstring.lineno, _without_code(docstring.value), words)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from _matches(path, token.start[0], _without_code(token.string), words)


def _docstrings(tree: ast.Module) -> list[ast.Constant]:
    """List the strings that are statements: docstrings, also of constants and fields."""
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]


def check_names(path: str, text: str, names: Mapping[str, str]) -> Iterator[Violation]:
    """Check variables, loop variables and parameters, but not attributes and keywords, which callers see."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in names:
                yield Violation(path, node.lineno, name, names[name])


@cache
def _any_of(words: tuple[Word, ...]) -> re.Pattern[str]:
    return re.compile("|".join(word.pattern.pattern for word in words), re.IGNORECASE)


def _without_code(text: str) -> str:
    """Return the text with blanks in place of code, so that lines keep their numbers."""
    return LITERAL.sub(lambda code: re.sub(r"[^\n]", " ", code.group()), text)


def _matches(path: str, first: int, text: str, words: tuple[Word, ...]) -> Iterator[Violation]:
    for word in words:
        for match in word.pattern.finditer(text):
            yield Violation(path, first + text.count("\n", 0, match.start()), match.group(), word.reason)


def main() -> int:
    lists = load(WORDS.read_text(encoding="utf-8"))
    words_checks = (
        (DOCUMENTS, partial(check_markdown, words=lists.words)),
        (SOURCES, partial(check_source, words=lists.words)),
        (CODE, partial(check_comments, words=lists.words)),
    )
    names_checks = ((CODE, partial(check_names, names=lists.names)),)
    reported = _report("pending", lists.pending, words_checks)
    reported += _report("pending_names", lists.pending_names, names_checks)
    return 1 if reported else 0


def _report(table: str, pending: tuple[str, ...], checks: Iterable[tuple[tuple[str, ...], Check]]) -> int:
    """Print violations outside of pending folders, and pending folders without any. Return the number of the former."""
    unclean: set[str] = set()
    reported = 0
    for globs, check in checks:
        for file in sorted({file for glob in globs for file in ROOT.glob(glob)}):
            path = file.relative_to(ROOT).as_posix()
            folder = next((folder for folder in pending if path.startswith(f"{folder}/")), "")
            for violation in check(path, file.read_text(encoding="utf-8")):
                if folder:
                    unclean.add(folder)
                else:
                    reported += 1
                    print(violation)
    for folder in sorted(set(pending) - unclean):
        print(f"{folder} is clean: delete it from [{table}] in {WORDS.relative_to(ROOT)}")
    return reported


if __name__ == "__main__":
    sys.exit(main())
