"""Whether everything that a hosting cluster carries fits on the others.

Hosted clusters are packed first-fit, the largest first. With several sizes a tight packing may be missed: then room is
kept that is not needed, never the reverse. Constraints of single requests are not considered. A hosted cluster of
another owner, such as a decision of a Placement, counts as a small one.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from fairway.engine.workload import ResourceList
from fairway.hosts.resources import grantable
from fairway.workloads.hosting.fleet.capacity import Capacity
from fairway.workloads.hosting.fleet.facts import is_available
from fairway.workloads.hosting.fleet.residents import NO_RESIDENTS, DemandKey, demand_key
from fairway.workloads.hosting.fleet.snapshot import HostingSnapshot
from fairway.workloads.hosting.requests.demand import SIZES, SMALL, Demand
from fairway.workloads.hosting.resources import DIMENSIONS, HOSTED, MILLI, SLOTS
from fairway.workloads.hosting.rules.policy import Policy

_SMALL_ONE: Final = Demand(size=SMALL, single=False, amounts={HOSTED: MILLI, SLOTS: MILLI, **SIZES[SMALL]})

_MANY: Final = 1 << 32
"""Of what takes nothing."""

Amounts = npt.NDArray[np.int64]
"""A row for each host, or one row, with a column for each dimension."""


@dataclass(frozen=True, slots=True)
class _Host:
    capacity: Capacity
    carried: Mapping[DemandKey, int]
    """Number of hosted clusters by demand."""


class Evacuation:
    """Amounts are arrays: a decision asks for each host whether any other one may fail."""

    def __init__(self, hosts: Mapping[str, _Host], free: Amounts, asked: dict[DemandKey, Amounts]) -> None:
        self._hosts, self._free = hosts, free
        self._asked = asked
        """By demand, what each host takes for one; of all copies."""

    @classmethod
    def of(cls, snapshot: HostingSnapshot, policy: Policy) -> "Evacuation":
        """Return the available hosts of a policy whose capacity is known."""
        hosts: dict[str, _Host] = {}
        rows: list[int] = []
        for name, facts in snapshot.facts.items():
            capacity, row = facts.capacity, snapshot.hosts.row_of.get(name)
            if not isinstance(capacity, Capacity) or row is None:
                continue
            cluster = snapshot.cluster(row)
            if is_available(cluster) and snapshot.covers(policy, cluster):
                carried = snapshot.residents.get(facts.key, NO_RESIDENTS).carried.copy()
                if others := capacity.others.get(HOSTED, 0) // MILLI + len(facts.promised):
                    key = demand_key(_SMALL_ONE)
                    carried[key] = carried.get(key, 0) + others
                hosts[name] = _Host(capacity, carried)
                rows.append(row)
        free = [snapshot.counts(grantable(resource)).values[rows] for resource in DIMENSIONS]
        return cls(hosts, np.maximum(0, np.stack(free, axis=1)), {})

    def with_added(self, host: str, demand: Demand) -> "Evacuation":
        old = self._hosts.get(host)
        if old is None:
            return self
        at = list(self._hosts).index(host)
        free = self._free.copy()
        asked = _row(old.capacity.amounts_for(demand))
        free[at] = [max(0, left - amount) for left, amount in zip(free[at].tolist(), asked, strict=True)]
        key = demand_key(demand)
        carried = {**old.carried, key: old.carried.get(key, 0) + 1}
        return Evacuation({**self._hosts, host: replace(old, carried=carried)}, free, self._asked)

    def unplaced(self, host: str) -> int:
        """Return how many hosted clusters of a host would not fit on the others."""
        at, free, left = list(self._hosts).index(host), self._free.copy(), 0
        for key, count in sorted(self._hosts[host].carried.items(), key=_largest_first):
            asked = self._asked_for(key)
            shares = np.where(asked > 0, free // np.maximum(asked, 1), count)
            fits = np.minimum(shares.min(axis=1), count)
            fits[at] = 0
            before = np.cumsum(fits) - fits
            taken = np.clip(count - before, 0, fits)
            free -= taken[:, None] * asked
            left += count - int(taken.sum())
        return left

    def stranded(self, *, suspect: str = "", among: Collection[str] | None = None) -> tuple[str, int] | None:
        """Return a host whose failure would leave hosted clusters without a place, and how many of them.

        ``suspect`` is tried first: of many questions about one fleet, most have the same answer. ``among``: the hosts
        that may fail; None for all.
        """
        if suspect in self._hosts and (left := self.unplaced(suspect)) > 0:
            return suspect, left
        room: dict[frozenset[DemandKey], Amounts] = {}
        for at, (name, host) in enumerate(self._hosts.items()):
            if among is not None and name not in among:
                continue
            kinds = frozenset(host.carried)
            if kinds not in room:
                room[kinds] = self._room_for(kinds)
            fits = room[kinds]
            # Packing one by one is needed only where this does not show that all have a place: of 300 hosts with
            # room to spare, it took 12 ms.
            if fits.sum() - fits[at] < sum(host.carried.values()) and (left := self.unplaced(name)) > 0:
                return name, left
        return None

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
        known = self._asked.get(key)
        if known is None:
            demand = Demand(size=key[0], single=key[1], amounts=dict(key[2]))
            rows = [_row(host.capacity.amounts_for(demand)) for host in self._hosts.values()]
            known = self._asked[key] = np.array(rows, dtype=np.int64)
        return known


def _row(amounts: ResourceList) -> list[int]:
    return [max(0, amounts.get(resource, 0)) for resource in DIMENSIONS]


def _largest_first(item: tuple[DemandKey, int]) -> int:
    return -dict(item[0][2]).get(SLOTS, 0)
