"""What decisions read, as changes from one recorded decision to the next.

A cycle reads the whole fleet, but between two decisions little of it changes. The tracker remembers the version of each
object that the history has, and collects the other ones when a decision is recorded: of scores and
debits those of the clusters that the cycle admitted (the clusters of the placement's sets), of everything else all.

It runs on the event loop, at each decision that changed, so it only collects references to immutable objects. Which
objects to compare follows from the journal of the fleet; where the journal no longer reaches, all are compared. A
snapshot is not kept: the fleet would have to copy whatever changes next.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from fairway.engine.outcome import Outcome
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Mask
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.snapshot import ClusterSnapshot
from fairway.hosts.column import Key

HOSTS: Final = ("hosts",)
SETS: Final = ("sets",)
BINDINGS: Final = ("bindings",)
COUNTS: Final = ("counts",)
"""How many decisions name each cluster, of all placements."""
ABSENT: Final = ("absent",)
"""The same of names that are no clusters."""
DEBITS: Final = ("debits",)
REQUESTS: Final = ("requests",)

_SCORE_KINDS: Final = (cells.SCORE, cells.SCORE_OBJECT, cells.SCORES)
_OF_OTHERS: Final = frozenset(
    {*_SCORE_KINDS, cells.CALCULATOR, cells.DEBIT, cells.DECISIONS[0], cells.PROMISED[0], cells.OWN_DECISIONS}
)
"""Kinds of columns that no ManagedCluster fills."""
_SHARED: Final = frozenset({cells.SETS, cells.BINDINGS})


@dataclass(frozen=True, slots=True)
class Reads:
    """What a cycle read besides clusters, sets and bindings."""

    parts: frozenset[Key]
    """The parts of which it read the admitted clusters."""
    everything: bool = False
    """Whether a plugin does not declare what it reads."""


@dataclass(frozen=True, slots=True)
class InputChange:
    """The objects that changed since the change before, by part and name; None for a deleted one.

    A part is HOSTS, SETS, BINDINGS, COUNTS, ABSENT, DEBITS, REQUESTS, ``("score", resource)`` or
    ``("calculator", name)``.
    """

    number: int
    complete: bool
    """Whether it does not depend on the changes before: the first one of a file."""
    parts: Mapping[Key, Mapping[str, Any]]


@dataclass(slots=True)
class _Part:
    known: dict[str, Any] = field(default_factory=dict)
    """The versions that the history has."""
    pending: set[str] = field(default_factory=set)
    """Names that may have another version."""
    rows: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """The same as rows, of a part of which only the admitted clusters are recorded: the others may stay for long, and
    thousands of them must not cost each decision a look at their names."""
    unknown: bool = True
    """Whether any name may."""

    def mark(self, rows: Sequence[int], capacity: int) -> None:
        if len(self.rows) < capacity:
            self.rows = np.concatenate((self.rows, np.zeros(capacity - len(self.rows), dtype=np.bool_)))
        if len(rows) == 1:
            self.rows[rows[0]] = True
        elif rows:
            self.rows[list(rows)] = True


def reads_of(outcome: Outcome) -> Reads:
    context = outcome.context
    parts: set[Key] = set()
    everything = False
    for reader in outcome.plugins.readers:
        if reader is None:
            everything = True
            continue
        reads = reader.reads(context)
        everything = everything or reads.anything
        for key in (*reads.cells, *reads.shared):
            part = _part_of(key)
            if part is not None:
                parts.add(part)
    return Reads(frozenset(parts), everything)


def _part_of(key: Key) -> Key | None:
    kind = key[0]
    if kind in _SCORE_KINDS:
        return (cells.SCORE, key[1])
    if kind == cells.CALCULATOR:
        return (cells.CALCULATOR, key[1])
    if kind == cells.DEBIT:
        return DEBITS
    return {cells.DECISIONS[0]: COUNTS, cells.PROMISED[0]: REQUESTS}.get(kind)


class InputTracker:
    """Collects the changes of one fleet, for one file of the history."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin with a complete change, in another file."""
        self._parts: dict[Key, _Part] = {}
        self._generation = -1
        self.number = 0
        """Of the last change."""

    def collect(self, snapshot: ClusterSnapshot, reads: Reads, eligible: Bits) -> InputChange | None:
        """Return what changed of what the cycle read; None if the history has all of it, as of ``number``."""
        self._advance(snapshot)
        changes: dict[Key, Mapping[str, Any]] = {}
        for part, current, everything in self._current(snapshot, reads):
            changed = self._changed(part, current, everything, snapshot, eligible)
            if changed:
                changes[part] = changed
        if not changes and self.number:
            return None
        self.number += 1
        return InputChange(self.number, self.number == 1, changes)

    def _advance(self, snapshot: ClusterSnapshot) -> None:
        """Collect the names that the journal says have changed."""
        # A plugin in a process of its own may have kept an older snapshot than the last one. A journal that went on
        # after the snapshot names more than what changed until then, which compares equal.
        since = (
            snapshot.journal.since(self._generation) if 0 <= self._generation <= snapshot.generation else None
        )
        self._generation = snapshot.generation
        if since is None:
            for part in self._parts.values():
                part.unknown = True
            return
        parts = self._parts
        for change in since:
            own = not change.columns or change.added
            for key in change.columns:
                kind = key[0]
                if kind in _SHARED:
                    shared = parts.get(SETS if kind == cells.SETS else BINDINGS)
                    if shared is not None:
                        shared.pending.add(key[1])
                elif kind in _OF_OTHERS:
                    part_key = _part_of(key)
                    if part_key is not None and part_key in parts:
                        if _is_restricted(part_key):
                            parts[part_key].mark(change.rows, snapshot.capacity)
                        else:
                            parts[part_key].pending.update(change.hosts)
                        # A calculator exists as soon as it scores any name, of which the journal names only clusters.
                        if kind == cells.CALCULATOR and not change.hosts:
                            parts[part_key].unknown = True
                else:
                    own = True
            if own and HOSTS in parts:
                parts[HOSTS].pending.update(change.hosts)
            if change.added:
                # Scores and decisions may be older than the cluster that they are about.
                for key, part in parts.items():
                    if _is_restricted(key):
                        part.mark(change.rows, snapshot.capacity)
                    else:
                        part.pending.update(change.hosts)

    def _current(
        self, snapshot: ClusterSnapshot, reads: Reads
    ) -> Iterator[tuple[Key, Callable[[str], Any], Callable[[], dict[str, Any]]]]:
        """Yield each part that the cycle read: the functions that return an object by its name, and all objects."""
        hosts, row_of = snapshot.hosts, snapshot.hosts.row_of

        def host(name: str) -> Any:
            row = row_of.get(name)
            return None if row is None else hosts.objects[row]

        counts = snapshot.counts(cells.DECISIONS).values

        def count(name: str) -> int | None:
            row = row_of.get(name)
            return None if row is None else int(counts[row]) or None

        def hosts_by_name() -> dict[str, Any]:
            return {name: thing for name, thing in zip(hosts.names, hosts.objects, strict=True) if name}

        def counts_by_name() -> dict[str, Any]:
            rows = np.flatnonzero(counts[: len(hosts.names)]).tolist()
            return {hosts.names[row]: int(counts[row]) for row in rows if hosts.names[row]}

        debits, requests = snapshot.debits, snapshot.requests
        yield HOSTS, host, hosts_by_name
        yield SETS, snapshot.sets.get, lambda: dict(snapshot.sets)
        yield BINDINGS, snapshot.bindings.get, lambda: dict(snapshot.bindings)
        if reads.everything or COUNTS in reads.parts:
            yield COUNTS, count, counts_by_name
            absent = snapshot.decisions.absent_clusters
            if absent or ABSENT in self._parts:
                self._parts.setdefault(ABSENT, _Part()).unknown = True  # the journal does not name them
                yield ABSENT, absent.get, absent.copy
        if debits or DEBITS in self._parts:
            yield (
                DEBITS,
                lambda name: debits.of(name) or None,
                lambda: {name: debits.of(name) for name in debits.clusters()},
            )
        if requests or REQUESTS in self._parts:
            yield REQUESTS, requests.get, lambda: dict(requests)
        for kind, tables in ((cells.SCORE, snapshot.scores), (cells.CALCULATOR, snapshot.calculators)):
            named = {part[1] for part in reads.parts if part[0] == kind}
            for name in sorted(named.union(tables) if reads.everything else named):
                table: Mapping[str, Any] = tables.get(name, {})
                yield (kind, name), table.get, partial(dict, table)

    def _changed(
        self,
        key: Key,
        current: Callable[[str], Any],
        everything: Callable[[], dict[str, Any]],
        snapshot: ClusterSnapshot,
        eligible: Bits,
    ) -> dict[str, Any]:
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = _Part()
        known = part.known
        if part.unknown:
            part.unknown = False
            objects = everything()
            if not known:
                # The first change of a file: of 100,000 clusters, nothing may be done for each of them here.
                part.known = objects
                part.pending = set()
                return objects.copy()
            part.pending = {name for name, thing in objects.items() if known.get(name) is not thing}
            part.pending.update(name for name in known if name not in objects)
            if _is_restricted(key):
                row_of = snapshot.hosts.row_of
                part.mark([row_of[name] for name in part.pending if name in row_of], snapshot.capacity)
        taken: Iterable[str]
        if _is_restricted(key):
            part.mark((), snapshot.capacity)
            rows = np.flatnonzero(part.rows[: snapshot.capacity] & bitmap.unpack(eligible))
            part.rows[rows] = False
            names_of = snapshot.hosts.names
            taken = [names_of[row] for row in rows.tolist()]
        else:
            taken = part.pending
        part.pending = set()
        changed: dict[str, Any] = {}
        for name in taken:
            value, old = current(name), known.get(name)
            if value is old or value == old:
                continue
            changed[name] = value
            if value is None:
                del known[name]
            else:
                known[name] = value
        return changed


def _is_restricted(part: Key) -> bool:
    """Whether only the clusters that a cycle admitted are recorded. Not the counts: Balance compares with the highest
    one of the fleet."""
    return part[0] == cells.SCORE or part == DEBITS
