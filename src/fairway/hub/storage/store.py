"""The store: all objects in memory as bytes, every write in a log on disk, every change to whoever watches.

A write is checked against the newest state, gets its revision and is encoded in one go, without awaiting; so writers
are serialised by the event loop. It is then committed together with others. Only a committed write becomes visible,
in the order of revisions, and only then does its writer go on. If a commit fails, everything not committed fails with
it and the store is read-only until a probe succeeds: what was acknowledged stays, what wasn't never shows.
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

from fairway.hub.resource import Document
from fairway.hub.storage.entry import (
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
from fairway.hub.storage.group_commit import Disk, GroupCommitter
from fairway.hub.storage.index import ResourceIndex
from fairway.hub.storage.lock import Lock
from fairway.hub.storage.log import FILE, FIRST, Durability, Log, Row, prepare_folder
from fairway.hub.storage.revisions import MOST_GAPS, Gap, find_gap
from fairway.hub.storage.watch_cache import Watch, WatchCache

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

_encode: Final = msgspec.json.Encoder().encode


class Store:
    """Belongs to the event loop it was opened on."""

    def __init__(self, disk: Disk | None, history: WatchCache, *, gaps: Sequence[Gap] = ()) -> None:
        """Use ``open``."""
        self._gaps = tuple(gaps)
        self.identity = disk.log.identity if disk else str(uuid4())
        self._committer = GroupCommitter(disk, publish=self._publish, dismiss=self._dismiss)
        self._history = history
        self._shelves: dict[str, ResourceIndex] = {}
        self._assigned = history.newest
        # What lies below was partly removed, so nobody can say which resources it touched.
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
        """Without a folder it is the same store, in memory only. ``changes`` and ``size`` (bytes) bound the history.

        ``first`` maps the last revision of the folder to the one to continue at; a hub gives ``first_revision``.
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
            # Nobody waits any more for what the thread is still opening; it must not stay locked.
            loading.add_done_callback(cls._abandon)
            raise
        finally:
            # Its thread goes on until what it was given is done.
            if not loading.done() or loading.exception():
                thread.shutdown(wait=False)

    @classmethod
    def _abandon(cls, loading: "asyncio.Future[Self]") -> None:
        if not loading.exception() and (disk := loading.result()._committer.disk):
            disk.let_go()

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
        lock = Lock(folder)
        try:
            log = Log.open(folder / FILE, durability=durability)
            try:
                revision, floor, gaps = _begin(log, first(log.revision))
                history = WatchCache(newest=revision, oldest=floor, count=changes, size=size)
                store = cls(Disk(log, lock, thread), history, gaps=gaps)
                for row in log.rows():
                    store._replay(row, floor=floor)
                history.newest = revision
                for shelf in store._shelves.values():
                    shelf.keys()
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
        disk = self._committer.disk
        return disk.log.path.parent if disk else None

    @property
    def empty(self) -> bool:
        """Whether the folder held no object and no history when it was opened."""
        disk = self._committer.disk
        return disk is None or disk.log.empty

    def noted(self, name: str) -> str | None:
        """A text kept with the data; see ``note``."""
        disk = self._committer.disk
        return disk.log.notes.get(name) if disk else None

    async def note(self, name: str, value: str) -> None:
        """Keep a text with the data, for the next who opens it. Lost if the store is read-only."""
        disk = self._committer.disk
        if disk and self.read_only is None and disk.log.notes.get(name) != value:
            await disk.run(partial(disk.log.note, name, value))

    @property
    def read_only(self) -> str | None:
        """Why nothing can be written, while that is so."""
        return self._committer.read_only

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
            self._require(resource, at)
            past = self._history.differences(resource, namespace, since=at)
        shelf = self._shelves.get(resource) or ResourceIndex(resource, touched=0)
        return shelf.page(revision=at, namespace=namespace, after=after, limit=limit, past=past)

    def watch(self, resource: str, *, namespace: str | None = None, since: int) -> Watch:
        """Every change after ``since``, in order, once. Raises TooOld, and Ahead for a revision not given out yet."""
        if self._history.closed:
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
        if revision > self.revision:
            raise Ahead(asked=revision, newest=self.revision)
        if (gap := find_gap(self._gaps, revision)) is not None:
            raise TooOld(asked=revision, oldest=gap.first)
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

    async def settled(self) -> None:
        """Returns once everything ``head`` knows of by now is committed; raises ReadOnly if that fails.

        Whoever is refused because of such a write, or told that it leaves nothing to do, must not hear of it before
        readers can: they would find it missing, and after a crash it would never have been.
        """
        await self._committer.settled()

    def _checked(self, key: Key, expect: int) -> Item | None:
        self._committer.ready()
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
        change = self._heads[key] = Change(kind, item, head)
        return self._committer.submit(change)

    def _publish(self, batch: Sequence[Change]) -> None:
        for change in batch:
            self._apply(change)
            self._remember(change)
            if self._heads.get(change.key) is change:
                del self._heads[change.key]
        for change in batch:
            self._tell(change)
        self._history.wake()
        self._arrive()

    def _tell(self, change: Change) -> None:
        for listener in self._listeners:
            try:
                listener(change)
            except Exception as error:
                # What is committed is committed, whatever a listener makes of it.
                told = {"message": f"a listener failed at revision {change.revision}", "exception": error}
                asyncio.get_running_loop().call_exception_handler(told)

    def _dismiss(self) -> None:
        """Revisions given to failed writes are not given again: on a failing disk one of them may surface later."""
        self._heads.clear()

    def _apply(self, change: Change) -> None:
        resource = change.key[0]
        shelf = self._shelves.get(resource)
        if shelf is None:
            shelf = self._shelves[resource] = ResourceIndex(resource, touched=self._unknown)
        if change.type == DELETED:
            shelf.drop(change.key, revision=change.revision)
        else:
            shelf.put(change.item)

    def _remember(self, change: Change) -> None:
        self._history.append(change)
        for fallen in self._history.shrink():
            self._doom(fallen)
        self._committer.floor = self.oldest

    def _doom(self, change: Change) -> None:
        """The history has let go of ``change``; the log can let go of what it superseded, the older row first."""
        if change.before is not None:
            self._committer.doom(change.before.revision)
        if change.type == DELETED:
            self._committer.doom(change.revision)

    async def probe(self) -> bool:
        """Whether the store can be written to; if it was read-only and now can, it no longer is."""
        return await self._committer.probe()

    async def close(self) -> None:
        """Waits for writes on their way; ends all watches."""
        if self._history.closed:
            return
        await self._committer.finish()
        self._history.close()
        for _, arrival in self._awaited:
            if not arrival.done():
                arrival.set_exception(Closed())
        disk = self._committer.disk
        if disk:
            await disk.run(disk.let_go)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _begin(log: Log, revision: int) -> tuple[int, int, tuple[Gap, ...]]:
    """Revision, floor and gaps of a life that continues at ``revision``."""
    if log.empty:
        return revision, revision, ()
    gaps = [gap for gap in log.gaps if gap.first > log.floor]
    if revision > log.revision:
        gaps.append(Gap(log.revision, revision))
    floor = max([log.floor, *(gap.first for gap in gaps[:-MOST_GAPS])])
    return revision, floor, tuple(gaps[-MOST_GAPS:])
