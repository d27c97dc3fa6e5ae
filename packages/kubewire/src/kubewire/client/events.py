"""Record Events about objects: many occurrences, few writes.

Recording is immediate and never fails: the occurrence is aggregated, and a background task writes.

- The same event within an hour: count and time are updated, at most every ``update_every`` seconds. Repetitions
  meanwhile are one write.
- The same reason with different messages: after ten, further ones become one event, whose message begins with
  ``(combined from similar events)``.
- Too many about one object: 25 writes at once, then one every five minutes. Suppressed occurrences are still counted.

No occurrence is lost silently: ``observe`` is called with what became of it, and dropped ones are logged with their
number.

By default these are core Events, as kubectl and OCM use them. Events of events.k8s.io have a series instead of a count.
"""

import asyncio
import enum
import logging
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Protocol

from kubewire.api.event import NORMAL, CoreEvent, Event, EventSeries, EventSource, ObjectReference
from kubewire.api.lease import format_micro_time
from kubewire.api.meta import ObjectMeta, format_time
from kubewire.api.resource import KubeStruct, Resource
from kubewire.client.clock import SYSTEM_CLOCK, Backoff, Clock
from kubewire.client.correlator import Correlator, EventRecord, Limits, Occurrence, cut
from kubewire.client.errors import AlreadyExists, ApiError, KubeError, NotFound
from kubewire.client.log_throttle import retry_level
from kubewire.client.request_options import Patch
from kubewire.client.rest import Client

log: Final = logging.getLogger(__name__)

DROPPED: Final = "events dropped because too many were pending  dropped=%d"
NOT_WRITTEN: Final = (
    "events dropped because the hub did not accept them before the process stopped  dropped=%d"
)
CLOSING_WRITERS: Final = 8
"""Concurrent writes at the end of the block: nothing else is written then."""
LONGEST_WORD: Final = 128
"""Bytes of a reason, an action or an instance."""
NO_NAMESPACE: Final = "default"
"""The namespace of events about cluster-scoped objects."""

CORE_EVENTS: Final = Resource(
    group="", version="v1", plural="events", kind="Event", namespaced=True, type=CoreEvent
)
EVENTS: Final = Resource(
    group="events.k8s.io", version="v1", plural="events", kind="Event", namespaced=True, type=Event
)


class Api(enum.Enum):
    CORE = "v1"
    EVENTS = "events.k8s.io/v1"


class Sink(Protocol):
    """Writes events. Methods raise KubeErrors."""

    async def create(self, event: CoreEvent | Event) -> None: ...

    async def patch(self, event: CoreEvent | Event) -> None:
        """Update count, time and message of an existing event. Raise NotFound if it does not exist."""


class HubEvents:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, event: CoreEvent | Event) -> None:
        namespace = event.metadata.namespace
        if isinstance(event, CoreEvent):
            await self._client.create(CORE_EVENTS, event, namespace=namespace)
        else:
            await self._client.create(EVENTS, event, namespace=namespace)

    async def patch(self, event: CoreEvent | Event) -> None:
        name, namespace = event.metadata.name, event.metadata.namespace
        if isinstance(event, CoreEvent):
            await self._client.patch(CORE_EVENTS, name, changes(event), kind=Patch.MERGE, namespace=namespace)
        else:
            await self._client.patch(EVENTS, name, changes(event), kind=Patch.MERGE, namespace=namespace)


def changes(event: CoreEvent | Event) -> dict[str, Any]:
    """The patch. Of an event of events.k8s.io only the series may change."""
    if isinstance(event, CoreEvent):
        last = format_time(event.lastTimestamp) if event.lastTimestamp else None
        return {"count": event.count, "lastTimestamp": last, "message": event.message}
    series = event.series
    return {
        "series": {"count": series.count, "lastObservedTime": series.lastObservedTime} if series else None
    }


def reference_to(obj: KubeStruct) -> ObjectReference:
    meta = obj.metadata
    return ObjectReference(
        apiVersion=getattr(obj, "apiVersion", ""),
        kind=getattr(obj, "kind", ""),
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resourceVersion=meta.resourceVersion,
    )


@dataclass(slots=True, kw_only=True)
class RecorderStats:
    """Counts since the start, except ``pending``."""

    recorded: int = 0
    created: int = 0
    patched: int = 0
    suppressed: int = 0
    """Suppressed because the object had used up its writes."""
    dropped: int = 0
    """Dropped because the queue was full or the recorder closed."""
    refused: int = 0
    """Rejected by the hub, without a retry."""
    failed: int = 0
    """Given up after the last retry."""
    pending: int = 0


class Recorder:
    """Use it in ``async with``: the background task runs in the block, and pending events are written at its end.

    ``component`` is the reporter, such as ``scheduler``, and ``instance`` its process. At most ``capacity`` events are
    pending, of which ``writers`` are written concurrently; a write is tried ``tries`` times; at the end of the block
    there are ``grace`` seconds for all that are pending, which are then written eight at a time. Not thread-safe.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        component: str,
        instance: str = "",
        api: Api = Api.CORE,
        limits: Limits | None = None,
        capacity: int = 1000,
        writers: int = 1,
        tries: int = 12,
        backoff: Backoff | None = None,
        grace: float = 5.0,
        update_every: float = 0.0,
        clock: Clock = SYSTEM_CLOCK,
        observe: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._sink = sink
        self._component, self._instance = component, cut(instance or socket.gethostname(), LONGEST_WORD)
        self._api = api
        self._correlator = Correlator(limits or Limits())
        self._capacity, self._tries = capacity, tries
        self._writers = writers
        self._backoff = backoff or Backoff(base=0.5, cap=30.0)
        self._grace = grace
        self._clock = clock
        self._update_every = update_every
        self._queue: deque[EventRecord] = deque()
        self._later: deque[EventRecord] = deque()
        """Repetitions of events on the hub, in the order of their first occurrence since the last write."""
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._stats = RecorderStats()
        self._busy = 0
        """Number of events that are being written."""
        self._observe = observe
        self._unreported = 0
        """Dropped events that are not logged yet."""

    def event(
        self,
        about: ObjectReference | KubeStruct,
        *,
        reason: str,
        message: str,
        type_: str = NORMAL,
        action: str = "",
        related: ObjectReference | None = None,
        in_place: bool = False,
    ) -> bool:
        """Record an event without blocking. Return whether it will be written, alone or aggregated.

        With ``in_place`` there is one event of this reason about the object, whose message is replaced. Only events
        of the core group allow that, so it is one of those.
        """
        self._stats.recorded += 1
        occurrence = Occurrence(
            about=about if isinstance(about, ObjectReference) else reference_to(about),
            type=type_,
            reason=cut(reason, LONGEST_WORD),
            message=message,
            action=cut(action, LONGEST_WORD),
            related=related,
            in_place=in_place,
            wall=self._clock.wall(),
            at=self._clock.monotonic(),
        )
        entry = self._correlator.observe(occurrence)
        if entry is None:
            self._stats.suppressed += 1
            self._observe("suppressed")
            return False
        if not entry.queued:
            if self._closed or len(self._queue) + len(self._later) >= self._capacity:
                self._drop(1)
                return False
            entry.queued = True
            early = entry.written and occurrence.at < entry.wrote_at + self._update_every
            (self._later if early else self._queue).append(entry)
            self._idle.clear()
            self._more.set()
        return True

    def stats(self) -> RecorderStats:
        return replace(self._stats, pending=self._pending)

    async def flush(self) -> None:
        """Wait until all recorded events are written or given up; updates are not delayed."""
        while not self._idle.is_set():
            self._queue.extend(self._later)
            self._later.clear()
            self._more.set()
            await self._idle.wait()

    async def close(self) -> None:
        """Accept no more events, and wait up to ``grace`` seconds for the pending ones."""
        self._closed = True
        if not self._tasks:
            return
        self._start_writers(CLOSING_WRITERS - len(self._tasks))
        try:
            async with asyncio.timeout(self._grace):
                await self.flush()
        except TimeoutError:
            log.warning(NOT_WRITTEN, self._pending)
            self._drop(self._pending)
            self._unreported -= self._pending
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
            self._tasks.clear()
            self._report_drops()

    async def __aenter__(self) -> "Recorder":
        self._start_writers(self._writers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _start_writers(self, count: int) -> None:
        self._tasks.update(asyncio.create_task(self._run()) for _ in range(count))

    @property
    def _pending(self) -> int:
        return len(self._queue) + len(self._later) + self._busy

    def _drop(self, count: int) -> None:
        self._stats.dropped += count
        for _ in range(count):
            self._observe("dropped")
        self._unreported += count
        if self._unreported == count and not self._closed:  # the first one; the number follows
            log.warning("too many events, dropping further ones  pending=%d", self._capacity)

    def _report_drops(self) -> None:
        if self._unreported:
            log.warning(DROPPED, self._unreported)
            self._unreported = 0

    def _take_due(self) -> float | None:
        """Queue the updates that are due; return the seconds until the next one, or None."""
        now = self._clock.monotonic()
        while self._later:
            wait = self._later[0].wrote_at + self._update_every - now
            if wait > 0:
                return wait
            self._queue.append(self._later.popleft())
        return None

    async def _run(self) -> None:
        while True:
            while self._queue:
                entry = self._queue.popleft()
                # From here on a repetition queues the entry again, even if this write already includes it.
                entry.queued = False
                if entry.writing:
                    entry.again = True
                    continue
                entry.writing = True
                self._busy += 1
                try:
                    await self._write(entry)
                except Exception:
                    self._stats.failed += 1
                    self._observe("failed")
                    log.exception("unexpected error while writing event %s", entry.name)
                finally:
                    self._busy -= 1
                    entry.writing = False
                    if entry.again and not entry.queued:
                        entry.queued = True
                        self._queue.append(entry)
                    entry.again = False
            self._report_drops()
            if not self._later and not self._busy:
                self._idle.set()
            self._more.clear()
            wait = self._take_due()
            if self._queue:
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._more.wait()

    async def _write(self, entry: EventRecord) -> None:
        for failures in range(self._tries):
            try:
                await self._send(entry)
                return
            except KubeError as error:
                if not error.retryable:
                    self._refuse(entry, error)
                    return
                retry_after = error.retry_after if isinstance(error, ApiError) else None
                if failures + 1 < self._tries:
                    pause = max(self._backoff.delay(failures), retry_after or 0.0)
                    await asyncio.sleep(min(pause, self._backoff.cap))
            except ValueError as error:  # the object's name or namespace is invalid
                self._refuse(entry, error)
                return
        self._stats.failed += 1
        self._observe("failed")
        log.warning("event %s dropped after %d attempts", entry.name, self._tries)

    def _refuse(self, entry: EventRecord, error: Exception) -> None:
        self._stats.refused += 1
        self._observe("refused")
        log.log(retry_level(error), "the hub refused event %s: %s", entry.name, error)

    async def _send(self, entry: EventRecord) -> None:
        if entry.written == entry.count:
            return
        count, event = entry.count, self._render(entry)
        if entry.written:
            try:
                await self._sink.patch(event)
            except NotFound:  # the hub has deleted it
                entry.written = 0
            else:
                self._stats.patched += 1
                self._observe("updated")
        if not entry.written:
            try:
                await self._sink.create(event)
            except AlreadyExists:  # created by an earlier try whose response was lost
                if count > 1:
                    await self._sink.patch(event)
            self._stats.created += 1
            self._observe("created")
        entry.written = count
        entry.wrote_at = self._clock.monotonic()

    def _render(self, entry: EventRecord) -> CoreEvent | Event:
        latest = entry.latest
        about = latest.about
        meta = ObjectMeta(name=entry.name, namespace=about.namespace or NO_NAMESPACE)
        if self._api is Api.CORE or latest.in_place:
            return CoreEvent(
                metadata=meta,
                involvedObject=about,
                reason=latest.reason,
                message=latest.message,
                source=EventSource(component=self._component),
                firstTimestamp=entry.first,
                lastTimestamp=latest.wall,
                count=entry.count,
                type=latest.type,
                action=latest.action,
                related=latest.related,
                reportingComponent=self._component,
                reportingInstance=self._instance,
            )
        series = EventSeries(count=entry.count, lastObservedTime=format_micro_time(latest.wall))
        return Event(
            metadata=meta,
            eventTime=format_micro_time(entry.first),
            series=series if entry.count > 1 else None,
            reportingController=self._component,
            reportingInstance=self._instance,
            action=latest.action or latest.reason,  # must not be empty in events.k8s.io
            reason=latest.reason,
            regarding=about,
            related=latest.related,
            note=latest.message,
            type=latest.type,
        )
