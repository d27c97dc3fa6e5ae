"""Parse YAML and JSON text into documents, each with its first line.

YAML values are built from libyaml's events instead of by PyYAML's constructor. That is several times faster, resolves
scalars as kubectl does, keeps timestamps as text, survives deep nesting, and limits the expansion of aliases. Positions
of fields are not kept, because files are large and errors are rare: `positions` parses one document again.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from fairway.documents.scalars import resolve

MAX_DEPTH: Final = 100
MAX_ALIAS_NODES: Final = 100_000

TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
ALIAS_BOMB = f"the aliases of one document expand to more than {MAX_ALIAS_NODES:,} values"
ALIAS_UNKNOWN = "the alias *{name} has no anchor &{name} before it"
ALIAS_OF_ITSELF = "the alias *{name} is inside its own anchor"
DUPLICATE_KEY = "duplicate key {key!r}"
KEY_NOT_TEXT = "a mapping key must be text"
MERGE_NOT_MAPPING = "<< requires a mapping or a list of mappings"
UNKNOWN_TAG = "the tag {tag} is not supported"
TAB = "tab in the indentation"

LAYOUT_REMEDY = "check indentation, quotes and brackets on this line and the one before"
JSON_REMEDY = "check commas, quotes and brackets here"
DEPTH_REMEDY = "no Kubernetes object is that deep; check that this is the right file"
EXPANSION_REMEDY = "write the values out, or use fewer aliases"
ANCHOR_REMEDY = "define the anchor &{name} before the alias"
DUPLICATE_REMEDY = "remove one of the two; separate two objects with a line ---"
KEY_REMEDY = "put the key in quotes"
MERGE_REMEDY = "use an alias of a mapping, such as <<: *defaults"
TAG_REMEDY = "remove the tag; put text in quotes"
TAB_REMEDY = "indent with spaces"


class DocumentError(ValueError):
    """Text that is not valid YAML or JSON. `line` and `column` count from 1; 0 is unknown."""

    def __init__(
        self,
        message: str,
        *,
        remedy: str = LAYOUT_REMEDY,
        line: int = 0,
        column: int = 0,
        notation: str = "YAML",
    ) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.notation = notation
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Document:
    """One value of a file. `number` and `line` count from 1, `offset` is in bytes.

    `raw` is the JSON text of a value that is not decoded yet; `value` is then None. `item_lines` are the first lines of
    the items of a YAML list of objects.
    """

    value: Any
    number: int
    line: int
    offset: int = 0
    raw: bytes | None = None
    item_lines: tuple[int, ...] = ()


def yaml_documents(data: bytes) -> Iterator[Document]:
    """Yield the non-empty documents of a YAML text; empty ones are counted in `number`."""
    loader = yaml.CSafeLoader(data)
    try:
        for number, (value, line, item_lines) in enumerate(_build(loader), start=1):
            if value is not None:
                yield Document(value=value, number=number, line=line, item_lines=item_lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        if _is_tab(data, line, column):
            raise DocumentError(TAB, remedy=TAB_REMEDY, line=line, column=column) from None
        text = " ".join(part for part in (error.context, error.problem) if part) or "not YAML"
        raise DocumentError(text, line=line, column=column) from None
    except yaml.reader.ReaderError as error:
        raise DocumentError(str(error.reason), line=data.count(b"\n", 0, error.position) + 1) from None
    except yaml.YAMLError as error:
        raise DocumentError(" ".join(str(error).split())) from None
    finally:
        loader.dispose()


def _is_tab(data: bytes, line: int, column: int) -> bool:
    lines = data.splitlines()
    return 0 < line <= len(lines) and lines[line - 1].decode()[column - 1 : column] == "\t"


_OPEN: Final = object()
"""Value of an anchor until its node is complete."""
_MERGE: Final = object()
"""Key of a merge until its mapping is complete; a quoted "<<" is an ordinary key."""
_WANTED: Final = object()
"""The pending key of a mapping that expects a key next."""
_TEXT_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:timestamp"})
_PLAIN_TAGS: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))
_CONTAINER_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


def _build(loader: Any) -> Iterator[tuple[Any, int, tuple[int, ...]]]:
    """Yield value, first line and the lines of list items of each document.

    One loop with local variables, because loading a large file spends its time here.
    """
    scalar, alias = yaml.ScalarEvent, yaml.AliasEvent
    mapping, mapping_end = yaml.MappingStartEvent, yaml.MappingEndEvent
    sequence, sequence_end = yaml.SequenceStartEvent, yaml.SequenceEndEvent
    get_event = loader.get_event
    # The outer container, its pending key, its own anchor, and the nodes before.
    stack: list[tuple[Any, Any, str | None, int]] = []
    anchors: dict[str, tuple[Any, int]] = {}  # value and its number of nodes
    container: Any = None
    key: Any = None  # None in a list
    root: Any = None
    nodes = expanded = line = 0
    item_lines: list[int] = []
    while True:
        event = get_event()
        kind = type(event)
        if kind is scalar:
            nodes += 1
            value = event.value
            if key is not _WANTED:
                tag = event.tag
                if (tag is None and event.implicit[0]) or tag in _PLAIN_TAGS:
                    value = resolve(value)
                elif tag is not None and tag not in _TEXT_TAGS:
                    raise _error(event, UNKNOWN_TAG.format(tag=tag), TAG_REMEDY)
            elif value == "<<" and event.implicit[0]:
                value = _MERGE
            if event.anchor is not None:
                anchors[event.anchor] = (value, 1)
        elif kind is mapping or kind is sequence:
            if key is _WANTED:
                raise _error(event, KEY_NOT_TEXT, KEY_REMEDY)
            if event.tag is not None and event.tag not in _CONTAINER_TAGS:
                raise _error(event, UNKNOWN_TAG.format(tag=event.tag), TAG_REMEDY)
            if len(stack) >= MAX_DEPTH:
                raise _error(event, TOO_DEEP, DEPTH_REMEDY)
            if event.anchor is not None:
                anchors[event.anchor] = (_OPEN, 0)
            if not stack:
                line = event.start_mark.line + 1
            elif len(stack) <= 2 and key is None:  # in a list at the top, or in one just below it
                item_lines.append(event.start_mark.line + 1)
            stack.append((container, key, event.anchor, nodes))
            nodes += 1
            container, key = ({}, _WANTED) if kind is mapping else ([], None)
            continue
        elif kind is mapping_end or kind is sequence_end:
            value = container
            container, key, anchor, before = stack.pop()
            if kind is mapping_end and _MERGE in value:
                value = _merge(event, value)
            if anchor is not None:
                anchors[anchor] = (value, nodes - before)
        elif kind is alias:
            value, size = _aliased(event, anchors)
            if key is _WANTED and not isinstance(value, str):
                raise _error(event, KEY_NOT_TEXT, KEY_REMEDY)
            nodes += size
            expanded += size
            if expanded > MAX_ALIAS_NODES:
                raise _error(event, ALIAS_BOMB, EXPANSION_REMEDY)
        elif kind is yaml.DocumentEndEvent:
            yield root, line, tuple(item_lines)
            root = None
            item_lines.clear()
            anchors.clear()
            nodes = expanded = 0
            continue
        elif kind is yaml.StreamEndEvent:
            return
        else:
            continue

        if container is None:
            root = value
            if kind is scalar:
                line = event.start_mark.line + 1
        elif key is None:
            container.append(value)
        elif key is _WANTED:
            if value in container:
                raise _error(event, DUPLICATE_KEY.format(key=event.value), DUPLICATE_REMEDY)
            key = value
        else:
            container[key] = value
            key = _WANTED


def _aliased(event: Any, anchors: dict[str, tuple[Any, int]]) -> tuple[Any, int]:
    name = event.anchor
    if name not in anchors:
        raise _error(event, ALIAS_UNKNOWN.format(name=name), ANCHOR_REMEDY.format(name=name))
    value, size = anchors[name]
    if value is _OPEN:
        raise _error(event, ALIAS_OF_ITSELF.format(name=name), EXPANSION_REMEDY)
    return value, size


def _merge(event: Any, mapping: dict[Any, Any]) -> dict[Any, Any]:
    """Add the keys that a mapping lacks from `<<`; of several sources the first wins."""
    sources = mapping.pop(_MERGE)
    merged: dict[Any, Any] = {}
    for source in reversed(sources if isinstance(sources, list) else [sources]):
        if not isinstance(source, dict):
            raise _error(event, MERGE_NOT_MAPPING, MERGE_REMEDY)
        merged.update(source)
    return merged | mapping


def _error(event: Any, message: str, remedy: str) -> DocumentError:
    mark = event.start_mark
    return DocumentError(message, remedy=remedy, line=mark.line + 1, column=mark.column + 1)


class _ListEnvelope(msgspec.Struct):
    """A Kubernetes list with undecoded items."""

    kind: msgspec.Raw = msgspec.Raw()
    items: list[msgspec.Raw] | None = None


_envelopes = msgspec.json.Decoder(_ListEnvelope)
_arrays = msgspec.json.Decoder(list[msgspec.Raw])
_validator = msgspec.json.Decoder(msgspec.Raw)
_POSITION: Final = re.compile(r" ?\(byte (\d+)\)")


def json_documents(data: bytes) -> Iterator[Document]:
    """Yield the undecoded values of a JSON text: one value, the items of a list or array, or one value per line.

    Items stay undecoded, so that a list of 100,000 objects does not become dictionaries all at once.
    """
    try:
        _validator.decode(data)
    except msgspec.DecodeError as error:
        yield from _json_lines(data, error)
        return
    except RecursionError:
        raise DocumentError(TOO_DEEP, remedy=DEPTH_REMEDY, line=1, notation="JSON") from None
    start = len(data) - len(data.lstrip())
    items = _items(data)
    if items is None:
        yield Document(
            value=None, number=1, line=data.count(b"\n", 0, start) + 1, offset=start, raw=data[start:]
        )
        return
    # Items are in order and unaltered, so a search from the last position finds each one.
    position, line = start, data.count(b"\n", 0, start) + 1
    for number, item in enumerate(items, start=1):
        text = bytes(item)
        found = data.find(text, position)
        line += data.count(b"\n", position, found)
        position = found
        yield Document(value=None, number=number, line=line, offset=found, raw=text)


def _items(data: bytes) -> list[msgspec.Raw] | None:
    """Return the items of an array or of an object whose kind ends in List, otherwise None."""
    if data.lstrip()[:1] == b"[":
        return _arrays.decode(data)
    try:
        envelope = _envelopes.decode(data)
    except msgspec.DecodeError:
        return None
    return envelope.items if bytes(envelope.kind).endswith(b'List"') else None


def _json_lines(data: bytes, why: msgspec.DecodeError) -> Iterator[Document]:
    offset = 0
    first = True
    for number, text in enumerate(data.splitlines(keepends=True), start=1):
        stripped = text.strip()
        if stripped:
            try:
                _validator.decode(stripped)
            except (msgspec.DecodeError, RecursionError) as error:
                # If the first line is not valid JSON, the text is not JSON lines: raise the first error.
                raise _json_error(data, why, 0) if first else _json_error(text, error, number - 1) from None
            indent = len(text) - len(text.lstrip())
            yield Document(value=None, number=number, line=number, offset=offset + indent, raw=stripped)
            first = False
        offset += len(text)


def _json_error(data: bytes, error: Exception, lines_before: int) -> DocumentError:
    if isinstance(error, RecursionError):
        return DocumentError(TOO_DEEP, remedy=DEPTH_REMEDY, line=lines_before + 1, notation="JSON")
    text = str(error)
    match = _POSITION.search(text)
    position = int(match[1]) if match else len(data)
    reason = _POSITION.sub("", text).removeprefix("JSON is malformed: ")
    line = data.count(b"\n", 0, position) + 1
    column = position - (data.rfind(b"\n", 0, position) + 1) + 1
    return DocumentError(reason, remedy=JSON_REMEDY, line=lines_before + line, column=column, notation="JSON")


def value_of(document: Document) -> Any:
    """Return the value of a document, decoding its JSON text if necessary."""
    if document.raw is None:
        return document.value
    try:
        return msgspec.json.decode(document.raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _json_error(bytes(document.raw), error, document.line - 1) from None
