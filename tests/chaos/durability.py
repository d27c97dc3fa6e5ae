"""Check a record: writes are kept, every watcher received each change once and in order, no change was invented.

The hub orders all changes by version. That history is put together from the events of the watchers, and every response
must fit into it: acknowledged writes are in it at their version; writes with an unknown result at most once; every
watcher received all changes of its scope; every list equals the history up to the list's version.

Responses also have times. If version 17 was known before a request was sent, its response must not be older than
version 17; and if a write sent after a response got version 23, that response must be older than 23. So each response
belongs into a window of versions (``Clock``) and must have been correct at some moment in it. As versions grow with
every write, this is linearizability with a given order of writes.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from chaos.record import Event, Key, Listing, Look, Record, State, Watching, Write

Kind = Literal["lost", "back", "gap", "repeat", "phantom", "broken", "stale", "expired", "differs"]

_MANY: Final = 20


@dataclass(frozen=True, slots=True)
class Problem:
    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def format_problems(problems: Sequence[Problem]) -> str:
    """Format problems for an assertion."""
    lines = [str(problem) for problem in problems[:_MANY]]
    if len(problems) > _MANY:
        lines.append(f"… and {len(problems) - _MANY} more")
    return "\n".join(lines)


def problems(record: Record) -> list[Problem]:
    """Return all problems; empty for a correct hub."""
    problems: list[Problem] = []
    for watch in record.watches:
        problems += _order(watch)
    story, differing = _story(record)
    problems += differing
    for watch in record.watches:
        problems += _completeness(watch, story)
    lives = _lives(record, story, problems)
    clock = Clock(record, story)
    problems += _writes(record, story, lives, clock)
    problems += _explained(record, story, clock)
    problems += _looks(record, lives, clock)
    problems += _listings(record, lives, clock)
    return problems


# Watchers


def _order(watch: Watching) -> Iterator[Problem]:
    for text in watch.expired:
        yield Problem("expired", f"{watch.name} was told to list anew: {text}")
    for before, after in pairwise(watch.events):
        old, new = before.state.version, after.state.version
        if new == old:
            yield Problem("repeat", f"{watch.name} was sent version {new} twice")
        elif new < old:
            yield Problem("back", f"{watch.name} was sent version {new} after {old}")
    for count, version in watch.bookmarks:
        if count and watch.events[count - 1].state.version > version:
            last = watch.events[count - 1].state.version
            yield Problem("back", f"{watch.name} got a bookmark of {version} after version {last}")
        if count < len(watch.events) and watch.events[count].state.version <= version:
            late = watch.events[count].state.version
            yield Problem("back", f"{watch.name} was sent version {late} after a bookmark of {version}")


def _concerns(watch: Watching, key: Key) -> bool:
    return key[0] == watch.resource and watch.namespace in (None, key[1])


Story = dict[int, Event]
"""By version, in order; of all resources."""


def _story(record: Record) -> tuple[Story, list[Problem]]:
    problems: list[Problem] = []
    format_problems: dict[int, tuple[Event, str]] = {}
    for watch in record.watches:
        for event in watch.events:
            version = event.state.version
            known, by = format_problems.setdefault(version, (event, watch.name))
            if known != event:
                problems.append(Problem("differs", f"{by} was sent {known}, but {watch.name} {event}"))
            if not _concerns(watch, event.state.key):
                problems.append(
                    Problem("phantom", f"{watch.name} was sent {event}, which is none of its business")
                )
            if version <= watch.since:
                problems.append(
                    Problem("repeat", f"{watch.name} was sent {event}, though it began at {watch.since}")
                )
    return {version: format_problems[version][0] for version in sorted(format_problems)}, problems


def _completeness(watch: Watching, story: Story) -> Iterator[Problem]:
    seen = {event.state.version for event in watch.events}
    for version, event in story.items():
        if version > watch.since and version not in seen and _concerns(watch, event.state.key):
            yield Problem("gap", f"{watch.name} was never sent {event}")


# The story


@dataclass(frozen=True, slots=True)
class Span:
    """A key had this state from its first version up to, but not including, the last."""

    first: int
    last: float
    state: State | None


class Lives:
    """The states of each key in order; an unknown key is always absent."""

    def __init__(self) -> None:
        self._spans: dict[Key, list[Span]] = defaultdict(lambda: [Span(0, math.inf, None)])

    def become(self, key: Key, version: int, state: State | None) -> None:
        spans = self._spans[key]
        spans[-1] = Span(spans[-1].first, version, spans[-1].state)
        spans.append(Span(version, math.inf, state))

    def during(self, key: Key, window: "Window") -> Iterator[State | None]:
        """Return the states of the key in the window."""
        return (s.state for s in self._spans[key] if s.last > window.first and s.first < window.last)

    def before(self, key: Key, version: int) -> State | None:
        """Return the state before the write of this version."""
        return next(s.state for s in self._spans[key] if s.first < version <= s.last)

    def at(self, resource: str, namespace: str | None, version: int) -> dict[Key, State]:
        return {
            key: span.state
            for key, spans in list(self._spans.items())
            if key[0] == resource and namespace in (None, key[1])
            for span in spans
            if span.first <= version < span.last and span.state is not None
        }


def _lives(record: Record, story: Story, problems: list[Problem]) -> Lives:
    lives = Lives()
    now: dict[Key, State] = {}
    # Initial objects: their versions are older, and only order them.
    begun: set[str] = set()
    for listing in record.listings:
        if listing.resource not in begun and listing.namespace is None:
            begun.add(listing.resource)
            for key, state in listing.states.items():
                now[key] = state
                lives.become(key, state.version, state)
    for version, event in story.items():
        state = event.state
        before = now.get(state.key)
        if event.type == "ADDED":
            if before is not None:
                problems.append(Problem("broken", f"{event} though there was {before}"))
        elif before is None:
            problems.append(Problem("broken", f"{event} though there was none"))
        elif before.uid != state.uid:
            problems.append(Problem("broken", f"{event} though there was {before}"))
        elif event.type == "DELETED" and before.token != state.token:
            problems.append(Problem("broken", f"{event} though the last state was {before}"))
        if event.type == "DELETED":
            now.pop(state.key, None)
            lives.become(state.key, version, None)
        else:
            now[state.key] = state
            lives.become(state.key, version, state)
    return lives


# Times


@dataclass(frozen=True, slots=True)
class Window:
    """Versions that may have been the newest during a request: from ``first``, below ``last``."""

    first: int
    last: float


class Clock:
    """Which versions were known at a time, and which cannot have been reached yet."""

    def __init__(self, record: Record, story: Story) -> None:
        deleted = {
            event.state.uid: event.state.version for event in story.values() if event.type == "DELETED"
        }
        known: list[tuple[float, int]] = [
            (look.ended, look.state.version) for look in record.looks if look.state
        ]
        known += [(listing.ended, listing.version) for listing in record.listings]
        made: list[tuple[float, int]] = []
        for write in record.writes:
            version = write.state.version if write.state else deleted.get(write.uid, 0)
            if write.outcome == "done" and version:
                known.append((write.ended, version))
                made.append((write.begun, version))
        known.sort()
        made.sort()
        self._known_at = [moment for moment, _ in known]
        self._known = _running([version for _, version in known], max)
        self._made_at = [moment for moment, _ in made]
        self._made = _running([version for _, version in reversed(made)], min)[::-1]

    def window(self, begun: float, ended: float) -> Window:
        known = bisect_left(self._known_at, begun)
        made = bisect_right(self._made_at, ended)
        return Window(
            first=self._known[known - 1] if known else 0,
            last=self._made[made] if made < len(self._made) else math.inf,
        )


def _running(values: Iterable[int], pick: Callable[[int, int], int]) -> list[int]:
    increasing: list[int] = []
    for value in values:
        increasing.append(pick(increasing[-1], value) if increasing else value)
    return increasing


# Responses


def _writes(record: Record, story: Story, lives: Lives, clock: Clock) -> Iterator[Problem]:
    made = _made(story)
    deleted = {event.state.uid: event for event in story.values() if event.type == "DELETED"}
    acknowledged = Counter(write.uid for write in record.writes if write.verb == "delete" and write.uid)
    for uid, count in acknowledged.items():
        if count > 1:
            yield Problem("repeat", f"the deletion of {uid} was acknowledged {count} times")
    for write in record.writes:
        window = clock.window(write.begun, write.ended)
        if write.outcome == "done":
            event = deleted.get(write.uid) if write.verb == "delete" else made.get(write.token)
            if event is None:
                yield Problem("lost", f"{write} was acknowledged")
                continue
            yield from _done(write, event, lives, window)
        else:
            states = list(lives.during(write.key, window))
            if not _true(write, states):
                yield Problem("stale", f"{write} can't be: in {window} there was {states}")


def _done(write: Write, event: Event, lives: Lives, window: Window) -> Iterator[Problem]:
    version, state = event.state.version, write.state
    if event.state.key != write.key or (state is not None and event.state != state):
        yield Problem("differs", f"{write} was acknowledged, but it is {event}")
    if version <= window.first:
        yield Problem("back", f"{write} got version {version}, when {window.first} was known already")
    before = lives.before(write.key, version)
    if write.verb == "create" and before is not None:
        yield Problem("stale", f"{write} was acknowledged, though there was {before}")
    if write.expected is not None and (before is None or before.version != write.expected):
        yield Problem("stale", f"{write} was acknowledged, though there was {before}")


def _true(write: Write, states: Sequence[State | None]) -> bool:
    """Whether the rejection was correct at some moment."""
    match write.outcome:
        case "exists":
            return any(state is not None for state in states)
        case "absent":
            return any(state is None for state in states)
        case "conflict":
            return any(state is not None and state.version != write.expected for state in states)
        case _:
            return True


def _made(story: Story) -> dict[str, Event]:
    return {event.state.token: event for event in story.values() if event.type != "DELETED"}


def _explained(record: Record, story: Story, clock: Clock) -> Iterator[Problem]:
    """Check that every change belongs to a write, and no write happened twice."""
    attempts = {write.token: write for write in record.writes}
    removals: dict[Key, list[Write]] = defaultdict(list)
    for write in record.writes:
        if write.verb == "delete":
            removals[write.key].append(write)
    counts = Counter(event.state.token for event in story.values() if event.type != "DELETED")
    for token, count in counts.items():
        if count > 1:
            yield Problem("repeat", f"{attempts.get(token, token)} happened {count} times")
    for version, event in story.items():
        key = event.state.key
        if event.type == "DELETED":
            likely = [w for w in removals[key] if w.outcome == "unknown" or w.uid == event.state.uid]
        else:
            attempt = attempts.get(event.state.token)
            likely = [attempt] if attempt and attempt.outcome in ("done", "unknown") else []
            likely = [write for write in likely if write.key == key and write.verb != "delete"]
        windows = [clock.window(write.begun, write.ended) for write in likely]
        # A write begun at a moment when ``first`` was known gets a version above it.
        if not any(window.first < version < window.last for window in windows):
            yield Problem("phantom", f"{event} is nobody's: {likely or 'nobody asked for it'}")


def _looks(record: Record, lives: Lives, clock: Clock) -> Iterator[Problem]:
    for look in record.looks:
        window = clock.window(look.begun, look.ended)
        yield from _look(look, window, list(lives.during(look.key, window)))


def _look(look: Look, window: Window, states: Sequence[State | None]) -> Iterator[Problem]:
    if look.state not in states:
        kind: Kind = "phantom" if look.state and look.state.version >= window.first else "stale"
        yield Problem(kind, f"{look} was shown, when in {window} there was {states}")


def _listings(record: Record, lives: Lives, clock: Clock) -> Iterator[Problem]:
    for listing in record.listings:
        window = clock.window(listing.begun, listing.ended)
        if not window.first <= listing.version < window.last:
            yield Problem("back", f"a list of {listing.resource} is of {listing.version}, outside {window}")
        yield from _listing(listing, lives.at(listing.resource, listing.namespace, listing.version))


def _listing(listing: Listing, there: dict[Key, State]) -> Iterator[Problem]:
    for key in sorted({*there, *listing.states}):
        shown, is_ = listing.states.get(key), there.get(key)
        if shown != is_:
            yield Problem("differs", f"a list of version {listing.version} has {shown}, but there was {is_}")
