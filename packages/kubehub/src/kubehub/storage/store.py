"""The store: all objects in memory as bytes, every write in a log on disk, every change to the watchers.

A write is checked against the newest state, gets its revision and is encoded without awaiting, so the event loop
serializes writers. It is then committed in a batch. Only committed writes become visible, in the order of
revisions, and only then does the writer continue. If a commit fails, everything not committed fails, too, and the
store is read-only until a probe succeeds: acknowledged writes are kept, others never become visible.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from sys import intern
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

import msgspec

from kubehub.resource import Document
from kubehub.storage.entry import (
    ADDED,
    DELETED,
    MODIFIED,
    Change,
    ChangeType,
    Closed,
    Conflict,
    Damaged,
    Item,
    Key,
    Listing,
    Locked,
    ReadOnly,
    StoreError,
    TooNew,
    TooOld,
    UnknownFormat,
    Unreadable,
    Unusable,
)
from kubehub.storage.group_commit import Disk, GroupCommitter
from kubehub.storage.index import ResourceIndex
from kubehub.storage.lock import Lock
from kubehub.storage.log import FILE, FIRST, Durability, Log, Row, prepare_folder
from kubehub.storage.revisions import MAX_GAPS, Gap, find_gap
from kubehub.storage.watch_cache import Watch, WatchCache

__all__ = [
    "Change",
    "Closed",
    "Conflict",
    "Damaged",
    "Durability",
    "Item",
    "Key",
    "Listing",
    "Locked",
    "ReadOnly",
    "Store",
    "StoreError",
    "TooNew",
    "TooOld",
    "UnknownFormat",
    "Unreadable",
    "Unusable",
    "Watch",
]

CHANGES_KEPT: Final = 20_000
BYTES_KEPT: Final = 64 * 1024 * 1024

_encode: Final = msgspec.json.Encoder().encode


class Store:
    """Used only from the event loop that opened it."""

    def __init__(self, disk: Disk | None, history: WatchCache, *, gaps: Sequence[Gap] = ()) -> None:
        """Use ``open``."""
        self._gaps = tuple(gaps)
        self.identity = disk.log.identity if disk else str(uuid4())
        self._committer = GroupCommitter(disk, publish=self._publish, dismiss=self._drop_failed_writes)
        self._history = history
        self._indexes: dict[str, ResourceIndex] = {}
        self._assigned = history.newest
        # Rows below were partly removed, so the resources that they touched are unknown.
        self._unknown = history.oldest
        self._heads: dict[Key, Change] = {}
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
        first: Callable[[int], int] = lambda last: last,
    ) -> Self:
        """Open a data folder, or an in-memory store without one. ``changes`` and ``size`` (bytes) bound the watch
        cache.

        ``first`` maps the last revision of the folder to the one to continue at; a hub passes ``first_revision``.
        """
        if folder is None:
            start = first(FIRST)
            return cls(None, WatchCache(newest=start, oldest=start, count=changes, size=size))
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fairway-log")
        load = partial(
            cls._load, folder, thread, durability=durability, changes=changes, size=size, first=first
        )
        loading = asyncio.get_running_loop().run_in_executor(thread, load)
        try:
            return await asyncio.shield(loading)
        except asyncio.CancelledError:
            # The caller was cancelled: close what the thread is still opening, so that the folder doesn't stay locked.
            loading.add_done_callback(cls._abandon)
            raise
        finally:
            # The thread continues until it has finished its work.
            if not loading.done() or loading.exception():
                thread.shutdown(wait=False)

    @classmethod
    def _abandon(cls, loading: "asyncio.Future[Self]") -> None:
        if not loading.exception() and (disk := loading.result()._committer.disk):
            disk.close()

    @classmethod
    def _load(
        cls,
        folder: Path,
        thread: ThreadPoolExecutor,
        *,
        durability: Durability,
        changes: int,
        size: int,
        first: Callable[[int], int],
    ) -> Self:
        try:
            prepare_folder(folder)
        except OSError as error:
            raise Unreadable(folder, detail=error.strerror or str(error)) from error
        # Lock before the log is opened: SQLite's own locks would allow a second process to write between our
        # transactions.
        lock = Lock(folder)
        try:
            log = Log.open(folder / FILE, durability=durability)
            try:
                revision, floor, gaps = _begin(log, first(log.revision))
                history = WatchCache(newest=revision, oldest=floor, count=changes, size=size)
                store = cls(Disk(log, lock, thread), history, gaps=gaps)
                # The watch cache is rebuilt from the log, so watches resume across a restart instead of all clients
                # listing again.
                for row in log.rows():
                    store._replay(row, floor=floor)
                history.newest = revision
                # Sorted here, in the thread: the first list of 100,000 objects would do it on the event loop.
                for index in store._indexes.values():
                    index.keys()
                log.begin(revision=revision, gaps=gaps, floor=floor)
            except BaseException:
                log.abandon()
                raise
        except BaseException:
            lock.release()
            raise
        if log.sealed is not None:
            store._committer.seal(log.sealed)
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
            self._release_rows(change)

    @property
    def revision(self) -> int:
        """The newest revision that readers can see."""
        return self._history.newest

    @property
    def oldest(self) -> int:
        """The oldest revision from which watches and exact lists of any resource can be served."""
        return self._history.oldest

    @property
    def folder(self) -> Path | None:
        disk = self._committer.disk
        return disk.log.path.parent if disk else None

    @property
    def empty(self) -> bool:
        """Whether the folder had no objects and no history when it was opened."""
        disk = self._committer.disk
        return disk is None or disk.log.empty

    def read_note(self, name: str) -> str | None:
        """Return a text stored with the data; see ``note``."""
        disk = self._committer.disk
        return disk.log.notes.get(name) if disk else None

    async def note(self, name: str, value: str) -> None:
        """Store a text with the data, for the next opening. Lost if the store is read-only."""
        disk = self._committer.disk
        if disk and self.read_only is None and disk.log.notes.get(name) != value:
            await disk.run(partial(disk.log.note, name, value))

    @property
    def read_only(self) -> str | None:
        """The reason why nothing can be written, or None."""
        return self._committer.read_only

    def get(self, key: Key) -> Item | None:
        """Return the committed state."""
        index = self._indexes.get(key[0])
        return index.items.get(key) if index else None

    def head(self, key: Key) -> Item | None:
        """Return the newest state, committed or not; use it only to build the next write, since it may still fail."""
        change = self._heads.get(key)
        if change is None:
            return self.get(key)
        return None if change.type == DELETED else change.item

    def last_revision(self, resource: str) -> int:
        """The last revision that changed an object of the resource. After reopening it may be too high."""
        index = self._indexes.get(resource)
        # Too high is safe: the client lists again. Too low would serve a watch with a gap.
        return index.last_revision if index else self._unknown

    def count(self, resource: str) -> int:
        index = self._indexes.get(resource)
        return len(index.items) if index else 0

    def resources(self) -> list[str]:
        """The resources that have objects."""
        return sorted(resource for resource, index in self._indexes.items() if index.items)

    def items(
        self,
        resource: str,
        *,
        namespace: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
        revision: int | None = None,
    ) -> Listing:
        """List objects. ``after`` is the (namespace, name) that ended the page before. An older ``revision`` is
        rebuilt exactly."""
        at = self.revision if revision is None else revision
        past: dict[Key, Item | None] = {}
        # Pages of a list continue at the revision of the first one: kube-apiserver does so, and clients rely on a
        # consistent list.
        if at != self.revision:
            self._require(resource, at)
            past = self._history.differences(resource, namespace, since=at)
        index = self._indexes.get(resource) or ResourceIndex(resource, last_revision=0)
        return index.page(revision=at, namespace=namespace, after=after, limit=limit, past=past)

    def watch(self, resource: str, *, namespace: str | None = None, since: int) -> Watch:
        """Watch every change after ``since``, in order, once. Raises TooOld, and TooNew for a revision not assigned
        yet."""
        if self._history.closed:
            raise Closed
        self._require(resource, since)
        return self._history.watch(resource, namespace, since=since)

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call ``listener`` for every committed change, in order, before its writer continues. It must be quick and
        not fail."""
        self._listeners.append(listener)

    def changed_since(self, resource: str, *, since: int) -> set[tuple[str, str]]:
        """Return namespace and name of the objects that changed after ``since``."""
        self._require(resource, since)
        return {(key[1], key[2]) for key in self._history.differences(resource, None, since=since)}

    async def wait_for_revision(self, revision: int) -> None:
        """Wait until that revision is visible."""
        if revision > self.revision:
            arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._awaited.append((revision, arrival))
            await arrival

    def _wake_waiters(self) -> None:
        if self._awaited:
            for revision, arrival in self._awaited:
                if revision <= self.revision and not arrival.done():
                    arrival.set_result(None)
            self._awaited = [(r, a) for r, a in self._awaited if not a.done()]

    def _require(self, resource: str, revision: int) -> None:
        if revision > self.revision:
            raise TooNew(asked=revision, newest=self.revision)
        # Revisions that a killed process may have returned and not stored: what they contained is unknown.
        if (gap := find_gap(self._gaps, revision)) is not None:
            raise TooOld(asked=revision, oldest=gap.first)
        if revision < self.oldest and revision < self.last_revision(resource):
            raise TooOld(asked=revision, oldest=self.oldest)

    async def put(self, key: Key, document: Document, *, expect: int) -> Item:
        """Write an object. ``expect`` is the revision of the head, 0 for none. Sets the document's resourceVersion.

        A cancelled put may still be committed.
        """
        head = self._check_revision(key, expect)
        return await self._write(MODIFIED if head else ADDED, key, document, head)

    async def delete(self, key: Key, document: Document, *, expect: int) -> Item:
        """Delete an object. ``document`` is the last state, which watchers receive with the deletion's
        resourceVersion."""
        head = self._check_revision(key, expect)
        if head is None:
            raise Conflict(key=key, expected=expect, current=None)
        return await self._write(DELETED, key, document, head)

    async def wait_for_commits(self) -> None:
        """Wait until every write that ``head`` has returned so far is committed; raises ReadOnly if that fails.

        Await this before answering a client with a conflict or a no-op that such a write caused: otherwise the
        client could read before the write is visible, and after a crash the write would never have happened.
        """
        await self._committer.wait_for_commits()

    def _check_revision(self, key: Key, expect: int) -> Item | None:
        self._committer.require_writable()
        head = self.head(key)
        # Against the head, committed or not: two writers that read the same state must not both succeed because the
        # first one is still waiting for the disk.
        if (0 if head is None else head.revision) != expect:
            raise Conflict(key=key, expected=expect, current=head)
        return head

    def _write(
        self, kind: ChangeType, key: Key, document: Document, head: Item | None
    ) -> asyncio.Future[Item]:
        # Assigned here, without an await since the check, so revisions are in the order of the checks.
        revision = self._assigned + 1
        document.setdefault("metadata", {})["resourceVersion"] = str(revision)
        key = head.key if head else (intern(key[0]), intern(key[1]), key[2])
        # Encoded once, for the log, for lists and for every watch.
        item = Item(key, revision, _encode(document))
        self._assigned = revision
        change = self._heads[key] = Change(kind, item, head)
        return self._committer.submit(change)

    def _publish(self, batch: Sequence[Change]) -> None:
        for change in batch:
            self._apply(change)
            self._remember(change)
            # A newer write of the key may be waiting behind this one; the head must remain its state.
            if self._heads.get(change.key) is change:
                del self._heads[change.key]
        for change in batch:
            self._notify(change)
        self._history.wake()
        self._wake_waiters()

    def _notify(self, change: Change) -> None:
        for listener in self._listeners:
            try:
                listener(change)
            except Exception as error:
                # The change is committed even if a listener fails.
                context = {"message": f"a listener failed at revision {change.revision}", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)

    def _drop_failed_writes(self) -> None:
        """Drop failed writes. Their revisions are not reused: on a failing disk one of them may become visible
        later."""
        # All of them: a later write was computed from the failed one.
        self._heads.clear()

    def _apply(self, change: Change) -> None:
        resource = change.key[0]
        index = self._indexes.get(resource)
        if index is None:
            index = self._indexes[resource] = ResourceIndex(resource, last_revision=self._unknown)
        if change.type == DELETED:
            index.drop(change.key, revision=change.revision)
        else:
            index.put(change.item)

    def _remember(self, change: Change) -> None:
        self._history.append(change)
        for fallen in self._history.shrink():
            self._release_rows(fallen)
        self._committer.floor = self.oldest

    def _release_rows(self, change: Change) -> None:
        """The watch cache has evicted ``change``; let the log remove the row it superseded, the older row first."""
        if change.before is not None:
            self._committer.mark_removable(change.before.revision)
        if change.type == DELETED:
            self._committer.mark_removable(change.revision)

    async def probe(self) -> bool:
        """Return whether the store can be written to; a successful probe makes a read-only store writable."""
        return await self._committer.probe()

    async def close(self) -> None:
        """Wait for pending writes and close all watches."""
        if self._history.closed:
            return
        # Writers first, then watches: a watch must deliver what was acknowledged before it ends.
        await self._committer.finish()
        self._history.close()
        for _, arrival in self._awaited:
            if not arrival.done():
                arrival.set_exception(Closed())
        disk = self._committer.disk
        if disk:
            await disk.run(disk.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _begin(log: Log, revision: int) -> tuple[int, int, tuple[Gap, ...]]:
    """Return revision, floor and gaps of a life that continues at ``revision``."""
    if log.empty:
        return revision, revision, ()
    gaps = [gap for gap in log.gaps if gap.first > log.floor]
    if revision > log.revision:
        gaps.append(Gap(log.revision, revision))
    floor = max([log.floor, *(gap.first for gap in gaps[:-MAX_GAPS])])
    return revision, floor, tuple(gaps[-MAX_GAPS:])
