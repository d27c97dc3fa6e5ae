"""Back up and restore a hub's objects and keys in one file, so that kubeconfigs and tokens stay valid.

The file is the SQLite file that `storage.archive` writes, with one more table for the files of the folder `pki`, so
whatever reads the objects reads a backup, too. All functions block.
"""

import contextlib
import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubehub.authn.jwt import KEY_FILE
from kubehub.pki.certificates import write_private
from kubehub.pki.hub_certificates import AUTHORITY_FILE
from kubehub.storage import archive
from kubehub.storage.entry import Damaged, StoreError, Unreadable
from kubehub.storage.lock import Lock
from kubehub.storage.log import FILE, sync_folder

PKI: Final = "pki"

NO_DATA: Final = "{path} contains no hub data; name the folder that was given to `fairway hub --data`"
NO_BACKUP: Final = (
    "{path} is not a hub backup, or its first bytes are damaged; apply manifests with `kubectl apply` instead"
)
NOT_A_FILE: Final = "{path} is a folder; name a file in it"
KEY_DAMAGED: Final = "{name} does not match its checksum"
KEY_MISSING: Final = "{name} is missing"
KEY_UNREADABLE: Final = "cannot read {name}: {reason}"
KEYS_NOT_RESTORED: Final = (
    "the objects were restored, but the keys were not: {reason}. Stop the process that uses {folder}, then restore "
    "again with --force"
)

_MAGIC: Final = b"SQLite format 3\x00"
_UNFINISHED: Final = ".{name}.unfinished"
_TABLE: Final = "CREATE TABLE keys(name TEXT PRIMARY KEY, sum TEXT NOT NULL, content BLOB NOT NULL)"


class NoData(StoreError):
    pass


class KeysNotRestored(StoreError):
    """Only the objects were restored. Restoring again completes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    objects: archive.Summary
    keys: tuple[str, ...]


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Create files readable by their owner only."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def require_data(folder: Path) -> None:
    if not (folder / FILE).exists():
        raise NoData(NO_DATA.format(path=folder))


def save(folder: Path, target: Path, *, force: bool) -> Outcome:
    """Write ``target`` atomically, also while a hub uses ``folder``."""
    require_data(folder)
    if target.is_dir():
        raise Unreadable(target, detail=NOT_A_FILE.format(path=target))
    if target.exists() and not force:
        raise archive.TargetExists(archive.EXISTS, path=target)
    draft = target.with_name(_UNFINISHED.format(name=target.name))
    with private_files():
        draft.unlink(missing_ok=True)
        try:
            summary = archive.backup(folder, draft)
            keys = _read_files(folder / PKI)
            _add_keys(draft, keys)
            draft.replace(target)
            sync_folder(target.parent)
        except OSError as error:
            raise Unreadable(target, detail=error.strerror or str(error)) from error
        finally:
            draft.unlink(missing_ok=True)
    return Outcome(objects=summary, keys=tuple(keys))


def _read_files(folder: Path) -> dict[str, bytes]:
    """Read the files of a folder, without hidden ones, which are still being written."""
    if not folder.is_dir():
        return {}
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if stat.S_ISREG(path.lstat().st_mode) and not path.name.startswith(".")
    }


def _add_keys(file: Path, keys: Mapping[str, bytes]) -> None:
    with _connect(file, "rw") as connection:
        # Without a write-ahead log beside it, the backup is one file.
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN")
        connection.execute(_TABLE)
        connection.executemany(
            "INSERT INTO keys VALUES (?, ?, ?)",
            [(name, hashlib.sha256(content).hexdigest(), content) for name, content in keys.items()],
        )
        connection.execute("COMMIT")


@contextlib.contextmanager
def _connect(file: Path, mode: str) -> Iterator[sqlite3.Connection]:
    try:
        address = f"{file.absolute().as_uri()}?mode={mode}"
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            yield connection
    except sqlite3.OperationalError as error:
        raise Unreadable(file, detail=str(error)) from error
    except sqlite3.DatabaseError as error:
        raise Damaged(file, detail=str(error)) from error


def key_problems(path: Path) -> list[str]:
    """List the problems of the keys in a backup or a folder."""
    if path.is_dir():
        needed = (path / PKI / name for name in (AUTHORITY_FILE, KEY_FILE))
        missing = [
            KEY_MISSING.format(name=f"{PKI}/{key_file.name}") for key_file in needed if not key_file.exists()
        ]
        return missing + [
            KEY_UNREADABLE.format(name=f"{PKI}/{key_file.name}", reason="the file is empty")
            for key_file in sorted((path / PKI).glob("*.pem"))
            if not key_file.stat().st_size
        ]
    return [KEY_DAMAGED.format(name=f"{PKI}/{name}") for name, _, good in _read_keys(path) if not good]


def _read_keys(file: Path) -> list[tuple[str, bytes, bool]]:
    """Read the keys in a backup: name, content, and whether the checksum matches."""
    with _connect(file, "ro") as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'keys'").fetchone():
            return []
        rows = connection.execute("SELECT name, sum, content FROM keys ORDER BY name").fetchall()
    return [
        (str(name), bytes(content), hashlib.sha256(content).hexdigest() == sum_)
        for name, sum_, content in rows
    ]


def load(file: Path, folder: Path, *, force: bool) -> Outcome:
    """Restore a backup: the objects atomically, then the keys one by one.

    A backup without keys leaves the folder's keys unchanged.
    """
    with file.open("rb") as start:
        if start.read(len(_MAGIC)) != _MAGIC:
            raise NoData(NO_BACKUP.format(path=file))
    keys = {}
    for name, content, good in _read_keys(file):
        if not good or Path(name).name != name:
            raise Damaged(file, detail=KEY_DAMAGED.format(name=f"{PKI}/{name}"))
        keys[name] = content
    with private_files():
        summary = archive.restore(file, folder, force=force)
        (folder / FILE).chmod(0o600)
        if keys:
            _write_keys(keys, folder)
    return Outcome(objects=summary, keys=tuple(keys))


def _write_keys(keys: Mapping[str, bytes], folder: Path) -> None:
    try:
        lock = Lock(folder)
        try:
            place = folder / PKI
            place.mkdir(mode=0o700, exist_ok=True)
            for left in _read_files(place).keys() - keys.keys():
                os.unlink(place / left)
            for name, content in keys.items():
                write_private(place / name, content)
        finally:
            lock.release()
    except (OSError, StoreError) as error:
        raise KeysNotRestored(KEYS_NOT_RESTORED.format(reason=error, folder=folder)) from error
