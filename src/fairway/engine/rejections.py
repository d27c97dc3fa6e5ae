"""Why a cycle rejected its hosts, evaluated on demand: a PostFilter plugin rarely needs the statuses of all hosts."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fairway.engine.status import Status
from fairway.fleet import bitmap
from fairway.fleet.snapshot import Snapshot


class Rejections(Mapping[int, Status]):
    """Rejecting statuses by row, in the order of rows. ``probe`` filters a host again, in another snapshot."""

    def __init__(
        self,
        snapshot: Snapshot[Any],
        find: Callable[[int], Status | None],
        probe: Callable[[Snapshot[Any], int], Status | None],
    ) -> None:
        self._snapshot, self._find, self._probe = snapshot, find, probe
        self._known: dict[int, Status | None] = {}

    def __getitem__(self, row: int) -> Status:
        if row not in self._known:
            self._known[row] = self._find(row) if bitmap.test(self._snapshot.live, row) else None
        status = self._known[row]
        if status is None:
            raise KeyError(row)
        return status

    def __iter__(self) -> Iterator[int]:
        return (row for row in bitmap.rows_of(self._snapshot.live).tolist() if self.get(row) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def probe(self, snapshot: Snapshot[Any], row: int) -> Status | None:
        """Return the status of the first plugin that would reject the row in another snapshot of the same fleet; None
        if all would accept it."""
        return self._probe(snapshot, row)
