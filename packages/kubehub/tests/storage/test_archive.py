"""Backup, restore, check and export."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from kubehub.storage import log as log_module
from kubehub.storage.archive import Problem, TargetExists, backup, check, export, restore
from kubehub.storage.entry import ADDED
from kubehub.storage.log import FILE, GIT_IGNORE, Log
from kubehub.storage.store import Damaged, Item, Key, Store, TooOld, Unreadable

RESOURCE = "things.example.com"
JUMP = 1_000_000


def later(last: int) -> int:
    return last + JUMP


def key(name: str) -> Key:
    return (RESOURCE, "default", name)


async def put(store: Store, at: Key, **fields: Any) -> Item:
    head = store.head(at)
    metadata = {"name": at[2], **({"namespace": at[1]} if at[1] else {}), **fields.pop("metadata", {})}
    return await store.put(at, {"metadata": metadata, **fields}, expect=head.revision if head else 0)


async def drop(store: Store, at: Key) -> Item:
    head = store.head(at)
    assert head is not None
    return await store.delete(at, msgspec.json.decode(head.raw), expect=head.revision)


def names(store: Store) -> list[str]:
    return [item.key[2] for item in store.items(RESOURCE).items]


async def some(folder: Path | None) -> Store:
    """Two objects of three, at revision 6."""
    store = await Store.open(folder)
    for name in "abc":
        await put(store, key(name))
    await put(store, key("b"), spec="new")
    await drop(store, key("a"))
    return store


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != GIT_IGNORE)


@pytest.mark.parametrize("folder", [None, "data"], ids=["memory", "disk"])
async def test_backup_of_a_running_store_can_be_restored(tmp_path: Path, folder: str | None) -> None:
    store = await some(tmp_path / folder if folder else None)
    summary = backup(store, tmp_path / "backup.db")
    assert (summary.identity, summary.revision, summary.objects) == (store.identity, 6, 2)
    await put(store, key("later"))
    items = store.items(RESOURCE).items[:2]
    assert [path for path in files(tmp_path) if path.startswith("backup")] == ["backup.db"]

    restored = restore(tmp_path / "backup.db", tmp_path / "again", first=later)
    assert (restored.revision, restored.objects) == (6 + JUMP, 2)
    assert files(tmp_path / "again") == [FILE, "hub.lock"]
    async with await Store.open(tmp_path / "again") as again:
        assert again.items(RESOURCE).items == items
        assert again.identity == store.identity
        assert again.revision == again.oldest == 6 + JUMP
        assert again.last_revision(RESOURCE) == again.last_revision("unknown") == 6 + JUMP
        for resource in (RESOURCE, "unknown"):
            for since in (1, 6, 5 + JUMP):
                with pytest.raises(TooOld):
                    again.watch(resource, since=since)
        watch = again.watch(RESOURCE, since=again.revision)
        change = await put(again, key("b"))
        assert change.revision == 7 + JUMP
        assert [(c.item, c.before) for c in await watch.next()] == [(change, items[0])]
    assert check(tmp_path / "again").problems == ()
    async with await Store.open(tmp_path / "again") as again:
        assert (again.revision, again.oldest) == (7 + JUMP, 6 + JUMP)
    await store.close()


async def test_backup_of_a_closed_store_can_be_restored(tmp_path: Path) -> None:
    await (await some(tmp_path / "data")).close()
    assert backup(tmp_path / "data", tmp_path / "backup.db").objects == 2
    # A single file at rest, so it can be read from a read-only disk.
    assert (tmp_path / "backup.db").read_bytes()[18:20] == b"\1\1"
    assert files(tmp_path) == ["backup.db", "data"]


async def test_backup_does_not_replace_a_file(tmp_path: Path) -> None:
    store = await some(None)
    (tmp_path / "backup.db").write_text("precious")
    with pytest.raises(TargetExists, match=r"backup\.db already exists"):
        backup(store, tmp_path / "backup.db")
    assert (tmp_path / "backup.db").read_text() == "precious"


async def test_failed_backup_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no such file"):
        backup(tmp_path, tmp_path / "backup.db")
    await (await some(tmp_path / "data")).close()
    file = tmp_path / "data" / FILE
    file.write_bytes(file.read_bytes().replace(b'"b"', b'"x"'))
    with pytest.raises(Damaged, match="checksum"):
        backup(tmp_path / "data", tmp_path / "backup.db")
    with pytest.raises(Unreadable):
        backup(tmp_path / "data", tmp_path / "absent" / "backup.db")
    assert files(tmp_path) == ["data"]


async def test_restore_needs_force_and_continues_above_the_replaced_revision(tmp_path: Path) -> None:
    store = await some(None)
    backup(store, tmp_path / "backup.db")
    async with await Store.open(tmp_path / "data") as other:
        for _ in range(20):
            await put(other, key("other"))
        revision = other.revision
    with pytest.raises(TargetExists, match="already contains a hub's data"):
        restore(tmp_path / "backup.db", tmp_path / "data")
    async with await Store.open(tmp_path / "data") as other:
        assert (names(other), other.revision) == (["other"], revision)
    summary = restore(tmp_path / "backup.db", tmp_path / "data", force=True, first=later)
    assert summary.revision == revision + JUMP
    async with await Store.open(tmp_path / "data") as other:
        assert (names(other), other.revision) == (["b", "c"], revision + JUMP)


async def test_damaged_data_can_be_replaced(tmp_path: Path) -> None:
    store = await some(tmp_path / "data")
    backup(store, tmp_path / "backup.db")
    await store.close()
    for damaged in (b"", b"nonsense" * 2_000):
        (tmp_path / "data" / FILE).write_bytes(damaged)
        (tmp_path / "data" / (FILE + "-wal")).write_bytes(b"nonsense")
        with pytest.raises(TargetExists):
            restore(tmp_path / "backup.db", tmp_path / "data")
        restored = restore(tmp_path / "backup.db", tmp_path / "data", force=True, first=later)
        assert restored.revision == 6 + JUMP
        async with await Store.open(tmp_path / "data") as opened:
            assert names(opened) == ["b", "c"]


async def test_interrupted_restore_changes_nothing(tmp_path: Path) -> None:
    backup(await some(None), tmp_path / "backup.db")
    async with await Store.open(tmp_path / "data") as store:
        await put(store, key("other"))
    with (
        mock.patch.object(
            log_module, "_insert", side_effect=sqlite3.OperationalError("database or disk is full")
        ),
        pytest.raises(Unreadable, match="disk is full"),
    ):
        restore(tmp_path / "backup.db", tmp_path / "data", force=True)
    assert files(tmp_path / "data") == [FILE, "hub.lock"]
    async with await Store.open(tmp_path / "data") as store:
        assert names(store) == ["other"]


async def test_damaged_backup_is_rejected_before_the_restore(tmp_path: Path) -> None:
    backup(await some(None), tmp_path / "backup.db")
    file = tmp_path / "backup.db"
    file.write_bytes(file.read_bytes().replace(b'"new"', b'"old"'))
    with pytest.raises(Damaged, match="revision 5 doesn't match its checksum"):
        restore(file, tmp_path / "data")
    assert not (tmp_path / "data").exists()


async def test_intact_store_has_no_problems(tmp_path: Path) -> None:
    async with await some(tmp_path):
        live = check(tmp_path)
    report = check(tmp_path)
    assert report == live
    assert (report.path, report.revision, report.rows, report.objects) == (tmp_path / FILE, 6, 5, 2)
    assert report.problems == ()


def row(name: str, revision: int, body: Any, change: Any = ADDED) -> log_module.Row:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return log_module.Row(Item(key(name), revision, raw), change)


def body(name: str, revision: int) -> dict[str, Any]:
    return {"metadata": {"namespace": "default", "name": name, "resourceVersion": str(revision)}}


def test_check_finds_every_problem(tmp_path: Path) -> None:
    rows = [
        row("a", 2, body("a", 2)),
        row("a", 3, body("a", 3)),
        row("b", 4, body("b", 4), "MODIFIED"),
        row("c", 5, body("c", 5), "DELETED"),
        row("d", 6, body("x", 6)),
        row("e", 7, body("e", 8)),
        row("f", 8, b"{"),
        row("g", 9, b"[]"),
        row("h", 10, {}),
        row("i", 11, body("i", 11), "MOVED"),
        row("j", 12, body("j", 12)),
    ]
    Log.create(tmp_path / FILE, rows)
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE log SET sum = sum + 1 WHERE revision = 12")
    connection.close()
    problems = {problem.revision: problem.text for problem in check(tmp_path).problems}
    assert {revision: text.split(":")[0] for revision, text in problems.items()} == {
        3: "adds things.example.com/default/a, which exists since revision 2",
        4: "changes things.example.com/default/b, which doesn't exist",
        5: "changes things.example.com/default/c, which doesn't exist",
        6: "is stored as things.example.com/default/d, but its metadata says default/x",
        7: "has the wrong resourceVersion 8",
        8: "isn't a JSON object",
        9: "isn't a JSON object",
        10: "has no metadata",
        11: "has the unknown change type 'MOVED'",
        12: "doesn't match its checksum",
    }


def test_check_allows_missing_predecessors_below_the_floor(tmp_path: Path) -> None:
    Log.create(tmp_path / FILE, [row("a", 2, body("a", 2), "MODIFIED")], floor=2, revision=2)
    assert check(tmp_path).problems == ()


async def test_file_that_is_not_a_database_is_reported(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"nonsense" * 1_000)
    assert check(tmp_path).problems == (Problem(revision=0, text="file is not a database"),)
    (tmp_path / FILE).write_bytes(b"")
    assert check(tmp_path).problems == (Problem(revision=0, text="the file is empty"),)
    with pytest.raises(Unreadable, match="no such file"):
        check(tmp_path / "absent")


async def test_check_reports_sqlite_problems(tmp_path: Path) -> None:
    async with await Store.open(tmp_path) as store:
        await asyncio.gather(*(put(store, key(f"n{n}"), spec="x" * 3_000) for n in range(40)))
    file = tmp_path / FILE
    data = file.read_bytes()
    middle = len(data) // 2 // 8192 * 8192
    file.write_bytes(data[:middle] + bytes(8192) + data[middle + 8192 :])
    *sqlite, ours = check(tmp_path).problems
    assert sqlite
    assert ours.text.startswith("unreadable after ")
    file.write_bytes(data[:middle])
    (only,) = check(tmp_path).problems
    assert "malformed" in only.text


def metadata(**fields: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "uid": "u",
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "generation": 3,
            "managedFields": [{}],
            "ownerReferences": [{"uid": "gone"}],
            "labels": {"kept": "yes"},
            **fields,
        }
    }


@pytest.mark.parametrize("kind", ["store", "folder", "file"])
async def test_export_can_be_applied_to_another_hub(tmp_path: Path, kind: str) -> None:
    store = await Store.open(tmp_path / "data")
    await put(store, ("configmaps", "ns", "b"), data={"k": "v"}, **metadata())
    await put(store, ("configmaps", "ns", "a"), status={"phase": "x"})
    await put(store, ("clusterroles.rbac.authorization.k8s.io", "", "admin"))
    await put(store, ("zones.example.com", "", "z"))
    await put(store, ("configmaps", "ns", "going"), **metadata(deletionTimestamp="2024-01-01T00:00:00Z"))
    await put(store, ("namespaces", "", "ns"))
    await put(store, ("customresourcedefinitions.apiextensions.k8s.io", "", "zones.example.com"))
    await put(store, ("configmaps", "ns", "gone"))
    await drop(store, ("configmaps", "ns", "gone"))
    backup(store, tmp_path / "backup.db")
    sources: dict[str, Store | Path] = {
        "store": store,
        "folder": tmp_path / "data",
        "file": tmp_path / "backup.db",
    }
    source = sources[kind]
    documents = list(export(source))
    assert [document["metadata"]["name"] for document in documents] == [
        "zones.example.com",
        "ns",
        "admin",
        "z",
        "a",
        "b",
    ]
    assert documents[4] == {"metadata": {"name": "a", "namespace": "ns"}}
    assert documents[5] == {
        "metadata": {"name": "b", "namespace": "ns", "labels": {"kept": "yes"}},
        "data": {"k": "v"},
    }
    assert list(export(source, status=True))[4]["status"] == {"phase": "x"}
    await store.close()
