"""The law of the store: it is a list of changes, and everything it answers follows from that list.

The model is that list. Whatever is written (alone, at once with others, against a stale expectation, while the disk
fails), whenever the store is closed or crashes and is opened again, with whatever bounds of its history: lists at any
revision are the list of changes played back, and watches from any revision hand over exactly what follows in it.
"""

import asyncio
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kubehub.storage import archive, group_commit, index, watch_cache
from kubehub.storage.entry import ADDED, DELETED, MODIFIED, ChangeType
from kubehub.storage.log import Log
from kubehub.storage.store import Change, Conflict, Item, Key, ReadOnly, Store, TooOld, Watch

T = TypeVar("T")

RESOURCES = ("nodes", "things.example.com")
NAMESPACES = ("", "a", "a-b", "b")
NAMES = tuple("abcde")
BOUNDS = st.tuples(st.sampled_from([1, 3, 10, 1_000]), st.sampled_from([300, 1_000_000]))

keys = st.tuples(st.sampled_from(RESOURCES), st.sampled_from(NAMESPACES), st.sampled_from(NAMES))
scopes = st.tuples(st.sampled_from(RESOURCES), st.none() | st.sampled_from(NAMESPACES))


@dataclass(frozen=True)
class Write:
    key: Key
    value: int
    delete: bool


writes = st.builds(Write, key=keys, value=st.integers(0, 9), delete=st.booleans())


def within(scope: tuple[str, str | None], key: Key) -> bool:
    return key[0] == scope[0] and scope[1] in (None, key[1])


class StoreMachine(RuleBasedStateMachine):
    @initialize(durable=st.booleans(), bounds=BOUNDS)
    def begin(self, durable: bool, bounds: tuple[int, int]) -> None:
        self.patches = ExitStack()
        # Small, so that the ways of the large are walked.
        for module, name, value in (
            (group_commit, "TRIM", 3),
            (group_commit, "STEP", 4),
            (group_commit, "BATCH", 3),
            (index, "MAX_INSERTIONS", 2),
            (watch_cache, "RECENT", 3),
            (watch_cache, "STRIDE", 2),
        ):
            self.patches.enter_context(mock.patch.object(module, name, value))
        self.loop = asyncio.new_event_loop()
        self.root = Path(tempfile.mkdtemp(prefix="fairway-store-")) if durable else None
        self.lives = 0
        self.changes: list[Change] = []
        self.current: dict[Key, Item] = {}
        self.watches: dict[Watch, tuple[tuple[str, str | None], int]] = {}
        self.bounds = bounds
        self.store = self.opened(bounds)
        self.used = 1
        """The highest revision ever given to a write, failed ones included."""

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(call)

    @property
    def folder(self) -> Path | None:
        return self.root and self.root / str(self.lives)

    def opened(self, bounds: tuple[int, int]) -> Store:
        self.bounds = bounds
        return self.run(Store.open(self.folder, durability="normal", changes=bounds[0], size=bounds[1]))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.close())
            if self.folder is not None:
                assert archive.check(self.folder).problems == ()
            self.loop.close()
            self.patches.close()
            if self.root is not None:
                shutil.rmtree(self.root)

    def since(self, revision: int, scope: tuple[str, str | None]) -> list[Change]:
        return [change for change in self.changes if change.revision > revision and within(scope, change.key)]

    def state(self, revision: int, scope: tuple[str, str | None]) -> list[Item]:
        state: dict[Key, Item] = {}
        for change in self.changes:
            if change.revision <= revision:
                if change.type == DELETED:
                    del state[change.key]
                else:
                    state[change.key] = change.item
        return [state[key] for key in sorted(state) if within(scope, key)]

    async def attempt(self, write: Write) -> Item | None:
        """Builds on the head, as a handler does. None if there was nothing to delete."""
        head = self.store.head(write.key)
        body = {"metadata": {"namespace": write.key[1], "name": write.key[2]}, "value": write.value}
        if not write.delete:
            return await self.store.put(write.key, body, expect=head.revision if head else 0)
        if head is None:
            return None
        return await self.store.delete(write.key, body, expect=head.revision)

    async def together(self, attempts: Iterable[Write]) -> list[Item | BaseException | None]:
        return await asyncio.gather(*(self.attempt(write) for write in attempts), return_exceptions=True)

    def written(self, write: Write, item: Item | None) -> None:
        before = self.current.get(write.key)
        if write.delete and before is None:
            assert item is None
            return
        assert item is not None
        assert item.key == write.key
        assert item.revision > self.used
        assert msgspec.json.decode(item.raw) == {
            "metadata": {
                "namespace": write.key[1],
                "name": write.key[2],
                "resourceVersion": str(item.revision),
            },
            "value": write.value,
        }
        self.used = item.revision
        kind: ChangeType = DELETED if write.delete else MODIFIED if before else ADDED
        self.changes.append(Change(kind, item, before))
        if write.delete:
            del self.current[write.key]
        else:
            self.current[write.key] = item

    @rule(burst=st.lists(writes, min_size=1, max_size=8))
    def write(self, burst: list[Write]) -> None:
        for attempt, item in zip(burst, self.run(self.together(burst)), strict=True):
            assert not isinstance(item, BaseException)
            self.written(attempt, item)

    @rule(key=keys, off=st.sampled_from([-1, 1, 1_000]), delete=st.booleans())
    def write_stale(self, key: Key, off: int, delete: bool) -> None:
        current = self.current.get(key)
        call = self.store.delete if delete else self.store.put
        with pytest.raises(Conflict) as refused:
            self.run(call(key, {}, expect=max(0, (current.revision if current else 0) + off) or 7_777))
        assert refused.value.current == current

    @precondition(lambda self: self.root is not None)
    @rule(burst=st.lists(writes, min_size=1, max_size=5))
    def write_while_the_disk_fails(self, burst: list[Write]) -> None:
        with mock.patch.object(Log, "append", side_effect=sqlite3.OperationalError("disk I/O error")):
            outcomes = self.run(self.together(burst))
        for attempt, outcome in zip(burst, outcomes, strict=True):
            assert isinstance(outcome, ReadOnly) or (attempt.delete and outcome is None)
        assert self.run(self.store.probe())
        assert self.store.read_only is None

    @rule(scope=scopes, data=st.data(), limit=st.none() | st.integers(1, 6))
    def list_pages(self, scope: tuple[str, str | None], data: st.DataObject, limit: int | None) -> None:
        revision = data.draw(st.integers(self.store.oldest, self.store.revision), label="revision")
        expected = self.state(revision, scope)
        got: list[Item] = []
        after: tuple[str, str] | None = None
        while True:
            page = self.store.items(scope[0], namespace=scope[1], after=after, limit=limit, revision=revision)
            got += page.items
            assert page.revision == revision
            assert page.remaining == len(expected) - len(got)
            if not page.more:
                break
            after = page.items[-1].key[1:]
        assert got == expected

    @rule(scope=scopes, data=st.data())
    def ask_for_any_past(self, scope: tuple[str, str | None], data: st.DataObject) -> None:
        """A version is rejected only if it is older than the oldest kept one."""
        revision = data.draw(st.integers(0, self.store.revision), label="revision")
        resource, namespace = scope
        try:
            items = self.store.items(resource, namespace=namespace, revision=revision).items
            watch = self.store.watch(resource, namespace=namespace, since=revision)
        except TooOld:
            assert revision < self.store.oldest
        else:
            assert items == self.state(revision, scope)
            self.watches[watch] = (scope, revision)

    @rule(data=st.data(), close=st.booleans())
    @precondition(lambda self: self.watches)
    def read_watch(self, data: st.DataObject, close: bool) -> None:
        index = data.draw(st.integers(0, len(self.watches) - 1), label="watch")
        watch = list(self.watches)[index]
        scope, position = self.watches[watch]
        expected = self.since(position, scope)
        if expected:
            assert position <= watch.position < expected[0].revision
            try:
                changes = self.run(watch.next())
            except TooOld:
                assert expected[0].revision <= self.store.oldest
                close = True
            else:
                assert list(changes) == expected
        if close:
            watch.close()
            del self.watches[watch]
        else:
            assert watch.position == max(position, self.store.revision)
            self.watches[watch] = (scope, watch.position)

    @rule(write=writes)
    @precondition(lambda self: self.watches)
    def wake_concerned_watches(self, write: Write) -> None:
        async def interleaved() -> Item | None:
            behind = {w: self.since(position, scope) for w, (scope, position) in self.watches.items()}
            waiting = {w: asyncio.create_task(w.next()) for w, missed in behind.items() if not missed}
            await asyncio.sleep(0)
            assert not any(task.done() for task in waiting.values())
            item = await self.attempt(write)
            await asyncio.sleep(0)
            for watch, task in waiting.items():
                scope, _ = self.watches[watch]
                if item is not None and within(scope, write.key):
                    (change,) = await task
                    assert change.item == item
                    self.watches[watch] = (scope, item.revision)
                else:
                    assert not task.done()
                    task.cancel()
            return item

        self.written(write, self.run(interleaved()))

    def reopen(self, end: Callable[[], None], bounds: tuple[int, int] | None) -> None:
        oldest = self.store.oldest
        end()
        self.watches.clear()
        self.store = self.opened(bounds or self.bounds)
        if bounds is None:
            assert self.store.oldest == oldest
        # The revision of a failed write may be used again: no client saw it.
        self.used = self.store.revision

    @rule(bounds=st.none() | BOUNDS)
    @precondition(lambda self: self.root is not None)
    def close_and_open(self, bounds: tuple[int, int] | None) -> None:
        self.reopen(lambda: self.run(self.store.close()), bounds)

    @rule(bounds=st.none() | BOUNDS)
    @precondition(lambda self: self.root is not None)
    def crash_and_open(self, bounds: tuple[int, int] | None) -> None:
        """Continue with the files as they are now, as a new process after a kill."""

        def crash() -> None:
            assert self.root is not None
            source = self.folder
            self.lives += 1
            # Unfinished writes may be in the copy or not.
            disk = self.store._committer.disk
            assert disk is not None
            disk._thread.submit(lambda: None).result()
            # By another process, as closing a file that SQLite holds too would drop its locks.
            subprocess.run(["cp", "-r", str(source), str(self.folder)], check=True)
            self.run(self.store.close())

        self.reopen(crash, bounds)

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        newest = self.changes[-1].revision if self.changes else 1
        assert self.store.revision == newest
        assert self.store.oldest <= newest
        kept = sum(change.revision > self.store.oldest for change in self.changes)
        assert kept <= self.bounds[0]
        for resource in RESOURCES:
            expected = [self.current[key] for key in sorted(self.current) if key[0] == resource]
            assert self.store.items(resource).items == expected
            assert self.store.count(resource) == len(expected)
            newest = max((c.revision for c in self.changes if c.key[0] == resource), default=1)
            assert newest <= self.store.last_revision(resource) <= max(newest, self.store.oldest)
        assert self.store.resources() == sorted({key[0] for key in self.current})


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=25, stateful_step_count=30)
