"""How much room each hosting cluster has, and what limits it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fairway.engine.workload import WorkloadKey
from fairway.hosting.capacity import Capacity
from fairway.hosting.demand import SIZES, Demand, size_demand
from fairway.hosting.policy import Policy
from fairway.hosting.state import HostFacts, HostingState, is_available
from fairway.hosting.telemetry import Unknown

NOT_AVAILABLE: Final = "the cluster is not available"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    host: str
    model: str = ""
    """Empty if the capacity is unknown."""
    hosted: int | None = None
    """Hosted clusters that the host publishes, of all owners; None if unknown."""
    reserved: int = 0
    """Requests with a place here, and decisions of Placements, that the published number does not include yet."""
    promised: tuple[WorkloadKey, ...] = ()
    """The Placements among them."""
    slots: Mapping[str, int]
    """How many more hosted clusters of each size fit, if all are of that size."""
    headroom: int | None = None
    """Free share of the fullest dimension in per cent; None if unknown."""
    limited_by: str = ""
    """The fullest dimension."""
    problem: str = ""
    """Why the host takes no hosted clusters."""


def reports(state: HostingState) -> Iterator[HostReport]:
    """Yield a report for every hosting cluster, by name."""
    snapshot = state.snapshot()
    for name in sorted(state.facts):
        row = snapshot.hosts.row_of.get(name)
        available = row is not None and is_available(snapshot.cluster(row))
        yield report_of(state, state.facts[name], available=available)


def report_of(state: HostingState, facts: HostFacts, *, available: bool) -> HostReport:
    name = facts.key.name
    sizes = _sizes(state, facts)
    reserved = sum(not each.counted for each in state.on(facts.key)) + len(facts.promised)
    capacity = facts.capacity
    if not isinstance(capacity, Capacity):
        return HostReport(
            host=name,
            reserved=reserved,
            promised=facts.promised,
            slots=dict.fromkeys(sizes, 0),
            problem=capacity.reason,
        )
    free = state.free(facts.key)
    shares = {each: free[each] / total for each, total in capacity.total.items() if total}
    fullest = min(shares, key=lambda each: (shares[each], each), default="")
    problem = facts.conflict or ("" if available else NOT_AVAILABLE)
    slots = {size: 0 if problem else _fitting(capacity, demand, free) for size, demand in sizes.items()}
    return HostReport(
        host=name,
        model=capacity.model,
        hosted=None if isinstance(facts.telemetry, Unknown) else facts.telemetry.count,
        reserved=reserved,
        promised=facts.promised,
        slots=slots,
        headroom=max(0, int(100 * shares[fullest])) if fullest else None,
        limited_by=fullest,
        problem=problem,
    )


def _fitting(capacity: Capacity, demand: Demand, free: Mapping[str, int]) -> int:
    asked = capacity.amounts_for(demand)
    return min(max(0, free.get(each, 0)) // amount for each, amount in asked.items() if amount)


def _sizes(state: HostingState, facts: HostFacts) -> dict[str, Demand]:
    """Return the sizes that requests for this host can name, the built-in ones first."""
    policies = [state.policies[each] for each in facts.policies] or [Policy()]
    names = dict.fromkeys([*SIZES, *(size.name for policy in policies for size in policy.sizes)])
    own = [size for policy in policies for size in policy.sizes]
    return {name: size_demand(name, sizes=own) for name in names}
