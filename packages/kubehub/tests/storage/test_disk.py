"""The store on disk: reopening, locking, damage, and full disks."""

import asyncio
import os
import resource
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from disks import small_disk
from kubehub.storage import group_commit
from kubehub.storage import log as log_module
from kubehub.storage import store as store_module
from kubehub.storage.entry import ADDED, DELETED, MODIFIED
from kubehub.storage.log import FILE, Log
from kubehub.storage.store import (
    Conflict,
    Damaged,
    Item,
    Key,
    Locked,
    ReadOnly,
    Store,
    TooOld,
    UnknownFormat,
    Unreadable,
)

RESOURCE = "things.example.com"


def key(name: str) -> Key:
    return (RESOURCE, "default", name)


async def put(store: Store, name: str, value: object = None) -> Item:
    head = store.head(key(name))
    body = {"metadata": {"namespace": "default", "name": name}, "value": value}
    return await store.put(key(name), body, expect=head.revision if head else 0)


async def drop(store: Store, name: str) -> Item:
    head = store.head(key(name))
    assert head is not None
    return await store.delete(key(name), msgspec.json.decode(head.raw), expect=head.revision)


def values(store: Store, **kwargs: Any) -> dict[str, object]:
    items = store.items(RESOURCE, **kwargs).items
    return {item.key[2]: msgspec.json.decode(item.raw)["value"] for item in items}


def rows(folder: Path) -> list[int]:
    with sqlite3.connect(folder / FILE) as connection:
        revisions = [
            revision for (revision,) in connection.execute("SELECT revision FROM log ORDER BY revision")
        ]
    connection.close()
    return revisions


def alter(folder: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(folder / FILE)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


async def test_all_objects_survive_reopening(tmp_path: Path) -> None:
    async with await Store.open(tmp_path / "new" / "folder") as store:
        identity = store.identity
        assert store.folder == tmp_path / "new" / "folder"
        kept = await put(store, "a", 1)
        await put(store, "b", 1)
        await put(store, "b", 2)
        await drop(store, "a")
        again = await put(store, "a", 3)
    async with await Store.open(tmp_path / "new" / "folder") as store:
        assert store.identity == identity
        assert (store.revision, store.oldest) == (6, 1)
        assert values(store) == {"a": 3, "b": 2}
        assert store.get(key("a")) == again
        assert values(store, revision=2) == {"a": 1}
        changes = await store.watch(RESOURCE, since=1).next()
        assert [(c.type, c.key[2]) for c in changes] == [
            (ADDED, "a"),
            (ADDED, "b"),
            (MODIFIED, "b"),
            (DELETED, "a"),
            (ADDED, "a"),
        ]
        assert changes[3].previous == kept.raw
        with pytest.raises(Conflict):
            await store.put(key("a"), {}, expect=2)
        assert (await put(store, "c")).revision == 7


async def test_revision_continues_after_trailing_deletions(tmp_path: Path) -> None:
    with mock.patch.object(group_commit, "TRIM", 1):
        async with await Store.open(tmp_path, changes=1) as store:
            for name in "ab":
                await put(store, name)
                await drop(store, name)
        assert rows(tmp_path) == [4, 5]
        async with await Store.open(tmp_path, changes=1) as store:
            assert (store.revision, store.oldest) == (5, 4)
            assert values(store) == {}
            assert (await put(store, "a")).revision == 6


async def test_superseded_rows_are_removed_after_eviction_from_the_watch_cache(tmp_path: Path) -> None:
    with mock.patch.object(group_commit, "TRIM", 1):
        async with await Store.open(tmp_path, changes=2) as store:
            await put(store, "kept", "x")
            for value in range(6):
                await put(store, "a", value)
            await drop(store, "a")
            await put(store, "b")
            await put(store, "b")
        assert rows(tmp_path) == [2, 10, 11]
        async with await Store.open(tmp_path, changes=2) as store:
            assert values(store) == {"kept": "x", "b": None}
            assert (store.revision, store.oldest) == (11, 9)
            assert values(store, revision=9) == {"kept": "x"}
            with pytest.raises(TooOld):
                store.watch(RESOURCE, since=8)
            for _ in range(6):
                await put(store, "b")
        # Besides the two changes still available and the other object: the state of b before them.
        assert rows(tmp_path) == [2, 15, 16, 17]


async def test_watch_before_a_trimmed_deletion_is_too_old(tmp_path: Path) -> None:
    """Only an untouched old object is left of the resource; that doesn't show that nothing else happened."""
    with mock.patch.object(group_commit, "TRIM", 1):
        async with await Store.open(tmp_path, changes=1) as store:
            await put(store, "kept")
            await put(store, "a")
            await drop(store, "a")
            await store.put(("nodes", "", "n"), {}, expect=0)
        assert rows(tmp_path) == [2, 5]
        async with await Store.open(tmp_path, changes=1) as store:
            assert store.oldest == 4
            for ask in (lambda: store.watch(RESOURCE, since=3), lambda: store.items(RESOURCE, revision=3)):
                with pytest.raises(TooOld):
                    ask()


async def test_rows_left_by_a_crash_are_removed_later(tmp_path: Path) -> None:
    async with await Store.open(tmp_path, changes=1) as store:
        for _ in range(10):
            await put(store, "a")
            await drop(store, "a")
            await put(store, "b")
        assert len(rows(tmp_path)) == 30
    with mock.patch.object(group_commit, "TRIM", 1):
        async with await Store.open(tmp_path, changes=1) as store:
            assert values(store) == {"b": None}
            await put(store, "c")
    assert rows(tmp_path) == [31, 32]


async def test_rows_are_removed_under_constant_writes(tmp_path: Path) -> None:
    with mock.patch.object(group_commit, "TRIM", 1):
        async with await Store.open(tmp_path, changes=1) as store:

            async def write(name: str) -> None:
                for _ in range(100):
                    await put(store, name)

            writers = [asyncio.create_task(write(name)) for name in "abc"]
            await writers[0]
            assert len(rows(tmp_path)) < 50
            await asyncio.gather(*writers)


async def test_older_rows_of_a_key_are_removed_first(tmp_path: Path) -> None:
    """A failed removal must be repeated before later ones, or a deleted object would come back."""
    with mock.patch.object(group_commit, "TRIM", 1), mock.patch.object(group_commit, "STEP", 1):
        store = await Store.open(tmp_path, changes=1)
        await put(store, "a")
        with mock.patch.object(Log, "trim", side_effect=sqlite3.OperationalError("disk I/O error")):
            await drop(store, "a")
            await put(store, "b")
            with pytest.raises(ReadOnly, match="disk I/O error"):
                await put(store, "c")
        assert await store.probe()
        with mock.patch.object(Log, "trim", autospec=True, side_effect=Log.trim) as trim:
            await put(store, "d")
            await store.close()
        removed = [revision for call in trim.call_args_list for revision in call.args[1]]
        assert removed == [2, 3]
        async with await Store.open(tmp_path) as store:
            assert values(store) == {"b": None, "d": None}


async def test_large_batches_are_one_transaction(tmp_path: Path) -> None:
    count = log_module._CHUNK * 3 + 1
    async with await Store.open(tmp_path) as store:
        with mock.patch.object(log_module, "checksum", side_effect=[0] * (count - 1) + [RuntimeError("no")]):
            failed = await asyncio.gather(
                *(put(store, f"f{n}") for n in range(count)), return_exceptions=True
            )
        assert {type(error) for error in failed} == {ReadOnly}
        assert await store.probe()
        await asyncio.gather(*(put(store, f"n{n}") for n in range(count)))
    async with await Store.open(tmp_path) as store:
        assert sorted(values(store)) == sorted(f"n{n}" for n in range(count))


@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_commits_honour_durability_setting(tmp_path: Path, durability: store_module.Durability) -> None:
    async with await Store.open(tmp_path, durability=durability) as store:
        assert store._committer.disk is not None
        log = store._committer.disk.log
        (level,) = log._connection.execute("PRAGMA synchronous").fetchone()
        assert level == {"normal": 1, "full": 2}[durability]
        assert log._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_data_folder_has_one_owner(tmp_path: Path) -> None:
    async with await Store.open(tmp_path):
        with pytest.raises(Locked) as refused:
            await Store.open(tmp_path)
        assert refused.value.holder == os.getpid()
        assert str(refused.value) == (
            f"{tmp_path} is in use by process {os.getpid()}; stop it first, or choose another folder"
        )
    async with await Store.open(tmp_path) as store:
        assert store.revision == 1


async def test_cancelled_open_releases_the_folder(tmp_path: Path) -> None:
    opening = asyncio.create_task(Store.open(tmp_path))
    await asyncio.sleep(0)
    opening.cancel()
    with mock.patch.object(
        group_commit.Disk, "close", autospec=True, side_effect=group_commit.Disk.close
    ) as close:
        with pytest.raises(asyncio.CancelledError):
            await opening
        while not close.called:
            await asyncio.sleep(0)
    async with await Store.open(tmp_path) as store:
        assert store.revision == 1


async def test_unusable_folder_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(Unreadable, match="can't be opened: File exists"):
        await Store.open(file)
    with pytest.raises(Unreadable, match="can't be opened: Not a directory"):
        await Store.open(file / "below")


async def filled(folder: Path, count: int = 40) -> None:
    async with await Store.open(folder) as store:
        await asyncio.gather(*(put(store, f"n{n}", "x" * 3_000) for n in range(count)))


@pytest.mark.parametrize(
    ("damage", "detail"),
    [
        (lambda data: data[:0], "the file is empty"),
        (lambda data: data[: len(data) // 2], "malformed"),
        (lambda data: b"not a database, " + data[16:], "file is not a database"),
        (lambda data: data.replace(b"x" * 20, b"x" * 19 + b"y", 1), "doesn't match its checksum"),
        (lambda data: data.replace(b"n17", b"n\xff7", 1), "doesn't match its checksum"),
        (lambda data: data[:8192] + b"\0" * 8192 + data[16384:], "malformed"),
    ],
    ids=["emptied", "cut", "overwritten", "payload", "key", "page"],
)
async def test_damaged_file_is_refused_and_left_unchanged(tmp_path: Path, damage: Any, detail: str) -> None:
    await filled(tmp_path)
    file = tmp_path / FILE
    damaged = damage(file.read_bytes())
    file.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(Damaged, match=detail) as refused:
            await Store.open(tmp_path)
        assert "fairway hub restore" in str(refused.value)
        assert file.read_bytes() == damaged


async def test_missing_main_file_beside_its_write_ahead_log_is_damage(tmp_path: Path) -> None:
    async with await Store.open(tmp_path / "live") as store:
        await put(store, "a")
        subprocess.run(["cp", "-r", tmp_path / "live", tmp_path / "copy"], check=True)
    (tmp_path / "copy" / FILE).unlink()
    with pytest.raises(Damaged, match="the file is missing"):
        await Store.open(tmp_path / "copy")


async def test_other_file_format_is_refused(tmp_path: Path) -> None:
    await filled(tmp_path)
    alter(tmp_path, "PRAGMA user_version = 7")
    with pytest.raises(UnknownFormat, match="has format 7, this version of Fairway reads format 1"):
        await Store.open(tmp_path)
    alter(tmp_path, "PRAGMA user_version = 1")
    alter(tmp_path, "DELETE FROM meta WHERE name = 'floor'")
    with pytest.raises(Damaged, match="lacks 'floor'"):
        await Store.open(tmp_path)
    alter(tmp_path, "PRAGMA application_id = 1")
    with pytest.raises(Damaged, match="not a log of the hub"):
        await Store.open(tmp_path)


async def test_interrupted_creation_of_a_store_leaves_no_file(tmp_path: Path) -> None:
    for ending in (".new", ".new-journal"):
        (tmp_path / (FILE + ending)).write_bytes(b"torn")
    async with await Store.open(tmp_path) as store:
        assert store.revision == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, "hub.lock"]


async def test_failed_commit_fails_all_waiting_writes(tmp_path: Path) -> None:
    store = await Store.open(tmp_path)
    before = await put(store, "a", "old")
    watch = store.watch(RESOURCE, since=store.revision)
    with mock.patch.object(Log, "append", side_effect=sqlite3.OperationalError("database or disk is full")):
        writes = [asyncio.create_task(put(store, "a", "new")), asyncio.create_task(put(store, "b"))]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        late = asyncio.create_task(put(store, "a", "newer"))
        failed = await asyncio.gather(*writes, late, return_exceptions=True)
    for error in failed:
        assert isinstance(error, ReadOnly)
        assert str(error) == (f"the hub is read-only: {tmp_path / FILE}: database or disk is full")
    assert store.read_only == f"{tmp_path / FILE}: database or disk is full"
    assert store.head(key("a")) == store.get(key("a")) == before
    assert (store.head(key("b")), store.revision, watch.position) == (None, 2, 2)
    with pytest.raises(ReadOnly):
        await put(store, "a")
    with mock.patch.object(Log, "probe", side_effect=sqlite3.OperationalError("still no room")):
        assert not await store.probe()
    assert store.read_only.endswith(": still no room")
    assert await store.probe()
    again = await put(store, "a", "newest")
    # The failed writes had 3, 4 and 5.
    assert again.revision == 6
    assert [change.item for change in await watch.next()] == [again]
    await store.close()
    async with await Store.open(tmp_path) as store:
        assert (store.revision, values(store)) == (6, {"a": "newest"})


async def test_store_with_an_abandoned_commit_is_closed(tmp_path: Path) -> None:
    store = await Store.open(tmp_path)
    write = asyncio.create_task(put(store, "a"))
    await asyncio.sleep(0)
    assert store._committer._draining is not None
    await asyncio.sleep(0)
    store._committer._draining.cancel()
    with pytest.raises(store_module.Closed):
        await write
    with pytest.raises(store_module.Closed):
        await put(store, "b")
    await store.close()
    async with await Store.open(tmp_path) as store:
        assert store.count(RESOURCE) in (0, 1)


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def fill_up(store: Store) -> dict[str, object]:
    """Write until it fails; returns what was acknowledged."""
    acknowledged: dict[str, object] = {}

    async def write(writer: int) -> None:
        for count in range(10_000):
            name = f"n{writer}-{count}"
            await put(store, name, "x" * 3_000)
            acknowledged[name] = "x" * 3_000

    failed = await asyncio.gather(*(write(writer) for writer in range(4)), return_exceptions=True)
    assert {type(error) for error in failed} == {ReadOnly}
    return acknowledged


async def survives_a_full_disk(store: Store, folder: Path, *, make_room: Any) -> None:
    watch = store.watch(RESOURCE, since=store.revision)
    acknowledged = await fill_up(store)
    assert len(acknowledged) > 8
    assert values(store) == acknowledged
    assert len(await watch.next()) == len(acknowledged)
    assert not await store.probe()
    with pytest.raises(ReadOnly):
        await put(store, "more")
    assert values(store) == acknowledged
    make_room()
    assert await store.probe()
    more = await put(store, "more")
    assert [change.item for change in await watch.next()] == [more]
    await store.close()
    async with await Store.open(folder) as reopened:
        assert values(reopened) == acknowledged | {"more": None}


async def test_store_is_read_only_while_its_file_cannot_grow(tmp_path: Path) -> None:
    store = await Store.open(tmp_path)
    limit = files_limited_to(200_000)
    limit.__enter__()
    try:
        await survives_a_full_disk(store, tmp_path, make_room=lambda: limit.__exit__(None, None, None))
    finally:
        await store.close()


async def test_store_opened_on_a_full_disk_is_read_only_until_there_is_space(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    async with await Store.open(tmp_path / "live") as store:
        for number in range(20):
            await put(store, f"n{number}", "x" * 3_000)
        last, kept = store.revision, values(store)
        subprocess.run(["cp", "-r", tmp_path / "live", folder], check=True)
    size = 40_000
    assert (folder / (FILE + "-wal")).stat().st_size > size
    with files_limited_to(size):
        store = await Store.open(folder, first=lambda last: last + 1_000)
        assert store.read_only is not None
        assert values(store) == kept
        with pytest.raises(ReadOnly):
            await put(store, "more")
        assert not await store.probe()
    assert await store.probe()
    await put(store, "more")
    await store.close()
    async with await Store.open(folder) as reopened:
        assert values(reopened) == kept | {"more": None}
        with pytest.raises(TooOld):
            reopened.watch(RESOURCE, since=last + 1)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "disk"
    with small_disk(mount, size="1m"):
        yield mount


async def test_full_disk_makes_the_store_read_only_until_there_is_room(disk: Path) -> None:
    (disk / "ballast").write_bytes(b"\0" * 400_000)
    folder = disk / "data"
    store = await Store.open(folder)
    try:
        await survives_a_full_disk(store, folder, make_room=(disk / "ballast").unlink)
    finally:
        await store.close()


async def test_torn_log_tail_loses_only_unacknowledged_writes(tmp_path: Path) -> None:
    """As after a power failure: the write-ahead log is truncated, or ends in garbage."""
    wal = tmp_path / "live" / (FILE + "-wal")
    sizes: list[int] = []
    async with await Store.open(tmp_path / "live") as store:
        for count in range(30):
            await asyncio.gather(*(put(store, f"n{n}", count) for n in range(count % 3 + 1)))
            sizes.append(wal.stat().st_size)
        revisions = list(range(2, store.revision + 1))
        subprocess.run(["cp", "-r", tmp_path / "live", tmp_path / "copy"], check=True)
    folder = tmp_path / "copy"
    main, tail = (folder / FILE).read_bytes(), (folder / wal.name).read_bytes()
    assert len(tail) == sizes[-1]
    batches = [0, *(sum(n % 3 + 1 for n in range(count + 1)) for count in range(30))]
    for number in range(0, len(tail), 1 + len(tail) // 60):
        for ending in (b"", b"\xa5" * 5_000):
            (folder / FILE).write_bytes(main)
            (folder / wal.name).write_bytes(tail[:number] + ending)
            (folder / (FILE + "-shm")).unlink(missing_ok=True)
            acknowledged = sum(size <= number for size in sizes)
            async with await Store.open(folder) as store:
                if acknowledged:
                    seen = [c.revision for c in await store.watch(RESOURCE, since=1).next()]
                    assert seen == revisions[: batches[acknowledged]]
                else:
                    assert store.revision == 1
