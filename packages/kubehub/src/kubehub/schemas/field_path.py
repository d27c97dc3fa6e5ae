"""``fieldPath`` of a rule and ``jsonPath`` of a selectable field: paths to declared fields."""

import re
from collections.abc import Iterator
from typing import Final

from kubehub.schema import Node

UNEXPECTED_END: Final = "unexpected end of JSON path"
NO_FIELD: Final = "does not refer to a valid field"
NO_BRACKETS: Final = "array notation is not allowed"
NOT_QUOTED: Final = "expected single quoted string but got {}"
BAD_ESCAPE: Final = "invalid string literal: invalid escape char {}"
NOT_CLOSED: Final = "expected ] but got {}"
NO_START: Final = "expected [ or . but got: {}"

_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.|(?<=\\)')*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_CHARACTERS: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "'": "'",
    "\\": "\\",
}


class PathError(ValueError):
    """The messages are Kubernetes'."""


def resolve(path: str, node: Node, *, brackets: bool = True) -> tuple[str, Node]:
    """Return the path as printed, and its node. Raises PathError."""
    shown = ""
    tokens = iter(_TOKEN.findall(path))
    for token in tokens:
        if token == ".":
            name = _take_token(tokens)
        elif token == "[":
            if not brackets:
                raise PathError(NO_BRACKETS)
            name = _unquote(_take_token(tokens))
        else:
            raise PathError(NO_START.format(token))
        if node.properties:
            child = node.properties.get(name)
            shown = f"{shown}.{name}" if shown else name
        else:
            child = node.additional
            shown = f"{shown}[{name}]"
        if child is None:
            raise PathError(NO_FIELD)
        node = child
        if token == "[":
            closing = _take_token(tokens)
            if closing != "]":
                raise PathError(NOT_CLOSED.format(closing))
    return shown, node


def _take_token(tokens: Iterator[str]) -> str:
    token = next(tokens, None)
    if token is None:
        raise PathError(UNEXPECTED_END)
    return token


def _unquote(token: str) -> str:
    if len(token) < 2 or not (token.startswith("'") and token.endswith("'")):
        raise PathError(NOT_QUOTED.format(token))

    def character(escape: re.Match[str]) -> str:
        if escape[1] not in _CHARACTERS:
            raise PathError(BAD_ESCAPE.format(escape[0]))
        return _CHARACTERS[escape[1]]

    return _ESCAPE.sub(character, token[1:-1])
