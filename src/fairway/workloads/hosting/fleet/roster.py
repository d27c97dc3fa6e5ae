"""The hosting clusters with their rows, as arrays and lists in one order.

A cycle asks each of them the same questions, and a decision changes what one of them carries, but none of their facts.
So their rows are looked up once for as long as all facts stay, and not once for each decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairway.engine.workload import HostKey
from fairway.hosts.bitmap import Mask, Rows
from fairway.workloads.hosting.fleet.capacity import Capacity
from fairway.workloads.hosting.fleet.facts import HostFacts
from fairway.workloads.hosting.resources import HOSTED, MILLI


@dataclass(frozen=True, slots=True)
class Roster:
    """In the order of the facts."""

    rows: Rows
    names: tuple[str, ...]
    keys: tuple[HostKey, ...]
    at: Mapping[int, int]
    """The position of each row."""
    usable: Mask
    """Whether a host is available, and its capacity known."""
    others: Rows
    """Number of hosted clusters that belong to no request."""

    @classmethod
    def of(cls, facts: Mapping[str, HostFacts], row_of: Mapping[str, int]) -> "Roster":
        listed = [(row_of[name], name, host) for name, host in facts.items() if name in row_of]
        rows = [row for row, _, _ in listed]
        usable = [isinstance(host.capacity, Capacity) and host.is_available for _, _, host in listed]
        return cls(
            rows=np.array(rows, dtype=np.int64),
            names=tuple([name for _, name, _ in listed]),
            keys=tuple([host.key for _, _, host in listed]),
            at={row: at for at, row in enumerate(rows)},
            usable=np.array(usable, dtype=np.bool_),
            others=np.array([_others(host) for _, _, host in listed], dtype=np.int64),
        )


class Rosters:
    """Keeps the facts as snapshots have them, and the newest roster of these."""

    def __init__(self) -> None:
        self._facts: dict[str, HostFacts] = {}
        self._is_shared = False
        """Whether a snapshot has ``_facts``, which must then be copied before they change."""
        self._roster: tuple[Mapping[str, HostFacts], object, Roster] | None = None

    def fork(self) -> "Rosters":
        other = Rosters()
        self._is_shared = other._is_shared = True
        other._facts, other._roster = self._facts, self._roster
        return other

    def observe(self, name: str, facts: HostFacts | None) -> None:
        if self._facts.get(name) is facts:
            return
        if self._is_shared:
            self._facts, self._is_shared = self._facts.copy(), False
        # A roster of the same dictionary is of what it was.
        self._roster = None
        if facts is None:
            del self._facts[name]
        else:
            self._facts[name] = facts

    def view(self) -> Mapping[str, HostFacts]:
        """Return the facts as they are now."""
        self._is_shared = True
        return self._facts

    def of(self, facts: Mapping[str, HostFacts], row_of: Mapping[str, int]) -> Roster:
        """Return the roster of a snapshot."""
        kept = self._roster
        # Compared by identity: rows of hosting clusters change only together with their facts, or with the whole table.
        if kept is None or kept[0] is not facts or kept[1] is not row_of:
            kept = self._roster = (facts, row_of, Roster.of(facts, row_of))
        return kept[2]


def _others(facts: HostFacts) -> int:
    if not isinstance(facts.capacity, Capacity):
        return 0
    return facts.capacity.others.get(HOSTED, 0) // MILLI + len(facts.promised)
