"""Split text into tokens.

Characters that start no token are reported and skipped as in the reference (up to and including the first character
that no token contains), so that the position of the first error is the same.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kubecel.frame import Meter, charge_work
from kubecel.source import Issue

KEYWORDS = frozenset({"in", "true", "false", "null"})
END = "<EOF>"

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"
_STRING = "|".join(
    (
        r'[rR]"""(?s:.)*?"""',
        r"[rR]'''(?s:.)*?'''",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
        rf'"""(?:{_ESCAPE}|[^\\])*?"""',
        rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        rf'"[^\\"\n\r]*(?:{_ESCAPE}[^\\"\n\r]*)*"',
        rf"'[^\\'\n\r]*(?:{_ESCAPE}[^\\'\n\r]*)*'",
    )
)
_TOKEN = re.compile(
    rf"""
      (?P<skip>[\t \r\n\f]+|//[^\n]*)
    | (?P<bytes>[bB](?:{_STRING}))
    | (?P<string>{_STRING})
    | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
    | (?P<ident>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<escaped>`[A-Za-z0-9_.\-/\ ]+`)
    | (?P<op>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)
_ESCAPED_IDENT_PREFIX = re.compile(r"`[A-Za-z0-9_.\-/ ]*")
_QUOTED_PREFIX = {quote: re.compile(rf"{quote}(?:{_ESCAPE}|[^\\{quote}\n\r])*") for quote in ('"', "'")}
_ESCAPE_PREFIX = re.compile(r"\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?")


class Token(NamedTuple):
    """``kind`` is the operator or keyword itself, or one of int, uint, float, string, bytes, ident, escaped."""

    kind: str
    text: str
    offset: int


TOKEN_WORK = 4
ISSUE_WORK = 16
"""Units of work (see `frame`) to parse a token, and to skip an invalid one."""
_BATCH = 256


def tokenize(text: str, meter: Meter | None = None) -> tuple[list[Token], list[Issue]]:
    """Return the tokens. Raise `Overrun` at the limit of the meter."""
    meter = meter or Meter()
    tokens: list[Token] = []
    issues: list[Issue] = []
    position, size = 0, len(text)
    match_token = _TOKEN.match
    while position < size:
        match = match_token(text, position)
        if match is None:
            charge_work(meter, ISSUE_WORK)
            end = min(_unlexable_end(text, position) + 1, size)
            issues.append(
                Issue(
                    position, f"Syntax error: token recognition error at: '{_printable(text[position:end])}'"
                )
            )
            position = end
            continue
        kind = match.lastgroup
        if kind != "skip":
            if len(tokens) % _BATCH == 0:
                charge_work(meter, _BATCH * TOKEN_WORK if tokens else TOKEN_WORK)
            lexeme = match.group()
            if kind == "op" or (kind == "ident" and lexeme in KEYWORDS):
                tokens.append(Token(lexeme, lexeme, position))
            else:
                tokens.append(Token(kind or "", lexeme, position))
        position = match.end()
    tokens.append(Token(END, END, size))
    return tokens, issues


def _unlexable_end(text: str, start: int) -> int:
    """Return the offset of the first character that no token beginning at ``start`` contains."""
    char = text[start]
    if char in _QUOTED_PREFIX:
        prefix = _QUOTED_PREFIX[char].match(text, start)
        end = prefix.end() if prefix else start
        if text[end : end + 1] == "\\":
            escape = _ESCAPE_PREFIX.match(text, end)
            end = escape.end() if escape else end
        return end
    if char == "`":
        prefix = _ESCAPED_IDENT_PREFIX.match(text, start)
        return prefix.end() if prefix else start
    return start + 1 if char in "&|=" else start


def _printable(text: str) -> str:
    return text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
