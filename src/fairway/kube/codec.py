"""From the wire's bytes to typed objects, in as few steps as there can be.

A page, and all whole lines of a watch that arrived together, are decoded in one call. Go writes null where a list is
nil, and one object in ten thousand may have a shape we cannot read: then, and only then, things are looked at one by
one, and what cannot be read is reported instead of taking the others with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, cast

import msgspec
from msgspec import Raw, Struct, field

from fairway.api.kinds import DecodeError, decode_json
from fairway.kube.errors import ApiError, KubeError, TransportError, UnreadableError, error_of
from fairway.kube.resource import Key, T

NOT_JSON: Final = "the watch sent what is not JSON: {why}"
NOT_A_LIST: Final = "the answer is not a list: {why}"
UNKNOWN_EVENT: Final = "the watch sent an event of the unknown type {type!r}"
LINE_TOO_LONG: Final = "a line of the watch is longer than {limit:,} bytes"

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""Annotation of the bookmark that says: what was there when the watch began has all been sent."""


class WatchEvent(Struct, Generic[T], frozen=True, gc=False):
    """A BOOKMARK's object has a resource version and little else."""

    type: EventType
    object: T

    @property
    def ends_initial_events(self) -> bool:
        return self.type == "BOOKMARK" and self.object.metadata.annotations.get(INITIAL_EVENTS_END) == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """An object the hub has and we cannot read. ``type`` is that of the event, and empty for one of a list."""

    key: Key
    resource_version: str
    reason: str
    type: str = ""


class _ListMeta(Struct, frozen=True, gc=False):
    version: str = field(default="", name="resourceVersion")
    token: str = field(default="", name="continue")


class _Page(Struct, Generic[T], frozen=True, gc=False):
    metadata: _ListMeta = _ListMeta()
    items: tuple[T, ...] | None = None


class _RawPage(Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[Raw, ...] | None = None


class _RawEvent(Struct, frozen=True):
    type: str
    object: Raw


class _Identity(Struct, frozen=True):
    """As much of an object as must be readable to say which one is not."""

    name: str = ""
    namespace: str = ""
    version: str = field(default="", name="resourceVersion")


class _Identified(Struct, frozen=True):
    metadata: _Identity = _Identity()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    resource_version: str
    token: str
    unreadable: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Events(Generic[T]):
    """What came together. ``error`` is what the hub ended the watch with, after these events."""

    events: list[WatchEvent[T]]
    unreadable: tuple[Unreadable, ...] = ()
    error: KubeError | None = None


_raw_page: Final = msgspec.json.Decoder(_RawPage)
_raw_event: Final = msgspec.json.Decoder(_RawEvent)
_identified: Final = msgspec.json.Decoder(_Identified)


class Codec(Generic[T]):
    """The decoders of one type. Get it from ``codec_of``: making one takes a while."""

    def __init__(self, struct: type[T]) -> None:
        self.struct = struct
        # The parameters are given at run time, where msgspec needs them and mypy cannot follow.
        page: Any = _Page
        event: Any = WatchEvent
        self._page: Callable[[bytes], _Page[T]] = msgspec.json.Decoder(page[struct]).decode
        self._events: Callable[[bytes], list[WatchEvent[T]]] = msgspec.json.Decoder(
            event[struct]
        ).decode_lines

    def object(self, body: bytes | Raw) -> T:
        """Raises UnreadableError."""
        try:
            return cast("T", decode_json(bytes(body), cast("type[Struct]", self.struct)))
        except (DecodeError, UnicodeDecodeError) as error:
            raise UnreadableError(str(error)) from None

    def page(self, body: bytes) -> Page[T]:
        """Raises UnreadableError, but not for single items."""
        try:
            page = self._page(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._page_by_item(body)
        return Page(items=page.items or (), resource_version=page.metadata.version, token=page.metadata.token)

    def _page_by_item(self, body: bytes) -> Page[T]:
        try:
            page = _raw_page.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnreadableError(NOT_A_LIST.format(why=error)) from None
        items: list[T] = []
        unreadable: list[Unreadable] = []
        for raw in page.items or ():
            try:
                items.append(self.object(raw))
            except UnreadableError as error:
                unreadable.append(_reported(raw, str(error)))
        return Page(
            items=tuple(items),
            resource_version=page.metadata.version,
            token=page.metadata.token,
            unreadable=tuple(unreadable),
        )

    def events(self, lines: bytes) -> Events[T]:
        """Whole lines only."""
        try:
            return Events(events=self._events(lines))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._events_by_line(lines)

    def _events_by_line(self, lines: bytes) -> Events[T]:
        events: list[WatchEvent[T]] = []
        unreadable: list[Unreadable] = []
        ended: KubeError | None = None
        for line in lines.splitlines():
            if not line or line.isspace():
                continue
            try:
                event = _raw_event.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                ended = TransportError(NOT_JSON.format(why=error))
                break
            if event.type == "ERROR":
                ended = _error(event.object)
                break
            if event.type not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
                ended = TransportError(UNKNOWN_EVENT.format(type=event.type))
                break
            try:
                events.append(WatchEvent(cast("EventType", event.type), self.object(event.object)))
            except UnreadableError as error:
                unreadable.append(_reported(event.object, str(error), type_=event.type))
        return Events(events=events, unreadable=tuple(unreadable), error=ended)


def _error(raw: Raw) -> ApiError:
    return error_of(code=0, body=bytes(raw), request="watch")


def _reported(raw: Raw, reason: str, *, type_: str = "") -> Unreadable:
    try:
        meta = _identified.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        meta = _Identity()
    return Unreadable(
        key=(meta.namespace, meta.name), resource_version=meta.version, reason=reason, type=type_
    )


_CODECS: Final[dict[type[Any], Codec[Any]]] = {}


def codec_of(struct: type[T]) -> Codec[T]:
    known = _CODECS.get(struct)
    if known is None:
        known = _CODECS[struct] = Codec(struct)
    return known


class Lines:
    """Whole lines out of chunks cut anywhere. Every byte is copied at most twice, however long its line is."""

    def __init__(self, *, limit: int = 32 * 2**20) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> bool:
        """Whether a line has begun and not ended."""
        return self._size > 0

    def feed(self, chunk: bytes) -> bytes:
        """All lines that are whole by now, as they came; maybe none. Raises TransportError for an endless line."""
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
                raise TransportError(LINE_TOO_LONG.format(limit=self._limit))
        return whole
