"""Why a cycle rejected its hosts, evaluated on demand: a PostFilter plugin rarely needs the statuses of all hosts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from fairway.engine.status import Status
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.column import Key
from fairway.hosts.snapshot import Snapshot

Group = tuple[Status, Rows]
"""A status, and the rows that are rejected with it."""


@runtime_checkable
class Supposition(Protocol):
    """A snapshot in which many hosts changed at once, each as if it were the only one."""

    def shows(self, *, cells: Iterable[Key], shared: Iterable[Key]) -> bool:
        """Return whether a plugin that reads these columns sees each host as if no other one had changed."""


@dataclass(frozen=True, slots=True)
class Screened:
    """The hosts that pass those filters that can judge many changed hosts at once."""

    passed: Bits
    exact: bool
    """Whether these are all filters; otherwise hosts that pass must be probed one by one."""
    group: Callable[[], Sequence[Group]]
    """Returns the statuses of the other hosts, if they are exact."""


class Rejections(Mapping[int, Status]):
    """Rejecting statuses by row. ``probe`` filters a host again, in another snapshot, and ``screen`` many."""

    def __init__(
        self,
        group: Callable[[], Sequence[Group]],
        probe: Callable[[Snapshot[Any], int], Status | None],
        screen: Callable[[Any, Bits], Screened],
    ) -> None:
        self._group, self._probe, self._screen = group, probe, screen

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

    def screen(self, supposition: Supposition, candidates: Bits) -> Screened:
        """Filter these rows of a ``Supposition``, which must be a snapshot of the same fleet."""
        return self._screen(supposition, candidates)
