"""Kubernetes' ``find`` and ``findAll``.

A constant pattern is compiled with the expression, and an invalid one is a compile error.
"""

from __future__ import annotations

from kubecel.declarations import Function, Library, Metered, Overload
from kubecel.frame import Frame
from kubecel.regex import pattern_for
from kubecel.types import INT, STRING, list_of

CONSTANT_PATTERN_FUNCTIONS = frozenset({"find", "findAll"})
PATTERN_FUNCTIONS = CONSTANT_PATTERN_FUNCTIONS | {"matches"}


def _find_first(frame: Frame, text: str, pattern: str) -> object:
    return pattern_for(frame, pattern).find(frame, text)


def _find_every(frame: Frame, text: str, pattern: str, limit: int = -1) -> object:
    return list(pattern_for(frame, pattern).find_all(frame, text, limit))


_find, _find_all = Metered(_find_first), Metered(_find_every)
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
