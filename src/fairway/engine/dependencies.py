"""Which workloads an event concerns: the one mechanism behind queueing hints and waking.

A plugin declares the columns that it reads (``Reads``) and, where it can, in which direction a change may turn its
rejection into an approval. An event lists the columns that changed. The index maps columns to workloads, so that the
cost of an event grows with the workloads that read its columns, not with all that wait.

Columns that only affect the ranking concern a workload only if the changed host is one of ``hosts``, usually the
feasible ones. Hosts are names, or rows of a table: a row may be another host by the time an event is replayed, but then
the workload was also concerned by the events of that change.
"""

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from fairway.engine.points import Reads
from fairway.engine.workload import WorkloadKey
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.journal import Change

OwnerT = TypeVar("OwnerT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change of the world."""

    label: str
    """What happened, for explanations: ``cluster1 updated``."""
    hosts: frozenset[Hashable] = frozenset()
    """The hosts whose cells changed; empty for what all hosts share."""
    columns: Mapping[Key, Direction] = field(default_factory=dict)
    added: bool = False
    """Whether a host was added. Its cells are new in every column, also in those where it has no value."""
    wildcard: bool = False
    """Whether anything may have changed: concerns every workload."""
    excluded: WorkloadKey | None = None
    """The workload that caused the event by giving up its place, which must not wake itself."""


def event_of(change: Change, *, label: str) -> Event:
    """Return a change of the fleet as an event."""
    return Event(label=label, hosts=frozenset(change.hosts), columns=change.columns, added=change.added)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """The columns that an answer depends on, with the directions that matter."""

    columns: Mapping[Key, Direction] = field(default_factory=dict)
    of_hosts: Mapping[Key, Direction] = field(default_factory=dict)
    """Columns that matter only if the event changed them on one of ``hosts``."""
    hosts: Container[Hashable] = ()
    anything: bool = False
    """Whether every event matters."""

    @classmethod
    def of(cls, reads: Iterable[Reads]) -> "Dependencies":
        """Return the dependencies of a rejection by plugins with these reads."""
        columns: dict[Key, Direction] = {}
        anything = False
        for read in reads:
            anything = anything or read.anything
            helps = read.helps or {}
            for key in read.cells | read.shared:
                columns[key] = columns.get(key, Direction.NONE) | helps.get(key, Direction.ANY)
        return cls(columns=columns, anything=anything)

    def joined(self, other: "Dependencies") -> "Dependencies":
        """Return what either depends on; ``other`` must not depend on single hosts."""
        columns = dict(self.columns)
        for key, direction in other.columns.items():
            columns[key] = columns.get(key, Direction.NONE) | direction
        return replace(self, columns=columns, anything=self.anything or other.anything)

    @property
    def reads_any(self) -> bool:
        return self.anything or bool(self.columns) or bool(self.of_hosts)

    def concerned_by(self, event: Event) -> bool:
        if event.wildcard or self.anything or (event.added and self.reads_any):
            return True
        for key, direction in event.columns.items():
            if direction & self.columns.get(key, Direction.NONE):
                return True
            if direction & self.of_hosts.get(key, Direction.NONE) and self._has_host(event):
                return True
        return False

    def _has_host(self, event: Event) -> bool:
        return any(host in self.hosts for host in event.hosts)


class _HostReaders(Generic[OwnerT]):
    """Owners whose dependencies have the same hosts."""

    __slots__ = ("hosts", "owners")

    def __init__(self, hosts: Container[Hashable]) -> None:
        self.hosts = hosts
        self.owners: dict[OwnerT, Direction] = {}


class DependencyIndex(Generic[OwnerT]):
    """Dependencies of many owners, by column."""

    def __init__(self) -> None:
        self._readers: dict[Key, dict[Direction, dict[OwnerT, None]]] = {}
        """By column and direction: each pod that is placed raises columns whose readers, thousands that wait for room,
        only want them to fall."""
        self._readers_of_hosts: dict[Key, dict[int, _HostReaders[OwnerT]]] = {}
        """By the identity of their hosts: workloads that are alike share them, and one check answers for all."""
        self._anything: dict[OwnerT, None] = {}
        self._dependencies: dict[OwnerT, Dependencies] = {}

    def __len__(self) -> int:
        return len(self._dependencies)

    def put(self, owner: OwnerT, dependencies: Dependencies) -> None:
        old = self._dependencies.get(owner)
        # Mostly equal: a placement that is decided again reads the same columns.
        if old is dependencies or old == dependencies:
            return
        self.discard(owner)
        self._dependencies[owner] = dependencies
        for key, direction in dependencies.columns.items():
            self._readers.setdefault(key, {}).setdefault(direction, {})[owner] = None
        for key, direction in dependencies.of_hosts.items():
            groups = self._readers_of_hosts.setdefault(key, {})
            # The group references the hosts, so that their id is not used again as long as it is a key.
            group = groups.setdefault(id(dependencies.hosts), _HostReaders(dependencies.hosts))
            group.owners[owner] = direction
        if dependencies.anything:
            self._anything[owner] = None

    def discard(self, owner: OwnerT) -> None:
        old = self._dependencies.pop(owner, None)
        if old is None:
            return
        for key, direction in old.columns.items():
            readers = self._readers[key]
            del readers[direction][owner]
            if not readers[direction]:
                _remove(self._readers, key, direction)
        for key in old.of_hosts:
            groups = self._readers_of_hosts[key]
            del groups[id(old.hosts)].owners[owner]
            if not groups[id(old.hosts)].owners:
                _remove(self._readers_of_hosts, key, id(old.hosts))
        self._anything.pop(owner, None)

    def concerned(self, event: Event) -> list[OwnerT]:
        """Return the owners that the event concerns, each once."""
        if event.wildcard:
            return list(self._dependencies)
        if event.added:
            # A filter may accept a missing value (NotIn), so a new host concerns all that read anything, whatever
            # columns it has a value in.
            return [owner for owner, dependencies in self._dependencies.items() if dependencies.reads_any]
        concerned: dict[OwnerT, None] = dict(self._anything)
        for key, direction in event.columns.items():
            for helps, owners in self._readers.get(key, _NO_READERS).items():
                if helps & direction:
                    concerned.update(owners)
            # Most readers of a score are not concerned: the host is infeasible for them.
            for group in self._readers_of_hosts.get(key, _NO_READERS).values():
                if any(host in group.hosts for host in event.hosts):
                    for owner, helps in group.owners.items():
                        if helps & direction:
                            concerned[owner] = None
        return list(concerned)


_NO_READERS: Mapping[Any, Any] = {}


def _remove(readers: dict[Key, dict[Any, Any]], key: Key, member: Hashable) -> None:
    del readers[key][member]
    if not readers[key]:
        del readers[key]
