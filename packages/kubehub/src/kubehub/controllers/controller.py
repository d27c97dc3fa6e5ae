"""The base class of the hub's controllers: a queue of keys, a reconcile loop with backoff, and writes to the hub."""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, Final, Generic, TypeVar

import msgspec

from kubehub.json_decoder import decode_object
from kubehub.options import BACKGROUND, Deletion, Write
from kubehub.registry import Registry
from kubehub.resource import Document, Resource
from kubehub.safe_traceback import format_traceback
from kubehub.status import Refusal
from kubehub.storage.store import Change, Item, Key, ReadOnly, Store
from kubehub.user import MASTERS, User
from kubehub.write_request import MERGE_PATCH, Patch, WriteRequest
from kubehub.writing.writer import Writer

log = logging.getLogger(__name__)

_BACK_OFF: Final = (0.1, 0.5, 2.0, 10.0, 60.0)

T = TypeVar("T", bound=Hashable)

decode: Final = decode_object


class ObjectMetadata(msgspec.Struct, gc=False, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    finalizers: list[str] = msgspec.field(default_factory=list)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: list[dict[str, Any]] = msgspec.field(default_factory=list)


class _Head(msgspec.Struct, gc=False):
    metadata: ObjectMetadata = msgspec.field(default_factory=ObjectMetadata)


_decode_head: Final = msgspec.json.Decoder(_Head).decode


def metadata_of(raw: bytes) -> ObjectMetadata:
    """Decode only the metadata of a stored object, which is far cheaper than all of it."""
    return _decode_head(raw).metadata


class Controller(ABC, Generic[T]):
    """``on_change`` is called within the commit and must be quick; ``reconcile`` may take its time and is retried."""

    manager = "fairway-hub"

    def __init__(self, *, store: Store, registry: Registry, writer: Writer) -> None:
        self.store, self.registry, self.writer = store, registry, writer
        self.user = User(name=f"system:{self.manager}", groups=(MASTERS,))
        self._due: dict[T, None] = {}
        self._faults: dict[T, int] = {}
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    def on_change(self, change: Change) -> None: ...

    @abstractmethod
    async def reconcile(self, item: T) -> None: ...

    def resync(self) -> None:
        """Queue existing objects, at the start and when an input outside the store changed."""

    def enqueue(self, item: T) -> None:
        self._due[item] = None
        self._woken.set()

    def start(self) -> None:
        self.resync()
        self._task = asyncio.create_task(self._run(), name=self.manager)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            while self._due:
                item = next(iter(self._due))
                # Before the attempt: a change during it queues the item again.
                del self._due[item]
                await self._attempt(item)
            # No await since the queue was found empty, so no wake is lost.
            self._woken.clear()

    async def _attempt(self, item: T) -> None:
        try:
            await self.reconcile(item)
            self._faults.pop(item, None)
        except (Refusal, ReadOnly) as error:
            # A conflict, or a read-only store: retry with backoff.
            count = self._faults.get(item, 0)
            self._faults[item] = count + 1
            delay = _BACK_OFF[min(count, len(_BACK_OFF) - 1)]
            log.debug("reconcile failed, retrying  key=%s error=%r in=%ss", item, str(error), delay)
            asyncio.get_running_loop().call_later(delay, self.enqueue, item)
        except Exception as error:
            # Dropped, not retried: what is unexpected would fail again, and its next change queues it anyway.
            log.error(
                "%s: unexpected error, dropping key=%s:\n%s",
                type(self).__name__,
                item,
                format_traceback(error),
            )

    # Reads and writes

    def resource(self, key: str) -> Resource | None:
        return self.registry.of_key(key)

    def request(self, subresource: str = "") -> WriteRequest:
        return WriteRequest(user=self.user, options=Write(manager=self.manager), subresource=subresource)

    async def delete(
        self, key: Key, *, uid: str, revision: str | None = None, propagation: str = BACKGROUND
    ) -> None:
        resource = self.resource(key[0])
        if resource is None:
            return
        options = Deletion(uid=uid, revision=revision, propagation=propagation)
        try:
            await self.writer.delete(resource, key[1], key[2], options, user=self.user)
        except Refusal as refusal:
            # Deleted already, or changed since it was examined: then the change has queued it again.
            if refusal.code not in (404, 409):
                raise

    async def merge_patch(self, key: Key, patch: Document, *, subresource: str = "") -> None:
        resource = self.resource(key[0])
        if resource is not None:
            await self.writer.patch(
                resource, key[1], key[2], Patch(media=MERGE_PATCH, body=patch), self.request(subresource)
            )

    def document(self, key: Key) -> Document | None:
        item = self.store.get(key)
        return None if item is None else decode(item.raw)

    def items(self, resource: str, namespace: str | None = None) -> list[Item]:
        return list(self.store.items(resource, namespace=namespace).items)
