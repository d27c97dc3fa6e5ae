"""The files of a history: one SQLite database for each run of a process, and for each part of a long run.

    000001-3f9c0a12.history      meta (format, version of Fairway, profile, …), change, blob, record, gap
    000002-…

Only the process that created a file writes to it, so that processes that share a folder, such as the replicas of a
controller on one volume, never wait for each other or damage each other's records. Each file starts with all inputs,
so it can be read, or deleted by retention, without the others. The number in its name gives their order, also after
the clock was set back.

SQLite commits in WAL mode with ``synchronous=NORMAL``: a process that is killed loses at most the batch that it had not
committed; a machine that loses power may lose the last commits; neither damages what was committed before.
"""

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from fairway.history.record import Record, decode, encode
from fairway.hosts.instant import Micros

APPLICATION_ID: Final = 0x46_57_48_59  # "FWHY"
FORMAT: Final = 1
SUFFIX: Final = ".history"
_NAME: Final = re.compile(r"(\d{6,})-[0-9a-f]{8}\.history")
_SIDE_FILES: Final = ("", "-wal", "-shm")

_SCHEMA: Final = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) WITHOUT ROWID;
CREATE TABLE change (number INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE blob (digest BLOB PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE record (number INTEGER PRIMARY KEY, id TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL,
    name TEXT NOT NULL, at INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX record_of ON record (namespace, name);
CREATE INDEX record_id ON record (id);
CREATE TABLE gap (since INTEGER NOT NULL, until INTEGER NOT NULL, lost INTEGER NOT NULL, why TEXT NOT NULL);
"""

NOT_A_HISTORY: Final = "is not a history file of Fairway; move it out of the folder"
OTHER_FORMAT: Final = (
    "has format {found}, and this version of Fairway reads format {known}; read it with the version that "
    "wrote it, or delete it"
)
DAMAGED: Final = (
    "is damaged ({why}); what could be read of it is shown. Delete it, or move it out of the folder"
)
UNREADABLE: Final = "cannot be read ({why})"


class HistoryFileError(Exception):
    """A file cannot be used; the message has its path, the reason and a remedy."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} {why}")
        self.path = path


class Gap(NamedTuple):
    """Decisions that were not recorded."""

    since: Micros
    until: Micros
    lost: int
    why: str


class HistoryFile(NamedTuple):
    path: Path
    number: int


def files_in(folder: Path) -> list[HistoryFile]:
    """In the order in which they were created. Raises OSError."""
    named = [(path, _NAME.fullmatch(path.name)) for path in folder.iterdir()]
    return sorted(
        (HistoryFile(path, int(match[1])) for path, match in named if match is not None),
        key=lambda file: (file.number, file.path.name),
    )


def size_of(path: Path) -> int:
    """Return the bytes of a file, with what SQLite keeps beside it."""
    total = 0
    for side in _SIDE_FILES:
        with suppress(OSError):
            total += path.with_name(path.name + side).stat().st_size
    return total


def delete(path: Path) -> None:
    # The database last: a rest without its log is complete up to its last checkpoint.
    for side in reversed(_SIDE_FILES):
        with suppress(FileNotFoundError):
            path.with_name(path.name + side).unlink()


class FileWriter:
    """Writes one file. Methods raise sqlite3.Error and OSError; the file is then closed and not used again."""

    def __init__(self, folder: Path, *, meta: Mapping[str, object]) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = max((file.number for file in files_in(folder)), default=0) + 1
        self.path = folder / f"{number:06d}-{os.urandom(4).hex()}{SUFFIX}"
        # Readable by the owner only, as the hub's data: records name clusters of all tenants.
        os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            self._connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        except BaseException:
            self._connection.close()
            raise
        self._blobs: set[bytes] = set()

    def write(
        self,
        *,
        changes: Iterable[tuple[int, bytes]],
        blobs: Mapping[bytes, bytes],
        records: Iterable[Record],
        gaps: Iterable[Gap] = (),
    ) -> None:
        """Write a batch: all of it, or nothing."""
        run = self._connection
        run.execute("BEGIN")
        try:
            run.executemany("INSERT INTO change VALUES (?, ?)", changes)
            new = [(name, data) for name, data in blobs.items() if name not in self._blobs]
            run.executemany("INSERT OR IGNORE INTO blob VALUES (?, ?)", new)
            run.executemany(
                "INSERT INTO record (id, kind, namespace, name, at, body) VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (record.id, record.kind, record.namespace, record.name, record.at, encode(record))
                    for record in records
                ],
            )
            run.executemany("INSERT INTO gap VALUES (?, ?, ?, ?)", gaps)
            run.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                run.execute("ROLLBACK")
            raise
        self._blobs.update(name for name, _ in new)

    def size(self) -> int:
        return size_of(self.path)

    def end(self) -> None:
        """Close the file, and record that all of it was written."""
        with suppress(sqlite3.Error):
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('ended', 1)")
        self.close()

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()


class FileReader:
    """Reads one file, also while its process writes to it."""

    def __init__(self, path: Path) -> None:
        """Raises HistoryFileError for a file that cannot be read at all."""
        self.path = path
        try:
            self._connection = self._connect()
            application = self._one("PRAGMA application_id")
            version = self._one("PRAGMA user_version")
        except sqlite3.OperationalError as error:
            raise HistoryFileError(path, UNREADABLE.format(why=error)) from None
        except sqlite3.DatabaseError:
            raise HistoryFileError(path, NOT_A_HISTORY) from None
        if application != APPLICATION_ID:
            self.close()
            raise HistoryFileError(path, NOT_A_HISTORY)
        if version != FORMAT:
            self.close()
            raise HistoryFileError(path, OTHER_FORMAT.format(found=version, known=FORMAT))
        rows: Iterator[Any] = self._rows("SELECT name, value FROM meta")
        self.meta: dict[str, Any] = dict(rows)

    def _connect(self) -> sqlite3.Connection:
        address = self.path.absolute().as_uri()
        connection = sqlite3.connect(f"{address}?mode=ro", uri=True)
        try:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # Without permission to write in the folder, SQLite cannot open the index of the log. A file that no
            # process writes to needs none.
            connection.close()
            connection = sqlite3.connect(f"{address}?immutable=1", uri=True)
        return connection

    def records(
        self, *, namespace: str | None = None, name: str | None = None, record_id: str | None = None
    ) -> Iterator[Record]:
        """Yield records in the order in which they were written. Raises HistoryFileError where the file is damaged."""
        conditions = {"namespace": namespace, "name": name, "id": record_id}
        given = {column: value for column, value in conditions.items() if value is not None}
        where = " AND ".join(f"{column} = ?" for column in given)
        query = f"SELECT body FROM record {f'WHERE {where}' if where else ''} ORDER BY number"
        for (body,) in self._rows(query, *given.values()):
            try:
                yield decode(body)
            except ValueError as error:
                raise HistoryFileError(self.path, DAMAGED.format(why=error)) from None

    def changes(self, *, after: int, up_to: int) -> Iterator[tuple[int, bytes]]:
        query = "SELECT number, data FROM change WHERE number > ? AND number <= ? ORDER BY number"
        yield from self._rows(query, after, up_to)

    def blob(self, digest: bytes) -> bytes | None:
        return next((data for (data,) in self._rows("SELECT data FROM blob WHERE digest = ?", digest)), None)

    def gaps(self) -> list[Gap]:
        return [Gap(*row) for row in self._rows("SELECT since, until, lost, why FROM gap")]

    def _rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(query, values)
        except sqlite3.DatabaseError as error:
            raise HistoryFileError(self.path, DAMAGED.format(why=error)) from None

    def _one(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()[0]

    def close(self) -> None:
        with closing(self._connection):
            pass
