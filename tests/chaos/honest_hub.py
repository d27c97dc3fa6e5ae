"""A correct hub in memory, whose records the checkers must accept and tests falsify."""

import math
import random
from dataclasses import dataclass, field
from typing import Literal

from chaos.record import Event, EventType, Key, Listing, Look, Outcome, Record, State, Verb, Watching, Write

RESOURCES = ("boats", "objects")
NAMESPACES = ("a", "b")
Fate = Literal["well", "cut off before", "cut off after"]
Ask = Literal["create", "update", "patch", "apply", "delete", "look", "list"]
ASKS: tuple[Ask, ...] = ("create", "update", "patch", "apply", "delete", "look", "list")


@dataclass(slots=True)
class _Request:
    begun: float
    acts: float
    ends: float
    ask: Ask
    key: Key
    fate: Fate


@dataclass(slots=True)
class HonestHub:
    """A request takes effect at one moment between its beginning and its end, or is cut off before or after it."""

    chance: random.Random
    version: int = 100
    objects: dict[Key, State] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    record: Record = field(default_factory=Record)
    begun: int = 0
    """The version at which watches begin."""

    def __post_init__(self) -> None:
        for number, resource in enumerate(RESOURCES):
            self._put((resource, "a", "old"), "before", f"uid-{number}")
        for resource in RESOURCES:
            self._list(_Request(0.0, 0.0, 0.0, "list", (resource, "", ""), "well"), everywhere=True)
        self.events.clear()
        self.begun = self.version

    def run(self, *, requests: int) -> Record:
        asked = [self._request() for _ in range(requests)]
        for number, request in enumerate(sorted(asked, key=lambda call: call.acts)):
            self._serve(request, f"t{number}")
        for resource in RESOURCES:
            self._list(_Request(2e6, 2e6, 2e6, "list", (resource, "", ""), "well"), everywhere=True)
            for namespace in (None, *NAMESPACES):
                self.record.watches.append(self._watching(resource, namespace))
        return self.record

    def _watching(self, resource: str, namespace: str | None) -> Watching:
        watching = Watching(
            name=f"watch of {resource} in {namespace}",
            resource=resource,
            namespace=namespace,
            since=self.begun,
        )
        for event in self.events:
            if event.state.key[0] == resource and namespace in (None, event.state.key[1]):
                watching.events.append(event)
            if not self.chance.randrange(8):
                watching.bookmarks.append((len(watching.events), event.state.version))
        return watching

    def _request(self) -> _Request:
        begun, acts, ends = sorted(self.chance.uniform(1, 1e6) for _ in range(3))
        # Most are short, or everything would be at the same time as everything else.
        acts, ends = begun + (acts - begun) / 50, begun + (ends - begun) / 25
        key = (self.chance.choice(RESOURCES), self.chance.choice(NAMESPACES), self.chance.choice("xyz"))
        fates: tuple[Fate, ...] = ("well", "cut off before", "cut off after")
        (fate,) = self.chance.choices(fates, (20, 1, 1))
        return _Request(begun, acts, ends, self.chance.choice(ASKS), key, fate)

    def _serve(self, request: _Request, token: str) -> None:
        match request.ask:
            case "look":
                state = self.objects.get(request.key)
                self.record.looks.append(
                    Look(key=request.key, state=state, begun=request.begun, ended=request.ends)
                )
            case "list":
                self._list(request, everywhere=self.chance.random() < 0.5)
            case _:
                self._write(request, request.ask, token)

    def _list(self, request: _Request, *, everywhere: bool) -> None:
        resource, namespace = request.key[0], None if everywhere else request.key[1]
        states = {
            key: state
            for key, state in self.objects.items()
            if key[0] == resource and namespace in (None, key[1])
        }
        self.record.listings.append(
            Listing(
                resource=resource,
                namespace=namespace,
                version=self.version,
                states=states,
                begun=request.begun,
                ended=request.ends,
            )
        )

    def _write(self, request: _Request, verb: Verb, token: str) -> None:
        there = self.objects.get(request.key)
        expected = None
        if verb in ("update", "delete"):
            stale = self.chance.random() < 0.3
            expected = 7 if there is None or stale else there.version
        outcome: Outcome = "done"
        if verb == "create" and there is not None:
            outcome = "exists"
        elif verb in ("update", "patch", "delete") and there is None:
            outcome = "absent"
        elif expected is not None and there is not None and expected != there.version:
            outcome = "conflict"
        state: State | None = None
        if outcome == "done" and request.fate != "cut off before":
            if verb == "delete":
                self._delete(request.key)
            else:
                state = self._put(request.key, token, there.uid if there else f"uid-{token}")
        known = request.fate == "well"
        self.record.writes.append(
            Write(
                verb=verb,
                key=request.key,
                token=token,
                begun=request.begun,
                ended=request.ends if known else math.inf,
                outcome=outcome if known else "unknown",
                expected=expected,
                state=state if known else None,
                uid=there.uid if known and verb == "delete" and outcome == "done" and there else "",
            )
        )

    def _put(self, key: Key, token: str, uid: str) -> State:
        self.version += self.chance.choice((1, 1, 1, 5))
        state = State(key=key, uid=uid, version=self.version, token=token)
        self._record_event("MODIFIED" if key in self.objects else "ADDED", state)
        self.objects[key] = state
        return state

    def _delete(self, key: Key) -> None:
        self.version += 1
        last = self.objects.pop(key)
        self._record_event("DELETED", State(key=key, uid=last.uid, version=self.version, token=last.token))

    def _record_event(self, type_: EventType, state: State) -> None:
        self.events.append(Event(type=type_, state=state))
