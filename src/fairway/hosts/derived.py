"""An expensive predicate over rows: computed for requested rows, then cached.

A row's result is dropped when one of the columns it was computed from changes, and computed again on the next
request.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Mask, Rows
from fairway.hosts.column import MEMBERSHIP, Key
from fairway.hosts.journal import Journal


class Unfinished(Exception):
    """Raised by a computation that stops before it has evaluated all rows; its results so far are kept."""

    def __init__(self, rows: Rows, answers: Mask) -> None:
        super().__init__()
        self.rows = rows
        self.answers = answers


class View(Protocol):
    """The part of a snapshot that is used here."""

    @property
    def generation(self) -> int: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def live(self) -> Bits: ...
    @property
    def capacity(self) -> int: ...
    def none(self) -> Bits: ...


class Derived:
    __slots__ = ("_generation", "_known", "_reads", "_result")

    def __init__(self, *, reads: frozenset[Key] | None) -> None:
        """``reads`` None means that any change of a host may matter."""
        self._reads = reads
        self._known: Bits | None = None
        self._result: Bits | None = None
        self._generation = -1

    def holds(self, snapshot: View, *, among: Bits, compute: Callable[[Rows], Mask]) -> Bits:
        """Return the rows among the given ones for which ``compute`` is true. Propagates `Unfinished`.

        Results for an outdated snapshot are not cached: later changes of columns that did not exist yet were not
        reported.
        """
        if self._generation != snapshot.generation != snapshot.journal.generation:
            rows = bitmap.rows_of(among)
            return self._bits(snapshot, rows, compute(rows))
        known, result = self._current(snapshot)
        unknown = among & ~known
        if unknown.any():
            rows = bitmap.rows_of(unknown)
            try:
                result |= self._bits(snapshot, rows, compute(rows))
            except Unfinished as partial:
                # Keep what is done: the next attempt must get further, or an expensive expression would never end.
                known |= bitmap.from_rows(partial.rows, snapshot.capacity)
                result |= self._bits(snapshot, partial.rows, partial.answers)
                raise
            known |= unknown
        return among & result

    def _current(self, snapshot: View) -> tuple[Bits, Bits]:
        known, result = self._known, self._result
        # Bitmaps of a table that grew are longer; that is rare enough to start over.
        if known is not None and result is not None and len(known) == len(snapshot.live):
            if snapshot.generation == self._generation:
                return known, result
            changes = snapshot.journal.since(self._generation)
            if changes is not None:
                for change in changes:
                    if self._touched(change.columns):
                        # Forget, but compute nothing: a host that changes often is evaluated only when a cycle asks
                        # for it.
                        for row in change.rows:
                            bitmap.put(known, row, False)
                            bitmap.put(result, row, False)
                self._generation = snapshot.generation
                return known, result
        self._known, self._result = snapshot.none(), snapshot.none()
        self._generation = snapshot.generation
        return self._known, self._result

    def _touched(self, columns: Mapping[Key, object]) -> bool:
        return self._reads is None or MEMBERSHIP in columns or not self._reads.isdisjoint(columns)

    @staticmethod
    def _bits(snapshot: View, rows: Rows, answers: Mask) -> Bits:
        return bitmap.from_rows(rows[answers], snapshot.capacity)
