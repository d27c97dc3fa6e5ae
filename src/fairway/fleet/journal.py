"""What changed since: the last few thousand changes, so that caches can follow instead of starting over."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from fairway.fleet.column import Key


@dataclass(frozen=True, slots=True)
class Change:
    """One effective write: the columns it changed, and the rows it changed them in.

    ``rows`` is empty for what is not about hosts of this fleet: a set, a binding, a name nobody bears.
    """

    rows: tuple[int, ...]
    columns: frozenset[Key]


NOTHING = Change(rows=(), columns=frozenset())


class Journal:
    """Remembers the newest ``limit`` changes; the n-th change made is generation n."""

    __slots__ = ("_changes", "generation", "limit")

    def __init__(self, *, limit: int = 4096) -> None:
        self.limit = limit
        self.generation = 0
        self._changes: deque[Change] = deque(maxlen=limit)

    def append(self, change: Change) -> None:
        self.generation += 1
        self._changes.append(change)

    def forget(self) -> None:
        """Too much changed at once to say what."""
        self.generation += 1
        self._changes.clear()

    def since(self, generation: int) -> Iterable[Change] | None:
        """Changes after a generation, oldest first; None when that is too long ago to know."""
        missing = self.generation - generation
        if missing == 0:
            return ()
        if missing > len(self._changes):
            return None
        if missing == 1:
            return (self._changes[-1],)
        changes = self._changes
        return [changes[at] for at in range(len(changes) - missing, len(changes))]
