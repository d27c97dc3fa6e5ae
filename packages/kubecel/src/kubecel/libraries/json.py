"""``text.parseJSON()``.

All numbers become doubles, the last value of a repeated key counts, and nesting is limited as in the reference. Text
too deep for the standard parser is parsed without recursion.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

from kubecel.cost import CREATE_LIST, CREATE_MAP, traversal
from kubecel.declarations import Function, Library, Overload
from kubecel.errors import Failure
from kubecel.types import DYN, STRING
from kubecel.values import size_of

MAX_DEPTH: Final = 10_000
INVALID: Final = "failed to parse json: {}"
TOO_DEEP: Final = "exceeded max depth"

_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: Final = {"true": True, "false": False, "null": None}
_scan_string = json.decoder.scanstring  # type: ignore[attr-defined] # public in all but the stub


class _RefusedError(ValueError):
    pass


def _constant(name: str) -> NoReturn:
    raise _RefusedError(f"invalid literal {name}")


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _RefusedError(f"cannot unmarshal number {text} into Go value of type float64")
    return value


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return {_text(key): _text(value) if type(value) is str else value for key, value in pairs}


def _text(value: Any) -> Any:
    """Replace lone surrogates, as the reference does."""
    return _SURROGATE.sub("\ufffd", value) if _SURROGATE.search(value) else value


_DECODER = json.JSONDecoder(
    parse_int=_number, parse_float=_number, parse_constant=_constant, object_pairs_hook=_object
)


def parse_json(text: str) -> object:
    try:
        try:
            value = _DECODER.decode(text)
        except RecursionError:
            value = _parse_deep(text)
    except ValueError as error:
        raise Failure(INVALID.format(error)) from None
    if "\\u" in text:
        return _clean(value)
    return value


def _clean(value: object) -> object:
    """Replace lone surrogates in strings outside objects, in place and without recursion."""
    if isinstance(value, str):
        return _text(value)
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            for index, item in enumerate(node):
                if isinstance(item, str):
                    node[index] = _text(item)
                else:
                    pending.append(item)
        elif isinstance(node, dict):
            pending.extend(node.values())
    return value


def _parse_deep(text: str) -> object:
    """Parse JSON with an explicit stack."""
    stack: list[tuple[Any, str | None]] = []
    container: Any = None
    key: str | None = None
    at = _skip(text, 0)
    while True:
        char = text[at : at + 1]
        value: object
        if char == "[" or char == "{":
            if len(stack) >= MAX_DEPTH:
                raise _RefusedError(TOO_DEEP)
            stack.append((container, key))
            container = [] if char == "[" else {}
            at = _skip(text, at + 1)
            if text[at : at + 1] == ("]" if char == "[" else "}"):
                value, at = container, at + 1
                container, key = stack.pop()
            else:
                if char == "{":
                    key, at = _key(text, at)
                continue
        else:
            value, at = _leaf(text, at)
        while True:
            at = _skip(text, at)
            if container is None:
                if at != len(text):
                    raise _RefusedError("invalid character after top-level value")
                return value
            is_list = isinstance(container, list)
            if is_list:
                container.append(value)
            else:
                container[key] = value
            following = text[at : at + 1]
            if following == ",":
                at = _skip(text, at + 1)
                if not is_list:
                    key, at = _key(text, at)
                break
            if following != ("]" if is_list else "}"):
                raise _RefusedError("invalid character after element")
            value, at = container, at + 1
            container, key = stack.pop()


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _key(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        raise _RefusedError("invalid character looking for beginning of object key string")
    key, at = _scan_string(text, at + 1)
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise _RefusedError("invalid character after object key")
    return _text(key), _skip(text, at + 1)


def _leaf(text: str, at: int) -> tuple[object, int]:
    if text[at : at + 1] == '"':
        value, end = _scan_string(text, at + 1)
        return _text(value), end
    for word, constant in _WORDS.items():
        if text.startswith(word, at):
            return constant, at + len(word)
    match = _NUMBER.match(text, at)
    if match is None:
        raise _RefusedError("invalid character looking for beginning of value")
    return _number(match.group()), match.end()


def _cost(args: tuple[Any, ...], result: object) -> int:
    """Return the cost of reading the text and creating every list and map of the result."""
    total = traversal(size_of(args[0]))
    pending = [result]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            total += CREATE_LIST
            pending.extend(node)
        elif isinstance(node, dict):
            total += CREATE_MAP
            pending.extend(node.values())
    return total


JSON = Library(
    "open-cluster-management.json",
    (
        Function(
            "parseJSON", (Overload("parse_json_string", (STRING,), DYN, parse_json, member=True),), cost=_cost
        ),
    ),
)
