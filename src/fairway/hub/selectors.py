"""Label and field selectors of a query: parsed once, then matched against each object."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairway.api.selector import LabelSelector, compile_selector
from fairway.hub import status
from fairway.hub.go_format import INT64_MAX, INT64_MIN, shown
from fairway.hub.resource import Document, Resource
from fairway.hub.schemas import naming

_TOKEN: Final = re.compile(r"\s*(==|!=|=|<|>|,|\(|\)|!|[^\s=!,()<>]+)")
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,100}", re.ASCII)
"""Leading zeros are allowed, within the digits that int() accepts."""
_TERM: Final = re.compile(r"(?:[^\\,]++|\\.?)+", re.DOTALL)
_OPERATOR: Final = re.compile(r"!=|==|=")
_ESCAPED: Final = "\\,="

Predicate = Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True)
class Labels:
    """A label selector. An empty one selects everything."""

    requirements: tuple[Predicate, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(accepts(labels) for accepts in self.requirements)


def _refuse(message: str) -> status.Refusal:
    return status.bad_request(f"unable to parse requirement: {message}")


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = self._split(text)
        self.at = 0

    @staticmethod
    def _split(text: str) -> list[str]:
        tokens, position = [], 0
        text = text.strip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise _refuse(f"found {text[position]!r}")
            tokens.append(found[1])
            position = found.end()
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
        raise _refuse(f"<nil>: Invalid value: {shown(token)}: {'; '.join(faults)}")
    return token


def _value(key: str, token: str) -> str:
    if faults := naming.label_value(token):
        raise _refuse(f"values[0][{key}]: Invalid value: {shown(token)}: {'; '.join(faults)}")
    return token


def labels(text: str) -> Labels:
    """Parse a label selector. Raises a 400 that names the invalid part."""
    reader = _Reader(text)
    requirements: list[Predicate] = []
    while reader.at < len(reader.tokens):
        requirements.append(_requirement(reader))
        separator = reader.take()
        if separator not in ("", ","):
            raise status.bad_request(f"found '{separator}', expected: ',' or 'end of string'")
        if separator == "," and not reader.peek():
            raise status.bad_request("found '', expected: identifier after ','")
        if separator == "," and reader.peek() == ",":
            raise status.bad_request("found ',', expected: identifier after ','")
    return Labels(tuple(requirements))


def _requirement(reader: _Reader) -> Predicate:
    first = reader.take()
    if first == "!":
        key = _key(reader.take())
        return lambda labels: key not in labels
    if not _is_word(first):
        raise status.bad_request(f"found '{first}', expected: !, identifier, or 'end of string'")
    key = _key(first)
    operator = reader.peek()
    if operator in ("", ","):
        return lambda labels: key in labels
    reader.take()
    if operator in ("=", "==", "!="):
        if reader.peek() not in ("", ",") and not _is_word(reader.peek()):
            raise _refuse(f"found '{reader.peek()}', expected: identifier")
        token = reader.take() if _is_word(reader.peek()) else ""
        wanted = _value(key, token)
        if operator == "!=":
            return lambda labels: labels.get(key) != wanted
        return lambda labels: labels.get(key) == wanted
    if operator in ("in", "notin"):
        values = frozenset(_value(key, each) for each in _values(reader))
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if operator in ("<", ">"):
        return _compared(key, operator, reader.take())
    raise _refuse(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _compared(key: str, operator: str, token: str) -> Predicate:
    bound = _whole(token)
    if bound is None:
        raise _refuse(
            f"values[0]: Invalid value: {shown(token)}: for 'Gt', 'Lt' operators, the value must be an integer"
        )
    _value(key, token)

    def accepts(labels: Mapping[str, str]) -> bool:
        found = _whole(labels.get(key, ""))
        if found is None:
            return False
        return found > bound if operator == ">" else found < bound

    return accepts


def _whole(text: str) -> int | None:
    """Parse a 64-bit number as Kubernetes does."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if INT64_MIN <= number <= INT64_MAX else None


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


@dataclass(frozen=True, slots=True)
class Fields:
    """A field selector: (dotted path, value, equal?)."""

    terms: tuple[tuple[tuple[str, ...], str, bool], ...] = ()

    def matches(self, document: Document) -> bool:
        return all((text(document, path) == wanted) is equal for path, wanted, equal in self.terms)

    @property
    def name(self) -> str:
        """The only name that can match, or empty."""
        return next((v for path, v, equal in self.terms if equal and path == ("metadata", "name")), "")


def text(document: Document, path: Sequence[str]) -> str:
    value: Any = document
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def fields(query: str, resource: Resource) -> Fields:
    """Parse a field selector. Raises a 400 for a field that the resource doesn't support."""
    terms = []
    for part in _terms(query):
        if not part:
            continue
        path, operator, wanted = _term(part)
        if path not in ("metadata.name", "metadata.namespace", *resource.selectable):
            raise _unsupported(path, resource)
        terms.append((tuple(path.split(".")), wanted, operator))
    return Fields(tuple(terms))


def only_name(query: str) -> str:
    """Return the name that a field selector requires, or empty. The rest is not checked."""
    try:
        terms = [_term(part) for part in _terms(query) if part]
    except status.Refusal:
        return ""
    return next((wanted for path, equal, wanted in terms if equal and path == "metadata.name"), "")


def _unsupported(path: str, resource: Resource) -> status.Refusal:
    if resource.selectable or resource.custom:
        return status.bad_request(f"field label not supported: {path}")
    return status.bad_request(
        f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def _terms(query: str) -> list[str]:
    """Split at commas that aren't escaped with a backslash."""
    return _TERM.findall(query)


def _term(part: str) -> tuple[str, bool, str]:
    found = _OPERATOR.search(part)
    if found is None:
        raise status.bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    return part[: found.start()], found[0] != "!=", _unescaped(part[found.end() :])


def _unescaped(value: str) -> str:
    kept: list[str] = []
    escaped = False
    for char in value:
        if escaped and char not in _ESCAPED:
            raise status.bad_request(f"invalid field selector: invalid escape sequence: \\{char}")
        if not escaped and char in ",=":
            raise status.bad_request(f"invalid field selector: unescaped character in value: {ord(char)}")
        escaped = not escaped and char == "\\"
        if not escaped:
            kept.append(char)
    if escaped:
        raise status.bad_request("invalid field selector: invalid escape sequence: \\")
    return "".join(kept)


def matches_selector(selector: Document | None, labels: Mapping[str, str]) -> bool:
    """Match a selector object, as in a spec. None selects nothing, an empty one everything."""
    if selector is None:
        return False
    return compile_selector(msgspec.convert(selector, LabelSelector)).matches(labels)
