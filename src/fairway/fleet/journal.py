"""The journal: the last few thousand changes, so that caches can be updated instead of rebuilt."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fairway.fleet.column import Key
from fairway.fleet.direction import Direction


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


class Journal:
    """Keeps the newest ``limit`` changes; the n-th change is generation n."""

    __slots__ = ("_changes", "generation", "limit")

    def __init__(self, *, limit: int = 4096) -> None:
        self.limit = limit
        self.generation = 0
        self._changes: deque[Change] = deque(maxlen=limit)

    def append(self, change: Change) -> None:
        self.generation += 1
        self._changes.append(change)

    def forget(self) -> None:
        """Record that too much changed at once to list."""
        self.generation += 1
        self._changes.clear()

    def since(self, generation: int) -> Iterable[Change] | None:
        """Return the changes after a generation, oldest first; None if the journal no longer has them all."""
        missing = self.generation - generation
        if missing == 0:
            return ()
        if missing > len(self._changes):
            return None
        if missing == 1:
            return (self._changes[-1],)
        changes = self._changes
        return [changes[at] for at in range(len(changes) - missing, len(changes))]
