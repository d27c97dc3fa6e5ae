"""Requests and responses of the clients of a hub, the input of the checkers.

All times are of one monotonic clock, so a response that arrived before a request was sent is known to be earlier.
Versions are resourceVersions as numbers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Key = tuple[str, str, str]
"""Resource, namespace and name."""

Verb = Literal["create", "update", "patch", "apply", "delete"]
Outcome = Literal["done", "exists", "conflict", "absent", "unsent", "unknown"]
"""``unsent``: never left the client. ``unknown``: sent, and no whole answer came."""
EventType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One object at one version. ``token`` names the write that created this state."""

    key: Key
    uid: str
    version: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    verb: Verb
    key: Key
    token: str
    """Of this write alone; of a deletion too, though no object ever carries it."""
    begun: float
    ended: float = math.inf
    outcome: Outcome = "unknown"
    expected: int | None = None
    """The version that the object had to have."""
    state: State | None = None
    """The acknowledged state; for a deletion only its ``uid``."""
    uid: str = ""
    """Of the object that a deletion acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """An object in a response, of a read or of a write without changes; None for a missing object."""

    key: Key
    state: State | None
    begun: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    resource: str
    namespace: str | None
    version: int
    states: Mapping[Key, State]
    begun: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    type: EventType
    state: State
    """For a deletion the last state, under the deletion's own version."""


@dataclass(slots=True, kw_only=True)
class Watching:
    """All events that one watcher received after ``since``, over all its connections."""

    name: str
    resource: str
    namespace: str | None
    since: int
    events: list[Event] = field(default_factory=list)
    bookmarks: list[tuple[int, int]] = field(default_factory=list)
    """How many events came before it, and its version."""
    expired: list[str] = field(default_factory=list)
    """Response of the hub to a resume from an expired version."""


@dataclass(slots=True, kw_only=True)
class Record:
    """It begins with one list of each resource before the first write; watchers begin at its version."""

    listings: list[Listing] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    watches: list[Watching] = field(default_factory=list)
