"""All files of a history, as one sequence of records. A file that cannot be read is a warning, not an error."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self, TypeVar

from fairway.history.files import FileReader, Gap, HistoryFileError, files_in
from fairway.history.record import Record
from fairway.hosts.instant import Micros

NO_FOLDER: Final = (
    "there is no history in {folder} ({why}); the controllers write it where fairway run --history, or fairway up "
    "--data, names a folder"
)
NO_RECORD: Final = "no record has the id {id!r}; fairway history lists the ids"
CUT: Final = "{path} was not closed by its process; up to a second of decisions before its end may be missing"
WENT_BACK: Final = (
    "the clock went back by {seconds:.0f} s before record {id}: records are in the order of decisions"
)
CLOCK_STEP: Final = 60_000_000
"""Microseconds; decisions in flight at the same time may be recorded in another order."""

T = TypeVar("T")


class NoHistoryError(Exception):
    """The folder, or the record, does not exist."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record, and the file that has its inputs."""

    record: Record
    file: FileReader

    @property
    def version(self) -> str:
        """The version of Fairway that decided."""
        return str(self.file.meta.get("version", ""))

    @property
    def profile(self) -> str:
        """The text of the scheduler configuration; empty for the built-in profile."""
        return str(self.file.meta.get("profile", ""))


@dataclass(slots=True)
class Archive:
    """Use it in ``with``."""

    folder: Path
    files: list[FileReader] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Why the history may be incomplete."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Raises NoHistoryError."""
        archive = cls(folder)
        try:
            named = files_in(folder)
        except OSError as error:
            raise NoHistoryError(NO_FOLDER.format(folder=folder, why=error.strerror)) from None
        for file in named:
            try:
                archive.files.append(FileReader(file.path))
            except HistoryFileError as error:
                archive.warnings.append(str(error))
        if not named:
            raise NoHistoryError(NO_FOLDER.format(folder=folder, why="it has no files"))
        for reader in archive.files[:-1]:
            if "ended" not in reader.meta:
                archive.warnings.append(CUT.format(path=reader.path))
        return archive

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.files:
            file.close()

    def records(
        self, *, namespace: str | None = None, name: str | None = None, record_id: str | None = None
    ) -> Iterator[Stored]:
        """Yield records in the order in which they were decided."""
        last: Micros = 0
        for file in self.files:
            matching = file.records(namespace=namespace, name=name, record_id=record_id)
            for record in self._readable(matching):
                if record.at < last - CLOCK_STEP:
                    self.warnings.append(WENT_BACK.format(seconds=(last - record.at) / 1e6, id=record.id))
                last = record.at
                yield Stored(record, file)

    def find(self, record_id: str) -> Stored:
        """Raises NoHistoryError."""
        stored = next(self.records(record_id=record_id), None)
        if stored is None:
            raise NoHistoryError(NO_RECORD.format(id=record_id))
        return stored

    def held_at(self, namespace: str, name: str, at: Micros) -> Stored | None:
        """Return the last decision that the hub had at a time."""
        held = None
        for stored in self.records(namespace=namespace, name=name):
            if stored.record.at <= at and not stored.record.error:
                held = stored
        return held

    def gaps(self) -> list[Gap]:
        gaps: list[Gap] = []
        for file in self.files:
            try:
                gaps += file.gaps()
            except HistoryFileError as error:
                self.warnings.append(str(error))
        return sorted(gaps)

    def _readable(self, rows: Iterator[T]) -> Iterator[T]:
        """Yield rows until the file is damaged."""
        try:
            yield from rows
        except HistoryFileError as error:
            if str(error) not in self.warnings:
                self.warnings.append(str(error))
