"""A consistent view of a table at one generation. Cycles read only snapshots."""

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.column import CodeColumn, Column, CountColumn, Key, NumberColumn, ScoreColumn
from fairway.hosts.derived import Derived
from fairway.hosts.hosts import Hosts
from fairway.hosts.journal import Journal
from fairway.hosts.resources import LEDGER

if TYPE_CHECKING:
    from fairway.hosts.table import Table

Host = TypeVar("Host")

DERIVED_LIMIT = 1024
COMPARED_LIMIT = 1000


class Snapshot(Generic[Host]):
    """All data is read-only and does not change while the snapshot lives."""

    __slots__ = ("__weakref__", "_columns", "_derived", "_keep", "_schema", "generation", "hosts", "journal")

    def __init__(self, table: "Table[Host]") -> None:
        self.generation: int = table._journal.generation
        self.hosts: Hosts[Host] = table._hosts
        self.journal: Journal = table._journal
        # Columns are shared: the table replaces one in its own dictionary before it writes to it.
        self._columns: dict[Key, Column] = table._columns.copy()
        self._schema = table._schema
        self._keep = table._keep
        self._derived = table._derived

    @property
    def capacity(self) -> int:
        return self.hosts.capacity

    @property
    def live(self) -> Bits:
        return self.hosts.live

    def host(self, row: int) -> Host:
        return cast("Host", self.hosts.objects[row])

    def codes(self, key: Key) -> CodeColumn:
        return cast("CodeColumn", self._column(key))

    def numbers(self, key: Key) -> NumberColumn:
        return cast("NumberColumn", self._column(key))

    def score_column(self, key: Key) -> ScoreColumn:
        return cast("ScoreColumn", self._column(key))

    def counts(self, key: Key) -> CountColumn:
        return cast("CountColumn", self._column(key))

    def derived(self, key: Hashable, *, reads: frozenset[Key] | None) -> Derived:
        """Return the cached result of that name, or a new one. If there are too many, the least recently used one is
        dropped."""
        # Removed and inserted again, so that the first key is the least recently used one.
        kept = self._derived.pop(key, None)
        if kept is None:
            if len(self._derived) >= DERIVED_LIMIT:
                del self._derived[next(iter(self._derived))]
            kept = Derived(reads=reads)
        self._derived[key] = kept
        return kept

    def has_column(self, key: Key) -> bool:
        return key in self._columns

    def can_follow(self, keys: Iterable[Key]) -> bool:
        """Return whether changes of these columns are, or can be, reported. Every compared column makes changes of
        hosts more expensive, so there are at most `COMPARED_LIMIT`."""
        is_compared = self._schema.is_compared
        new = sum(is_compared(key) and key not in self._columns for key in keys)
        if not new:
            return True
        return new + sum(map(is_compared, self._columns)) <= COMPARED_LIMIT

    def _column(self, key: Key) -> Column:
        column = self._columns.get(key)
        if column is None:
            # The table keeps the column for later snapshots, unless this one is outdated and needs one of its own.
            column = self._columns[key] = self._keep(self, key) or self.materialise(key)
        return column

    def materialise(self, key: Key) -> Column:
        """Create the column from the objects, even if it exists already."""
        if key[0] in LEDGER:
            # The ledger wrote no amount yet; it creates the column with the first one.
            return CountColumn(capacity=self.hosts.capacity, stamp=self.generation)
        column = self._schema.new_column(key, capacity=self.hosts.capacity, stamp=self.generation)
        self._fill(column, key)
        return column

    def _fill(self, column: Any, key: Key) -> None:
        """Write all cells of an empty column. Kinds override it for columns that other objects fill."""
        read = self._schema.cell_reader(key)
        column.fill([None if host is None else read(host) for host in self.hosts.objects])

    def rows_named(self, names: list[str]) -> list[int]:
        """Return the rows of those names that are hosts, in the given order."""
        row_of = self.hosts.row_of
        return [row_of[name] for name in names if name in row_of]

    def none(self) -> Bits:
        return bitmap.empty(self.hosts.capacity)
