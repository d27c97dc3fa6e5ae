"""CEL types of schemas, with the largest sizes of their values.

Rules see what the schema declares: fields have types, undeclared fields don't exist. The sizes are for the cost
estimate.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kubecel.estimate import Path
from kubecel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    struct,
)
from kubehub.schema import OBJECT, Node, parse
from kubehub.schema import STRING as TEXT
from kubehub.schemas.cel_escaping import SELECTABLE, escape

MAX_REQUEST: Final = 3 * 1024 * 1024
"""Bytes of the largest request, hence a bound of everything in it."""
LONGEST_TEXT: Final = MAX_REQUEST - 2
LONGEST_TIME: Final = 32
DATE_LENGTH: Final = 12
SHORTEST_TIME: Final = 21
SHORTEST_DURATION: Final = 3

_TEXT: Final = Node(type=TEXT)
_META: Final = Node(type=OBJECT, properties={"name": _TEXT, "generateName": _TEXT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """``most``: the maximum number of elements, entries or characters; ``least``: the minimum bytes of its JSON."""

    type: Type
    most: int = 0
    least: int = 1
    fields: Mapping[str, "Declared"] = field(default_factory=dict)
    """By the names that rules use."""
    element: "Declared | None" = None
    """Of a list or map."""

    @property
    def occurrences(self) -> int:
        """The most values of it that fit into one request."""
        return MAX_REQUEST // (self.least + 1)

    def find(self, path: Path) -> int | None:
        """Return the size at the end of a path, whose first step is the variable."""
        current = self
        for step in path[1:]:
            if step in ("@items", "@values"):
                following = current.element
            elif step == "@keys":
                following = _KEY if current.element is not None and current.type.name == "map" else None
            else:
                following = current.fields.get(step)
            if following is None:
                return None
            current = following
        return current.most


_KEY: Final = Declared(type=STRING, least=2)


def with_meta(node: Node) -> Node:
    """Return the type of an object's root: beside declared fields, rules see apiVersion, kind and names."""
    written = node.raw.get("properties") or {}
    meta = (written.get("metadata") or {}).get("properties") or {}
    shown = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _META}
    if {"apiVersion", "kind"} <= written.keys() and {"name", "generateName"} <= meta.keys():
        # Their own limits apply only if all of them are declared.
        shown = {name: parse(written[name]) for name in shown}
    return replace(node, properties=node.properties | shown)


def declare(node: Node, *, root: bool = False, name: str = "self") -> Declared | None:
    """Return None for values that rules can't see, because their type is unknown."""
    raw = node.raw
    longest = raw.get("maxLength")
    if node.int_or_string:
        return Declared(type=DYN, most=LONGEST_TEXT if longest is None else max(int(longest), 0) * 4)
    if root or node.embedded:
        node = with_meta(node)
    match node.type:
        case "array":
            return _list(node, name)
        case "object":
            return (
                _map(node, name)
                if node.additional is not None and node.additional.raw
                else _object(node, name)
            )
        case "string":
            return _text(raw, longest)
        case "boolean":
            return Declared(type=BOOL, least=4)
        case "number":
            return Declared(type=DOUBLE)
        case "integer":
            return Declared(type=INT)
    return None


def _list(node: Node, name: str) -> Declared | None:
    element = declare(node.items, name=f"{name}.@idx") if node.items is not None else None
    if element is None:
        return None
    limit = node.raw.get("maxItems")
    most = (MAX_REQUEST - 2) // (element.least + 1) if limit is None else max(int(limit), 0)
    return Declared(type=list_of(element.type), most=most, least=2, element=element)


def _map(node: Node, name: str) -> Declared | None:
    assert node.additional is not None
    element = declare(node.additional, name=f"{name}.@elem")
    if element is None:
        return None
    limit = node.raw.get("maxProperties")
    most = (MAX_REQUEST - 2) // (element.least + 6) if limit is None else max(int(limit), 0)
    return Declared(type=map_of(STRING, element.type), most=most, least=2, element=element)


def _object(node: Node, name: str) -> Declared:
    fields: dict[str, Declared] = {}
    least = 2
    for key, child in node.properties.items():
        escaped = escape(key)
        declared = declare(child, name=f"{name}.{escaped}")
        if declared is None:
            continue
        if escaped is not None:
            fields[escaped] = declared
        if key in SELECTABLE:
            fields[key] = declared
        if key in node.required and child.default is None:
            least += len(key.encode()) + declared.least + 4
    return Declared(type=struct(name), least=least, fields=fields)


def _text(raw: Mapping[str, Any], longest: float | None) -> Declared:
    match raw.get("format"):
        case "byte":
            return Declared(
                type=BYTES, most=LONGEST_TEXT if longest is None else max(int(longest), 0), least=2
            )
        case "duration":
            return Declared(type=DURATION, most=LONGEST_TIME, least=SHORTEST_DURATION)
        case "date":
            return Declared(type=TIMESTAMP, most=DATE_LENGTH, least=DATE_LENGTH)
        case "date-time":
            return Declared(type=TIMESTAMP, most=LONGEST_TIME, least=SHORTEST_TIME)
    most = LONGEST_TEXT
    if longest is not None:
        # A character may take four bytes.
        most = max(int(longest), 0) * 4
    elif raw.get("enum"):
        most = max(len(value.encode()) if isinstance(value, str) else 0 for value in raw["enum"])
    return Declared(type=STRING, most=most, least=2)


def structs(declared: Declared) -> dict[str, dict[str, Type]]:
    """Return the fields of every struct type within."""
    by_name: dict[str, dict[str, Type]] = {}
    for nested in _walk(declared):
        if nested.type.kind.value == "struct":
            by_name[nested.type.name] = {name: child.type for name, child in nested.fields.items()}
    return by_name


def _walk(declared: Declared) -> Iterator[Declared]:
    pending = [declared]
    while pending:
        nested = pending.pop()
        yield nested
        pending += nested.fields.values()
        if nested.element is not None:
            pending.append(nested.element)
