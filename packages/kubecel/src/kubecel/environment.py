"""Environments: the variables and libraries that an expression can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from kubecel.checker import Checked, check
from kubecel.compiler import InvalidConstant, compile_expression
from kubecel.constants import check_constants, check_uniformity
from kubecel.declarations import Dialect, Library, Structs, declare
from kubecel.errors import CompileWorkExceeded, InstantiationError, Overrun
from kubecel.frame import UNLIMITED, Meter
from kubecel.libraries.format import FORMAT
from kubecel.libraries.json import JSON
from kubecel.libraries.lists import LISTS
from kubecel.libraries.network import CIDRS, IPS
from kubecel.libraries.optional import OPTIONALS
from kubecel.libraries.quantity import QUANTITIES
from kubecel.libraries.regex import REGEX
from kubecel.libraries.rule_costs import recosted
from kubecel.libraries.scores import SCORES
from kubecel.libraries.semver import SEMVERS
from kubecel.libraries.sequences import ENTRIES, SEQUENCES
from kubecel.libraries.sets import SETS
from kubecel.libraries.standard import STANDARD
from kubecel.libraries.strings import STRINGS
from kubecel.libraries.urls import URLS
from kubecel.macros import RECEIVER_MACROS, TWO_VARIABLE_MACROS
from kubecel.parser import RULE_DEPTH_EXCEEDED, parse
from kubecel.program import Program
from kubecel.reads import find_reads
from kubecel.source import NOWHERE, Issue, Source
from kubecel.stack import deep_stack
from kubecel.syntax import Expr, children
from kubecel.templates import check_templates
from kubecel.types import DYN, STRING, Type, map_of

DEFAULT_LIBRARIES: Final[tuple[Library, ...]] = (
    STANDARD, SCORES, JSON, OPTIONALS, STRINGS, LISTS, REGEX, URLS, QUANTITIES, IPS, CIDRS, FORMAT, SEMVERS,
)  # fmt: skip
RULE_LIBRARIES: Final[tuple[Library, ...]] = (
    STANDARD, OPTIONALS, *map(recosted, (STRINGS, LISTS, REGEX, URLS, QUANTITIES, IPS, CIDRS, FORMAT, SEMVERS)),
    SEQUENCES, SETS, ENTRIES,
)  # fmt: skip
CLUSTER_VARIABLE: Final = "managedCluster"

_ALL_MACROS: Final = RECEIVER_MACROS | TWO_VARIABLE_MACROS

COMPILE_WORK_EXCEEDED: Final = "expression takes more than {} units of work to compile; write a shorter one"

SHALLOW: Final = 60
"""Maximum depth of trees that need no larger stack."""


class Environment:
    """Variables and libraries. Immutable; compiling has no side effects."""

    __slots__ = ("_declarations",)

    def __init__(
        self,
        *,
        variables: Mapping[str, Type],
        libraries: Sequence[Library] = DEFAULT_LIBRARIES,
        structs: Structs | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        self._declarations = declare(tuple(libraries), variables, structs, dialect)

    def extended(self, *, variables: Mapping[str, Type], structs: Structs | None = None) -> Environment:
        """Return a copy with other variables, which is cheaper than a new environment."""
        environment = Environment.__new__(Environment)
        environment._declarations = replace(
            self._declarations, variables=dict(variables), structs=structs or self._declarations.structs
        )
        return environment

    def compile(self, text: str, *, work_limit: int = UNLIMITED) -> Program:
        """Compile an expression.

        Raise `CompileError`; `InstantiationError` for an invalid constant, `CompileWorkExceeded` if compiling takes
        more work than ``work_limit`` (see `frame`).
        """
        return self.compile_checked(text, work_limit=work_limit)[0]

    def compile_checked(self, text: str, *, work_limit: int = UNLIMITED) -> tuple[Program, Checked]:
        """Return the program and the result of the checker; raises like ``compile``."""
        source = Source(text)
        meter = Meter(work_limit=work_limit)
        try:
            if len(text) <= SHALLOW:
                return self._compile(source, meter)
            with deep_stack():
                return self._compile(source, meter)
        except RecursionError:
            raise source.error([Issue(NOWHERE, RULE_DEPTH_EXCEEDED)]) from None
        except Overrun:
            words = str(source.error([Issue(NOWHERE, COMPILE_WORK_EXCEEDED.format(work_limit))]))
            raise CompileWorkExceeded(words, line=NOWHERE, column=0, message=words) from None

    def _compile(self, source: Source, meter: Meter) -> tuple[Program, Checked]:
        dialect = self._declarations.dialect
        root = parse(source, _ALL_MACROS if dialect.two_variables else RECEIVER_MACROS, meter)
        checked, issues = check(root, self._declarations, meter)
        issues = issues or check_templates(checked)
        if not issues and dialect.checked_constants:
            issues = check_constants(checked)
        if not issues and dialect.uniform:
            issues = check_uniformity(checked)
        if issues:
            raise source.error(issues)
        return self._program(source, checked, meter), checked

    def _program(self, source: Source, checked: Checked, meter: Meter) -> Program:
        try:
            compiled = compile_expression(
                checked, meter, free_constants=self._declarations.dialect.free_constants
            )
        except InvalidConstant as unusable:
            message = str(unusable)
            raise InstantiationError(message, line=-1, column=0, message=message) from None
        return Program(
            text=source.text,
            result_type=str(checked.result_type),
            step=compiled.step,
            slots=compiled.slots,
            patterns=compiled.patterns,
            reads=find_reads(checked),
            deep=_deeper_than(checked.root, SHALLOW),
            compile_work=meter.work,
        )


def _deeper_than(root: Expr, limit: int) -> bool:
    level: list[Expr] = [root]
    for _ in range(limit):
        level = [child for node in level for child in children(node)]
        if not level:
            return False
    return True


@lru_cache(maxsize=1)
def rule_environment() -> Environment:
    """Return the environment of validation rules of custom resources; extend it with their variables."""
    return Environment(
        variables={},
        libraries=RULE_LIBRARIES,
        dialect=Dialect(
            uniform=True, mixed_numbers=True, checked_constants=True, free_constants=True, two_variables=True
        ),
    )


@lru_cache(maxsize=1)
def cluster_environment() -> Environment:
    """Return the environment of cluster predicates: every library, and the variable ``managedCluster``."""
    return Environment(variables={CLUSTER_VARIABLE: map_of(STRING, DYN)})
