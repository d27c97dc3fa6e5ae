"""Parse YAML from libyaml's events, within limits; `Rules` has what differs between files, options and request bodies.

PyYAML's constructor is several times slower, recurses in C, so that brackets alone can crash the process, and expands
aliases without a limit. Here depth, values and bytes are counted while parsing, aliases with their whole content.
"""

import base64
import binascii
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, repeat, starmap
from typing import Any, Final

import yaml

from kubewire.documents.scalars import Scalar, ScalarError, resolve

TOO_DEEP = "nested more than {} levels deep"
TOO_LARGE = "has more than {:,} values"
ALIAS_BOMB = "the aliases of one document expand to more than {:,} values or {:,} characters"
ALIAS_UNKNOWN = "unknown anchor '{}' referenced"
ALIAS_OF_ITSELF = "anchor '{}' value contains itself"
BAD_KEY = "a list or a map can't be the key of a map"
BAD_MERGE = "map merge requires map or sequence of maps as the value"
UNKNOWN_TAG = "the tag {} is not supported"

LAYOUT_REMEDY = "check indentation, quotes and brackets on this line and the one before"
DEPTH_REMEDY = "no Kubernetes object is that deep; check that this is the right file"
SIZE_REMEDY = "split the file"
EXPANSION_REMEDY = "write the values out, or use fewer aliases"
DUPLICATE_REMEDY = "remove one of the two; separate two objects with a line ---"
KEY_REMEDY = "put the key in quotes"
TAG_REMEDY = "remove the tag; put text in quotes"
VALUE_REMEDY = "put text in quotes"

_MAX_HANDLES: Final = 100
"""libyaml compares every %TAG directive with all before it."""


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


class TooDeepError(DocumentError):
    pass


class TooLargeError(DocumentError):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    depth: int = 100
    values: int = sys.maxsize
    """Values of a document, with aliases expanded."""
    aliased: int = 100_000
    aliased_size: int = 64 * 1024 * 1024
    """Values and characters to which the aliases of a document may expand."""
    resolve: Callable[[str], Scalar] = resolve
    strict: bool = True
    """Reject duplicate keys and unknown tags; otherwise the last key counts, and a tagged scalar is text."""
    resolve_keys: bool = False
    """Keys are the JSON text of their value, as in kube-apiserver; otherwise they are the text as written."""
    step: int = sys.maxsize
    """Events between two pauses."""


FILE_RULES: Final = Rules()


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document, its first line, and the first lines of the items if it is a list of objects."""

    value: Any
    line: int
    item_lines: tuple[int, ...]


def parse_yaml(data: bytes, rules: Rules) -> Iterator[Parsed | None]:
    """Yield each document, also empty ones, and None for every pause. Raises DocumentError.

    Values may be shared where there were aliases.
    """
    if data.count(b"%TAG") > _MAX_HANDLES:
        raise DocumentError("too many %TAG directives")
    loader = yaml.CSafeLoader(data)
    try:
        yield from _build(loader, rules)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        if _is_tab(data, line, column):
            raise DocumentError(
                "tab in the indentation", remedy="indent with spaces", line=line, column=column
            ) from None
        text = " ".join(part for part in (error.context, error.problem) if part) or "not YAML"
        # A missing end is reported on the line after the last one.
        line = min(line, data.rstrip().count(b"\n") + 1)
        raise DocumentError(text, line=line, column=column) from None
    except yaml.reader.ReaderError as error:
        raise DocumentError(str(error.reason), line=data.count(b"\n", 0, error.position) + 1) from None
    except yaml.YAMLError as error:
        raise DocumentError(" ".join(str(error).split())) from None
    finally:
        loader.dispose()


def _is_tab(data: bytes, line: int, column: int) -> bool:
    lines = data.splitlines()
    return 0 < line <= len(lines) and lines[line - 1].decode(errors="replace")[column - 1 : column] == "\t"


_OPEN: Final = object()
"""Value of an anchor until its node is complete."""
_MERGE: Final = object()
"""Key of a merge until its mapping is complete; a quoted "<<" is an ordinary key."""
_WANTED: Final = object()
"""The pending key of a mapping that expects a key next."""
_TAG: Final = "tag:yaml.org,2002:"
_TEXT_TAGS: Final = frozenset({"!", f"{_TAG}str", f"{_TAG}timestamp"})
_PLAIN_TAGS: Final = frozenset(f"{_TAG}{name}" for name in ("int", "float", "bool", "null"))
_CONTAINER_TAGS: Final = frozenset({"!", f"{_TAG}map", f"{_TAG}seq"})


def _build(loader: Any, rules: Rules) -> Iterator[Parsed | None]:
    """Build values from events; one loop with local variables, because loading a large file spends its time here."""
    scalar, alias = yaml.ScalarEvent, yaml.AliasEvent
    mapping, mapping_end = yaml.MappingStartEvent, yaml.MappingEndEvent
    sequence, sequence_end = yaml.SequenceStartEvent, yaml.SequenceEndEvent
    events = starmap(loader.get_event, repeat(()))
    resolve, strict, resolve_keys = rules.resolve, rules.strict, rules.resolve_keys
    max_depth, max_values = rules.depth, rules.values
    # The outer container, its pending key, the start event, and the values, size and height before.
    stack: list[tuple[Any, Any, Any, int, int, int]] = []
    anchors: dict[str, tuple[Any, int, int, int]] = {}  # value, values, size and height
    container: Any = None
    key: Any = None  # None in a list
    root: Any = None
    values = size = height = expanded = line = 0
    item_lines: list[int] = []
    event: Any = None
    try:
        while True:
            for event in islice(events, rules.step):
                kind = type(event)
                if kind is scalar:
                    value = event.value
                    if key is not _WANTED:
                        values += 1
                        if values > max_values:
                            raise _error(event, TOO_LARGE.format(max_values), SIZE_REMEDY, TooLargeError)
                        tag = event.tag
                        if (tag is None and event.implicit[0]) or tag in _PLAIN_TAGS:
                            value = resolve(value)
                        elif tag is not None and tag not in _TEXT_TAGS:
                            value = _tagged(event, strict=strict)
                    elif value == "<<" and event.implicit[0]:
                        value = _MERGE
                    elif resolve_keys and event.tag is None and event.implicit[0]:
                        value = _key(event, resolve(value), resolved=True)
                    if event.anchor is not None:
                        anchors[event.anchor] = (value, 1, len(event.value), 0)
                elif kind is mapping or kind is sequence:
                    if key is _WANTED:
                        raise _error(event, BAD_KEY, KEY_REMEDY)
                    if strict and event.tag is not None and event.tag not in _CONTAINER_TAGS:
                        raise _error(event, UNKNOWN_TAG.format(event.tag), TAG_REMEDY)
                    if len(stack) >= max_depth:
                        raise _error(event, TOO_DEEP.format(max_depth), DEPTH_REMEDY, TooDeepError)
                    if event.anchor is not None:
                        anchors[event.anchor] = (_OPEN, 0, 0, 0)
                    if not stack:
                        line = event.start_mark.line + 1
                    elif len(stack) <= 2 and key is None:  # in a list at the top, or in one just below it
                        item_lines.append(event.start_mark.line + 1)
                    stack.append((container, key, event, values, size, height))
                    values += 1
                    if values > max_values:
                        raise _error(event, TOO_LARGE.format(max_values), SIZE_REMEDY, TooLargeError)
                    height = 0
                    container, key = ({}, _WANTED) if kind is mapping else ([], None)
                    continue
                elif kind is mapping_end or kind is sequence_end:
                    value = container
                    container, key, opened, values_before, size_before, outer_height = stack.pop()
                    if kind is mapping_end and _MERGE in value:
                        value = _merge(event, value)
                    height += 1
                    if opened.anchor is not None:
                        added_size = event.end_mark.index - opened.start_mark.index + size - size_before
                        anchors[opened.anchor] = (value, values - values_before, added_size, height)
                    if outer_height > height:
                        height = outer_height
                elif kind is alias:
                    value, added, added_size, added_height = _aliased(event, anchors)
                    if key is _WANTED:
                        value = _key(event, value, resolved=resolve_keys)
                    values += added
                    expanded += added
                    size += added_size
                    if expanded > rules.aliased or size > rules.aliased_size or values > max_values:
                        message = ALIAS_BOMB.format(rules.aliased, rules.aliased_size)
                        raise _error(event, message, EXPANSION_REMEDY, TooLargeError)
                    if len(stack) + added_height > max_depth:
                        raise _error(event, TOO_DEEP.format(max_depth), DEPTH_REMEDY, TooDeepError)
                    height = max(height, added_height)
                elif kind is yaml.DocumentEndEvent:
                    yield Parsed(root, line, tuple(item_lines))
                    root = None
                    item_lines.clear()
                    anchors.clear()
                    values = size = expanded = 0
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
                    if strict and value in container:
                        raise _error(event, f"duplicate key {event.value!r}", DUPLICATE_REMEDY)
                    key = value
                else:
                    container[key] = value
                    key = _WANTED
            yield None
    except ScalarError as error:
        raise _error(event, str(error), VALUE_REMEDY) from None


def _tagged(event: Any, *, strict: bool) -> str:
    text: str = event.value
    if strict:
        raise _error(event, UNKNOWN_TAG.format(event.tag), TAG_REMEDY)
    if event.tag != f"{_TAG}binary":
        return text
    try:
        return base64.b64decode(text, validate=False).decode(errors="replace")
    except binascii.Error:
        raise _error(event, "!!binary value contains invalid base64 data", VALUE_REMEDY) from None


def _key(event: Any, value: Any, *, resolved: bool) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        raise _error(event, "null can't be the key of a map", KEY_REMEDY)
    if not resolved or not isinstance(value, bool | int | float):
        raise _error(event, BAD_KEY, KEY_REMEDY)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _aliased(event: Any, anchors: dict[str, tuple[Any, int, int, int]]) -> tuple[Any, int, int, int]:
    name = event.anchor
    if name not in anchors:
        raise _error(event, ALIAS_UNKNOWN.format(name), f"define the anchor &{name} before the alias")
    if anchors[name][0] is _OPEN:
        raise _error(event, ALIAS_OF_ITSELF.format(name), EXPANSION_REMEDY)
    return anchors[name]


def _merge(event: Any, mapping: dict[Any, Any]) -> dict[Any, Any]:
    """Insert the keys of `<<` at its place: the last of two keys wins, as in kubectl, and the first of two sources."""
    merged: dict[Any, Any] = {}
    for key, value in mapping.items():
        if key is not _MERGE:
            merged[key] = value
            continue
        for source in reversed(value if isinstance(value, list) else [value]):
            if not isinstance(source, dict):
                raise _error(event, BAD_MERGE, "use an alias of a mapping, such as <<: *defaults")
            merged.update(source)
    return merged


def _error(event: Any, message: str, remedy: str, kind: type[DocumentError] = DocumentError) -> DocumentError:
    mark = event.start_mark
    return kind(message, remedy=remedy, line=mark.line + 1, column=mark.column + 1)
