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
from fairway.fleet.column import Key
from fairway.fleet.direction import Direction
from fairway.fleet.journal import Change

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
        for each in reads:
            anything = anything or each.anything
            helps = each.helps or {}
            for key in each.cells | each.shared:
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
        self._readers: dict[Key, dict[OwnerT, Direction]] = {}
        self._readers_of_hosts: dict[Key, dict[int, _HostReaders[OwnerT]]] = {}
        """By the identity of their hosts: workloads that are alike share them, and one check answers for all."""
        self._anything: dict[OwnerT, None] = {}
        self._dependencies: dict[OwnerT, Dependencies] = {}

    def __len__(self) -> int:
        return len(self._dependencies)

    def put(self, owner: OwnerT, dependencies: Dependencies) -> None:
        old = self._dependencies.get(owner)
        if old is dependencies or old == dependencies:
            return
        self.discard(owner)
        self._dependencies[owner] = dependencies
        for key, direction in dependencies.columns.items():
            self._readers.setdefault(key, {})[owner] = direction
        for key, direction in dependencies.of_hosts.items():
            groups = self._readers_of_hosts.setdefault(key, {})
            group = groups.setdefault(id(dependencies.hosts), _HostReaders(dependencies.hosts))
            group.owners[owner] = direction
        if dependencies.anything:
            self._anything[owner] = None

    def discard(self, owner: OwnerT) -> None:
        old = self._dependencies.pop(owner, None)
        if old is None:
            return
        for key in old.columns:
            _remove(self._readers, key, owner)
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
            return [owner for owner, each in self._dependencies.items() if each.reads_any]
        found: dict[OwnerT, None] = dict(self._anything)
        for key, direction in event.columns.items():
            for owner, helps in self._readers.get(key, _NOBODY).items():
                if owner not in found and (helps is direction or helps & direction):
                    found[owner] = None
            # Most readers of a score are not concerned: the host is infeasible for them.
            for group in self._readers_of_hosts.get(key, _NOBODY).values():
                if any(host in group.hosts for host in event.hosts):
                    for owner, helps in group.owners.items():
                        if helps & direction:
                            found[owner] = None
        return list(found)


_NOBODY: Mapping[Any, Any] = {}


def _remove(readers: dict[Key, dict[OwnerT, Any]], key: Key, owner: OwnerT) -> None:
    del readers[key][owner]
    if not readers[key]:
        del readers[key]
