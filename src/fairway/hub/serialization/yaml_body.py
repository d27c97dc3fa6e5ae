"""Decode YAML bodies into JSON values, event by event.

PyYAML's own loaders recurse in C, so that a body of brackets could crash the process, and they expand aliases
without a limit. Here depth, values and bytes are counted while decoding, aliases with their whole content. Scalars
are resolved as Kubernetes' own YAML decoder does, nearly YAML 1.1.
"""

import base64
import binascii
import re
from collections.abc import Generator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from fairway.hub.go_format import INT64_MIN

CONTAINS_ITSELF: Final = "anchor '{}' value contains itself"
UNKNOWN_ANCHOR: Final = "unknown anchor '{}' referenced"
BAD_MERGE: Final = "map merge requires map or sequence of maps as the value"
BAD_KEY: Final = "a list or a map can't be the key of a map"
NULL_KEY: Final = "null can't be the key of a map"
NOT_BINARY: Final = "!!binary value contains invalid base64 data"
NOT_JSON: Final = "json: unsupported value: {}"
TOO_MANY_HANDLES: Final = "too many %TAG directives"

_UINT64_MAX: Final = (1 << 64) - 1
_LONGEST_NUMBER: Final = 512
_MAX_HANDLES: Final = 100
"""The parser compares every %TAG directive with all before it."""
_STEP: Final = 64
"""Events that are read in one step."""
_MERGE: Final = "<<"
_TAG: Final = "tag:yaml.org,2002:"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_UNREAL: Final = {
    **dict.fromkeys((".nan", ".NaN", ".NAN"), "NaN"),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), "+Inf"),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), "-Inf"),
}
_INTEGER: Final = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII
)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)


class Fault(ValueError):
    """The text isn't valid YAML, or has no JSON equivalent."""


class TooMuch(Fault):
    """The text exceeds a limit."""


class TooDeep(TooMuch):
    pass


@dataclass(frozen=True, slots=True)
class Bounds:
    depth: int
    values: int
    size: int
    """Bytes of all strings."""


@dataclass(slots=True)
class _Node:
    """A value and its size, with aliases expanded."""

    value: Any
    values: int = 1
    size: int = 0
    height: int = 0


@dataclass(slots=True)
class _Open:
    """A list or map that is being decoded. ``key`` waits for its value."""

    node: _Node
    anchor: str | None
    key: str | None = None
    merges: bool = False

    @property
    def wants_key(self) -> bool:
        return type(self.node.value) is dict and self.key is None and not self.merges


def load(raw: bytes, bounds: Bounds) -> Any:
    """Decode the first document. Values may be shared where there were aliases. Raises Fault or yaml.YAMLError."""
    reading = steps(raw, bounds)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return end.value


def steps(raw: bytes, bounds: Bounds) -> Generator[None, None, Any]:
    """The same in small steps."""
    if raw.count(b"%TAG") > _MAX_HANDLES:
        raise Fault(TOO_MANY_HANDLES)
    loader = _LOADER(raw)
    reader = _Reader(bounds)
    count = 0
    try:
        while True:
            event = loader.get_event()
            if isinstance(event, DocumentEndEvent | StreamEndEvent):
                return reader.result
            reader.take(event)
            count += 1
            if count % _STEP == 0:
                yield
    finally:
        loader.dispose()


class _Reader:
    def __init__(self, bounds: Bounds) -> None:
        self.result: Any = None
        self._bounds = bounds
        self._open: list[_Open] = []
        self._anchors: dict[str, _Node | None] = {}
        """None while the anchored value is still being decoded."""
        self._values = self._size = 0

    def take(self, event: Event) -> None:
        if isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, CollectionStartEvent):
            self._start(event)
        elif isinstance(event, SequenceEndEvent | MappingEndEvent):
            self._end()
        elif isinstance(event, AliasEvent):
            self._alias(event)
        elif isinstance(event, DocumentStartEvent):
            self._anchors.clear()

    def _scalar(self, event: ScalarEvent) -> None:
        plain = event.implicit[0] and event.tag is None
        text: str = event.value
        if self._open and self._open[-1].wants_key:
            if plain and text == _MERGE:
                self._open[-1].merges = True
                return
            self._spend(0, len(text))
            self._open[-1].key = _key(_resolved(text) if plain else _tagged(event))
            if event.anchor:
                self._anchors[event.anchor] = _Node(self._open[-1].key, size=len(text))
            return
        node = _Node(_resolved(text) if plain else _tagged(event), size=len(text))
        self._spend(1, node.size)
        if event.anchor:
            self._anchors[event.anchor] = node
        self._place(node)

    def _start(self, event: CollectionStartEvent) -> None:
        if self._open and self._open[-1].wants_key:
            raise Fault(BAD_KEY)
        if len(self._open) >= self._bounds.depth:
            raise TooDeep
        self._spend(1, 0)
        if event.anchor:
            self._anchors[event.anchor] = None
        value: Any = {} if isinstance(event, MappingStartEvent) else []
        self._open.append(_Open(_Node(value), event.anchor))

    def _end(self) -> None:
        ended = self._open.pop()
        ended.node.height += 1
        if ended.anchor:
            self._anchors[ended.anchor] = ended.node
        self._place(ended.node)

    def _alias(self, event: AliasEvent) -> None:
        name = str(event.anchor)
        if name not in self._anchors:
            raise Fault(UNKNOWN_ANCHOR.format(name))
        node = self._anchors[name]
        if node is None:
            raise Fault(CONTAINS_ITSELF.format(name))
        self._spend(node.values, node.size)
        if len(self._open) + node.height > self._bounds.depth:
            raise TooDeep
        if self._open and self._open[-1].wants_key:
            self._open[-1].key = _key(node.value)
        else:
            self._place(node)

    def _spend(self, values: int, size: int) -> None:
        self._values += values
        self._size += size
        if self._values > self._bounds.values or self._size > self._bounds.size:
            raise TooMuch

    def _place(self, node: _Node) -> None:
        """Add a value to the open list or map, or set it as the root."""
        if not self._open:
            self.result = node.value
            return
        around = self._open[-1]
        around.node.values += node.values
        around.node.size += node.size
        around.node.height = max(around.node.height, node.height)
        if type(around.node.value) is list:
            around.node.value.append(node.value)
        elif around.merges:
            around.merges = False
            # Overrides keys before it, too; of several mappings the first wins.
            for mapping in reversed(_mappings(node.value)):
                around.node.value.update(mapping)
        else:
            assert around.key is not None
            around.node.value[around.key] = node.value
            around.key = None


def _mappings(value: Any) -> list[dict[str, Any]]:
    listed = value if type(value) is list else [value]
    if not all(type(each) is dict for each in listed):
        raise Fault(BAD_MERGE)
    return listed


def _resolved(text: str) -> Any:
    """Resolve a scalar without quotes and tag. Timestamps stay strings."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "0123456789+-.":
        return text
    if text in _UNREAL:
        raise Fault(NOT_JSON.format(_UNREAL[text]))
    if len(text) > _LONGEST_NUMBER:
        return text
    return _number(text.replace("_", ""), text)


def _number(plain: str, text: str) -> Any:
    if found := _INTEGER.fullmatch(plain):
        sign, hexadecimal, binary, octal, decimal = found.groups()
        digits, base = next(
            (each, base)
            for each, base in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10))
            if each is not None
        )
        number = int(f"{sign}{digits}", base)
        if INT64_MIN <= number <= _UINT64_MAX:
            return number
    if _FLOAT.fullmatch(plain):
        fraction = float(plain)
        return fraction if isfinite(fraction) else text
    return text


def _tagged(event: ScalarEvent) -> Any:
    """Resolve a scalar with quotes or a tag; unknown tags leave the string."""
    text: str = event.value
    if event.tag == f"{_TAG}binary":
        try:
            return base64.b64decode(text, validate=False).decode(errors="replace")
        except binascii.Error:
            raise Fault(NOT_BINARY) from None
    if event.tag in (f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool", f"{_TAG}null"):
        return _resolved(text)
    return text


def _key(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise Fault(NULL_KEY)
    if isinstance(value, int | float):
        return str(value)
    raise Fault(BAD_KEY)
