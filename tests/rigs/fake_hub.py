"""A hub in memory for tests: objects, resource versions, conflicts, and watch events that a test may hold back.

A controller uses it as its client (``hub.client``) and as its informers (``hub.informers``), without a connection, so
tests run in virtual time. ``rigs/fake_server.py`` serves the same objects over HTTP. ``reject`` may raise in place of a
write, the watch of an informer can be cut, and a hub that is not ``live`` delivers events only on request.
"""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec

from fairway.controllers.runtime.informer_factory import InformerFactory
from kubehub.patches import jsonpatch, mergepatch
from kubewire.client import (
    AlreadyExists,
    ApiError,
    Batch,
    Client,
    Conflict,
    Listing,
    NotFound,
    Patch,
    Resource,
)
from kubewire.client.codec import EventType, WatchEvent
from kubewire.client.replica import Replica

Document = dict[str, Any]
Key = tuple[str, str, str]
"""Plural, namespace and name."""

FIRST_REVISION: Final = 10
IDENTITY: Final = ("uid", "resourceVersion")


@dataclass(frozen=True, slots=True)
class Entry:
    """A write, as watches report it."""

    version: int
    key: Key
    type: EventType
    document: Document
    author: str = ""

    @property
    def line(self) -> bytes:
        return json.dumps({"type": self.type, "object": self.document}).encode() + b"\n"


class FakeInformer:
    """The part of an informer that controllers use. Its watch can be cut."""

    def __init__(self, hub: "FakeHub", resource: Resource[Any]) -> None:
        self._hub, self._resource = hub, resource
        self._handlers: list[Callable[[Batch[Any]], object]] = []
        self._replica: Replica[Any] = Replica()
        self._cut_at: float | None = None
        self.delivered = -1
        """The revision up to which it has all events; negative before the first list."""

    @property
    def store(self) -> dict[tuple[str, str], Any]:
        return self._replica.store

    @property
    def lag(self) -> float:
        return 0.0 if self._cut_at is None else asyncio.get_running_loop().time() - self._cut_at

    def cut(self) -> None:
        self._cut_at = asyncio.get_running_loop().time()

    def mend(self) -> None:
        self._cut_at = None
        self.deliver()

    @property
    def waiting(self) -> list[Entry]:
        """The writes that it has not delivered."""
        plural = self._resource.plural
        return [
            change for change in self._hub.log if change.version > self.delivered and change.key[0] == plural
        ]

    def deliver(self, count: int | None = None) -> None:
        """Deliver the next events, or all, in one batch. While the watch is cut, do nothing."""
        entries = [] if self._cut_at is not None else self.waiting[:count]
        if not entries:
            return
        events: list[WatchEvent[Any]] = [
            WatchEvent(entry.type, msgspec.convert(entry.document, self._resource.type)) for entry in entries
        ]
        batch, doubt = self._replica.apply(events)
        assert not doubt
        self.delivered = entries[-1].version
        if batch.changes:
            self._publish(batch)

    def relist(self) -> None:
        """List all objects, as at the start, or after a watch that was cut for longer than the hub's history."""
        self._replica.begin_list()
        batch = self._replica.replace(self._hub.all(self._resource), version=str(self._hub.revision))
        self.delivered = self._hub.revision
        self._publish(batch)

    def _publish(self, batch: Batch[Any]) -> None:
        for handler in self._handlers:
            handler(batch)

    def get(self, name: str, *, namespace: str = "") -> Any:
        return self.store.get((namespace, name))

    def observe(self, obj: Any) -> None:
        """Store a response at once, as an informer does."""
        self._publish_response(self._replica.observe(obj))

    def observe_deletion(self, obj: Any) -> None:
        self._publish_response(self._replica.observe_deletion(obj))

    def _publish_response(self, batch: Batch[Any]) -> None:
        if batch.changes:
            self._publish(batch)

    def subscribe(self, handler: Callable[[Batch[Any]], object]) -> None:
        self._handlers.append(handler)
        if self.delivered >= 0:
            handler(self._replica.as_added())


@dataclass(slots=True, kw_only=True)
class Call:
    """A request of a controller. Awaiting it hands it to the code that drives the coroutine."""

    verb: str
    resource: Resource[Any]
    name: str
    namespace: str = ""
    body: Any = None
    kind: Patch = Patch.MERGE
    subresource: str = ""
    preconditions: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return (self.resource.plural, self.namespace, self.name)

    def __await__(self) -> Generator["Call", Any, Any]:
        return (yield self)


class FakeClient:
    """The part of a client that controllers use. ``send`` answers a call, or waits."""

    def __init__(self, send: Callable[[Call], Awaitable[Any]]) -> None:
        self._send = send

    async def get(self, resource: Resource[Any], name: str, *, namespace: str | None = None) -> Any:
        return await self._send(Call(verb="get", resource=resource, namespace=namespace or "", name=name))

    async def list(
        self, resource: Resource[Any], *, namespace: str | None = None, labels: str = ""
    ) -> Listing[Any]:
        """``labels`` is one requirement of equality."""
        call = Call(verb="list", resource=resource, namespace=namespace or "", name=labels)
        return Listing(items=await self._send(call), resource_version="")

    async def create(
        self,
        resource: Resource[Any],
        body: Any,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        **_: Any,
    ) -> Any:
        document = as_document(body)
        name = document["metadata"]["name"]
        call = Call(verb="create", resource=resource, namespace=namespace or "", name=name, body=document)
        call.subresource = subresource or ""
        return await self._send(call)

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        body: Any,
        *,
        kind: Patch,
        namespace: str | None = None,
        subresource: str | None = None,
        **_: Any,
    ) -> Any:
        call = Call(
            verb="patch", resource=resource, namespace=namespace or "", name=name, body=body, kind=kind
        )
        call.subresource = subresource or ""
        return await self._send(call)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        *,
        namespace: str | None,
        uid: str,
        resource_version: str | None = None,
    ) -> None:
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        await self._send(
            Call(
                verb="delete",
                resource=resource,
                namespace=namespace or "",
                name=name,
                preconditions={key: value for key, value in preconditions.items() if value is not None},
            )
        )


class FakeHub:
    def __init__(self, *, live: bool = True) -> None:
        self.revision = FIRST_REVISION
        self.documents: dict[Key, Document] = {}
        self.log: list[Entry] = []
        self.floor = 0
        """Watches and pages from before this revision have expired."""
        self.writes: list[tuple[str, str]] = []
        """Verb and target of every write of the client."""
        self.reject: Callable[[Any], None] = lambda _: None
        self._live = live
        self._informers: dict[str, FakeInformer] = {}
        self._typed: dict[Key, tuple[Document, Any]] = {}
        self._uids = itertools.count(1)
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def client(self) -> Client:
        return cast("Client", FakeClient(self._send))

    @property
    def informers(self) -> InformerFactory:
        return cast("InformerFactory", self)

    def of(self, resource: Resource[Any], *, fields: str = "") -> FakeInformer:
        assert fields in ("", "metadata.name=managed-cluster-lease")
        if resource.plural not in self._informers:
            made = self._informers[resource.plural] = FakeInformer(self, resource)
            if self._live:
                made.relist()
        return self._informers[resource.plural]

    def disconnect(self) -> None:
        """Forget all informers, as when their process ends."""
        self._informers.clear()

    # Waiting

    def notify(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def until(self, true: Callable[[], bool], *, seconds: float = 100_000) -> float:
        """Wait until the condition holds, and return the loop's time. It is checked after every change."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(seconds):
            while not true():
                waiter = loop.create_future()
                self._waiters.append(waiter)
                await waiter
        return loop.time()

    # Objects

    def read(self, resource: Resource[Any], namespace: str, name: str) -> Any:
        """Return the object on the hub, even if the watch has not delivered it."""
        key = (resource.plural, namespace, name)
        document = self.documents[key]
        known = self._typed.get(key)
        if known is None or known[0] is not document:
            known = self._typed[key] = (document, msgspec.convert(document, resource.type))
        return known[1]

    def all(self, resource: Resource[Any]) -> dict[tuple[str, str], Any]:
        keys = [key for key in self.documents if key[0] == resource.plural]
        return {key[1:]: self.read(resource, *key[1:]) for key in keys}

    def put(self, resource: Resource[Any], thing: Any, *, namespace: str = "") -> Any:
        """Create or replace, as another client, and return the object. Nothing happens to an equal one."""
        document = as_document(thing)
        place = namespace or document["metadata"].get("namespace", "")
        name = document["metadata"]["name"]
        self.store((resource.plural, place, name), document)
        return self.read(resource, place, name)

    def store(self, key: Key, document: Document, *, author: str = "", touch: bool = False) -> Entry:
        """Create or replace. ``touch`` writes an equal object, too."""
        old = self.documents.get(key)
        identity = {"uid": f"uid-{next(self._uids)}", "resourceVersion": ""}
        if old is not None:
            identity = {name: old["metadata"][name] for name in IDENTITY}
        if key[1]:
            identity["namespace"] = key[1]
        new = {**document, "metadata": {**document["metadata"], **identity}}
        if new == old and not touch:
            return Entry(self.revision, key, "MODIFIED", new, author)
        self.revision += 1
        new["metadata"]["resourceVersion"] = str(self.revision)
        self.documents[key] = new
        return self._record(key, "ADDED" if old is None else "MODIFIED", new, author)

    def drop(self, resource: Resource[Any], name: str, *, namespace: str = "", author: str = "") -> Any:
        """Delete an object, as another client, and return its last state."""
        entry = self.erase((resource.plural, namespace, name), author=author)
        assert entry is not None
        return msgspec.convert(entry.document, resource.type)

    def erase(self, key: Key, *, author: str = "") -> Entry | None:
        old = self.documents.pop(key, None)
        if old is None:
            return None
        self.revision += 1
        deleted = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.revision)}}
        return self._record(key, "DELETED", deleted, author)

    def _record(self, key: Key, type_: EventType, document: Document, author: str) -> Entry:
        entry = Entry(self.revision, key, type_, document, author)
        self.log.append(entry)
        if self._live:
            if key[0] in self._informers:
                self._informers[key[0]].deliver()
            self.notify()
        return entry

    def compact(self) -> None:
        """Expire all earlier revisions."""
        self.revision += 1
        self.floor = self.revision

    def rewind(self, revision: int) -> None:
        """Restore a backup of that revision. No uid is used twice."""
        self.log = [entry for entry in self.log if entry.version <= revision]
        self.documents = {}
        for entry in self.log:
            self.documents.pop(entry.key, None)
            if entry.type != "DELETED":
                self.documents[entry.key] = entry.document
        self.revision = revision
        self.floor = min(self.floor, revision)

    # Requests of the controller

    async def _send(self, call: Call) -> Any:
        target = f"{call.namespace}/{call.name}" if call.namespace else call.resource.plural
        if call.verb == "create":
            target = f"{call.resource.plural} {call.namespace}"
        elif call.subresource:
            target += f"/{call.subresource}"
        if call.verb != "get":
            self.writes.append((call.verb, target))
        if call.verb == "patch":
            self.reject(call.body)
        return self.answer(call)

    def answer(self, call: Call, *, author: str = "") -> Any:
        """Carry a request out. Raises what a client raises."""
        if call.verb == "list":
            label, _, value = call.name.partition("=")
            return tuple(
                item
                for (namespace, _), item in self.all(call.resource).items()
                if namespace == call.namespace and item.metadata.labels.get(label) == value
            )
        key, old = call.key, self.documents.get(call.key)
        if call.verb == "create":
            if old is not None:
                raise refused(AlreadyExists, 409, "AlreadyExists")
            self.store(key, call.body, author=author)
            return self.read(call.resource, *key[1:])
        if old is None:
            raise refused(NotFound, 404, "NotFound")
        if call.verb == "delete":
            check_identity(old, call.preconditions)
            self.erase(key, author=author)
            return None
        if call.verb == "patch":
            new = (mergepatch if call.kind is Patch.MERGE else jsonpatch).apply(old, call.body)
            check_identity(old, new["metadata"])
            if call.subresource == "status":
                new = {**old, "status": new["status"]}
            elif "status" in old:
                new = {**new, "status": old["status"]}
            self.store(key, new, author=author)
        return self.read(call.resource, *key[1:])


def as_document(thing: Any) -> Document:
    return thing if isinstance(thing, dict) else cast("Document", msgspec.to_builtins(thing))


def reported_condition(type_: str, status: str, *, since: str = "2020-01-01T00:00:00Z") -> Document:
    """A condition, as another client writes it."""
    return {"type": type_, "status": status, "reason": "Said", "message": "", "lastTransitionTime": since}


def refused(kind: type[Any], code: int, reason: str = "") -> ApiError:
    made: ApiError = kind("rejected by the fake hub", code=code, reason=reason)
    return made


def check_identity(old: Document, given: Mapping[str, Any]) -> None:
    """Require that uid and resource version are those of the object, where they are given."""
    for name in IDENTITY:
        if given.get(name) not in (None, old["metadata"].get(name)):
            raise refused(Conflict, 409, "Conflict")


class KillableHub(FakeHub):
    """A hub on which a controller can be killed at a write: its requests then wait forever."""

    def __init__(self, *, live: bool = True) -> None:
        super().__init__(live=live)
        self.kill_at: tuple[int, bool] | None = None
        """The write at which the controller dies, counted from 1, and whether the hub still carries it out."""
        self.dead = False
        self.sent = 0

    async def _send(self, call: Call) -> Any:
        await asyncio.sleep(0)
        if self.dead:
            await asyncio.Future()
        if call.verb != "get":
            self.sent += 1
            if self.kill_at is not None and self.sent == self.kill_at[0]:
                self.dead = True
                if self.kill_at[1]:
                    with suppress(Exception):
                        self.answer(call)
                self.notify()
                await asyncio.Future()
            await self.before_write(call)
        return await super()._send(call)

    async def before_write(self, call: Call) -> None:
        """Do nothing. Override it to change objects, or to raise in place of the hub."""

    def revive(self) -> None:
        """Forget the killed controller."""
        self.dead, self.kill_at = False, None
        self.disconnect()
