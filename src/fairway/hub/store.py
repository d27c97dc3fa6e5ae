"""The store: all objects in memory as bytes, every write in a log on disk, every change to whoever watches.

A write is checked against the newest state, gets its revision and is encoded in one go, without awaiting; so writers
are serialised by the event loop. It then joins the batch that is gathering while a thread commits the one before
(group commit: one fsync for all of a batch). Only a committed write becomes visible, in the order of revisions, and
only then does its writer go on. If a commit fails, everything not committed fails with it and the store is read-only
until a probe succeeds: what was acknowledged stays, what wasn't never shows.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from sys import intern
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

import msgspec

from fairway.hub.entry import (
    ADDED,
    DELETED,
    MODIFIED,
    Ahead,
    Change,
    ChangeType,
    Closed,
    Conflict,
    Damaged,
    Foreign,
    Item,
    Key,
    Listing,
    Locked,
    ReadOnly,
    StoreError,
    TooOld,
    Unreadable,
    Unusable,
)
from fairway.hub.history import History, Watch
from fairway.hub.lock import Lock
from fairway.hub.log import FILE, FIRST, Durability, Log, Row
from fairway.hub.resource import Document
from fairway.hub.shelf import Shelf

__all__ = [
    "Ahead",
    "Change",
    "Closed",
    "Conflict",
    "Damaged",
    "Durability",
    "Foreign",
    "Item",
    "Key",
    "Listing",
    "Locked",
    "ReadOnly",
    "Store",
    "StoreError",
    "TooOld",
    "Unreadable",
    "Unusable",
    "Watch",
]

CHANGES_KEPT: Final = 20_000
BYTES_KEPT: Final = 64 * 1024 * 1024

_BATCH: Final = 512
# Rows to remove are gathered, so that removing doesn't double the commits; one step removes more than a batch adds.
_TRIM: Final = 256
_STEP: Final = 900

_encode: Final = msgspec.json.Encoder().encode


class Store:
    """Belongs to the event loop it was opened on."""

    def __init__(
        self, *, log: Log | None, lock: Lock | None, thread: ThreadPoolExecutor | None, history: History
    ) -> None:
        self.identity = log.identity if log else str(uuid4())
        self.read_only: str | None = None
        """Why nothing can be written, while that is so."""
        self._log, self._lock, self._thread = log, lock, thread
        self._history = history
        self._shelves: dict[str, Shelf] = {}
        self._assigned = history.newest
        # What lies below was partly removed, so nobody can say which resources it touched.
        self._unknown = history.oldest
        self._heads: dict[Key, Change] = {}
        self._pending: list[tuple[Change, asyncio.Future[Item]]] = []
        self._draining: asyncio.Task[None] | None = None
        self._refused = 0
        self._doomed: deque[int] = deque()
        self._closed = False
        self._listeners: list[Callable[[Change], None]] = []
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []

    @classmethod
    async def open(
        cls,
        folder: Path | None,
        *,
        durability: Durability = "full",
        changes: int = CHANGES_KEPT,
        size: int = BYTES_KEPT,
    ) -> Self:
        """Without a folder it is the same store, in memory only. ``changes`` and ``size`` (bytes) bound the history."""
        if folder is None:
            return cls(
                log=None,
                lock=None,
                thread=None,
                history=History(newest=FIRST, oldest=FIRST, count=changes, size=size),
            )
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fairway-log")
        try:
            return await asyncio.get_running_loop().run_in_executor(
                thread, lambda: cls._load(folder, thread, durability=durability, changes=changes, size=size)
            )
        except BaseException:
            thread.shutdown(wait=False)
            raise

    @classmethod
    def _load(
        cls, folder: Path, thread: ThreadPoolExecutor, *, durability: Durability, changes: int, size: int
    ) -> Self:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unreadable(folder, detail=error.strerror or str(error)) from error
        lock = Lock(folder)
        try:
            log = Log.open(folder / FILE, durability=durability)
            try:
                history = History(newest=log.revision, oldest=log.floor, count=changes, size=size)
                store = cls(log=log, lock=lock, thread=thread, history=history)
                for row in log.rows():
                    store._replay(row, floor=log.floor)
                history.newest = log.revision
                for shelf in store._shelves.values():
                    shelf.keys()
            except BaseException:
                log.close()
                raise
        except BaseException:
            lock.release()
            raise
        return store

    def _replay(self, row: Row, *, floor: int) -> None:
        item, before = row.item, self.get(row.item.key)
        if row.change == DELETED:
            change = Change(DELETED, item, before)
        elif before is None:
            change = Change(ADDED, item, None)
        else:
            change = Change(MODIFIED, item, before)
        self._apply(change)
        if item.revision > floor:
            self._remember(change)
        else:
            self._doom(change)

    @property
    def revision(self) -> int:
        """The newest that readers may know of."""
        return self._history.newest

    @property
    def oldest(self) -> int:
        """From here on watches and exact lists can be served, of any resource."""
        return self._history.oldest

    @property
    def folder(self) -> Path | None:
        return self._log.path.parent if self._log else None

    def get(self, key: Key) -> Item | None:
        """As committed."""
        shelf = self._shelves.get(key[0])
        return shelf.items.get(key) if shelf else None

    def head(self, key: Key) -> Item | None:
        """Including writes on their way to disk; only to build the next write on, since they may yet fail."""
        change = self._heads.get(key)
        if change is None:
            return self.get(key)
        return None if change.type == DELETED else change.item

    def touched(self, resource: str) -> int:
        """The last revision that changed an object of the resource. After a reopening it may be told too high."""
        shelf = self._shelves.get(resource)
        return shelf.touched if shelf else self._unknown

    def count(self, resource: str) -> int:
        shelf = self._shelves.get(resource)
        return len(shelf.items) if shelf else 0

    def resources(self) -> list[str]:
        """Those that have objects."""
        return sorted(resource for resource, shelf in self._shelves.items() if shelf.items)

    def items(
        self,
        resource: str,
        *,
        namespace: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
        revision: int | None = None,
    ) -> Listing:
        """``after`` is the (namespace, name) that ended the page before. An older ``revision`` is rebuilt exactly."""
        at = self.revision if revision is None else revision
        past: dict[Key, Item | None] = {}
        if at != self.revision:
            if at > self.revision:
                raise Ahead(asked=at, newest=self.revision)
            self._require(resource, at)
            past = self._history.differences(resource, namespace, since=at)
        shelf = self._shelves.get(resource) or Shelf(resource, touched=0)
        return shelf.page(revision=at, namespace=namespace, after=after, limit=limit, past=past)

    def watch(self, resource: str, *, namespace: str | None = None, since: int) -> Watch:
        """Every change after ``since``, in order, once."""
        if self._closed:
            raise Closed
        self._require(resource, since)
        return self._history.watch(resource, namespace, since=since)

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Called for every committed change, in order, before its writer goes on. Must be quick and not fail."""
        self._listeners.append(listener)

    def changed(self, resource: str, *, since: int) -> set[tuple[str, str]]:
        """Namespace and name of what changed after ``since``."""
        self._require(resource, since)
        return {(key[1], key[2]) for key in self._history.differences(resource, None, since=since)}

    async def reached(self, revision: int) -> None:
        """Returns once that revision is visible."""
        if revision > self.revision:
            arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._awaited.append((revision, arrival))
            await arrival

    def _arrive(self) -> None:
        if self._awaited:
            for revision, arrival in self._awaited:
                if revision <= self.revision and not arrival.done():
                    arrival.set_result(None)
            self._awaited = [(r, a) for r, a in self._awaited if not a.done()]

    def _require(self, resource: str, revision: int) -> None:
        if revision < self.oldest and revision < self.touched(resource):
            raise TooOld(asked=revision, oldest=self.oldest)

    async def put(self, key: Key, document: Document, *, expect: int) -> Item:
        """``expect`` is the revision of the head, 0 if there must be none. Sets the document's resourceVersion.

        A cancelled put may still be committed.
        """
        head = self._checked(key, expect)
        return await self._write(MODIFIED if head else ADDED, key, document, head)

    async def delete(self, key: Key, document: Document, *, expect: int) -> Item:
        """``document`` is the last state, which the watchers get to see, with the deletion's resourceVersion."""
        head = self._checked(key, expect)
        if head is None:
            raise Conflict(key=key, expected=expect, current=None)
        return await self._write(DELETED, key, document, head)

    def _checked(self, key: Key, expect: int) -> Item | None:
        if self._closed:
            raise Closed
        if self.read_only is not None:
            raise ReadOnly(self.read_only)
        head = self.head(key)
        if (0 if head is None else head.revision) != expect:
            raise Conflict(key=key, expected=expect, current=head)
        return head

    def _write(
        self, kind: ChangeType, key: Key, document: Document, head: Item | None
    ) -> asyncio.Future[Item]:
        revision = self._assigned + 1
        document.setdefault("metadata", {})["resourceVersion"] = str(revision)
        key = head.key if head else (intern(key[0]), intern(key[1]), key[2])
        item = Item(key, revision, _encode(document))
        self._assigned = revision
        change = Change(kind, item, head)
        self._heads[item.key] = change
        written: asyncio.Future[Item] = asyncio.get_running_loop().create_future()
        self._pending.append((change, written))
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        return written

    async def _drain(self) -> None:
        batch: list[tuple[Change, asyncio.Future[Item]]] = []
        try:
            while self._pending:
                batch, self._pending = self._pending[:_BATCH], self._pending[_BATCH:]
                if self._log:
                    rows = [Row(change.item, change.type) for change, _ in batch]
                    await self._run(partial(self._log.append, rows))
                self._publish(batch)
                batch = []
                if self._log:
                    await self._trim(self._log)
        except asyncio.CancelledError:
            # The thread may or may not have committed: from here on nothing true can be said or written.
            self._closed = True
            self._fail(batch, Closed)
            raise
        except Exception as error:
            self.read_only = self._reason(error)
            self._fail(batch, partial(ReadOnly, self.read_only))
        finally:
            self._draining = None

    def _publish(self, batch: Sequence[tuple[Change, asyncio.Future[Item]]]) -> None:
        for change, _ in batch:
            self._apply(change)
            self._remember(change)
            if self._heads.get(change.key) is change:
                del self._heads[change.key]
        for change, _ in batch:
            for listener in self._listeners:
                listener(change)
        self._history.wake()
        self._arrive()
        for change, written in batch:
            if not written.done():
                written.set_result(change.item)

    def _fail(
        self, batch: Sequence[tuple[Change, asyncio.Future[Item]]], error: Callable[[], StoreError]
    ) -> None:
        """Revisions given to failed writes are not given again: on a failing disk one of them may surface later."""
        failed, self._pending = [*batch, *self._pending], []
        self._refused = sum(len(change.raw) for change, _ in failed)
        self._heads.clear()
        for _, written in failed:
            if not written.done():
                written.set_exception(error())

    def _apply(self, change: Change) -> None:
        resource = change.key[0]
        shelf = self._shelves.get(resource)
        if shelf is None:
            shelf = self._shelves[resource] = Shelf(resource, touched=self._unknown)
        if change.type == DELETED:
            shelf.drop(change.key, revision=change.revision)
        else:
            shelf.put(change.item)

    def _remember(self, change: Change) -> None:
        self._history.append(change)
        for fallen in self._history.shrink():
            self._doom(fallen)

    def _doom(self, change: Change) -> None:
        """The history has let go of ``change``; the log can let go of what it superseded, the older row first."""
        if self._log is None:
            return
        if change.before is not None:
            self._doomed.append(change.before.revision)
        if change.type == DELETED:
            self._doomed.append(change.revision)

    async def _trim(self, log: Log) -> None:
        """One step after every batch at most, or the writers would wait; more while nobody writes."""
        while len(self._doomed) >= _TRIM:
            step = list(islice(self._doomed, _STEP))
            await self._run(partial(log.trim, step, floor=self.oldest))
            # Not before it is done: a step left out would let a later one uncover an older row.
            for _ in step:
                self._doomed.popleft()
            if self._pending:
                return

    async def probe(self) -> bool:
        """Whether the store can be written to; if it was read-only and now can, it no longer is."""
        if self._closed:
            raise Closed
        if self.read_only is not None and self._log:
            try:
                await self._run(partial(self._log.probe, self._refused))
            except Exception as error:
                self.read_only = self._reason(error)
                return False
            self.read_only = None
        return True

    def _reason(self, error: Exception) -> str:
        return f"{self._log.path}: {error}" if self._log else str(error)

    async def close(self) -> None:
        """Waits for writes on their way; ends all watches."""
        if self._closed and self._history.closed:
            return
        self._closed = True
        if self._draining is not None:
            await asyncio.wait([self._draining])
        self._history.close()
        if self._thread:
            await self._run(self._let_go)
            self._thread.shutdown(wait=False)

    def _let_go(self) -> None:
        if self._log and self._lock:
            self._log.close()
            self._lock.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, call: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, call)
