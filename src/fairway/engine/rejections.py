"""Why a cycle rejected its hosts, evaluated on demand: a PostFilter plugin rarely needs the statuses of all hosts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from fairway.engine.status import Status
from fairway.fleet.bitmap import Rows
from fairway.fleet.snapshot import Snapshot

Group = tuple[Status, Rows]
"""A status, and the rows that are rejected with it."""


class Rejections(Mapping[int, Status]):
    """Rejecting statuses by row. ``probe`` filters a host again, in another snapshot."""

    def __init__(
        self,
        group: Callable[[], Sequence[Group]],
        probe: Callable[[Snapshot[Any], int], Status | None],
    ) -> None:
        self._group, self._probe = group, probe

    @cached_property
    def groups(self) -> Sequence[Group]:
        """The rows by their status; several groups may have equal ones."""
        return self._group()

    @cached_property
    def _by_row(self) -> dict[int, Status]:
        return {row: status for status, rows in self.groups for row in rows.tolist()}

    def __getitem__(self, row: int) -> Status:
        return self._by_row[row]

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_row)

    def __len__(self) -> int:
        return len(self._by_row)

    def probe(self, snapshot: Snapshot[Any], row: int) -> Status | None:
        """Return the status of the first plugin that would reject the row in another snapshot of the same fleet; None
        if all would accept it."""
        return self._probe(snapshot, row)
