"""The log on disk: one SQLite table of all writes, whose rowid is the revision.

The newest row of a key is its current state, so there is one place to write and no second structure to keep
consistent. Superseded rows and deletions are removed once the watch cache no longer needs them. ``floor`` is the
oldest revision after which every change is available. Every row has a checksum, because SQLite has none for its
pages. All methods block; a log is used by one thread at a time.

A log that can't be written to, such as on a full disk, is still opened if it can be read: it is then *sealed* until
``probe`` succeeds.
"""

import json
import os
import sqlite3
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

from kubehub.storage.entry import ChangeType, Damaged, Item, UnknownFormat, Unreadable
from kubehub.storage.revisions import Gap

Durability = Literal["full", "normal"]
"""``full``: an acknowledged write survives a power failure. ``normal``: it survives the end of the process."""

FILE: Final = "hub.db"
FULL: Final = "database or disk is full"
GIT_IGNORE: Final = ".gitignore"
FORMAT: Final = 1
FIRST: Final = 1
"""The revision of a new store, as in etcd."""

_NOTE: Final = "note "
_APPLICATION: Final = 0x46575931
# Objects have a few KB: smaller pages waste space at their ends, larger ones make single writes expensive.
_PAGE: Final = 8_192
_CHECKPOINT: Final = 16 * 1024 * 1024 // _PAGE
_FRAMES_PER_COMMIT: Final = 2
_SPARE: Final = 1024 * 1024
"""Bytes that a checkpoint leaves free."""
# One statement per chunk: the interpreter's lock is released and reacquired for each statement, so writing row by
# row would wait for a busy event loop once per row.
_CHUNK: Final = 64

_SCHEMA: Final = (
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE log(revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL,"
    " name TEXT NOT NULL, change TEXT NOT NULL, sum INTEGER NOT NULL, raw TEXT NOT NULL)",
)
# Stored as text, so that SQLite's JSON functions work on it; passed as bytes, to avoid decoding them.
_VALUES: Final = "(?,?,?,?,?,?,CAST(? AS TEXT))"
_SELECT: Final = (
    "SELECT revision, resource, namespace, name, change, sum, CAST(raw AS BLOB) FROM log ORDER BY revision"
)


class Row(NamedTuple):
    item: Item
    change: ChangeType


def checksum(row: Row) -> int:
    (resource, namespace, name), revision, change = row.item.key, row.item.revision, row.change
    return zlib.crc32(row.item.raw, zlib.crc32(f"{revision} {change} {resource} {namespace} {name}".encode()))


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Convert SQLite's errors to the store's."""
    try:
        yield
    except sqlite3.OperationalError as error:
        # SQLite reports "disk I/O error" when there is no space for the files beside the database.
        full = getattr(error, "sqlite_errorname", "") == "SQLITE_IOERR_SHMSIZE"
        raise Unreadable(path, detail=FULL if full else str(error)) from error
    except sqlite3.DatabaseError as error:
        raise Damaged(path, detail=str(error)) from error
    except OSError as error:
        raise Unreadable(path, detail=error.strerror or str(error)) from error


def prepare_folder(folder: Path) -> None:
    """Create the data folder, readable by its owner only. Raises OSError.

    A new folder gets a .gitignore, so that its keys aren't committed with a checkout around it. A folder with other
    files is left unchanged.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):  # the store reports a full or read-only disk
        if not any(folder.iterdir()):
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
            with open(os.open(folder / GIT_IGNORE, flags, 0o600), "w", encoding="ascii") as file:
                file.write("*\n")


def sync_folder(folder: Path) -> None:
    """Make created and renamed files durable, which needs an fsync of their folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Log:
    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """Takes over ``connection``; use ``open``, ``read`` or ``create``."""
        self.path = path
        self.sealed: str | None = None
        """The reason why nothing can be written, or None."""
        self._durability: Durability = "full"
        self._life: dict[str, int | str] = {}
        """What ``begin`` still has to write."""
        self._frames = 0
        """The approximate number of pages in the write-ahead log that the main file lacks."""
        self._rests = False
        """Whether there is no connection until the next probe."""
        self._connection = connection
        # Damaged text must reach the checksum.
        connection.text_factory = lambda text: text.decode(errors="replace")
        with store_errors(path):
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application != _APPLICATION:
                raise Damaged(path, detail="it is not a log of the hub")
            if version != FORMAT:
                raise UnknownFormat(path, version=version, known=FORMAT)
            meta = dict(connection.execute("SELECT name, value FROM meta"))
            (newest,) = connection.execute("SELECT max(revision) FROM log").fetchone()
        try:
            self.identity = str(meta["identity"])
            self.empty = newest is None
            self.floor = int(meta["floor"])
            self.revision = max(int(meta["revision"]), newest or 0)
            self.notes = {n.removeprefix(_NOTE): str(v) for n, v in meta.items() if n.startswith(_NOTE)}
            self.gaps = tuple(
                Gap(int(last), int(first)) for last, first in json.loads(meta.get("gaps", "[]"))
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged(path, detail=f"its meta table lacks {error}") from error

    @classmethod
    def open(cls, path: Path, *, durability: Durability = "full") -> Self:
        """Open for writing; created if missing. The caller holds the folder's lock."""
        if not path.exists():
            if path.with_name(path.name + "-wal").exists():
                raise Damaged(path, detail="the file is missing, but its write-ahead log exists")
            cls.create(path)
        # A log is created under another name and renamed when complete, so an empty file was never one of ours; SQLite
        # would take it for a new database.
        if not path.stat().st_size:
            raise Damaged(path, detail="the file is empty")
        with suppress(OSError):
            path.chmod(0o600)  # a copied file may have any mode
        try:
            connection = _connect(path, durability)
        except Unreadable as error:
            log = cls(_connect_alone(path, error), path)
            log.sealed = error.detail
        else:
            try:
                log = cls(connection, path)
            except BaseException:
                _abandon(connection, path)
                raise
        log._durability = durability
        with suppress(OSError):
            log._frames = path.with_name(path.name + "-wal").stat().st_size // _PAGE
        return log

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open for reading, also while another process writes; all reads see the state at the first read."""
        if not path.is_file():
            raise Unreadable(path, detail="no such file")
        if not path.stat().st_size:
            raise Damaged(path, detail="the file is empty")
        with store_errors(path):
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("BEGIN")
                return cls(connection, path)
            except Unreadable as error:
                connection.close()
                return cls(_connect_alone(path, error), path)
            except BaseException:
                connection.close()
                raise

    @classmethod
    def create(
        cls,
        path: Path,
        rows: Iterable[Row] = (),
        *,
        revision: int = FIRST,
        floor: int = FIRST,
        identity: str | None = None,
    ) -> None:
        """Create a complete log at ``path``, or none; an existing file is replaced."""
        draft = path.with_name(path.name + ".new")
        with store_errors(path):
            for leftover in (draft, draft.with_name(draft.name + "-journal")):
                leftover.unlink(missing_ok=True)
            try:
                draft.touch(mode=0o600)  # SQLite gives the files beside it the same mode
                connection = sqlite3.connect(draft, isolation_level=None)
                try:
                    cls._fill(connection, rows, revision=revision, floor=floor, identity=identity)
                finally:
                    connection.close()
                draft.replace(path)
                sync_folder(path.parent)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise

    @classmethod
    def _fill(
        cls,
        connection: sqlite3.Connection,
        rows: Iterable[Row],
        *,
        revision: int,
        floor: int,
        identity: str | None,
    ) -> None:
        connection.execute(f"PRAGMA page_size = {_PAGE}")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("BEGIN")
        for statement in _SCHEMA:
            connection.execute(statement)
        meta = {"identity": identity or str(uuid.uuid4()), "floor": floor, "revision": revision}
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        remaining = iter(rows)
        while chunk := list(islice(remaining, _CHUNK)):
            _insert(connection, chunk)
        connection.execute("COMMIT")

    def rows(self) -> Iterator[Row]:
        """Yield the rows in the order of revisions. Raises Damaged at the first row whose checksum doesn't match."""
        with store_errors(self.path):
            for row, sum_ in self.raw_rows():
                if checksum(row) != sum_:
                    raise Damaged(
                        self.path,
                        detail=f"the row of revision {row.item.revision} doesn't match its checksum",
                    )
                yield row

    def raw_rows(self) -> Iterator[tuple[Row, int]]:
        """Yield the rows unchecked, with their checksums."""
        one: dict[str, str] = {}  # a hundred thousand objects have few distinct resources and namespaces
        for revision, resource, namespace, name, change, sum_, raw in self._connection.execute(_SELECT):
            key = one.setdefault(resource, resource), one.setdefault(namespace, namespace), name
            yield Row(Item(key, revision, raw or b""), change), sum_

    def append(self, rows: Sequence[Row]) -> None:
        """Write all rows or none, durably. Raises sqlite3.Error; nothing is written then."""
        if len(rows) <= _CHUNK:
            _insert(self._connection, rows)  # its own transaction
        else:
            with self._transaction():
                for start in range(0, len(rows), _CHUNK):
                    _insert(self._connection, rows[start : start + _CHUNK])
        self._count(sum(len(row.item.raw) for row in rows) // _PAGE)

    def trim(self, revisions: Sequence[int], *, floor: int) -> None:
        """Remove rows. For a key, older rows must be removed no later than newer ones, or they would become current
        again."""
        with self._transaction():
            marks = ",".join("?" * len(revisions))
            self._connection.execute(f"DELETE FROM log WHERE revision IN ({marks})", revisions)
            self._connection.execute("UPDATE meta SET value = ? WHERE name = 'floor'", (floor,))
        self._count(len(revisions))

    def begin(self, *, revision: int, gaps: Sequence[Gap], floor: int) -> None:
        """Continue at ``revision``. A log that can't write that is sealed, and writes it when it is unsealed."""
        self.revision, self.gaps, self.floor = revision, tuple(gaps), floor
        self._life = {"revision": revision, "gaps": json.dumps(gaps), "floor": floor}
        if self.sealed is None:
            try:
                self._write_life()
            except sqlite3.OperationalError as error:
                self.sealed = str(error)
        else:
            # An unbounded write-ahead log would keep backups from reading.
            self._connection.close()
            self._rests = True

    def _write_life(self) -> None:
        if self._life:
            rows = [item for pair in self._life.items() for item in pair]
            marks = ",".join(["(?,?)"] * len(self._life))
            self._connection.execute(f"INSERT OR REPLACE INTO meta VALUES {marks}", rows)
            self._life = {}

    def note(self, name: str, value: str) -> None:
        """Store a text with the data, to be read with ``notes``. Raises sqlite3.Error."""
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_NOTE + name, value))
        self.notes[name] = value

    def probe(self, size: int) -> None:
        """Write and remove ``size`` bytes; raises Unreadable or sqlite3.Error if that isn't possible."""
        if self._rests:
            self._connection = _connect(self.path, self._durability)
            self._rests = False
        self._write_life()
        self.sealed = None
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('probe', zeroblob(?))", (size,))
        self._connection.execute("DELETE FROM meta WHERE name = 'probe'")

    def _count(self, frames: int) -> None:
        """Checkpoint the write-ahead log now and then, if there is space for what that adds to the main file."""
        self._frames += _FRAMES_PER_COMMIT + frames
        if self._frames >= _CHECKPOINT and self._has_room():
            with suppress(sqlite3.OperationalError):  # the commit itself has succeeded
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._frames = 0

    def _has_room(self) -> bool:
        try:
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            growth, disk = pages * _PAGE - self.path.stat().st_size, os.statvfs(self.path)
        except (sqlite3.OperationalError, OSError):
            return False
        return bool(growth <= 0 or growth + _SPARE <= disk.f_bavail * disk.f_frsize)

    def copy(self, target: Path) -> None:
        """Copy everything to a new file, durably. Raises sqlite3.Error."""
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")
        self._connection.execute("VACUUM INTO ?", (str(target),))
        with target.open("rb") as written:
            os.fsync(written.fileno())

    def faults(self) -> list[str]:
        """Run SQLite's integrity check, which reads the whole file."""
        problems: list[str] = []
        try:
            for (line,) in self._connection.execute("PRAGMA integrity_check"):
                problems += str(line).splitlines()
        except sqlite3.DatabaseError as error:
            problems.append(str(error))
        return [] if problems == ["ok"] else problems

    def close(self) -> None:
        """Close, with a checkpoint if there is space for it."""
        if self._rests or self._has_room():
            self._connection.close()
        else:
            self.abandon()

    def abandon(self) -> None:
        """Close and leave the files unchanged."""
        _abandon(self._connection, self.path)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # SQLite may have rolled back already, as it does when the disk is full.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def _connect(path: Path, durability: Durability) -> sqlite3.Connection:
    """Connect for writing. Raises Unusable."""
    with store_errors(path):
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            # Reads the file and, if missing, creates the index beside it, which needs space on the disk.
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            if application == _APPLICATION:  # leave another program's file unchanged
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {durability.upper()}")
            # SQLite would otherwise start a checkpoint for which there is no space, and use up the rest.
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute(f"PRAGMA journal_size_limit = {_CHECKPOINT * _PAGE}")
        except BaseException:
            _abandon(connection, path)
            raise
    return connection


def _connect_alone(path: Path, error: Unreadable) -> sqlite3.Connection:
    """Connect for reading where there is no space for the index beside the file. Raises ``error`` if that fails as
    well."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        # The index is then in memory, and no other process can use the file.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.DatabaseError:
        connection.close()
        raise error from error.__cause__
    return connection


def _abandon(connection: sqlite3.Connection, path: Path) -> None:
    """Close without a checkpoint, which could spread damage. SQLite checkpoints when the last connection closes, so
    a read-only connection is closed last."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as reader:
        with suppress(sqlite3.DatabaseError):
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        connection.close()


def _insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    values: list[int | str | bytes] = []
    for row in rows:
        item = row.item
        values += (item.revision, *item.key, row.change, checksum(row), item.raw)
    connection.execute(f"INSERT INTO log VALUES {','.join([_VALUES] * len(rows))}", values)
