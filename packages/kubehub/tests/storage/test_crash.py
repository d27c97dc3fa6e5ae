"""Kill the writer at any moment: acknowledged and observed writes survive, and no change is delivered twice.

The parent records all changes that it has read from the reopened store over several crashes of the same folder, and
compares them with what the killed processes reported.
"""

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import store_writer

from kubehub.storage import archive
from kubehub.storage.entry import ADDED, DELETED
from kubehub.storage.store import Change, Item, Key, Locked, Store, TooOld


class Writer:
    """The child process and its output."""

    def __init__(self, folder: Path, *, run: str, seed: int, changes: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, store_writer.__file__, str(folder), run, str(seed), str(changes)],
            stdout=subprocess.PIPE,
        )
        self.opened = 0
        self.tried: set[str] = set()
        self.done: dict[str, int] = {}
        self.saw: dict[str, int] = {}

    def listen(self, lines: int | None = None) -> None:
        """Read this many lines, or to the end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):  # the last one may be truncated
                self._hear(*msgspec.json.decode(line))
            if lines is not None:
                lines -= 1
                if lines <= 0:
                    return

    def _hear(self, what: str, *told: Any) -> None:
        match what:
            case "open":
                (self.opened,) = told
            case "try":
                self.tried.add(told[0])
            case "done":
                self.done[told[0]] = told[1]
            case "saw":
                self.saw[told[0]] = told[1]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.listen()
        assert self.process.wait() == -signal.SIGKILL
        assert self.process.stdout is not None
        self.process.stdout.close()


def token(item: Item) -> str:
    return str(msgspec.json.decode(item.raw)["token"])


def replayed(record: list[Change], *, until: int, onto: dict[Key, Item] | None = None) -> dict[Key, Item]:
    state = dict(onto or {})
    for change in record:
        if change.revision <= until:
            assert change.before == state.get(change.key)
            assert (change.type == ADDED) == (change.before is None)
            if change.type == DELETED:
                del state[change.key]
            else:
                state[change.key] = change.item
    return state


def everything(store: Store, revision: int | None = None) -> dict[Key, Item]:
    return {
        i.key: i
        for resource in store_writer.RESOURCES
        for i in store.items(resource, revision=revision).items
    }


async def handed_over(store: Store, *, since: int) -> list[Change]:
    """Return all changes of both resources after ``since``, from one call per watch."""
    changes: list[Change] = []
    for resource in store_writer.RESOURCES:
        if store.last_revision(resource) > since:
            changes += await store.watch(resource, since=since).next()
    return sorted(changes, key=lambda change: change.revision)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_acknowledged_writes_survive_kills_and_watches_resume_without_gap_or_repeat(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    record: list[Change] = []

    async def resume(writer: Writer) -> None:
        known = record[-1].revision if record else 1
        assert writer.opened == known
        async with await Store.open(tmp_path) as store:
            record.extend(await handed_over(store, since=known))
            revisions = [change.revision for change in record]
            assert revisions == sorted(set(revisions))
            assert (record[-1].revision if record else 1) == store.revision
            new = {token(c.item): c.revision for c in record if c.revision > known}
            assert new.keys() <= writer.tried
            assert writer.done.items() <= new.items()
            assert writer.saw.items() <= new.items()
            assert everything(store) == replayed(record, until=store.revision)
            for revision in chance.sample([1, *revisions], k=min(20, len(revisions))):
                assert await handed_over(store, since=revision) == [
                    c for c in record if c.revision > revision
                ]
                assert everything(store, revision) == replayed(record, until=revision)
        assert archive.check(tmp_path).problems == ()

    for run, lines in enumerate(chance.sample([1, 2, 5, 10, 40, 150, 600, 1_500], k=8)):
        writer = Writer(tmp_path, run=f"{seed}.{run}", seed=chance.randrange(1_000_000), changes=20_000)
        writer.listen(lines + chance.randrange(10))
        writer.kill()
        asyncio.run(resume(writer))
    assert len(record) > 100


def test_crash_while_rows_are_removed_loses_no_write(tmp_path: Path) -> None:
    chance = random.Random(4)
    state: dict[Key, Item] = {}
    known = 1

    async def resume(writer: Writer) -> None:
        nonlocal state, known
        assert writer.opened == known
        async with await Store.open(tmp_path, changes=64) as store:
            tail = await handed_over(store, since=store.oldest)
            assert len(tail) == 64
            assert tail[-1].revision == store.revision
            # Changes between the last reopening and the start of the history show only in their outcome.
            base = everything(store, store.oldest)
            assert everything(store) == replayed(tail, until=store.revision, onto=base)
            there = {token(item): item.revision for item in (*base.values(), *(c.item for c in tail))}
            assert there.keys() <= writer.tried | {token(item) for item in state.values()}
            for said in (writer.done, writer.saw):
                assert all(
                    there.get(t) == revision for t, revision in said.items() if revision > store.oldest
                )
                assert max(said.values()) <= store.revision
                # No other write used an acknowledged revision.
                assert all(said.get(t, revision) == revision for t, revision in there.items())
            with pytest.raises(TooOld):
                store.watch(store_writer.RESOURCES[0], since=known)
            state, known = everything(store), store.revision
        report = archive.check(tmp_path)
        assert report.problems == ()
        assert report.rows < 64 + 32 + 2 * 16

    for run in range(4):
        writer = Writer(tmp_path, run=str(run), seed=chance.randrange(1_000_000), changes=64)
        writer.listen(1_500 + chance.randrange(500))
        writer.kill()
        asyncio.run(resume(writer))


def test_data_folder_in_use_can_be_backed_up_and_checked_but_not_opened(tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "backup.db"
    writer = Writer(folder, run="0", seed=5, changes=20_000)
    try:
        writer.listen(200)

        async def second() -> None:
            await Store.open(folder)

        with pytest.raises(Locked, match=f"in use by process {writer.process.pid}"):
            asyncio.run(second())
        assert archive.check(folder).problems == ()
        summary = archive.backup(folder, file)
        assert summary.revision >= max(writer.done.values())
        with pytest.raises(Locked):
            archive.restore(file, folder, force=True)
    finally:
        writer.kill()
    report = archive.check(file)
    assert (report.revision, report.objects, report.problems) == (summary.revision, summary.objects, ())
