"""Kubernetes' ``find`` and ``findAll``.

A constant pattern is compiled with the expression; if it is malformed, so is the expression.
"""

from __future__ import annotations

from fairway.cel.declarations import Function, Library, Overload
from fairway.cel.regex import compile_pattern
from fairway.cel.types import INT, STRING, list_of

CONSTANT_PATTERN_FUNCTIONS = frozenset({"find", "findAll"})


def _find(text: str, pattern: str) -> object:
    return compile_pattern(pattern).find(text)


def _find_all(text: str, pattern: str, limit: int = -1) -> object:
    return list(compile_pattern(pattern).find_all(text, limit))


_STRINGS = list_of(STRING)

REGEX = Library(
    "kubernetes.regex",
    (
        Function("find", (Overload("string_find_string", (STRING, STRING), STRING, _find, member=True),)),
        Function(
            "findAll",
            (
                Overload("string_find_all_string", (STRING, STRING), _STRINGS, _find_all, member=True),
                Overload(
                    "string_find_all_string_int",
                    (STRING, STRING, INT),
                    _STRINGS,
                    _find_all,
                    member=True,
                    variadic=True,
                ),
            ),
        ),
    ),
)
