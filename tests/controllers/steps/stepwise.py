"""A hub, a client, a queue and a clock in plain memory: the placement controller with nothing left to chance.

A request of the controller waits in its worker until somebody says what becomes of it: carried out, answered, refused,
or cut off before or after it was carried out. What the watch tells waits likewise. So every order of events there can
be on a real hub can be played, and none comes by itself.
"""

import itertools
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import structs

from controllers.chaos.truth import KINDS
from fairway.kube import (
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    AlreadyExists,
    Batch,
    Conflict,
    KubeError,
    NotFound,
    Resource,
)
from fairway.kube.codec import EventType, WatchEvent
from fairway.kube.replica import Replica

Key = tuple[str, str]

CONTROLLER: Final = "the controller"
FORMER: Final = "a controller that is no more"
SOMEBODY: Final = "somebody"


@dataclass(frozen=True, slots=True)
class Entry:
    revision: int
    plural: str
    type: EventType
    object: Any
    author: str


class PretendHub:
    """Objects by kind and key, and everything that was ever written, with resource versions as hubs give them out."""

    def __init__(self) -> None:
        self.revision = 10
        self.objects: dict[str, dict[Key, Any]] = {each.plural: {} for each in KINDS}
        self.log: list[Entry] = []
        self._uids = itertools.count(1)

    def put(self, resource: Resource[Any], thing: Any, *, author: str = SOMEBODY) -> Any:
        """Creates or replaces. Nothing happens if it is as it was."""
        key = (thing.metadata.namespace, thing.metadata.name)
        there = self.objects[resource.plural]
        old = there.get(key)
        uid = f"uid-{next(self._uids)}" if old is None else old.metadata.uid
        version = "" if old is None else old.metadata.resourceVersion
        new = structs.replace(
            thing, metadata=structs.replace(thing.metadata, uid=uid, resourceVersion=version)
        )
        if old == new:
            return old
        self.revision += 1
        meta = structs.replace(new.metadata, resourceVersion=str(self.revision))
        there[key] = new = structs.replace(new, metadata=meta)
        self._tell(resource, "ADDED" if old is None else "MODIFIED", new, author)
        return new

    def delete(self, resource: Resource[Any], key: Key, *, author: str = SOMEBODY) -> Any:
        old = self.objects[resource.plural].pop(key)
        self.revision += 1
        gone = structs.replace(
            old, metadata=structs.replace(old.metadata, resourceVersion=str(self.revision))
        )
        self._tell(resource, "DELETED", gone, author)
        return gone

    def _tell(self, resource: Resource[Any], type_: EventType, thing: Any, author: str) -> None:
        self.log.append(Entry(self.revision, resource.plural, type_, thing, author))

    def collect(self) -> None:
        """What belonged to a placement that is gone goes as well."""
        owners = {each.metadata.uid for each in self.objects[PLACEMENTS.plural].values()}
        for key, each in list(self.objects[PLACEMENT_DECISIONS.plural].items()):
            references = each.metadata.ownerReferences
            if references and not any(reference.uid in owners for reference in references):
                self.delete(PLACEMENT_DECISIONS, key, author="the garbage collector")

    def restore(self, revision: int) -> None:
        """As from a backup. Names are given out anew, uids are not."""
        self.log = [each for each in self.log if each.revision <= revision]
        self.objects = {each.plural: {} for each in KINDS}
        for entry in self.log:
            key = (entry.object.metadata.namespace, entry.object.metadata.name)
            self.objects[entry.plural].pop(key, None)
            if entry.type != "DELETED":
                self.objects[entry.plural][key] = entry.object
        self.revision = revision

    def last_write(self, resource: Resource[Any], key: Key) -> Entry:
        return next(
            entry
            for entry in reversed(self.log)
            if entry.plural == resource.plural
            and (entry.object.metadata.namespace, entry.object.metadata.name) == key
        )

    # What the controller asks

    def answer(self, call: "Call", *, author: str = CONTROLLER) -> Any:
        """Carries it out. Raises KubeErrors as hubs do."""
        key = (call.namespace, call.name)
        old = self.objects[call.resource.plural].get(key)
        if call.verb == "create":
            if old is not None:
                raise refused(AlreadyExists, 409)
            return self.put(call.resource, call.body, author=author)
        if old is None:
            raise refused(NotFound, 404)
        if call.verb == "get":
            return old
        for name, value in call.preconditions.items():
            if getattr(old.metadata, name) != value:
                raise refused(Conflict, 409)
        if call.verb == "delete":
            return self.delete(call.resource, key, author=author)
        part = "status" if call.subresource else "metadata"
        merged = _merged(msgspec.to_builtins(getattr(old, part)), call.body[part])
        changed = msgspec.convert(merged, type(getattr(old, part)))
        return self.put(call.resource, structs.replace(old, **{part: changed}), author=author)


def refused(kind: type[Any], code: int) -> KubeError:
    made: KubeError = kind("pretended", code=code)
    return made


def _merged(old: Any, patch: Any) -> Any:
    """A merge patch."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


class Informed:
    """What the controller has been told of one kind so far; in the place of an informer."""

    def __init__(self, hub: PretendHub, resource: Resource[Any]) -> None:
        self._hub, self._resource = hub, resource
        self._handlers: list[Callable[[Batch[Any]], object]] = []
        self._replica: Replica[Any] = Replica()
        self.told = -1

    @property
    def store(self) -> dict[Key, Any]:
        return self._replica.store

    def subscribe(self, handler: Callable[[Batch[Any]], object]) -> None:
        self._handlers.append(handler)

    def _tell(self, batch: Batch[Any]) -> None:
        for handler in self._handlers:
            handler(batch)

    @property
    def waiting(self) -> list[Entry]:
        return [
            each
            for each in self._hub.log
            if each.revision > self.told and each.plural == self._resource.plural
        ]

    def hear(self, count: int) -> None:
        """The next so many events, in one batch."""
        entries = self.waiting[:count]
        if not entries:
            return
        events: list[WatchEvent[Any]] = [WatchEvent(each.type, each.object) for each in entries]
        batch, doubt = self._replica.apply(events)
        assert not doubt
        self.told = entries[-1].revision
        if batch.changes:
            self._tell(batch)

    def list_all(self) -> None:
        """As after a watch that was cut for so long that the hub has forgotten, or at the beginning."""
        found = dict(self._hub.objects[self._resource.plural])
        batch = self._replica.replace(found, version=str(self._hub.revision))
        self.told = self._hub.revision
        self._tell(batch)


@dataclass(slots=True, kw_only=True)
class Call:
    """One request. Awaiting it hands it to whoever drives the worker."""

    verb: str
    resource: Resource[Any]
    namespace: str
    name: str
    body: Any = None
    subresource: str = ""
    preconditions: dict[str, str] = field(default_factory=dict)

    def __await__(self) -> Generator["Call", Any, Any]:
        return (yield self)


class PretendClient:
    async def get(self, resource: Resource[Any], name: str, *, namespace: str) -> Any:
        return await Call(verb="get", resource=resource, namespace=namespace, name=name)

    async def create(self, resource: Resource[Any], body: Any, *, namespace: str) -> Any:
        return await Call(
            verb="create", resource=resource, namespace=namespace, name=body.metadata.name, body=body
        )

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        body: dict[str, Any],
        *,
        kind: object,
        namespace: str,
        subresource: str = "",
    ) -> Any:
        metadata = dict(body.get("metadata", {}))
        preconditions = {each: metadata.pop(each) for each in ("uid", "resourceVersion")}
        return await Call(
            verb="patch",
            resource=resource,
            namespace=namespace,
            name=name,
            body={**body, "metadata": metadata},
            subresource=subresource,
            preconditions=preconditions,
        )

    async def delete(
        self, resource: Resource[Any], name: str, *, namespace: str, uid: str, resource_version: str
    ) -> None:
        await Call(
            verb="delete",
            resource=resource,
            namespace=namespace,
            name=name,
            preconditions={"uid": uid, "resourceVersion": resource_version},
        )


class Worker:
    """One look at one key that is on its way. ``call`` is what it waits for."""

    def __init__(self, key: Key, coroutine: Coroutine[Any, Any, None]) -> None:
        self.key = key
        self.call: Call | None = None
        self.done = False
        self.failed = False
        self._coroutine = coroutine
        self._answer: Any = None
        self._error: KubeError | None = None
        self.carried_out = False
        self._go(lambda: coroutine.send(None))

    def carry_out(self, hub: PretendHub) -> None:
        assert self.call is not None
        self.carried_out = True
        try:
            self._answer = hub.answer(self.call)
        except KubeError as error:
            self._error = error

    def answer(self) -> None:
        answer, error = self._answer, self._error
        if error is not None:
            self.fail(error)
        else:
            self._go(lambda: self._coroutine.send(answer))

    def fail(self, error: KubeError) -> None:
        self._go(lambda: self._coroutine.throw(error))

    def _go(self, go: Callable[[], Any]) -> None:
        self.call, self.carried_out, self._answer, self._error = None, False, None, None
        try:
            self.call = go()
        except StopIteration:
            self.done = True
        except KubeError:
            self.done = self.failed = True


class PretendClock:
    def __init__(self, now: datetime) -> None:
        self.now = now

    def wall(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return self.now.timestamp()


class PretendQueue:
    """Keys to look at, and keys to look at later."""

    def __init__(self, clock: PretendClock) -> None:
        self._clock = clock
        self.keys: dict[Key, None] = {}
        self.delayed: dict[Key, datetime] = {}

    def add(self, key: Key) -> None:
        self.keys[key] = None

    def add_after(self, key: Key, *, delay: float) -> None:
        if delay <= 0:
            self.add(key)
            return
        due = self._clock.now + timedelta(seconds=delay)
        self.delayed[key] = min(due, self.delayed.get(key, due))

    def discard(self, key: Key) -> None:
        self.keys.pop(key, None)
        self.delayed.pop(key, None)

    def fire(self) -> None:
        for key, due in list(self.delayed.items()):
            if due <= self._clock.now:
                del self.delayed[key]
                self.add(key)


class PretendRecorder:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def event(self, _about: object, *, reason: str, message: str, **_rest: object) -> None:
        self.told.append((reason, message))
