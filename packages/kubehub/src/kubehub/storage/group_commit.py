"""Group commit: writes queue up while a thread commits those before them, with one fsync per batch.

Committed changes are published in order, and then their writers continue. If a commit fails, everything not yet
committed fails, too, and nothing is written until a probe succeeds. Superseded rows are removed between the
batches.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Final

from kubehub.storage.entry import Change, Closed, Item, ReadOnly, StoreError
from kubehub.storage.lock import Lock
from kubehub.storage.log import Log, Row

BATCH: Final = 512
# Rows to remove are batched, so that removals don't double the commits; one step removes more than a batch adds.
TRIM: Final = 256
STEP: Final = 900
# Bytes that must be free before a store that was opened on a full disk accepts writes.
_SEALED_ROOM: Final = 64 * 1024

Pending = tuple[Change, asyncio.Future[Item]]


class Disk:
    """A log, the lock on its folder, and the one thread that uses them."""

    def __init__(self, log: Log, lock: Lock, thread: ThreadPoolExecutor) -> None:
        self.log, self._lock, self._thread = log, lock, thread

    async def run(self, call: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def close(self) -> None:
        self.log.close()
        self._lock.release()
        self._thread.shutdown(wait=False)


class GroupCommitter:
    """Without a disk, a commit only publishes, one iteration of the event loop later."""

    def __init__(
        self, disk: Disk | None, *, publish: Callable[[Sequence[Change]], None], dismiss: Callable[[], None]
    ) -> None:
        """``publish`` makes a batch visible; ``dismiss`` drops everything submitted and not published."""
        self.disk = disk
        self.read_only: str | None = None
        self.closed = False
        self.floor = 0
        """Set the oldest revision after which the log must keep every change."""
        self._publish, self._dismiss = publish, dismiss
        self._pending: list[Pending] = []
        self._draining: asyncio.Task[None] | None = None
        self._removable: deque[int] = deque()
        self._refused = 0
        self._submitted = self._settled = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def seal(self, why: str) -> None:
        """Accept nothing until a probe succeeds, as after a failed commit."""
        self.read_only = self._reason(why)
        self._refused = _SEALED_ROOM

    def require_writable(self) -> None:
        """Raise if nothing can be submitted."""
        if self.closed:
            raise Closed
        if self.read_only is not None:
            raise ReadOnly(self.read_only)

    def submit(self, change: Change) -> asyncio.Future[Item]:
        """Submit changes in the order of revisions. The future is done once the change is published."""
        written: asyncio.Future[Item] = asyncio.get_running_loop().create_future()
        self._pending.append((change, written))
        self._submitted = change.revision
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        return written

    def mark_removable(self, revision: int) -> None:
        """Mark the row of that revision as removable. For a key, older rows must be marked before newer ones."""
        if self.disk:
            self._removable.append(revision)

    async def _drain(self) -> None:
        batch: list[Pending] = []
        try:
            while self._pending:
                # All that waits is one transaction: an fsync costs the same for one row as for 512, so the throughput
                # grows with the load.
                batch, self._pending = self._pending[:BATCH], self._pending[BATCH:]
                if self.disk:
                    rows = [Row(change.item, change.type) for change, _ in batch]
                    await self.disk.run(partial(self.disk.log.append, rows))
                # Publish before the writers continue: a client that writes and then lists must see its write.
                self._publish([change for change, _ in batch])
                for change, written in batch:
                    if not written.done():
                        written.set_result(change.item)
                self._settle(batch[-1][0].revision)
                batch = []
                if self.disk:
                    await self._trim(self.disk)
        except asyncio.CancelledError:
            # The thread may or may not have committed, so the state of the log is unknown from here on.
            self.closed = True
            self._fail(batch, Closed)
            raise
        except Exception as error:
            self.read_only = self._reason(error)
            # Read-only until a probe succeeds: after a failed fsync, the kernel may have dropped the pages, so a retry
            # of the same commit could succeed without the data being on disk.
            self._fail(batch, partial(ReadOnly, self.read_only))
        finally:
            self._draining = None

    def _fail(self, batch: Sequence[Pending], error: Callable[[], StoreError]) -> None:
        # What is queued behind a failed write was computed from it.
        failed, self._pending = [*batch, *self._pending], []
        self._refused = sum(len(change.raw) for change, _ in failed)
        self._dismiss()
        for _, written in failed:
            if not written.done():
                written.set_exception(error())
        self._settle(self._submitted, error)

    def _settle(self, revision: int, error: Callable[[], StoreError] | None = None) -> None:
        self._settled = revision
        for until, waiter in self._waiting:
            if until <= revision and not waiter.done():
                waiter.set_exception(error()) if error else waiter.set_result(None)
        self._waiting = [(until, waiter) for until, waiter in self._waiting if not waiter.done()]

    async def wait_for_commits(self) -> None:
        """Wait until everything submitted so far is published. Raises if it can't be."""
        if self._submitted > self._settled:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((self._submitted, waiter))
            await waiter

    async def _trim(self, disk: Disk) -> None:
        """Remove rows: at most one step after each batch, so that writers don't wait; more while the store is idle."""
        while len(self._removable) >= TRIM:
            step = list(islice(self._removable, STEP))
            await disk.run(partial(disk.log.trim, step, floor=self.floor))
            # Await it even when cancelled: a skipped step would let a later one uncover an older row.
            for _ in step:
                self._removable.popleft()
            # Removals are catching up; writers wait for an fsync of theirs only once per batch.
            if self._pending:
                return

    async def probe(self) -> bool:
        if self.closed:
            raise Closed
        if self.read_only is not None and self.disk:
            try:
                # The probe writes as many bytes as were refused: a full disk has room for an empty transaction.
                await self.disk.run(partial(self.disk.log.probe, self._refused))
            except Exception as error:
                self.read_only = self._reason(error)
                return False
            self.read_only = None
        return True

    def _reason(self, error: Exception | str) -> str:
        return f"{self.disk.log.path}: {error}" if self.disk else str(error)

    async def finish(self) -> None:
        """Accept no more writes, and wait for those submitted."""
        self.closed = True
        if self._draining is not None:
            await asyncio.wait([self._draining])
