"""Label and field selectors of a query: parsed once, then matched against each object."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubehub import status
from kubehub.resource import Document, Resource
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement, SelectorError, compile_selector
from kubewire.api.selector_parser import GREATER, parse_int64, parse_selector

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


def parse_labels(text: str) -> Labels:
    """Parse a label selector. Raises a 400 that names the invalid part."""
    try:
        return Labels(tuple(_predicate(requirement) for requirement in parse_selector(text)))
    except SelectorError as error:
        raise status.bad_request(str(error)) from None


def _predicate(requirement: LabelSelectorRequirement) -> Predicate:
    key, values = requirement.key, frozenset(requirement.values)
    match requirement.operator:
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
        case "In":
            return lambda labels: labels.get(key) in values
        case "NotIn":
            return lambda labels: labels.get(key) not in values
        case operator:
            return _comparison(key, operator, int(requirement.values[0]))


def _comparison(key: str, operator: str, bound: int) -> Predicate:
    def accepts(labels: Mapping[str, str]) -> bool:
        number = parse_int64(labels.get(key, ""))
        return number is not None and (number > bound if operator == GREATER else number < bound)

    return accepts


@dataclass(frozen=True, slots=True)
class Fields:
    """A field selector: (dotted path, value, equal?)."""

    terms: tuple[tuple[tuple[str, ...], str, bool], ...] = ()

    def matches(self, document: Document) -> bool:
        return all((field_text(document, path) == wanted) is equal for path, wanted, equal in self.terms)

    @property
    def name(self) -> str:
        """The only name that can match, or empty."""
        return next((v for path, v, equal in self.terms if equal and path == ("metadata", "name")), "")


def field_text(document: Document, path: Sequence[str]) -> str:
    value: Any = document
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def parse_fields(query: str, resource: Resource) -> Fields:
    """Parse a field selector. Raises a 400 for a field that the resource doesn't support."""
    terms = []
    for part in _split_terms(query):
        if not part:
            continue
        path, operator, wanted = _parse_term(part)
        if path not in ("metadata.name", "metadata.namespace", *resource.selectable):
            raise _unsupported(path, resource)
        terms.append((tuple(path.split(".")), wanted, operator))
    return Fields(tuple(terms))


def required_name(query: str) -> str:
    """Return the name that a field selector requires, or empty. The rest is not checked."""
    try:
        terms = [_parse_term(part) for part in _split_terms(query) if part]
    except status.Refusal:
        return ""
    return next((wanted for path, equal, wanted in terms if equal and path == "metadata.name"), "")


def _unsupported(path: str, resource: Resource) -> status.Refusal:
    if resource.selectable or resource.custom:
        return status.bad_request(f"field label not supported: {path}")
    return status.bad_request(
        f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def _split_terms(query: str) -> list[str]:
    """Split at commas that aren't escaped with a backslash."""
    return _TERM.findall(query)


def _parse_term(part: str) -> tuple[str, bool, str]:
    operator = _OPERATOR.search(part)
    if operator is None:
        raise status.bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    return part[: operator.start()], operator[0] != "!=", _unescape(part[operator.end() :])


def _unescape(value: str) -> str:
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
