"""Aggregate events: repeated, similar, and too many. No I/O and no clock."""

import re
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, TypeVar

from fairway.api.event import ObjectReference
from fairway.kube.clock import TokenBucket

COMBINED: Final = "(combined from similar events): "
LONGEST_MESSAGE: Final = 1024
"""Bytes of UTF-8; the hub refuses longer ones."""
ELLIPSIS: Final = "…"
LONGEST_NAME: Final = 253

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def cut(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """At most ``limit`` bytes of UTF-8, ending in an ellipsis if something is missing; never half a character."""
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - len(ELLIPSIS.encode())].decode(errors="ignore") + ELLIPSIS


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Times in seconds."""

    again: float = 3600.0
    """The same after longer than this is a new event. The hub forgets events after an hour."""
    similar: int = 10
    """So many different messages of one reason stand on their own."""
    similar_for: float = 600.0
    """They count anew when nothing similar has happened for so long."""
    burst: int = 25
    refill: float = 300.0
    """Writes about one object: so many at once, then one every so often."""
    remembered: int = 4096
    """Of everything that is kept to tell what is the same, similar and too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    about: ObjectReference
    type: str
    reason: str
    message: str
    action: str = ""
    related: ObjectReference | None = None
    in_place: bool = False
    """Whether it takes the place of the last event of its reason instead of standing beside it."""
    wall: datetime
    at: float


@dataclass(slots=True, eq=False)
class EventRecord:
    """One event as the hub has it, or will. ``latest`` is what happened last, its message as it is to be written."""

    name: str
    first: datetime
    latest: Occurrence
    count: int = 1
    written: int = 0
    """The count the hub knows; 0 while it does not know the event."""
    queued: bool = False


@dataclass(slots=True)
class _Similar:
    latest: float
    messages: set[str] = field(default_factory=set)


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Recent(Generic[K, V]):
    """Forgets what has not been used for the longest time."""

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
    """Puts what happens together: occurrences in, entries to write out. Does no I/O and asks no clock."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._entries = _Recent[Hashable, EventRecord](limits.remembered)
        self._similar = _Recent[Hashable, _Similar](limits.remembered)
        self._buckets = _Recent[Hashable, TokenBucket](limits.remembered)
        self._stamp = 0

    def observe(self, occurrence: Occurrence) -> EventRecord | None:
        """None when enough has been written about the object for now."""
        about = occurrence.about
        thing = (about.apiVersion, about.kind, about.namespace, about.name, about.uid, about.fieldPath)
        kind = (*thing, occurrence.type, occurrence.reason, occurrence.action, occurrence.related)
        message = cut(occurrence.message)
        if occurrence.in_place:
            # One event, however often: nothing to combine, and no share of what may be written about the object.
            return self._entry(
                (*thing, occurrence.type, occurrence.reason), replace(occurrence, message=message)
            )
        alike = self._alike(kind, occurrence.at)
        combined = message not in alike.messages and len(alike.messages) >= self._limits.similar
        if combined:
            message = cut(COMBINED + occurrence.message)
        else:
            alike.messages.add(message)
        entry = self._entry((kind, None if combined else message), replace(occurrence, message=message))
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

    def _alike(self, kind: Hashable, at: float) -> _Similar:
        alike = self._similar.get(kind)
        if alike is None or at - alike.latest > self._limits.similar_for:
            alike = self._similar.put(kind, _Similar(at))
        alike.latest = at
        return alike

    def _name(self, about: ObjectReference, wall: datetime) -> str:
        """The object's name and the time in nanoseconds, in hexadecimal. Never the same twice."""
        nanoseconds = (wall - _EPOCH) // timedelta(microseconds=1) * 1000
        self._stamp = max(self._stamp + 1, nanoseconds)
        suffix = f".{self._stamp:x}"
        stem = about.name[: LONGEST_NAME - len(suffix)].rstrip("-.")
        # Names of some kinds, such as roles, may contain what names of events may not.
        return (stem if _SUBDOMAIN.fullmatch(stem) else "event") + suffix
