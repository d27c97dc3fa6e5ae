"""Back up a hub's data, restore and check backups, and export the objects.

All functions work on a data folder (except for ``restore``, also while a hub in another process uses it) or on a
backup file, which is the same SQLite file at rest. All of them block.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from kubehub.resource import Document
from kubehub.storage.entry import ADDED, DELETED, MODIFIED, Damaged, Item, Key, StoreError, Unusable
from kubehub.storage.lock import Lock
from kubehub.storage.log import FILE, Log, Row, checksum, prepare_folder, store_errors, sync_folder
from kubehub.storage.revisions import first_revision
from kubehub.storage.store import Store

EXISTS: Final = "{path} already exists"
TARGET_HAS_DATA: Final = "{path} already contains a hub's data; use --force to replace it"


class TargetExists(StoreError):
    """The target already exists."""

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(message.format(path=path))
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The contents of a backup, or of a restored store."""

    identity: str
    revision: int
    objects: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """``revision`` is 0 when the problem isn't in a single row."""

    revision: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    path: Path
    revision: int
    rows: int
    objects: int
    problems: tuple[Problem, ...]


def file_of(path: Path) -> Path:
    """Return the log file of a data folder; a file is returned as it is."""
    return path / FILE if path.is_dir() else path


def backup(source: Store | Path, target: Path) -> Summary:
    """Write a backup. ``target`` is created only after it is complete and was read back. A store is read as
    committed."""
    if target.exists():
        raise TargetExists(EXISTS, path=target)
    if isinstance(source, Store):
        if source.folder is None:
            return _write_snapshot(source, target)
        source = source.folder
    draft = target.with_name(target.name + ".new")
    with store_errors(target):
        draft.unlink(missing_ok=True)
        try:
            with closing(Log.read(file_of(source))) as log, store_errors(log.path):
                log.copy(draft)
            summary = _summary(draft)
            draft.rename(target)
            sync_folder(target.parent)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    return summary


def _write_snapshot(store: Store, target: Path) -> Summary:
    items = [item for resource in store.resources() for item in store.items(resource).items]
    rows = [Row(item, ADDED) for item in sorted(items, key=lambda item: item.revision)]
    Log.create(target, rows, revision=store.revision, floor=store.revision, identity=store.identity)
    return _summary(target)


def _summary(path: Path) -> Summary:
    with closing(Log.read(path)) as log:
        return Summary(identity=log.identity, revision=log.revision, objects=len(_current(log.rows())))


def _current(rows: Iterable[Row]) -> dict[Key, Item]:
    current: dict[Key, Item] = {}
    for row in rows:
        if row.change == DELETED:
            current.pop(row.item.key, None)
        else:
            current[row.item.key] = row.item
    return current


def restore(
    backup: Path, folder: Path, *, force: bool = False, first: Callable[[int], int] = first_revision
) -> Summary:
    """Replace the data of ``folder`` with the objects of ``backup``, atomically.

    ``first`` maps the highest revision known from the backup and from the replaced data to the revision to continue
    at. Every older revision is too old to resume from, so all watchers list again.
    """
    with closing(Log.read(file_of(backup))) as log:
        current = _current(log.rows())
        identity, highest = log.identity, log.revision
    with store_errors(folder):
        prepare_folder(folder)
    lock = Lock(folder)
    try:
        target = folder / FILE
        aside = [target.with_name(target.name + ending) for ending in ("-wal", "-shm")]
        if any(path.exists() for path in (target, *aside)):
            if not force:
                raise TargetExists(TARGET_HAS_DATA, path=folder)
            highest = max(highest, _checkpoint(target))
        revision = first(highest)
        rows = [Row(item, MODIFIED) for item in sorted(current.values(), key=lambda item: item.revision)]
        with store_errors(folder):
            draft = target.with_name(target.name + ".restored")
            Log.create(draft, rows, revision=revision, floor=revision, identity=identity)
            # SQLite would take the write-ahead log of the replaced file for one of the new file.
            for path in aside:
                path.unlink(missing_ok=True)
            draft.replace(target)
            sync_folder(folder)
    finally:
        lock.release()
    return Summary(identity=identity, revision=revision, objects=len(current))


def _checkpoint(path: Path) -> int:
    """Checkpoint the write-ahead log into the main file and return its revision; 0 if the file is unreadable."""
    try:
        with closing(Log.open(path)) as log:
            return log.revision
    except Unusable:
        return 0


def check(path: Path) -> Report:
    """Read everything and report all problems. Raises only if the file can't be read at all."""
    path = file_of(path)
    try:
        log = Log.read(path)
    except Damaged as error:
        problem = Problem(revision=0, text=error.detail)
        return Report(path=path, revision=0, rows=0, objects=0, problems=(problem,))
    with closing(log):
        problems = [Problem(revision=0, text=text) for text in log.faults()]
        present: dict[Key, Item] = {}
        rows = 0
        try:
            for row, sum_ in log.raw_rows():
                rows += 1
                texts = list(_faults(row, sum_, present.get(row.item.key), floor=log.floor))
                problems += (Problem(revision=row.item.revision, text=text) for text in texts)
                if row.change == DELETED:
                    present.pop(row.item.key, None)
                else:
                    present[row.item.key] = row.item
        except sqlite3.DatabaseError as error:
            problems.append(Problem(revision=0, text=f"unreadable after {rows} rows: {error}"))
    return Report(
        path=path,
        revision=log.revision,
        rows=rows,
        objects=len(present),
        problems=tuple(dict.fromkeys(problems)),
    )


def _faults(row: Row, sum_: int, before: Item | None, *, floor: int) -> Iterator[str]:
    if checksum(row) != sum_:
        yield "doesn't match its checksum"
    if row.change not in (ADDED, MODIFIED, DELETED):
        yield f"has the unknown change type {row.change!r}"
    elif row.change == ADDED and before is not None:
        yield f"adds {_key_text(row.item.key)}, which exists since revision {before.revision}"
    # Predecessors below the floor may have been removed.
    elif row.change != ADDED and before is None and row.item.revision > floor:
        yield f"changes {_key_text(row.item.key)}, which doesn't exist"
    try:
        document = msgspec.json.decode(row.item.raw, type=dict)
    except msgspec.MsgspecError as error:
        yield f"isn't a JSON object: {error}"
        return
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        yield "has no metadata"
        return
    _, namespace, name = row.item.key
    if (metadata.get("namespace") or "", metadata.get("name")) != (namespace, name):
        actual = f"{metadata.get('namespace')}/{metadata.get('name')}"
        yield f"is stored as {_key_text(row.item.key)}, but its metadata says {actual}"
    if metadata.get("resourceVersion") != str(row.item.revision):
        yield f"has the wrong resourceVersion {metadata.get('resourceVersion')}"


def _key_text(key: Key) -> str:
    return "/".join(filter(None, key))


# Set by the hub itself. Owner references contain uids, which don't exist on another hub; its garbage collector
# would delete the dependents.
_OWN: Final = (
    "uid",
    "resourceVersion",
    "managedFields",
    "creationTimestamp",
    "generation",
    "selfLink",
    "ownerReferences",
)
_FIRST: Final = ("customresourcedefinitions.apiextensions.k8s.io", "namespaces")


def export(source: Store | Path, *, status: bool = False) -> Iterator[Document]:
    """Yield all objects in an order in which they can be applied to another hub, except those being deleted."""
    for item in _ordered_items(source):
        document: Document = msgspec.json.decode(item.raw)
        metadata = document.get("metadata", {})
        if "deletionTimestamp" in metadata:
            continue
        for field in _OWN:
            metadata.pop(field, None)
        if not status:
            document.pop("status", None)
        yield document


def _ordered_items(source: Store | Path) -> list[Item]:
    if isinstance(source, Store):
        items = [item for resource in source.resources() for item in source.items(resource).items]
    else:
        with closing(Log.read(file_of(source))) as log:
            items = list(_current(log.rows()).values())

    def rank(item: Item) -> tuple[int, bool, Key]:
        resource, namespace, _ = item.key
        return _FIRST.index(resource) if resource in _FIRST else len(_FIRST), bool(namespace), item.key

    return sorted(items, key=rank)
