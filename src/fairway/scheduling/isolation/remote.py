"""The snapshot that a plugin sees in a worker. It gets each part when the plugin first reads it."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters.snapshot import ClusterSnapshot
from fairway.hosts.column import CodeColumn, Column, Key
from fairway.hosts.journal import Journal
from fairway.hosts.protection import ReadOnlyList, ReadOnlyMapping, shield
from fairway.scheduling.isolation.wire import CellUpdates

NAMES: Final = ("@names",)
RANK: Final = ("@rank",)
OBJECTS: Final = "@objects"
"""First part of the keys of blocks of host objects."""
BLOCK: Final = 100
"""Hosts of a block: encoding them takes the scheduler a few milliseconds."""

NOT_SHIPPED: Final = (
    "snapshot.{name} is not available to a plugin with isolation: process; read the columns of the snapshot"
)


_PARTS: Final = ("bindings", "calculators", "debits", "decisions", "requests", "scores", "sets")
"""Of a snapshot of clusters, which the columns cover, or only built-in plugins read."""


class RemoteData:
    """The parts of a snapshot that were sent to this process, up to date with the last request."""

    def __init__(self, fetch: Callable[[tuple[str, ...]], Any]) -> None:
        self._fetch = fetch
        self.columns: dict[Key, Column] = {}
        self._others: dict[tuple[str, ...], Any] = {}
        self._row_of: dict[str, int] | None = None

    def update(self, updates: CellUpdates) -> None:
        for key in updates.dropped:
            self.columns.pop(key, None)
            self._others.pop(key, None)
            if key == NAMES:
                self._row_of = None
        for key, (rows, values) in updates.cells.items():
            if key == NAMES:
                self._rename(rows, values)
            elif key[0] == OBJECTS:
                block, first = self._others[key], int(key[1]) * BLOCK
                for row, value in zip(rows, values, strict=True):
                    block[row - first] = value
            else:
                column = self.columns[key]
                for row, value in zip(rows, values, strict=True):
                    column.write(row, value)

    def column(self, key: Key) -> Column:
        column = self.columns.get(key)
        if column is None:
            column = self.columns[key] = self._fetch(key)
        return column

    def other(self, key: tuple[str, ...]) -> Any:
        if key not in self._others:
            self._others[key] = self._fetch(key)
        return self._others[key]

    @property
    def names(self) -> list[str]:
        names: list[str] = self.other(NAMES)
        return names

    @property
    def row_of(self) -> dict[str, int]:
        if self._row_of is None:
            self._row_of = {name: row for row, name in enumerate(self.names) if name}
        return self._row_of

    def host(self, row: int) -> Any:
        return self.other((OBJECTS, str(row // BLOCK)))[row % BLOCK]

    def _rename(self, rows: tuple[int, ...], values: tuple[str, ...]) -> None:
        names, row_of = self.names, self.row_of
        for row in rows:
            if row < len(names):
                row_of.pop(names[row], None)
        for row, name in zip(rows, values, strict=True):
            names += [""] * (row + 1 - len(names))
            names[row] = name
            if name:
                row_of[name] = row


class Codes(NamedTuple):
    """The first piece of a CodeColumn; the others are its values."""

    codes: npt.NDArray[np.int32]
    epoch: int
    stamp: int


def joined(pieces: list[Any]) -> Any:
    """Return a part of which these pieces were sent."""
    first, *rest = pieces
    if isinstance(first, Codes):
        return _code_column(first, [value for piece in rest for value in piece])
    if isinstance(first, list):
        return [value for piece in pieces for value in piece]
    return first


def _code_column(source: Codes, values: list[Any]) -> CodeColumn:
    column = CodeColumn(capacity=0, stamp=source.stamp)
    column.codes, column.values, column.epoch = source.codes, values, source.epoch
    column._code_of = {value: code for code, value in enumerate(values) if value is not None}
    column._uses = np.bincount(source.codes, minlength=len(values)).tolist()
    column._uses[0] = 0
    column._free = [code for code, value in enumerate(values) if code and value is None]
    return column


class RemoteHosts:
    """As ``fleet.Hosts``, read-only."""

    def __init__(self, data: RemoteData, *, live: Bits, capacity: int) -> None:
        self._data = data
        self.live, self.capacity = live, capacity
        self.stamp = self.renumbered = 0

    def __len__(self) -> int:
        return bitmap.count(self.live)

    @property
    def names(self) -> Any:
        return ReadOnlyList(self._data.names)

    @property
    def row_of(self) -> Any:
        return ReadOnlyMapping(self._data.row_of)

    @property
    def rank(self) -> Any:
        return shield(self._data.other(RANK))

    @property
    def objects(self) -> Any:
        return _Objects(self._data)

    def in_name_order(self) -> list[str]:
        return sorted(self._data.row_of)


class _Objects:
    def __init__(self, data: RemoteData) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data.names)

    def __getitem__(self, row: int, /) -> Any:
        return shield(self._data.host(range(len(self))[row]))


class _NotShipped:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, _name: str) -> NoReturn:
        raise AttributeError(NOT_SHIPPED.format(name=self._name))

    def _refuse(self, *_args: object) -> NoReturn:
        raise AttributeError(NOT_SHIPPED.format(name=self._name))

    __getitem__ = __iter__ = __len__ = __contains__ = _refuse

    def __copy__(self) -> "_NotShipped":
        return self


class RemoteSnapshot(ClusterSnapshot):
    __slots__ = ("_data",)

    def __init__(  # not that of a table's snapshot
        self, data: RemoteData, *, generation: int, live: Bits, capacity: int, held: Any
    ) -> None:
        self._data = data
        self.generation = generation
        self.hosts: Any = RemoteHosts(data, live=live, capacity=capacity)
        self.journal = Journal(limit=0)
        self.journal.generation = generation
        self._columns = data.columns
        self._derived = {}
        self._keep: Any = lambda _view, key: data.column(key)
        self._schema: Any = _NotShipped("_schema")
        self._held = held
        for name in _PARTS:
            setattr(self, name, _NotShipped(name))
