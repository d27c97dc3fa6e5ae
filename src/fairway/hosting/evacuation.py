"""Whether everything that a hosting cluster carries fits on the others.

Hosted clusters are packed first-fit, the largest first. With several sizes a tight packing may be missed: then room is
kept that is not needed, never the reverse. Constraints of single requests are not considered. A hosted cluster of
another owner, such as a decision of a Placement, counts as a small one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fairway.engine.workload import ResourceList
from fairway.hosting.capacity import Capacity
from fairway.hosting.demand import CUSTOM, SIZES, SMALL, Demand
from fairway.hosting.policy import Policy
from fairway.hosting.resources import HOSTED, MILLI, SLOTS
from fairway.hosting.state import HostingState, is_available

_SMALL_ONE = Demand(size=SMALL, single=False, amounts={HOSTED: MILLI, SLOTS: MILLI, **SIZES[SMALL]})


@dataclass(frozen=True, slots=True)
class _Host:
    name: str
    capacity: Capacity
    free: ResourceList
    carried: Mapping[tuple[str, bool, tuple[tuple[str, int], ...]], int]
    """Number of hosted clusters by demand."""

    def fits(self, demand: Demand, free: ResourceList) -> int:
        asked = self.capacity.amounts_for(demand)
        return min(max(0, free.get(each, 0)) // amount for each, amount in asked.items() if amount)


@dataclass(frozen=True, slots=True)
class Evacuation:
    hosts: Mapping[str, _Host]

    @classmethod
    def of(cls, state: HostingState, policy: Policy) -> "Evacuation":
        """Return the available hosts of a policy whose capacity is known."""
        snapshot = state.snapshot()
        hosts: dict[str, _Host] = {}
        for name, facts in state.facts.items():
            capacity, row = facts.capacity, snapshot.hosts.row_of.get(name)
            if not isinstance(capacity, Capacity) or row is None:
                continue
            cluster = snapshot.cluster(row)
            if is_available(cluster) and state.covers(policy, cluster):
                carried = _carried(
                    [_demand_of(each.demand, each.amounts) for each in state.on(facts.key)],
                    others=capacity.others.get(HOSTED, 0) // MILLI + len(facts.promised),
                )
                hosts[name] = _Host(name, capacity, state.free(facts.key), carried)
        return cls(hosts)

    def with_added(self, host: str, demand: Demand) -> "Evacuation":
        old = self.hosts.get(host)
        if old is None:
            return self
        asked = old.capacity.amounts_for(demand)
        free = {each: left - asked.get(each, 0) for each, left in old.free.items()}
        key = _key(demand)
        carried = {**old.carried, key: old.carried.get(key, 0) + 1}
        return Evacuation({**self.hosts, host: replace(old, free=free, carried=carried)})

    def unplaced(self, host: str) -> int:
        """Return how many hosted clusters of a host would not fit on the others."""
        frees = {name: dict(each.free) for name, each in self.hosts.items() if name != host}
        left = 0
        for key, count in sorted(self.hosts[host].carried.items(), key=_largest_first):
            demand = Demand(size=key[0], single=key[1], amounts=dict(key[2]))
            for name, free in frees.items():
                target = self.hosts[name]
                taken = min(count, target.fits(demand, free))
                if taken:
                    for each, amount in target.capacity.amounts_for(demand).items():
                        free[each] -= taken * amount
                    count -= taken
                if not count:
                    break
            left += count
        return left

    def stranded(self) -> tuple[str, int] | None:
        """Return a host whose failure would leave hosted clusters without a place, and how many of them."""
        for name in self.hosts:
            if (left := self.unplaced(name)) > 0:
                return name, left
        return None


_Key = tuple[str, bool, tuple[tuple[str, int], ...]]


def _key(demand: Demand) -> _Key:
    return demand.size, demand.single, tuple(sorted(demand.amounts.items()))


def _carried(demands: Iterable[Demand], *, others: int) -> dict[_Key, int]:
    found: dict[_Key, int] = {_key(_SMALL_ONE): others} if others else {}
    for each in demands:
        key = _key(each)
        found[key] = found.get(key, 0) + 1
    return found


def _demand_of(demand: Demand | None, amounts: ResourceList) -> Demand:
    return Demand(size=CUSTOM, single=False, amounts=amounts) if demand is None else demand


def _largest_first(item: tuple[_Key, int]) -> int:
    return -dict(item[0][2]).get(SLOTS, 0)
