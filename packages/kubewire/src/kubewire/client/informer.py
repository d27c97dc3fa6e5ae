"""A local copy of one resource, kept up to date by list and watch; subscribers get the changes.

The informer starts with a full list and continues with a watch. Watches end: the hub ends them every few minutes,
connections break, hubs restart. The informer resumes from the last resource version it has, and if the hub has
compacted that one (410), it lists again and delivers the difference.

**Never backwards.** Resource versions are numbers that grow with every write (Kubernetes guarantees it since 1.35, and
it was so before). The informer remembers the highest one. A watch that sends an older one is not trusted: it is closed,
and a full list decides. All lists are consistent reads, not from the hub's cache, so a list that is older than what was
delivered has one explanation: the hub's history went back, as after a restored backup. Only then may objects get older,
all at once, in one batch of a new ``epoch``. Such a hub could hold a watch open silently until it reaches the old
version, so the informer asks for the hub's version whenever a watch was opened.

A history that went back *and* grew past the old version while the informer was disconnected looks like one that only
grew. The next full list corrects that: ``relist_after`` requests one periodically.

Versions that are not numbers are taken in the order in which they arrive.

**Never long.** Handlers run in the loop. After a gap, a list may differ in every object, and a busy hub sends thousands
of events at once. So changes are delivered in parts, and other tasks run in between; what ``observe`` stores meanwhile
comes after the pending changes of the object. The first list is delivered at once: subscribers load it faster than
single changes, and nothing works before it.
"""

import asyncio
import logging
import math
import random
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from types import MappingProxyType, TracebackType
from typing import Final, Generic

from kubewire.api.meta import UnreadableField
from kubewire.api.resource import Key, Resource, T, key_of
from kubewire.client.change import Batch, Change, PendingChanges
from kubewire.client.clock import Backoff
from kubewire.client.codec import Unreadable
from kubewire.client.errors import (
    BadRequest,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    MethodNotAllowed,
    ServerError,
    TransportError,
)
from kubewire.client.index import Index, Values
from kubewire.client.log_throttle import LogThrottle
from kubewire.client.replica import Replica, number_of
from kubewire.client.rest import PAGE, Client
from kubewire.client.watch import Stream

UNREADABLE: Final = "unreadable fields dropped  kind=%s name=%s fields=%r"
LISTING_FAILED: Final = "cannot list %s: %s"
UNEXPECTED_ERROR: Final = "unexpected error while watching %s; listing again"
LIST_END_MISSING: Final = "the end of the initial list was not marked"

HEALTHY_SECONDS: Final = 10.0
"""A watch that lasted so long resets the backoff."""
SHORT_SECONDS: Final = 1.0
"""A watch that ended sooner waits for the backoff before the next one."""
STREAMING_LIST_SECONDS: Final = 5.0
"""A hub whose streaming list is silent for this time does not support it."""
UNFINISHED_LISTS: Final = 3
"""After so many streaming lists that the hub ended early, paged lists are used."""
NAMED_OBJECTS: Final = 5
PART: Final = 200
"""Objects whose changes are delivered at a time: a handler takes about 50 µs for one."""

_log = logging.getLogger(__name__)
_BACKOFF: Final = Backoff(base=0.25, cap=30.0)

Handler = Callable[[Batch[T]], object]


class _NotStreaming(Exception):
    """The hub ignores or refuses ``sendInitialEvents``."""


class _Inconsistent(KubeError):
    """The hub's responses contradict each other."""


class Informer(Generic[T]):
    """Run it in ``async with``, or ``run`` it as a task. Handlers are called in the loop, and must not block.

    Keeps every object. After the first sync of a large fleet, ``gc.freeze`` spares the collector from walking them.

    A watch lasts between ``watch_seconds`` and twice as long, so that not all end together. If the hub does not end it
    in time, the connection counts as dead.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        page: int = PAGE,
        streaming: bool = True,
        watch_seconds: float = 300.0,
        list_timeout: float = STREAMING_LIST_SECONDS,
        relist_after: float | None = None,
        backoff: Backoff = _BACKOFF,
    ) -> None:
        resource.path(namespace=namespace)  # fail early for an invalid namespace
        self.resource, self.fields = resource, fields
        self.synced = asyncio.Event()
        """Set once the first list is in the store, and never cleared."""
        self.lists = 0
        """Full lists so far."""
        self._client, self._namespace = client, namespace
        self._labels, self._page = labels, page
        self._streaming, self._list_timeout = streaming, list_timeout
        self._watch_seconds, self._relist_after, self._backoff = watch_seconds, relist_after, backoff
        self._replica: Replica[T] = Replica()
        self._handlers: list[Handler[T]] = []
        self._indexes: dict[Values[T], Index[T]] = {}
        self._undelivered: dict[Key, list[Change[T]]] = {}
        """Changes of the last list, in order."""
        self._list_needed = True
        self._unfinished = 0
        self._clock: Callable[[], float] | None = None
        self._listed_at = -math.inf
        self._current = False
        self._current_at = -math.inf
        self._task: asyncio.Task[None] | None = None
        self._throttle = LogThrottle(_log)

    @property
    def store(self) -> Mapping[Key, T]:
        """A live view."""
        return MappingProxyType(self._replica.store)

    def get(self, name: str, *, namespace: str = "") -> T | None:
        return self._replica.store.get((namespace, name))

    @property
    def resource_version(self) -> str:
        """All changes up to this version are in the store."""
        return self._replica.version

    @property
    def epoch(self) -> int:
        """How often the hub's history went back."""
        return self._replica.epoch

    @property
    def unreadable(self) -> Mapping[Key, tuple[UnreadableField, ...]]:
        """Objects with fields that could not be decoded, and these fields. A live view."""
        return MappingProxyType(self._replica.unreadable)

    @property
    def lag(self) -> float:
        """Seconds for which the store may be behind: 0 while a watch is open, infinite before the first list."""
        if self._clock is None or not self.synced.is_set():
            return math.inf
        return 0.0 if self._current else self._clock() - self._current_at

    def observe(self, obj: T) -> None:
        """Store the hub's response to one of our own requests now, instead of when the watch delivers it.

        Subscribers get the change at once, and no older version of the object after it. Call it after a write that the
        next decision depends on; see ``replica`` for the rules.
        """
        self._publish_response(obj, self._replica.observe(obj))

    def observe_deletion(self, obj: T) -> None:
        """Remove an object now that the hub has deleted on our request, instead of when the watch delivers it.

        ``obj`` is its last known state. An object that waits for its finalizers is stored again when the watch
        delivers it.
        """
        self._publish_response(obj, self._replica.observe_deletion(obj))

    def _publish_response(self, obj: T, batch: Batch[T]) -> None:
        if batch.changes:
            if (pending := self._undelivered.pop(key_of(obj), None)) is not None:
                self._publish(self._replica.batch(pending, listed=True))
            self._publish(batch)

    def subscribe(self, handler: Handler[T]) -> Callable[[], None]:
        """Call ``handler`` with every batch from now on, beginning with all objects. Return a function that
        unsubscribes.

        If the store is filled already, the first call happens at once. A handler that raises is logged, and misses that
        batch.
        """
        # The new subscriber gets the store, which has these changes already.
        self._deliver_part(len(self._undelivered))
        self._handlers.append(handler)
        if self.synced.is_set():
            self._notify(handler, self._replica.as_added())

        def unsubscribe() -> None:
            with suppress(ValueError):
                self._handlers.remove(handler)

        return unsubscribe

    def index(self, values: Values[T]) -> Index[T]:
        """Return the index of the store by these values, one for each function. Handlers find each change in it."""
        index = self._indexes.get(values)
        if index is None:
            # The new index begins with the store, which has these changes already.
            self._deliver_part(len(self._undelivered))
            index = self._indexes[values] = Index(values, self.store)
        return index

    async def changes(self) -> AsyncGenerator[Batch[T], None]:
        """Iterate over the batches; those that arrive between two iterations are merged into one."""
        pending: PendingChanges[T] = PendingChanges()
        unsubscribe = self.subscribe(pending.add)
        try:
            while True:
                yield await pending.take()
        finally:
            unsubscribe()

    async def __aenter__(self) -> "Informer[T]":
        self._task = asyncio.create_task(self.run(), name=f"informer {self.resource}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def run(self) -> None:
        """Run until cancelled, whatever the hub does."""
        self._clock = clock = asyncio.get_running_loop().time
        failures = 0
        while True:
            began = clock()
            ended_regularly = await self._round()
            lived = clock() - began
            if lived >= HEALTHY_SECONDS:
                failures = 0
            if ended_regularly and lived >= SHORT_SECONDS:
                continue
            await asyncio.sleep(self._backoff.delay(failures) * random.uniform(0.5, 1.0))
            failures += 1

    async def _round(self) -> bool:
        """List if needed, and watch until the watch ends. Return whether it ended regularly."""
        lists = self.lists if self._list_needed else -1
        try:
            await self._list_and_watch()
            return True
        except KubeError as error:
            # The hub has not reached the version of the store: one of its replicas is behind, or its history went
            # back. A list is a consistent read, and decides which.
            behind = isinstance(error, ServerError) and error.version_too_large
            self._list_needed |= behind or isinstance(error, Expired | _Inconsistent)
            self._report(error, listing=lists == self.lists)
        except Exception:
            self._list_needed = True
            _log.exception(UNEXPECTED_ERROR, self.resource)
        finally:
            self._note_watch_end()
        return False

    def _report(self, error: KubeError, *, listing: bool) -> None:
        topic = (listing, type(error))
        if listing:
            self._throttle.log(logging.WARNING, topic, LISTING_FAILED, self.resource, error)
            return
        # Broken connections and compacted histories are normal. A hub that refuses is worth a warning.
        level = logging.INFO if isinstance(error, TransportError | Expired) else logging.WARNING
        if self._list_needed:
            self._throttle.log(level, topic, "watch of %s closed: %s; listing again", self.resource, error)
        else:
            self._throttle.log(
                level,
                topic,
                "watch of %s closed: %s; resuming from resource version %s",
                self.resource,
                error,
                self.resource_version,
            )

    def _note_watch_end(self) -> None:
        assert self._clock is not None
        if self._current:
            self._current, self._current_at = False, self._clock()
        if self._relist_after is not None and self._clock() - self._listed_at >= self._relist_after:
            self._list_needed = True

    async def _list_and_watch(self) -> None:
        if self._list_needed and self._streaming:
            try:
                await self._watch()
            except _NotStreaming as reason:
                self._streaming = False
                _log.info(
                    "the hub does not support streaming lists of %s (%s): using paged lists",
                    self.resource,
                    reason,
                )
            else:
                return
        if self._list_needed:
            await self._list()
        await self._watch()

    async def _list(self) -> None:
        self._replica.begin_list()
        page = await self._client.list(
            self.resource,
            namespace=self._namespace,
            labels=self._labels,
            fields=self.fields,
            limit=self._page,
        )
        self._log_unreadable(page.unreadable)
        await self._replace({key_of(obj): obj for obj in page.items}, page.resource_version)

    async def _watch(self) -> None:
        initial = self._list_needed
        if initial:
            self._replica.begin_list()
        try:
            async with self._client.stream(
                self.resource,
                namespace=self._namespace,
                labels=self._labels,
                fields=self.fields,
                resource_version="" if initial else self.resource_version,
                initial_events=initial,
                timeout=self._watch_seconds * random.uniform(1.0, 2.0),
            ) as stream:
                if initial:
                    await self._receive_all(stream)
                else:
                    # Check after opening: from here on this connection would break if the hub were restored.
                    await self._check_history()
                self._current = True
                async for events in stream:
                    self._log_unreadable(stream.unreadable)
                    for at in range(0, len(events), PART):
                        if at:
                            await asyncio.sleep(0)
                        part = events[at : at + PART]
                        self._deliver(*self._replica.apply(part, unreadable=stream.unreadable))
        except (BadRequest, Invalid) as error:
            if initial and self._list_needed:
                raise _NotStreaming(error.message) from None
            raise

    async def _receive_all(self, stream: Stream[T]) -> None:
        """Read a streaming list up to the bookmark that marks its end."""
        objects: dict[Key, T] = {}
        while True:
            try:
                async with asyncio.timeout(self._list_timeout):
                    events = await anext(stream)
            except TimeoutError:
                raise _NotStreaming(LIST_END_MISSING) from None
            except StopAsyncIteration:
                self._unfinished += 1
                if self._unfinished >= UNFINISHED_LISTS:
                    raise _NotStreaming(LIST_END_MISSING) from None
                raise TransportError("the watch ended before the initial list was complete") from None
            self._log_unreadable(stream.unreadable)
            for at, event in enumerate(events):
                if event.type == "BOOKMARK":
                    if not event.ends_initial_events:
                        raise _NotStreaming(LIST_END_MISSING)
                    self._unfinished = 0
                    await self._replace(objects, event.object.metadata.resourceVersion)
                    self._deliver(*self._replica.apply(events[at + 1 :], unreadable=stream.unreadable))
                    return
                if event.type == "DELETED":
                    objects.pop(key_of(event.object), None)
                else:
                    objects[key_of(event.object)] = event.object

    async def _check_history(self) -> None:
        newest = (
            self._replica.newest
        )  # before the request: a response meanwhile may be newer than the hub's answer
        try:
            version = await self._client.newest(self.resource, namespace=self._namespace)
        except (Forbidden, MethodNotAllowed):
            return  # not allowed to ask: skip the check
        number = number_of(version)
        if newest is not None and number is not None and number < newest:
            raise _Inconsistent(f"the hub is at resource version {version}, older than {newest}")

    async def _replace(self, objects: dict[Key, T], version: str) -> None:
        before, epoch, first = self.resource_version, self.epoch, not self.synced.is_set()
        if not first:
            # Comparing all objects takes longer than replacing them. An equal one is then the same one.
            for keys in _parts(objects):
                self._replica.share_equal(objects, keys)
                await asyncio.sleep(0)
        batch = self._replica.replace(objects, version=version)
        if batch.epoch != epoch:
            _log.warning(
                "the hub's history of %s went back from resource version %s to %s, as after a restored backup; "
                "starting epoch %d",
                self.resource,
                before,
                version,
                batch.epoch,
            )
        self._list_needed = not version
        self.lists += 1
        assert self._clock is not None
        self._listed_at = self._current_at = self._clock()
        self.synced.set()
        if first or batch.epoch != epoch or len(batch.changes) <= PART:
            # Also without changes: subscribers with unobserved writes learn the new version.
            self._publish(batch)
            return
        for change in batch.changes:
            self._undelivered.setdefault(key_of(change.object), []).append(change)
        try:
            while self._undelivered:
                self._deliver_part(PART)
                await asyncio.sleep(0)
        finally:
            self._deliver_part(len(self._undelivered))  # if it was cancelled

    def _deliver_part(self, count: int) -> None:
        """Deliver the changes of so many objects of the last list."""
        keys = tuple(islice(self._undelivered, count))
        if keys:
            changes = [change for key in keys for change in self._undelivered.pop(key)]
            self._publish(self._replica.batch(changes, listed=True))

    def _deliver(self, batch: Batch[T], reason: str) -> None:
        if batch.changes:
            self._publish(batch)
        if reason:
            raise _Inconsistent(reason)

    def _log_unreadable(self, unreadable: Sequence[Unreadable]) -> None:
        for obj in unreadable:
            # One line per namespace: a user who may write there may write any number of objects.
            topic = obj.key[0] or obj.key
            self._throttle.log(logging.WARNING, topic, UNREADABLE, self.resource.kind, obj.name, obj.reason)

    def _publish(self, batch: Batch[T]) -> None:
        for index in self._indexes.values():
            self._notify(index.update, batch)
        for handler in tuple(self._handlers):
            self._notify(handler, batch)

    def _notify(self, handler: Handler[T], batch: Batch[T]) -> None:
        try:
            handler(batch)
        except Exception:
            names = [_name_of(change) for change in batch.changes[:NAMED_OBJECTS]]
            if len(batch.changes) > NAMED_OBJECTS:
                names.append("…")
            count = len(batch.changes)
            _log.exception(
                "handler %r failed and missed %d changes of %s (%s)",
                handler,
                count,
                self.resource,
                ", ".join(names),
            )


def _parts(objects: Mapping[Key, T]) -> Iterator[tuple[Key, ...]]:
    keys = iter(tuple(objects))
    while part := tuple(islice(keys, PART)):
        yield part


def _name_of(change: Change[T]) -> str:
    meta = change.object.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
