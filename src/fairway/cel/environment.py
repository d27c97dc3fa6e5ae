"""Variables and libraries: what an expression can mention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from fairway.cel.checker import Checked, check
from fairway.cel.compiler import Unusable, compile_expression
from fairway.cel.declarations import Library, declare
from fairway.cel.errors import InstantiationError
from fairway.cel.libraries.format import FORMAT
from fairway.cel.libraries.json import JSON
from fairway.cel.libraries.lists import LISTS
from fairway.cel.libraries.network import CIDRS, IPS
from fairway.cel.libraries.optional import OPTIONALS
from fairway.cel.libraries.quantity import QUANTITIES
from fairway.cel.libraries.regex import REGEX
from fairway.cel.libraries.scores import SCORES
from fairway.cel.libraries.semver import SEMVERS
from fairway.cel.libraries.standard import STANDARD
from fairway.cel.libraries.strings import STRINGS
from fairway.cel.libraries.urls import URLS
from fairway.cel.parser import RULE_DEPTH_EXCEEDED, parse
from fairway.cel.program import Program
from fairway.cel.reads import find_reads
from fairway.cel.source import NOWHERE, Issue, Source
from fairway.cel.stack import deep_stack
from fairway.cel.syntax import Expr, children
from fairway.cel.templates import check_templates
from fairway.cel.types import DYN, STRING, Type, map_of

DEFAULT_LIBRARIES: Final[tuple[Library, ...]] = (
    STANDARD, SCORES, JSON, OPTIONALS, STRINGS, LISTS, REGEX, URLS, QUANTITIES, IPS, CIDRS, FORMAT, SEMVERS,
)  # fmt: skip
CLUSTER_VARIABLE: Final = "managedCluster"

SHALLOW: Final = 60
"""Trees up to this depth fit any stack."""


class Environment:
    """Immutable. Compiling is pure: the same text gives an equivalent program every time."""

    __slots__ = ("_declarations",)

    def __init__(
        self, *, variables: Mapping[str, Type], libraries: Sequence[Library] = DEFAULT_LIBRARIES
    ) -> None:
        self._declarations = declare(tuple(libraries), variables)

    def compile(self, text: str) -> Program:
        """Raises `CompileError`, or its subclass `InstantiationError` for a constant that can never work."""
        source = Source(text)
        try:
            if len(text) <= SHALLOW:
                return self._compile(source)
            with deep_stack():
                return self._compile(source)
        except RecursionError:
            raise source.error([Issue(NOWHERE, RULE_DEPTH_EXCEEDED)]) from None

    def _compile(self, source: Source) -> Program:
        root = parse(source)
        checked, issues = check(root, self._declarations)
        issues = issues or check_templates(checked)
        if issues:
            raise source.error(issues)
        return self._program(source, checked)

    def _program(self, source: Source, checked: Checked) -> Program:
        try:
            step, slots = compile_expression(checked)
        except Unusable as unusable:
            message = str(unusable)
            raise InstantiationError(message, line=-1, column=0, message=message) from None
        return Program(
            text=source.text,
            result_type=str(checked.result_type),
            step=step,
            slots=slots,
            reads=find_reads(checked),
            deep=_deeper_than(checked.root, SHALLOW),
        )


def _deeper_than(root: Expr, limit: int) -> bool:
    level: list[Expr] = [root]
    for _ in range(limit):
        level = [child for node in level for child in children(node)]
        if not level:
            return False
    return True


@lru_cache(maxsize=1)
def cluster_environment() -> Environment:
    """Every library, and the variable that predicates over clusters use."""
    return Environment(variables={CLUSTER_VARIABLE: map_of(STRING, DYN)})
