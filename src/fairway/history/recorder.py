"""Record decisions while controllers decide: on the event loop only what cannot wait, the rest on a thread.

    placement scheduler ──▶ tracker (which inputs changed) ──▶ bounded queue ──▶ thread: encode, compress, commit

Nothing here may harm scheduling. A full queue, a full disk or a bug drop records, and decisions go on; a metric, a log
line once a minute and a gap in the history report it. After a loss the next file starts with all inputs, because the
changes of a file build on each other.
"""

import logging
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from fairway import __version__
from fairway.api.placement import PlacementSpec
from fairway.engine.outcome import Outcome
from fairway.engine.status import Status
from fairway.history.codec import Codec
from fairway.history.files import FileWriter, Gap, delete, files_in, size_of
from fairway.history.inputs import InputChange, InputTracker, reads_of
from fairway.history.reasons import trace_of
from fairway.history.record import (
    MOST_TEXT,
    PLACEMENT,
    Inputs,
    Kept,
    Record,
    RecordIds,
    Trace,
    digest,
)
from fairway.hosts.clusters.decisions import Owner
from fairway.hosts.clusters.snapshot import ClusterSnapshot, clusters_of
from fairway.hosts.instant import SECOND, Micros, to_micros
from fairway.workloads.placement.pages import Page
from fairway.workloads.placement.plugins.stability import recent_moves, stay_of
from fairway.workloads.placement.workload import placement_of

log: Final = logging.getLogger(__name__)

DEFAULT_SIZE: Final = 512 << 20
DEFAULT_AGE: Final = 30 * 86_400.0
MOST_QUEUED: Final = 5000
"""Entries that wait for the thread."""
MOST_OBJECTS: Final = 2_000_000
"""Objects in them: four times all inputs of a fleet of 100,000 clusters with four scores each."""
BATCH_SECONDS: Final = 0.25
"""Records of this time are one commit, which is what a process that is killed loses."""
RETRY_SECONDS: Final = 30.0
"""After an error, until another file is begun."""
LOG_SECONDS: Final = 60.0
FILES: Final = 8
"""A history is divided into about so many files, of which retention deletes the oldest."""
CLOSE_SECONDS: Final = 5.0

LOST: Final = "decisions are not recorded, and the history has a gap  lost=%d folder=%s error=%s"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Of kubectl; it has the name of the placement, so that no two of them would be alike."""
BATCH: Final = 500

FULL: Final = "the queue of the history is full"
CLOSED: Final = "the process stops"
ABANDONED: Final = "the write failed"
FAILED: Final = "cannot record a decision: {error}"

Metric = Callable[[str, int], None]
"""Called with what became of records (``recorded`` or ``lost``), and how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    size: int = DEFAULT_SIZE
    """Bytes of all files."""
    age: float = DEFAULT_AGE
    """Seconds."""


class Workload(NamedTuple):
    """What a cycle reads of a Placement, besides its name."""

    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    spec: PlacementSpec


@dataclass(slots=True)
class _Entry:
    epoch: int
    """Of the file that it belongs to."""
    change: InputChange | None = None
    record: Record | None = None
    workload: Workload | None = None
    pages: tuple[Page, ...] = ()
    status: str = ""
    size: int = 1


@dataclass(frozen=True, slots=True)
class DecidedPlacement:
    """A decision on its way to the hub."""

    id: str
    _recorder: "Recorder"
    _entry: _Entry

    def written(self) -> None:
        self._recorder.put(self._entry)

    def abandoned(self, error: str) -> None:
        """The hub may have a part of it."""
        record = self._entry.record
        assert record is not None
        self._entry.record = structs.replace(record, error=error[:MOST_TEXT] or ABANDONED)
        self._recorder.put(self._entry)


class Recorder:
    """``profile`` is the text of the scheduler configuration; empty for the built-in profile.

    The event loop calls ``placement``, ``decided`` and ``put``. A file belongs to an *epoch*: the inputs of an epoch
    begin with a complete change.
    """

    def __init__(
        self,
        folder: Path,
        *,
        profile: str = "",
        retention: Retention | None = None,
        metric: Metric = lambda _what, _count: None,
        most_queued: int = MOST_QUEUED,
        retry: float = RETRY_SECONDS,
    ) -> None:
        self.folder = folder
        self.metric = metric
        self._most_queued = most_queued
        self._tracker, self._tracked_epoch = InputTracker(), 0
        self._ids = RecordIds()
        self._lock = threading.Condition()
        self._epoch = 0
        self._broken: str = ""
        """Why no file can be written; empty if one can."""
        self._queue: deque[_Entry] = deque()
        self._objects = 0
        self._lost: Gap | None = None
        """Since the last batch."""
        self._logged_at = -LOG_SECONDS
        self._closing = False
        self._busy = False
        self._thread = _WriterThread(
            self, folder, profile=profile, retention=retention or Retention(), retry=retry
        )
        self._thread.start()

    # On the event loop

    def placement(
        self, outcome: Outcome, *, pages: Sequence[Page], status: Status, cause: str
    ) -> DecidedPlacement | None:
        """Take down a decision that changes what the hub has. None if it cannot be recorded."""
        try:
            return self._placement(outcome, tuple(pages), status, cause)
        except Exception as error:
            log.debug("cannot record a decision", exc_info=True)
            self.lose(1, outcome.context.now, FAILED.format(error=f"{type(error).__name__}: {error}"))
            return None

    def decided(
        self,
        kind: str,
        *,
        namespace: str,
        name: str,
        at: Micros | None = None,
        before: Sequence[str] = (),
        after: Sequence[str] = (),
        cause: str = "",
        message: str = "",
        error: str = "",
    ) -> str:
        """Record a decision of another kind of work. Return the record's id."""
        if at is None:
            at = int(time.time() * SECOND)
        record = Record(
            id=self._ids(at),
            kind=kind,
            namespace=namespace,
            name=name,
            at=at,
            before=tuple(before),
            after=tuple(after),
            cause=cause[:MOST_TEXT],
            trace=Trace(message=message[:MOST_TEXT]),
            error=error[:MOST_TEXT],
        )
        self.put(_Entry(self._epoch, record=record))
        return record.id

    def _placement(
        self,
        outcome: Outcome,
        pages: tuple[Page, ...],
        status: Status,
        cause: str,
    ) -> DecidedPlacement | None:
        now, epoch = outcome.context.now, self._epoch
        # After a loss all inputs are collected again, but not until the thread has taken what waits: each attempt
        # costs milliseconds in a large fleet, and a queue that is full would refuse it.
        why = self._broken or ("" if (lost := self._lost) is None else lost.why)
        if why:
            self.lose(1, now, why)
            return None
        if self._tracked_epoch != epoch:
            self._tracker, self._tracked_epoch = InputTracker(), epoch
        workload, snapshot = placement_of(outcome.context), clusters_of(outcome.snapshot)
        change = self._tracker.collect(snapshot, reads_of(outcome), outcome.details.eligible)
        if change is not None:
            size = sum(map(len, change.parts.values()))
            if not self.put(_Entry(epoch, change=change, size=size), at=now):
                return None
        meta, before = workload.placement.metadata, tuple(snapshot.decisions.clusters_of(workload.owner))
        record = Record(
            id=self._ids(now),
            kind=PLACEMENT,
            namespace=meta.namespace,
            name=meta.name,
            at=now,
            before=tuple(dict.fromkeys(before)),
            after=tuple(outcome.selected),
            cause=cause[:MOST_TEXT],
            trace=trace_of(outcome, before, status),
            inputs=Inputs(
                number=self._tracker.number,
                held=before,
                created=None if meta.creationTimestamp is None else to_micros(meta.creationTimestamp),
                uid=meta.uid,
                kept=None if stay_of(outcome) is None else _kept(snapshot, workload.owner, now),
            ),
        )
        entry = _Entry(
            epoch,
            record=record,
            workload=Workload(meta.annotations, meta.labels, workload.placement.spec),
            pages=pages,
            status=status.code.value,
        )
        return DecidedPlacement(record.id, self, entry)

    def put(self, entry: _Entry, *, at: Micros = 0) -> bool:
        """Queue an entry. Return False if it is lost."""
        with self._lock:
            why = self._broken or (CLOSED if self._closing else "")
            if not why and (
                len(self._queue) >= self._most_queued
                # One entry may be larger: the inputs of the largest fleet.
                or (self._queue and self._objects + entry.size > MOST_OBJECTS)
            ):
                why = FULL
            if not why:
                self._queue.append(entry)
                self._objects += entry.size
                self._lock.notify()
                return True
        self.lose(1, at if entry.record is None else entry.record.at, why)
        return False

    def lose(self, count: int, at: Micros, why: str) -> None:
        """Count decisions that are not recorded. What follows needs another file, with all inputs."""
        with self._lock:
            self._epoch += 1
            since, lost = (at, 0) if self._lost is None else (self._lost.since, self._lost.lost)
            self._lost = Gap(min(since, at), max(since, at), lost + count, why)
            self._lock.notify_all()
            now = time.monotonic()
            loud = now - self._logged_at >= LOG_SECONDS
            if loud:
                self._logged_at = now
        self.metric("lost", count)
        if loud:
            log.warning(LOST, lost + count, self.folder, why)

    def close(self) -> None:
        """Write what is queued, for at most CLOSE_SECONDS."""
        with self._lock:
            self._closing = True
            self._lock.notify()
        self._thread.join(CLOSE_SECONDS)

    def flush(self, timeout: float = CLOSE_SECONDS) -> bool:
        """Wait until everything that was recorded is committed, or lost."""
        with self._lock:
            return self._lock.wait_for(
                lambda: not (self._queue or self._busy or self._lost is not None), timeout
            )

    # On the thread

    def take(self) -> tuple[list[_Entry], Gap | None] | None:
        """Return the next batch; None at the end."""
        with self._lock:
            self._busy = False
            self._lock.notify_all()
            self._lock.wait_for(lambda: self._queue or self._lost is not None or self._closing)
            if not self._queue and self._lost is None:
                return None
            self._busy = True
            # A commit costs as much as a hundred records, so wait for more of them.
            self._lock.wait_for(lambda: self._closing or len(self._queue) >= BATCH, BATCH_SECONDS)
            entries = list(self._queue)
            self._queue.clear()
            self._objects = 0
            lost, self._lost = self._lost, None
            return entries, lost

    def begin_epoch(self) -> None:
        """Let what follows begin another file."""
        with self._lock:
            self._epoch += 1

    def broken(self, why: str, *, lost: int, at: Micros, gap: Gap | None) -> None:
        with self._lock:
            self._broken = why
            if gap is not None:
                self._lost = gap if self._lost is None else _joined(gap, self._lost)
        self.lose(lost, at, why)

    def repaired(self) -> None:
        with self._lock:
            self._broken = ""

    @property
    def closing(self) -> bool:
        return self._closing


class _WriterThread(threading.Thread):
    def __init__(
        self, recorder: Recorder, folder: Path, *, profile: str, retention: Retention, retry: float
    ) -> None:
        # A daemon: a disk that does not answer must not keep the process from ending.
        super().__init__(name="history", daemon=True)
        self._recorder, self._folder, self._profile = recorder, folder, profile
        self._retention, self._retry = retention, retry
        self._file: FileWriter | None = None
        self._file_epoch = -1
        self._began = 0.0
        self._first_size = 0
        """Bytes of the inputs with which the file begins."""
        self._codec = Codec()

    def run(self) -> None:
        recorder = self._recorder
        while (batch := recorder.take()) is not None:
            entries, gap = batch
            try:
                self._write(entries, gap)
            except Exception as error:
                self._fail(entries, gap, error)
                if recorder.closing:
                    return
        if self._file is not None:
            self._file.end()

    def _fail(self, entries: Sequence[_Entry], gap: Gap | None, error: Exception) -> None:
        log.debug("cannot write the history", exc_info=not isinstance(error, OSError | sqlite3.Error))
        if self._file is not None:
            self._file.close()
        self._file, self._file_epoch = None, -1
        records = [entry.record for entry in entries if entry.record is not None]
        why = str(error) or type(error).__name__
        at = records[0].at if records else gap.since if gap is not None else 0
        self._recorder.broken(why, lost=len(records), at=at, gap=gap)
        # Not at each decision: a full disk stays full for a while, and creating a file costs more than a record.
        deadline = time.monotonic() + self._retry
        while not self._recorder.closing and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
        self._recorder.repaired()

    def _write(self, entries: Sequence[_Entry], gap: Gap | None) -> None:
        """Write the entries, of each epoch to its file."""
        if not entries:
            self._write_epoch(entries, gap)
        start = 0
        for end in range(1, len(entries) + 1):
            if end == len(entries) or entries[end].epoch > max(self._file_epoch, entries[start].epoch):
                self._write_epoch(entries[start:end], gap)
                start, gap = end, None

    def _write_epoch(self, entries: Sequence[_Entry], gap: Gap | None) -> None:
        epoch = max(self._file_epoch, entries[0].epoch) if entries else max(self._file_epoch, 0)
        if self._file is None or epoch != self._file_epoch:
            self._begin(epoch)
        file = self._file
        assert file is not None
        changes: list[tuple[int, bytes]] = []
        blobs: dict[bytes, bytes] = {}
        records: list[Record] = []
        has_inputs = self._first_size > 0
        for entry in entries:
            if entry.change is not None and entry.epoch == epoch:
                has_inputs = has_inputs or entry.change.complete
                # After an error the complete change may be lost, and what builds on it is useless.
                if has_inputs:
                    data = self._codec.encode(entry.change)
                    changes.append((entry.change.number, data))
                    if entry.change.complete:
                        self._first_size = len(data)
            if entry.record is not None:
                is_known = has_inputs and entry.epoch == epoch
                records.append(_completed(entry, blobs if is_known else None))
        file.write(changes=changes, blobs=blobs, records=records, gaps=() if gap is None else (gap,))
        if records:
            self._recorder.metric("recorded", len(records))
        self._retain(file)

    def _begin(self, epoch: int) -> None:
        if self._file is not None:
            self._file.end()
            self._file = None
        meta = {"version": __version__, "profile": self._profile, "created": time.time()}
        self._file = FileWriter(self._folder, meta=meta)
        self._file_epoch, self._began, self._first_size = epoch, time.monotonic(), 0
        self._codec = Codec()
        self._delete_old(self._file.path)

    def _retain(self, file: FileWriter) -> None:
        """Begin another file when this one is large or old enough to be deleted by itself one day."""
        # The inputs of a large fleet take most of a small file, so that a file has at least as much again.
        limit = min(max(self._retention.size // FILES, 4 * self._first_size), self._retention.size // 2)
        if file.size() >= limit or time.monotonic() - self._began >= self._retention.age / FILES:
            self._recorder.begin_epoch()

    def _delete_old(self, current: Path) -> None:
        files = [file.path for file in files_in(self._folder) if file.path != current]
        sizes = {path: size_of(path) for path in files}
        # The current file will grow as large as the others.
        limit = self._retention.size - self._retention.size // FILES
        total = sum(sizes.values())
        while files and total > limit:
            total -= sizes[files[0]]
            delete(files.pop(0))
        # One at most: a clock that jumps ahead must not delete the whole history.
        if files and time.time() - files[0].stat().st_mtime > self._retention.age:
            delete(files[0])


def _completed(entry: _Entry, blobs: dict[bytes, bytes] | None) -> Record:
    """Return the record with its digests, and add their blobs; without inputs, if its file does not have them."""
    record = entry.record
    assert record is not None
    if entry.workload is None or record.inputs is None:
        return record
    if blobs is None:
        return structs.replace(record, inputs=None)
    data = encode_workload(entry.workload)
    name = digest((data,))
    blobs[name] = data
    result = digest_of_result(entry.pages, entry.status)
    return structs.replace(record, inputs=structs.replace(record.inputs, workload=name, result=result))


def encode_workload(workload: Workload) -> bytes:
    """Equal for placements that are alike, so that they share it."""
    annotations = {key: value for key, value in workload.annotations.items() if key != LAST_APPLIED}
    return msgspec.json.encode([annotations, workload.labels, workload.spec])


def digest_of_result(pages: Sequence[Page], status: str) -> bytes:
    """Return the digest of what a decision writes: replay must come to the same."""
    return digest(
        (
            status.encode(),
            *(
                msgspec.json.encode([page.name, sorted(page.labels.items()), page.decisions])
                for page in pages
            ),
        )
    )


def _joined(first: Gap, second: Gap) -> Gap:
    return Gap(
        min(first.since, second.since),
        max(first.until, second.until),
        first.lost + second.lost,
        second.why,
    )


def _kept(snapshot: ClusterSnapshot, owner: Owner, now: Micros) -> Kept:
    decisions = snapshot.decisions
    tenures = decisions.tenures_of(owner)
    own = Counter(moment for tenure in tenures.values() for moment in tenure.moves)
    namespace, fleet = (Counter(recent_moves(decisions.moves_in(of), now)) for of in (owner[0], None))
    return Kept(
        decided=decisions.has(owner),
        tenures=tuple(tenures.items()),
        namespace=tuple((namespace - own).elements()),
        elsewhere=tuple((fleet - namespace).elements()),
    )
