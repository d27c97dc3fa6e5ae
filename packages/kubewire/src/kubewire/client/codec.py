"""Decode responses into typed objects.

A page, and all complete lines of a watch that arrived together, are decoded in one call. Go writes null where a list is
nil, and one object in ten thousand may have a field that cannot be decoded: only then objects are decoded one by one.
Fields that cannot be decoded are dropped and reported (see ``kubewire.api.salvage``); the object and the order of
events stay.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, cast

import msgspec
from msgspec import Struct, field

from kubewire.api.json_parts import elements, members
from kubewire.api.meta import UnreadableField, reason_of, unreadable_fields
from kubewire.api.resource import Key, T, key_of
from kubewire.api.salvage import SalvageError, salvage
from kubewire.client.errors import KubeError, TransportError, UnreadableError, error_of

NOT_A_LIST: Final = "the answer is not a list: {why}"

_FAILURES: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""Annotation of the bookmark that follows the initial events of a watch."""


class WatchEvent(Struct, Generic[T], frozen=True, gc=False):
    """The object of a BOOKMARK has little more than a resource version."""

    type: EventType
    object: T

    @property
    def ends_initial_events(self) -> bool:
        return self.type == "BOOKMARK" and self.object.metadata.annotations.get(INITIAL_EVENTS_END) == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A field that was dropped because it cannot be decoded; the whole object if the path is empty."""

    key: Key
    fields: tuple[UnreadableField, ...]

    @property
    def name(self) -> str:
        return "/".join(part for part in self.key if part)

    @property
    def reason(self) -> str:
        return reason_of(self.fields)


class _ListMeta(Struct, frozen=True, gc=False):
    version: str = field(default="", name="resourceVersion")
    token: str = field(default="", name="continue")


class _Page(Struct, Generic[T], frozen=True, gc=False):
    metadata: _ListMeta = _ListMeta()
    items: tuple[T, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    resource_version: str
    token: str
    unreadable: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Events(Generic[T]):
    """Events that arrived together, in order, and the error with which the hub then ended the watch."""

    events: list[WatchEvent[T]]
    unreadable: tuple[Unreadable, ...] = ()
    error: KubeError | None = None


_list_meta: Final = msgspec.json.Decoder(_ListMeta).decode
_event_type: Final = msgspec.json.Decoder(str).decode


class Codec(Generic[T]):
    """The decoders of one type. Get it from ``codec_of``, which caches them."""

    def __init__(self, struct: type[T]) -> None:
        self.struct = struct
        # msgspec needs the parameters at run time, which mypy cannot follow.
        page: Any = _Page
        event: Any = WatchEvent
        self._object: Callable[[bytes], T] = msgspec.json.Decoder(struct).decode
        self._page: Callable[[bytes], _Page[T]] = msgspec.json.Decoder(page[struct]).decode
        self._events: Callable[[bytes], list[WatchEvent[T]]] = msgspec.json.Decoder(
            event[struct]
        ).decode_lines

    def object(self, body: bytes) -> T:
        """Decode without the unreadable fields. Raise UnreadableError if it has no name or is no object."""
        try:
            return self._object(body)
        except _FAILURES:
            pass
        try:
            return cast("T", salvage(body, cast("type[Struct]", self.struct)))
        except SalvageError as error:
            raise UnreadableError(str(error)) from None

    def page(self, body: bytes) -> Page[T]:
        """Decode a list. Raise UnreadableError if it is no list; items that cannot be decoded are dropped."""
        try:
            page = self._page(body)
        except _FAILURES:
            return self._page_by_item(body)
        return Page(items=page.items or (), resource_version=page.metadata.version, token=page.metadata.token)

    def _page_by_item(self, body: bytes) -> Page[T]:
        content = members(body)
        listed = b"[]" if content is None else content.get("items", b"null")
        raw_items = [] if listed == b"null" else elements(listed)
        try:
            meta = _list_meta(b"" if content is None else content.get("metadata", b"{}"))
        except _FAILURES as error:
            raise UnreadableError(NOT_A_LIST.format(why=error)) from None
        if raw_items is None:
            raise UnreadableError(NOT_A_LIST.format(why="its items are not a JSON array"))
        items: list[T] = []
        unreadable: list[Unreadable] = []
        for raw in raw_items:
            obj = self._salvage(raw, unreadable)
            if obj is not None:
                items.append(obj)
        return Page(
            items=tuple(items), resource_version=meta.version, token=meta.token, unreadable=tuple(unreadable)
        )

    def events(self, lines: bytes) -> Events[T]:
        """Decode whole lines."""
        try:
            return Events(events=self._events(lines))
        except _FAILURES:
            return self._events_by_line(lines)

    def _events_by_line(self, lines: bytes) -> Events[T]:
        events: list[WatchEvent[T]] = []
        unreadable: list[Unreadable] = []
        ended: KubeError | None = None
        for line in lines.splitlines():
            if not line or line.isspace():
                continue
            content = members(line) or {}
            try:
                type_, raw = _event_type(content["type"]), content["object"]
            except (KeyError, *_FAILURES) as error:
                ended = TransportError(f"the watch sent invalid JSON: {error}")
                break
            if type_ == "ERROR":
                ended = error_of(code=0, body=raw, request="watch")
                break
            if type_ not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
                ended = TransportError(f"the watch sent an event of the unknown type {type_!r}")
                break
            obj = self._salvage(raw, unreadable)
            if obj is not None:
                events.append(WatchEvent(cast("EventType", type_), obj))
        return Events(events=events, unreadable=tuple(unreadable), error=ended)

    def _salvage(self, raw: bytes, unreadable: list[Unreadable]) -> T | None:
        """None for an object without a name, because no later event can refer to it."""
        try:
            obj = self.object(raw)
        except UnreadableError as error:
            unreadable.append(Unreadable(key=("", ""), fields=(UnreadableField("", str(error)),)))
            return None
        fields = unreadable_fields(obj)
        if fields:
            unreadable.append(Unreadable(key=key_of(obj), fields=fields))
        return obj


_CODECS: Final[dict[type[Any], Codec[Any]]] = {}


def codec_of(struct: type[T]) -> Codec[T]:
    known = _CODECS.get(struct)
    if known is None:
        known = _CODECS[struct] = Codec(struct)
    return known


class Lines:
    """Splits a stream of chunks into whole lines. Copies every byte at most twice, however long its line."""

    def __init__(self, *, limit: int = 32 * 2**20) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> bool:
        """Whether the last line is incomplete."""
        return self._size > 0

    def feed(self, chunk: bytes) -> bytes:
        """Return the lines that are now complete. Raise TransportError for a line that is too long."""
        end = chunk.rfind(b"\n") + 1
        whole = b""
        if end:
            whole = b"".join((*self._pieces, chunk[:end])) if self._pieces else chunk[:end]
            self._pieces.clear()
            self._size = 0
            chunk = chunk[end:]
        if chunk:
            self._pieces.append(chunk)
            self._size += len(chunk)
            if self._size > self._limit:
                raise TransportError(f"a line of the watch is longer than {self._limit:,} bytes")
        return whole
