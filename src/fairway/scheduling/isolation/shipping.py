"""Which parts of the snapshots a worker has, and what it needs to see another one.

A part is sent when the plugin first reads it. From then on each request has the cells that differ between the last
snapshot and the next: the journal lists the rows, and their values are those of the next snapshot, so that the next one
may also be older. Where the journal does not reach back, the part is dropped, and sent again if the plugin reads it.
"""

from collections.abc import Iterable
from typing import Any, Final

from fairway.hosts.column import MEMBERSHIP, CodeColumn, CountColumn, Key, NumberColumn, ScoreColumn
from fairway.hosts.snapshot import Snapshot
from fairway.scheduling.isolation.remote import BLOCK, NAMES, OBJECTS, RANK, Codes
from fairway.scheduling.isolation.wire import CellUpdates, Part

MOST_CELLS: Final = 5_000
"""Changed cells of a part; with more, the part is sent again."""

PIECE: Final = 10_000
"""Names of hosts, or values of a column, in one message: encoding them takes about 2 milliseconds."""


class Shipped:
    """What one worker has. The table of the snapshots may change between requests; then everything is sent again."""

    def __init__(self) -> None:
        self._last: Snapshot[Any] | None = None
        self._parts: dict[tuple[str, ...], bool] = {}
        """Whether the journal has the changes of each part: not of a column that an outdated snapshot created."""

    def forget(self) -> None:
        """A new process has nothing."""
        self._last = None
        self._parts.clear()

    def advance(self, snapshot: Snapshot[Any]) -> CellUpdates:
        """Return the updates that bring the worker to another snapshot."""
        last, self._last = self._last, snapshot
        if last is snapshot or last is None:
            return CellUpdates()
        if last.journal is not snapshot.journal or last.capacity != snapshot.capacity:
            parts = tuple(self._parts)
            self._parts.clear()
            return CellUpdates(dropped=parts)
        since = min(last.generation, snapshot.generation)
        dropped: list[tuple[str, ...]] = []
        cells: dict[tuple[str, ...], tuple[tuple[int, ...], tuple[Any, ...]]] = {}
        for part, reported in tuple(self._parts.items()):
            rows = self._rows(part, snapshot, since) if reported and snapshot.journal.reaches(since) else None
            if rows is not None:  # the journal also has rows that the table of an older snapshot does not
                rows = [row for row in rows if row < snapshot.capacity]
            if rows is None or len(rows) > MOST_CELLS:
                dropped.append(part)
                del self._parts[part]
            elif rows:
                cells[part] = (tuple(rows), tuple(_values(snapshot, part, rows)))
        return CellUpdates(dropped=tuple(dropped), cells=cells)

    def part(self, part: tuple[str, ...], piece: int) -> Part:
        """Return a part of the last snapshot, or a piece of it: encoding all at once would hold the event loop."""
        snapshot = self._last
        assert snapshot is not None
        self._parts[part] = True
        if part == NAMES:
            return _piece(snapshot.hosts.names, piece)
        if part == RANK:
            return Part(value=snapshot.hosts.rank)
        if part[0] == OBJECTS:
            first = int(part[1]) * BLOCK
            return Part(value=snapshot.hosts.objects[first : first + BLOCK])
        is_current = snapshot.generation == snapshot.journal.generation
        is_known = snapshot.has_column(part)
        column = snapshot._column(part)
        # A column that was created for an outdated snapshot gets no reports of changes.
        self._parts[part] = is_known or is_current
        if not isinstance(column, CodeColumn):
            return Part(value=column)
        if not piece:
            return Part(value=Codes(column.codes, column.epoch, column.stamp), last=False)
        return _piece(column.values, piece - 1)

    def _rows(self, part: tuple[str, ...], snapshot: Snapshot[Any], since: int) -> list[int] | None:
        """Return the rows in which a part may have changed; None if it is to be sent again."""
        journal = snapshot.journal
        if part == RANK:
            return None if journal.has_changed((MEMBERSHIP,), since) else []
        if part == NAMES:
            return _unique(journal.rows_since((MEMBERSHIP,), since))
        if part[0] == OBJECTS:
            first = int(part[1]) * BLOCK
            if journal.has_changed((MEMBERSHIP,), since):
                return None  # the last block may be longer
            rows = (row for change in journal.since(since) or () for row in change.rows)
            return _unique(row for row in rows if first <= row < first + BLOCK)
        if not snapshot.has_column(part):
            return None
        return _unique(journal.rows_since((part, MEMBERSHIP), since))


def _unique(rows: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(rows))


def _values(snapshot: Snapshot[Any], part: Key, rows: list[int]) -> Iterable[Any]:
    if part == NAMES:
        names = snapshot.hosts.names
        return [names[row] if row < len(names) else "" for row in rows]
    if part[0] == OBJECTS:
        return [snapshot.hosts.objects[row] for row in rows]
    column: Any = snapshot._column(part)
    return [_cell(column, row) for row in rows]


def _cell(column: Any, row: int) -> Any:
    match column:
        case CodeColumn():
            return column.value(row)
        case NumberColumn():
            value = column.values[row].item()
            return None if value != value else value
        case ScoreColumn():
            return (column.values[row].item() if column.present[row] else None, column.expires[row].item())
        case CountColumn():
            return column.values[row].item()
    raise TypeError(f"a column of class {type(column).__name__}")


def _piece(values: list[Any], piece: int) -> Part:
    first = piece * PIECE
    return Part(value=values[first : first + PIECE], last=first + PIECE >= len(values))
