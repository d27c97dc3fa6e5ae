"""Whether everything that a hosting cluster carries fits on the others.

Hosted clusters are packed first-fit, the largest first. With several sizes a tight packing may be missed: then room is
kept that is not needed, never the reverse. Constraints of single requests are not considered. A hosted cluster of
another owner, such as a decision of a Placement, counts as a small one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from fairway.hosts import bitmap
from fairway.hosts.bitmap import Rows
from fairway.hosts.resources import grantable
from fairway.workloads.hosting.fleet.residents import DemandKey, demand_key
from fairway.workloads.hosting.fleet.snapshot import HostingSnapshot
from fairway.workloads.hosting.plugins.room import asked
from fairway.workloads.hosting.requests.demand import SIZES, SMALL, Demand
from fairway.workloads.hosting.resources import DIMENSIONS, HOSTED, MILLI, SLOTS
from fairway.workloads.hosting.rules.policy import Policy

_SMALL_ONE: Final = demand_key(
    Demand(size=SMALL, single=False, amounts={HOSTED: MILLI, SLOTS: MILLI, **SIZES[SMALL]})
)

_MANY: Final = 1 << 32
"""Of what takes nothing."""

Amounts = npt.NDArray[np.int64]
"""A row for each host, or one row, with a column for each dimension."""
Carried = Mapping[DemandKey, int]
"""Number of hosted clusters by demand."""


class Evacuation:
    """Amounts are arrays: a decision asks for each host whether any other one may fail."""

    def __init__(
        self,
        snapshot: HostingSnapshot,
        *,
        rows: Rows,
        names: Sequence[str],
        carried: list[Carried],
        counts: Amounts,
        others: Amounts,
        free: Amounts,
        asked_for: dict[DemandKey, Amounts],
    ) -> None:
        self._snapshot, self._rows, self._names = snapshot, rows, names
        self._carried, self._counts, self._others, self._free = carried, counts, others, free
        self._asked_for_known = asked_for
        """By demand, what each host takes for one; of all copies."""

    @classmethod
    def of(cls, snapshot: HostingSnapshot, policy: Policy) -> "Evacuation":
        """Return the available hosts of a policy whose capacity is known."""
        roster = snapshot.roster
        usable = roster.usable
        if policy.cluster_sets:
            hosting = bitmap.from_rows(roster.rows, snapshot.capacity)
            usable = usable & bitmap.unpack(snapshot.covered(policy, among=hosting))[roster.rows]
        rows, names, others = roster.rows, roster.names, roster.others
        if not usable.all():
            at = np.flatnonzero(usable)
            rows, others, names = rows[at], others[at], tuple([names[position] for position in at.tolist()])
        residents = snapshot.residents_in(rows)
        free = [snapshot.counts(grantable(resource)).values[rows] for resource in DIMENSIONS]
        return cls(
            snapshot,
            rows=rows,
            names=names,
            carried=[on_host.carried for on_host in residents],
            counts=others + np.array([len(on_host.demands) for on_host in residents], dtype=np.int64),
            others=others,
            free=np.maximum(0, np.stack(free, axis=1)),
            asked_for={},
        )

    def with_added(self, host: str, demand: Demand) -> "Evacuation":
        if host not in self._names:
            return self
        at, key = self._names.index(host), demand_key(demand)
        free, carried, counts = self._free.copy(), self._carried.copy(), self._counts.copy()
        free[at] = np.maximum(0, free[at] - self._asked_for(key)[at])
        carried[at] = {**carried[at], key: carried[at].get(key, 0) + 1}
        counts[at] += 1
        return Evacuation(
            self._snapshot,
            rows=self._rows,
            names=self._names,
            carried=carried,
            counts=counts,
            others=self._others,
            free=free,
            asked_for=self._asked_for_known,
        )

    def unplaced(self, host: str) -> int:
        """Return how many hosted clusters of a host would not fit on the others."""
        return self._unplaced(self._names.index(host))

    def _unplaced(self, at: int) -> int:
        free, left = self._free.copy(), 0
        for key, count in sorted(self._all_carried(at).items(), key=_largest_first):
            asked_for = self._asked_for(key)
            shares = np.where(asked_for > 0, free // np.maximum(asked_for, 1), count)
            fits = np.minimum(shares.min(axis=1), count)
            fits[at] = 0
            before = np.cumsum(fits) - fits
            taken = np.clip(count - before, 0, fits)
            free -= taken[:, None] * asked_for
            left += count - int(taken.sum())
        return left

    def stranded(self, *, suspect: str = "", among: Collection[str] | None = None) -> tuple[str, int] | None:
        """Return a host whose failure would leave hosted clusters without a place, and how many of them.

        ``suspect`` is tried first: of many questions about one fleet, most have the same answer. ``among``: the hosts
        that may fail; None for all.
        """
        if suspect in self._names and (left := self.unplaced(suspect)) > 0:
            return suspect, left
        # Packing one by one is needed only where neither of these shows that all have a place: of 300 hosts with room
        # to spare, it took 12 ms. The first is for all hosts at once, as if each carried every demand of the fleet.
        fits = self._room_for({_SMALL_ONE}.union(*self._carried))
        room: dict[frozenset[DemandKey], Amounts] = {}
        for at in np.flatnonzero(fits.sum() - fits < self._counts).tolist():
            if among is not None and self._names[at] not in among:
                continue
            kinds = frozenset(self._all_carried(at))
            if kinds not in room:
                room[kinds] = self._room_for(kinds)
            fits = room[kinds]
            if fits.sum() - fits[at] < self._counts[at] and (left := self._unplaced(at)) > 0:
                return self._names[at], left
        return None

    def _all_carried(self, at: int) -> Carried:
        """Return what a host carries, hosted clusters of other owners included."""
        carried, others = self._carried[at], int(self._others[at])
        return {**carried, _SMALL_ONE: carried.get(_SMALL_ONE, 0) + others} if others else carried

    def _room_for(self, kinds: Iterable[DemandKey]) -> Amounts:
        """Return how many hosted clusters each host takes for sure, each of which is of one of these demands.

        None of them takes more than the largest of the demands in each dimension. So a host that has taken fewer has
        room for each of them, and first-fit leaves none over as long as one host has.
        """
        largest = np.zeros_like(self._free)
        for key in kinds:
            largest = np.maximum(largest, self._asked_for(key))
        fits: Amounts = np.where(largest > 0, self._free // np.maximum(largest, 1), _MANY).min(axis=1)
        return fits

    def _asked_for(self, key: DemandKey) -> Amounts:
        known = self._asked_for_known.get(key)
        if known is None:
            demand = Demand(size=key[0], single=key[1], amounts=dict(key[2]))
            columns = [asked(self._snapshot, demand, resource, self._rows) for resource in DIMENSIONS]
            known = self._asked_for_known[key] = np.maximum(0, np.stack(columns, axis=1))
        return known


def _largest_first(item: tuple[DemandKey, int]) -> int:
    return -dict(item[0][2]).get(SLOTS, 0)
