"""The columnar table of hosts of one kind.

Every update compares old and new, writes only the cells that differ, and returns the changed columns. Reads use
snapshots. A snapshot costs nothing: it shares all data with the table, and the table copies a part only before writing
to it while a snapshot that shares it is still alive.

A kind of host derives from ``Table``, and adds the methods that receive its objects.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from copy import copy
from typing import Any, Generic, Protocol, Self, TypeVar, cast
from weakref import WeakSet

from fairway.hosts.column import MEMBERSHIP, Column, CountColumn, Key
from fairway.hosts.derived import Derived
from fairway.hosts.direction import ANY, DOWN, UP, Direction
from fairway.hosts.hosts import Hosts
from fairway.hosts.journal import NOTHING, Change, Journal
from fairway.hosts.schema import Schema
from fairway.hosts.snapshot import Snapshot

Host = TypeVar("Host")


class Part(Protocol):
    """State that snapshots share."""

    stamp: int
    """The generation in which this copy was created."""

    def fork(self) -> Any: ...


PartT = TypeVar("PartT", bound=Part)


class Table(Generic[Host]):
    def __init__(self, *, schema: Schema[Host]) -> None:
        self._schema = schema
        self._hosts: Hosts[Host] = Hosts()
        self._columns: dict[Key, Column] = {}
        self._compared: dict[Key, Callable[[Host], Any]] = {}
        self._amounts: dict[Key, dict[str, int]] = {}
        """Cells of ``set_amounts`` by host, without zeros."""
        self._journal = Journal()
        self._snapshots: WeakSet[Snapshot[Host]] = WeakSet()
        self._derived: dict[Hashable, Derived] = {}
        self._followers: list[Callable[[Change], None]] = []
        self._origin: Snapshot[Host] | None = None
        """What this table was forked from."""

    def __len__(self) -> int:
        return len(self._hosts)

    @property
    def generation(self) -> int:
        return self._journal.generation

    def snapshot(self) -> Snapshot[Host]:
        view = Snapshot(self)
        self._snapshots.add(view)
        return view

    def follow(self, follower: Callable[[Change], None]) -> None:
        """Call a function with each change from now on, whatever causes it: an observation, or a place that is taken
        or given back. It must not write to the table."""
        self._followers.append(follower)

    def fork(self) -> Self:
        """Return a table for what-if questions, whose changes do not reach this one. Only amounts of hosts may change.

        Both share all parts: the snapshot, which is alive as long as the fork, makes each of them copy a part before it
        writes to it.
        """
        origin = self.snapshot()
        other = copy(self)
        other._origin = origin
        other._snapshots = WeakSet((origin,))
        other._columns = self._columns.copy()
        other._amounts = {key: amounts.copy() for key, amounts in self._amounts.items()}
        other._journal = Journal(generation=self._journal.generation)
        # From here on, equal generations of the two are not equal tables, so that they must not share results.
        other._derived = {}
        other._followers = []
        return other

    # Hosts

    def _load(self, hosts: dict[str, Host]) -> None:
        """Fill a table without hosts at once; several times faster than single updates. Removes all columns."""
        capacity = self._hosts.capacity
        while capacity < len(hosts):
            capacity *= 2
        filled: Hosts[Host] = Hosts(capacity=capacity, stamp=self._journal.generation + 1)
        filled.add_all(hosts.items())
        # Hosts get other rows: caches of rows follow the journal, those of ranks compare ``renumbered``, and both must
        # start over.
        filled.renumbered = self._hosts.renumbered + 1
        self._journal.forget()
        self._hosts = filled
        self._columns = {}
        self._compared.clear()
        for key, amounts in self._amounts.items():
            column = self._columns[key] = CountColumn(capacity=capacity, stamp=filled.stamp)
            for name, amount in amounts.items():
                if name in filled.row_of:
                    column.write(filled.row_of[name], amount)

    def _put(self, name: str, host: Host) -> Change:
        row = self._hosts.row_of.get(name)
        if row is None:
            return self._add(name, host)
        old = cast("Host", self._hosts.objects[row])
        changed = self._schema.changed_columns(old, host)
        # Paths are compared only where a column exists: an object has hundreds, of which expressions read a few.
        for key, read in self._compared.items():
            if read(old) != read(host):
                changed.add(key)
        if not changed and old == host:
            return NOTHING
        self._own_hosts().objects[row] = host
        directions = dict.fromkeys(changed, ANY)
        for key in changed:
            if key in self._columns:
                # An equal cell is reported, too: it may stand for more than it shows, such as the time of a taint.
                written = self._own_column(key).write(row, self._schema.cell_reader(key)(host))
                directions[key] = written or ANY
        return self._record(Change((row,), directions, (name,)))

    def _add(self, name: str, host: Host) -> Change:
        if not self._hosts.room():
            self._grow()
        row = self._own_hosts().add(name, host)
        changed = self._schema.all_columns(host)
        # Only columns in which the host has a value: ``_drop`` emptied the cells of a slot that is used again.
        for key in self._columns:
            if key in changed or key in self._compared:
                self._own_column(key).write(row, self._schema.cell_reader(key)(host))
                changed.add(key)
        changed.update(self._write_others(row, name))
        for key, amounts in self._amounts.items():
            if name in amounts:
                self._own_column(key).write(row, amounts[name])
                changed.add(key)
        return self._record(Change((row,), dict.fromkeys(changed, ANY), (name,), added=True))

    def _write_others(self, _row: int, _name: str) -> Iterable[Key]:
        """Write a new host's cells of columns that other objects fill. Return the columns to report."""
        return ()

    def _drop(self, name: str) -> Change:
        if name not in self._hosts.row_of:
            return NOTHING
        # Its cells are cleared now, not when the row is used again: ``_add`` writes only columns in which the next
        # host has a value.
        row = self._own_hosts().remove(name)
        self._before_clear(row, name)
        changed = {MEMBERSHIP}
        for key in self._columns:
            if self._own_column(key).write(row, None):
                changed.add(key)
        return self._record(Change((row,), dict.fromkeys(changed, ANY), (name,)))

    def _before_clear(self, _row: int, _name: str) -> None:
        """Keep what a host that is added again should find, before its cells are cleared."""

    def set_amounts(self, name: str, amounts: Mapping[Key, int]) -> Change:
        """Write cells that follow from no object of the host, such as what the ledger can grant.

        They are kept for a host that is not there yet, or was deleted. 0 for none.
        """
        row = self._hosts.row_of.get(name)
        changed: dict[Key, Direction] = {}
        for key, amount in amounts.items():
            # No object has these amounts, so the column cannot be created later from objects, as others are.
            known = self._amounts.get(key)
            if known is None:
                known = self._amounts[key] = {}
                stamp = self._journal.generation
                self._columns.setdefault(key, CountColumn(capacity=self._hosts.capacity, stamp=stamp))
            old = known.get(name, 0)
            if old == amount:
                continue
            changed[key] = UP if old < amount else DOWN
            if amount:
                known[name] = amount
            else:
                del known[name]
            if row is not None:
                self._own_column(key).write(row, amount)
        if not changed:
            return NOTHING
        return self._record(Change((), changed) if row is None else Change((row,), changed, (name,)))

    # Copy on write

    def _pinned(self, stamp: int) -> bool:
        # A snapshot shares every part that existed when it was taken. The set is weak: dropping a snapshot releases
        # its parts, and the usual cycle (snapshot, run, drop) never causes a copy.
        return any(view.generation >= stamp for view in self._snapshots)

    def _newest_view(self) -> int:
        """Return the generation of the newest snapshot that is alive; parts with a later stamp are not shared."""
        return max((view.generation for view in self._snapshots), default=-1) if self._snapshots else -1

    def _own(self, part: PartT) -> PartT:
        """Return the part, or a copy if a snapshot shares it: safe to modify."""
        if not self._pinned(part.stamp):
            return part
        # The write that follows becomes the next generation, so no snapshot that is alive now shares the copy.
        copy = part.fork()
        copy.stamp = self._journal.generation + 1
        return cast("PartT", copy)

    def _own_hosts(self) -> Hosts[Host]:
        if self._snapshots:
            self._hosts = self._own(self._hosts)
        return self._hosts

    def _own_column(self, key: Key) -> Column:
        column = self._columns[key]
        if self._snapshots:
            column = self._columns[key] = self._own(column)
        return column

    def _grow(self) -> None:
        hosts = self._own_hosts()
        capacity = hosts.capacity * 2
        hosts.grow(capacity)
        for key in list(self._columns):
            self._own_column(key).grow(capacity)

    def _record(self, change: Change) -> Change:
        # The journal first: a follower may take a snapshot, whose generation must include the change.
        self._journal.append(change)
        for follower in self._followers:
            follower(change)
        return change

    def _keep(self, view: Snapshot[Host], key: Key) -> Column | None:
        """Keep a column that was created for a current snapshot."""
        # A column that is created from the objects of an older snapshot lacks the changes since.
        if view.generation != self._journal.generation:
            return None
        column = self._columns.get(key)
        if column is None and self._origin is not None:
            # What hosts are like is the same in the table that this one was forked from, and each fork would create it.
            column = self._columns[key] = self._origin._column(key)
        if column is None:
            column = view.materialise(key)
            column.stamp = view.generation
            self._columns[key] = column
            if self._schema.is_compared(key):
                self._compared[key] = self._schema.cell_reader(key)
        return column
