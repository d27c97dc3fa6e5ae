"""How much room each hosting cluster has, and what limits it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.instant import Micros
from fairway.workloads.hosting.fleet.capacity import Capacity
from fairway.workloads.hosting.fleet.facts import HostFacts
from fairway.workloads.hosting.fleet.outages import Outage
from fairway.workloads.hosting.fleet.telemetry import Unknown
from fairway.workloads.hosting.requests.demand import SIZES, Demand, size_demand
from fairway.workloads.hosting.rules.policy import Policy
from fairway.workloads.hosting.state import HostingState

NOT_AVAILABLE: Final = "the cluster {outage}"
CARRIES: Final = "the cluster {outage}; fairway hosting recover {host} plans where its hosted clusters go"


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


def reports(state: HostingState, *, now: Micros) -> Iterator[HostReport]:
    """Yield a report for every hosting cluster, by name, and for deleted ones that requests still name."""
    keys = {facts.key for facts in state.facts.values()}
    for key in sorted(keys.union(host for host in state.residents.hosts() if state.outage(host) is not None)):
        if key in keys:
            yield report_of(state, state.facts[key.name], now=now)
        else:
            problem = _problem(state, key, state.outage(key), now=now)
            reserved = sum(1 for _ in state.on(key))
            yield HostReport(host=key.name, reserved=reserved, slots=dict.fromkeys(SIZES, 0), problem=problem)


def _problem(state: HostingState, host: HostKey, outage: Outage | None, *, now: Micros) -> str:
    if outage is None:
        return ""
    after = state.lost_after(host)
    is_recoverable = outage.is_lost(after, now=now) and any(state.on(host))
    words = CARRIES if is_recoverable else NOT_AVAILABLE
    return words.format(host=host.name, outage=outage.describe(after, now=now))


def report_of(
    state: HostingState, facts: HostFacts, *, now: Micros, sizes: Mapping[str, Demand] | None = None
) -> HostReport:
    """``sizes`` are those to report; None for all that requests for this host can name."""
    name = facts.key.name
    problem = _problem(state, facts.key, state.outage(facts.key), now=now)
    sizes = sizes_of(state, facts) if sizes is None else sizes
    capacity = facts.capacity
    residents = tuple(state.on(facts.key))
    included = (
        capacity.included
        if isinstance(capacity, Capacity)
        else sum(resident.counted for resident in residents)
    )
    reserved = len(residents) - included + len(facts.promised)
    if not isinstance(capacity, Capacity):
        return HostReport(
            host=name,
            reserved=reserved,
            promised=facts.promised,
            slots=dict.fromkeys(sizes, 0),
            problem=problem or capacity.reason,
        )
    free = state.free(facts.key)
    shares = {resource: free.get(resource, 0) / total for resource, total in capacity.total.items() if total}
    fullest = min(shares, key=lambda resource: (shares[resource], resource), default="")
    problem = problem or facts.conflict
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
    return min(max(0, free.get(resource, 0)) // amount for resource, amount in asked.items() if amount)


def sizes_of(state: HostingState, facts: HostFacts) -> dict[str, Demand]:
    """Return the sizes that requests for this host can name, the built-in ones first."""
    policies = [state.policies[name] for name in facts.policies if name in state.policies] or [Policy()]
    names = dict.fromkeys([*SIZES, *(size.name for policy in policies for size in policy.sizes)])
    own = [size for policy in policies for size in policy.sizes]
    return {name: size_demand(name, sizes=own) for name in names}
