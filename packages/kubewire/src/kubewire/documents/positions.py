"""Find the lines of fields, for messages such as `fleet.yaml:12`.

The reader keeps no positions. A document with a problem is parsed again here, from its first line.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

import yaml

from kubewire.documents.reader import Document

# Mapping keys and list positions from the document's root.
Path = tuple[str | int, ...]

_STEP: Final = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|\.?([^.\[]+)")
_JSON_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_MOST_TOKENS: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """A line, counted from 1, and the text of an unquoted value."""

    line: int
    plain: str = ""


Places = dict[Path, Place]


def find(places: Places, path: str, *, default: Place) -> Place:
    """Return the place of `path`, or of the nearest enclosing field."""
    steps = parse_path(path)
    while steps:
        if steps in places:
            return places[steps]
        steps = steps[:-1]
    return default


def parse_path(path: str) -> Path:
    """Split `spec.taints[0].key` or `metadata.labels[example.com/zone]` into steps."""
    steps: list[str | int] = []
    for match in _STEP.finditer(path):
        index, key, name = match.groups()
        steps.append(int(index) if index is not None else name if key is None else key)
    return tuple(steps)


def places_of(data: bytes, document: Document) -> Places:
    """Return the places of all fields of a document; empty if its text cannot be parsed."""
    if document.raw is not None:
        return _json_places(bytes(document.raw), document.line)
    start = _line_start(data, document.line)
    loader = yaml.CSafeLoader(data[start:])
    try:
        node = loader.get_node() if loader.check_node() else None
    except (yaml.YAMLError, RecursionError):
        return {}
    finally:
        loader.dispose()
    places: Places = {}
    if node is not None:
        _collect(node, (), document.line, places, set())
    return places


def _line_start(data: bytes, line: int) -> int:
    position = 0
    for _ in range(line - 1):
        position = data.index(b"\n", position) + 1
    return position


def _collect(node: Any, path: Path, first: int, places: Places, seen: set[int]) -> None:
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            plain = value.value if isinstance(value, yaml.ScalarNode) and not value.style else ""
            places[inner] = Place(first + key.start_mark.line, plain)
            _collect(value, inner, first, places, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            inner = (*path, index)
            plain = value.value if isinstance(value, yaml.ScalarNode) and not value.style else ""
            places[inner] = Place(first + value.start_mark.line, plain)
            _collect(value, inner, first, places, seen)


def _json_places(text: bytes, line: int) -> Places:
    """`text` is valid JSON, so the tokens are not checked."""
    places: Places = {}
    path: list[str | int] = []
    mapping: list[bool] = []
    position = 0
    key_next = False
    for count, match in enumerate(_JSON_TOKEN.finditer(text)):
        if count > _MOST_TOKENS:
            break
        line += text.count(b"\n", position, match.start())
        position = match.start()
        token = match[0]
        first = token[:1]
        if token in (b"}", b"]"):
            path.pop()
            mapping.pop()
        elif token == b",":
            key_next = mapping[-1]
            if not key_next and isinstance(path[-1], int):
                path[-1] += 1
        elif token == b":":
            key_next = False
        elif key_next and first == b'"':
            path[-1] = token[1:-1].decode(errors="replace")
            places[tuple(path)] = Place(line)
        else:
            if mapping and not mapping[-1]:
                places[tuple(path)] = Place(line)
            if token in (b"{", b"["):
                mapping.append(token == b"{")
                path.append("" if token == b"{" else 0)
                key_next = mapping[-1]
    return places
