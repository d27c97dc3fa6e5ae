"""Writers and watchers that continue through crashes, and record their requests and responses."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

import msgspec

from chaos.record import Listing, Look, Record, State, Verb, Watching, Write
from chaos.token_objects import RESOURCES, TokenObject, body, event_of, key_of, state_of
from kubewire.api.resource import Resource
from kubewire.client.errors import AlreadyExists, Conflict, Expired, NotFound, TransportError
from kubewire.client.request_options import Patch
from kubewire.client.rest import Client

NAMESPACES: Final = ("chaos-a", "chaos-b")
NAMES: Final = ("one", "two", "three", "four", "five")
LAST: Final = "last"
"""The name of the objects that are written when everything is over, for watchers to know."""
SIZES: Final = (0, 0, 0, 100, 1_000, 9_000)
WATCH_SECONDS: Final = 3.0
"""Short, so that watches also end as they should."""

VERBS: Final[Mapping[str, int]] = {
    "create": 20, "update": 22, "patch": 18, "apply": 14, "delete": 14, "get": 4, "touch": 6, "list": 2,
}  # fmt: skip
"""How often each is asked for, among all."""

clock = time.monotonic


def ours(state: State) -> bool:
    """Exclude the object that hubs create in every namespace."""
    return state.key[1] in NAMESPACES and state.key[2] in (*NAMES, LAST)


class TrafficProgress:
    """Progress of the traffic, for tests that crash the hub under load."""

    def __init__(self) -> None:
        self.alive = asyncio.Event()
        """While the hub can be expected to answer."""
        self.alive.set()
        self.sent = self.acknowledged = 0
        self._beat = asyncio.Event()

    def send(self) -> None:
        self.sent += 1
        self._beat.set()

    def acknowledge(self) -> None:
        self.acknowledged += 1
        self._beat.set()

    async def sends(self, count: int) -> None:
        """Wait until this number of further writes were sent."""
        until = self.sent + count
        while self.sent < until:
            await self._next()

    async def answer(self) -> None:
        """Wait until one more write was acknowledged."""
        until = self.acknowledged + 1
        while self.acknowledged < until:
            await self._next()

    async def _next(self) -> None:
        self._beat.clear()
        await self._beat.wait()


@dataclass(slots=True, kw_only=True)
class Writer:
    """One client with one request at a time."""

    name: str
    client: Client
    record: Record
    pulse: TrafficProgress
    chance: random.Random
    verbs: Mapping[str, int] = field(default_factory=lambda: VERBS)
    resources: Sequence[Resource[TokenObject]] = tuple(RESOURCES.values())
    namespaces: Sequence[str] = NAMESPACES
    names: Sequence[str] = NAMES
    known: dict[tuple[str, str, str], State] = field(default_factory=dict)
    numbers: Any = field(default_factory=count)

    async def run(self, *, until: Callable[[], bool]) -> None:
        while not until():
            (verb,) = self.chance.choices(list(self.verbs), list(self.verbs.values()))
            resource, namespace = self.chance.choice(self.resources), self.chance.choice(self.namespaces)
            await self.act(verb, resource, namespace, self.chance.choice(self.names))

    async def act(self, verb: str, resource: Resource[TokenObject], namespace: str, name: str) -> None:
        match verb:
            case "create" | "update" | "patch" | "apply" | "delete":
                await self.write(verb, resource, namespace, name)
            case "list":
                await self.list(resource, self.chance.choice((None, namespace)))
            case _:
                await self.look(resource, namespace, name, touch=verb == "touch")

    async def write(self, verb: Verb, resource: Resource[TokenObject], namespace: str, name: str) -> Write:
        key = key_of(resource, namespace, name)
        known = self.known.get(key)
        if verb == "update" and known is None:
            verb = "create"
        conditional = verb == "update" or (verb == "delete" and self.chance.random() < 0.5)
        write = Write(
            verb=verb,
            key=key,
            token=f"{self.name}-{next(self.numbers)}",
            begun=clock(),
            expected=known.version if known and conditional else None,
        )
        self.pulse.send()
        try:
            obj, uid = await self._send(write, resource)
        except AlreadyExists:
            write = replace(write, outcome="exists", ended=clock())
        except Conflict:
            self.known.pop(key, None)
            write = replace(write, outcome="conflict", ended=clock())
        except NotFound:
            self.known.pop(key, None)
            write = replace(write, outcome="absent", ended=clock())
        except TransportError as error:
            write = replace(write, outcome="unknown" if error.sent else "unsent", ended=clock())
            await self.pulse.alive.wait()
        else:
            state = None if obj is None else state_of(resource, obj)
            write = replace(write, outcome="done", ended=clock(), state=state, uid=uid)
            self.known.pop(key, None)
            if state is not None:
                self.known[key] = state
            self.pulse.acknowledge()
        self.record.writes.append(write)
        return write

    async def _send(self, write: Write, resource: Resource[TokenObject]) -> tuple[TokenObject | None, str]:
        """Return the acknowledged object, or the uid of the deleted one."""
        _, namespace, name = write.key
        document = body(resource, name, write.token, size=self.chance.choice(SIZES), version=write.expected)
        match write.verb:
            case "create":
                return await self.client.create(resource, document, namespace=namespace), ""
            case "update":
                return await self.client.update(resource, name, document, namespace=namespace), ""
            case "patch" | "apply":
                kind = Patch.MERGE if write.verb == "patch" else Patch.APPLY
                force = write.verb == "apply"
                made = await self.client.patch(
                    resource, name, document, kind=kind, namespace=namespace, force=force
                )
                return made, ""
            case _:
                path = resource.path(namespace=namespace, name=name)
                options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
                if write.expected is not None:
                    options["preconditions"] = {"resourceVersion": str(write.expected)}
                answer = await self.client.request("DELETE", path, body=options)
                return None, str(msgspec.json.decode(answer.body)["details"]["uid"])

    async def look(
        self, resource: Resource[TokenObject], namespace: str, name: str, *, touch: bool = False
    ) -> Look | None:
        """Read the object, or send an empty patch, whose response must be as current as that of a read."""
        key = key_of(resource, namespace, name)
        begun = clock()
        try:
            if touch:
                obj = await self.client.patch(resource, name, {}, kind=Patch.MERGE, namespace=namespace)
            else:
                obj = await self.client.get(resource, name, namespace=namespace)
            state = state_of(resource, obj)
            self.known[key] = state
        except NotFound:
            state = None
            self.known.pop(key, None)
        except TransportError:
            await self.pulse.alive.wait()
            return None
        look = Look(key=key, state=state, begun=begun, ended=clock())
        self.record.looks.append(look)
        return look

    async def list(self, resource: Resource[TokenObject], namespace: str | None) -> None:
        begun = clock()
        try:
            listed = await self.client.list(resource, namespace=namespace)
        except TransportError:
            await self.pulse.alive.wait()
            return
        states = (state_of(resource, obj) for obj in listed.items)
        listing = Listing(
            resource=resource.plural,
            namespace=namespace,
            version=int(listed.resource_version),
            states={state.key: state for state in states if ours(state)},
            begun=begun,
            ended=clock(),
        )
        self.record.listings.append(listing)


@dataclass(slots=True, kw_only=True)
class Watcher:
    """Resumes from its last version until it receives the last object of its scope."""

    client: Client
    resource: Resource[TokenObject]
    watching: Watching
    pulse: TrafficProgress
    connections: int = 0

    async def run(self) -> None:
        version = self.watching.since
        last = [LAST] if self.watching.namespace else [LAST] * len(NAMESPACES)
        while last:
            try:
                async with self.client.stream(
                    self.resource,
                    namespace=self.watching.namespace,
                    resource_version=str(version),
                    timeout=WATCH_SECONDS,
                ) as stream:
                    self.connections += 1
                    async for events in stream:
                        for event in events:
                            version = int(event.object.metadata.resourceVersion)
                            if event.type == "BOOKMARK":
                                self.watching.bookmarks.append((len(self.watching.events), version))
                                continue
                            received = event_of(self.resource, event)
                            if ours(received.state):
                                self.watching.events.append(received)
                            if received.state.key[2] == LAST:
                                last.pop()
                        if not last:
                            return
            except Expired as error:
                self.watching.expired.append(str(error))
                return
            except TransportError:
                await self.pulse.alive.wait()
