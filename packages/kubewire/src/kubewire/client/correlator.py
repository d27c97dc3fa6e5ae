"""Aggregate events: repeated, similar, and too many. No I/O and no clock."""

import re
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kubewire.api.event import ObjectReference
from kubewire.client.clock import TokenBucket

COMBINED: Final = "(combined from similar events): "
LONGEST_MESSAGE: Final = 1024
"""Bytes of UTF-8; the hub rejects longer messages."""
ELLIPSIS: Final = "…"
LONGEST_NAME: Final = 253

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def cut(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """Cut a text to ``limit`` bytes of UTF-8, between characters, and end it with an ellipsis if it was cut."""
    if text.isascii() and len(text) <= limit:
        return text
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - len(ELLIPSIS.encode())].decode(errors="ignore") + ELLIPSIS


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Times in seconds."""

    again: float = 3600.0
    """A repetition after longer than this is a new event. Hubs delete events after an hour."""
    similar: int = 10
    """The number of different messages of one reason that become events of their own."""
    similar_for: float = 600.0
    """The count restarts when no similar event happened for this long."""
    burst: int = 25
    refill: float = 300.0
    """Writes about one object: a burst, then one per interval."""
    remembered: int = 4096
    """The size of each cache."""


class Occurrence(Struct, frozen=True, kw_only=True):
    """A Struct, because a frozen dataclass takes ten times as long to create."""

    about: ObjectReference
    type: str
    reason: str
    message: str
    action: str = ""
    related: ObjectReference | None = None
    in_place: bool = False
    """Whether it replaces the last event of its reason."""
    wall: datetime
    at: float


@dataclass(slots=True, eq=False)
class EventRecord:
    """An event on the hub, or one to create. ``latest`` is its last occurrence, with the message to write."""

    name: str
    first: datetime
    latest: Occurrence
    count: int = 1
    written: int = 0
    """The count on the hub; 0 before the event is created."""
    wrote_at: float = 0.0
    """Time of the last write, by the monotonic clock."""
    queued: bool = False
    writing: bool = False
    again: bool = False
    """Whether it was queued again while it was being written."""


@dataclass(slots=True)
class _Similar:
    latest: float
    messages: set[str] = field(default_factory=set)


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Recent(Generic[K, V]):
    """A cache that drops the least recently used entry."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: K) -> V | None:
        value = self._items.get(key)
        if value is not None:
            self._items.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> V:
        self._items[key] = value
        self._items.move_to_end(key)
        if len(self._items) > self._size:
            self._items.popitem(last=False)
        return value


class Correlator:
    """Aggregates occurrences into entries to write. Does no I/O and reads no clock."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._entries = _Recent[Hashable, EventRecord](limits.remembered)
        self._similar = _Recent[Hashable, _Similar](limits.remembered)
        self._buckets = _Recent[Hashable, TokenBucket](limits.remembered)
        self._stamp = 0

    def observe(self, occurrence: Occurrence) -> EventRecord | None:
        """None if the object has used up its writes for now."""
        about = occurrence.about
        thing = (about.apiVersion, about.kind, about.namespace, about.name, about.uid, about.fieldPath)
        kind = (*thing, occurrence.type, occurrence.reason, occurrence.action, occurrence.related)
        message = cut(occurrence.message)
        if occurrence.in_place:
            # An event that is replaced in place needs no aggregation, and does not count against the object's writes.
            return self._entry(
                (*thing, occurrence.type, occurrence.reason), replace(occurrence, message=message)
            )
        alike = self._similar_events(kind, occurrence.at)
        combined = message not in alike.messages and len(alike.messages) >= self._limits.similar
        if combined:
            message = cut(COMBINED + occurrence.message)
        else:
            alike.messages.add(message)
        entry = self._entry((kind, None if combined else message), replace(occurrence, message=message))
        if entry.queued:
            return entry  # the pending write includes this occurrence
        bucket = self._buckets.get(thing)
        if bucket is None:
            bucket = TokenBucket(burst=self._limits.burst, every=self._limits.refill)
            self._buckets.put(thing, bucket)
        return entry if bucket.take(occurrence.at) else None

    def _entry(self, key: Hashable, latest: Occurrence) -> EventRecord:
        entry = self._entries.get(key)
        if entry is None or latest.at - entry.latest.at > self._limits.again:
            name = self._name(latest.about, latest.wall)
            return self._entries.put(key, EventRecord(name=name, first=latest.wall, latest=latest))
        entry.count += 1
        entry.latest = latest
        return entry

    def _similar_events(self, kind: Hashable, at: float) -> _Similar:
        alike = self._similar.get(kind)
        if alike is None or at - alike.latest > self._limits.similar_for:
            alike = self._similar.put(kind, _Similar(at))
        alike.latest = at
        return alike

    def _name(self, about: ObjectReference, wall: datetime) -> str:
        """The object's name and the time in nanoseconds, in hexadecimal; unique."""
        nanoseconds = (wall - _EPOCH) // timedelta(microseconds=1) * 1000
        self._stamp = max(self._stamp + 1, nanoseconds)
        suffix = f".{self._stamp:x}"
        stem = about.name[: LONGEST_NAME - len(suffix)].rstrip("-.")
        # Names of some kinds, such as roles, may contain characters that names of events must not.
        return (stem if _SUBDOMAIN.fullmatch(stem) else "event") + suffix
