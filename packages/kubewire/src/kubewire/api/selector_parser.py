"""Parse label selectors in kubectl's notation, such as ``env in (prod,stage),!edge``, with Kubernetes' messages."""

import re
from typing import Final

from kubewire.api import naming
from kubewire.api.selector import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    LabelSelectorRequirement,
    SelectorError,
    quote,
)

GREATER: Final = "Gt"
LESS: Final = "Lt"
"""Operators that selectors in queries have, but not those in objects."""

_TOKEN: Final = re.compile(r"\s*(==|!=|=|<|>|,|\(|\)|!|[^\s=!,()<>]+)")
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,100}", re.ASCII)
"""Leading zeros are allowed, within the digits that int() accepts."""


def parse_selector(text: str) -> tuple[LabelSelectorRequirement, ...]:
    """Return the requirements; an empty text has none. Raises SelectorError."""
    reader = _Reader(text)
    requirements: list[LabelSelectorRequirement] = []
    while reader.at < len(reader.tokens):
        requirements.append(_requirement(reader))
        separator = reader.take()
        if separator not in ("", ","):
            raise SelectorError(f"found '{separator}', expected: ',' or 'end of string'")
        if separator == "," and reader.peek() in ("", ","):
            raise SelectorError(f"found '{reader.peek()}', expected: identifier after ','")
    return tuple(requirements)


def parse_int64(text: str) -> int | None:
    """Parse a 64-bit number as Kubernetes does."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _refuse(message: str) -> SelectorError:
    return SelectorError(f"unable to parse requirement: {message}")


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = self._split(text)
        self.at = 0

    @staticmethod
    def _split(text: str) -> list[str]:
        tokens, position = [], 0
        text = text.strip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise _refuse(f"found {text[position]!r}")
            tokens.append(match[1])
            position = match.end()
        return tokens

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token


def _is_word(token: str) -> bool:
    return token not in ("", "=", "==", "!=", "<", ">", ",", "(", ")", "!")


def _key(token: str) -> str:
    if not _is_word(token):
        raise _refuse(f"found '{token}', expected: identifier")
    if faults := naming.label_key(token):
        raise _refuse(f"<nil>: Invalid value: {quote(token)}: {'; '.join(faults)}")
    return token


def _value(key: str, token: str) -> str:
    if faults := naming.label_value(token):
        raise _refuse(f"values[0][{key}]: Invalid value: {quote(token)}: {'; '.join(faults)}")
    return token


def _requirement(reader: _Reader) -> LabelSelectorRequirement:
    first = reader.take()
    if first == "!":
        return LabelSelectorRequirement(key=_key(reader.take()), operator=DOES_NOT_EXIST)
    if not _is_word(first):
        raise SelectorError(f"found '{first}', expected: !, identifier, or 'end of string'")
    key = _key(first)
    sign = reader.peek()
    if sign in ("", ","):
        return LabelSelectorRequirement(key=key, operator=EXISTS)
    reader.take()
    if sign in ("=", "==", "!="):
        if reader.peek() not in ("", ",") and not _is_word(reader.peek()):
            raise _refuse(f"found '{reader.peek()}', expected: identifier")
        values = [reader.take() if _is_word(reader.peek()) else ""]
        operator = NOT_IN if sign == "!=" else IN
    elif sign in ("in", "notin"):
        values = _values(reader)
        operator = IN if sign == "in" else NOT_IN
    elif sign in ("<", ">"):
        values = [reader.take()]
        operator = LESS if sign == "<" else GREATER
        if parse_int64(values[0]) is None:
            raise _refuse(
                f"values[0]: Invalid value: {quote(values[0])}: for 'Gt', 'Lt' operators, the value must be an "
                "integer"
            )
    else:
        raise _refuse(f"found '{sign}', expected: in, notin, =, ==, !=, gt, lt")
    return LabelSelectorRequirement(
        key=key, operator=operator, values=tuple(_value(key, value) for value in values)
    )


def _values(reader: _Reader) -> list[str]:
    if (opened := reader.take()) != "(":
        raise _refuse(f"found '{opened}' expected: '('")
    values: list[str] = []
    while True:
        token = reader.take()
        if _is_word(token):
            values.append(token)
            token = reader.take()
        else:
            values.append("")
        if token == ")":
            return values
        if token != ",":
            raise _refuse(f"found '{token}', expected: ',' or ')'")
