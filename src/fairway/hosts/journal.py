"""The journal: the last few thousand changes, so that caches can be updated instead of rebuilt."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fairway.hosts.column import Key
from fairway.hosts.direction import Direction


class Change(NamedTuple):
    """One effective write: the columns it changed, and the rows it changed them in.

    ``rows`` is empty for changes that concern no host: a set, a binding, an unknown cluster name.
    """

    rows: tuple[int, ...]
    columns: Mapping[Key, Direction]
    """The direction is ANY unless all changed cells of the column went up, or all went down."""
    hosts: tuple[str, ...] = ()
    """Names of the hosts in ``rows``, also of a deleted one."""
    added: bool = False
    """Whether the host is new. It has new cells in every column, also in those where it has no value."""


NOTHING = Change(rows=(), columns={})


def joined(changes: Sequence[Change]) -> Change:
    """Return several changes as one."""
    if len(changes) == 1:
        return changes[0]
    columns: dict[Key, Direction] = {}
    for change in changes:
        for key, direction in change.columns.items():
            columns[key] = columns[key] | direction if key in columns else direction
    return Change(
        rows=tuple(dict.fromkeys(row for change in changes for row in change.rows)),
        columns=columns,
        hosts=tuple(dict.fromkeys(host for change in changes for host in change.hosts)),
        added=any(change.added for change in changes),
    )


class Journal:
    """Keeps the newest ``limit`` changes; the n-th change is generation n.

    Changes are also listed by column, because a reader of few columns need not scan the changes of all.
    """

    __slots__ = ("_changes", "_of_column", "generation", "limit")

    def __init__(self, *, limit: int = 4096, generation: int = 0) -> None:
        self.limit = limit
        self.generation = generation
        self._changes: deque[Change] = deque()
        self._of_column: dict[Key, deque[tuple[int, tuple[int, ...]]]] = {}
        """Generations and rows of the kept changes of each column, oldest first."""

    def append(self, change: Change) -> None:
        self.generation += 1
        self._changes.append(change)
        known = self._of_column
        entry = (self.generation, change.rows)
        for key in change.columns:
            entries = known.get(key)
            if entries is None:
                entries = known[key] = deque()
            entries.append(entry)
        # Each column lists the kept changes in the same order, so the oldest entry of its columns is that of the
        # oldest change.
        if len(self._changes) > self.limit:
            for key in self._changes.popleft().columns:
                of_column = known[key]
                of_column.popleft()
                if not of_column:
                    del known[key]

    def forget(self) -> None:
        """Record that too much changed at once to list."""
        self.generation += 1
        self._changes.clear()
        self._of_column.clear()

    def reaches(self, generation: int) -> bool:
        """Return whether the journal has all changes after a generation."""
        return self.generation - generation <= len(self._changes)

    def has_changed(self, keys: Iterable[Key], generation: int) -> bool:
        """Return whether one of the columns changed after a generation that the journal reaches."""
        known = self._of_column
        for key in keys:
            entries = known.get(key)
            if entries is not None and entries[-1][0] > generation:
                return True
        return False

    def rows_since(self, keys: Iterable[Key], generation: int) -> list[int]:
        """Return the rows in which one of the columns changed after a generation that the journal reaches."""
        rows: list[int] = []
        known = self._of_column
        for key in keys:
            entries = known.get(key)
            if entries is not None and entries[-1][0] > generation:
                # Newest first: a reader usually lags by a few changes, while the column of a published
                # score has thousands.
                for at, changed in reversed(entries):
                    if at <= generation:
                        break
                    rows += changed
        return rows

    def since(self, generation: int) -> Iterable[Change] | None:
        """Return the changes after a generation, oldest first; None if the journal no longer has them all."""
        missing = self.generation - generation
        if missing == 0:
            return ()
        if missing > len(self._changes):
            return None
        # The usual case: a cycle after each change.
        if missing == 1:
            return (self._changes[-1],)
        changes = self._changes
        # By index, because a deque finds the last entries at once, and ``islice`` would walk over all others.
        return [changes[at] for at in range(len(changes) - missing, len(changes))]
