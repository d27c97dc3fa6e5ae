"""Where hosts violate the policies that cover them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from fairway.api.hosting_policy import REQUIRED
from fairway.engine.workload import HostKey
from fairway.workloads.hosting.fleet.capacity import Capacity
from fairway.workloads.hosting.fleet.facts import HostFacts, is_available
from fairway.workloads.hosting.planning.evacuation import Evacuation
from fairway.workloads.hosting.resources import describe_amount
from fairway.workloads.hosting.state import HostingState

OVER: Final = "carries {amount} more than the policy allows"
TENANT: Final = "carries {count} hosted clusters of tenant {tenant}, and the policy allows one"
SPARE: Final = "spareHosts"
NO_SPARE: Final = "{count} of its hosted clusters would not fit elsewhere if it failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Where a host violates a policy. ``weight`` compares violations: the larger, the worse."""

    host: str
    limit: str
    """What is violated: a resource, a tenant, or the spare hosts. Moves may change the message, and leave the limit."""
    message: str
    weight: float


def violations(state: HostingState, among: Collection[HostKey] | None = None) -> tuple[Violation, ...]:
    """Return where hosts violate the policies that cover them, in the order of hosts. ``among``: None for all hosts."""
    names = sorted(state.facts if among is None else state.facts.keys() & {host.name for host in among})
    broken = [violation for name in names for violation in _of_host(state, name)]
    for policy in sorted(state.policies.values(), key=lambda policy: policy.name):
        if not policy.limits.spare_hosts:
            continue
        if stranded := Evacuation.of(state.snapshot(), policy).stranded(among=names):
            host, count = stranded
            broken.append(
                Violation(host=host, limit=SPARE, message=NO_SPARE.format(count=count), weight=float(count))
            )
    return tuple(broken)


def fixable_violations(
    state: HostingState, among: Collection[HostKey] | None = None
) -> tuple[Violation, ...]:
    """Return those of hosts that are available. From others, nothing can move without an operator's decision."""
    available = available_hosts(state)
    return tuple(violation for violation in violations(state, among) if violation.host in available)


def available_hosts(state: HostingState) -> frozenset[str]:
    snapshot = state.snapshot()
    rows = snapshot.hosts.row_of
    return frozenset(
        name for name in state.facts if name in rows and is_available(snapshot.cluster(rows[name]))
    )


def keeps_tenants_apart(state: HostingState, facts: HostFacts) -> bool:
    """Return whether a policy that covers the host allows one hosted cluster of each tenant."""
    return any(state.policies[name].anti_affinity == REQUIRED for name in facts.policies)


def _of_host(state: HostingState, name: str) -> Iterator[Violation]:
    facts = state.facts[name]
    if isinstance(facts.capacity, Capacity):
        for resource, beyond in state.deficits(facts.key).items():
            share = beyond / max(1, facts.capacity.total.get(resource, 0))
            words = OVER.format(amount=describe_amount(resource, beyond))
            yield Violation(host=name, limit=resource, message=words, weight=1 + share)
    if keeps_tenants_apart(state, facts):
        tenants: dict[str, int] = {}
        for resident in state.on(facts.key):
            tenant = state.table.tenant_of(resident.claimant)
            tenants[tenant] = tenants.get(tenant, 0) + 1
        for tenant, count in sorted(tenants.items()):
            if count > 1:
                words = TENANT.format(count=count, tenant=tenant)
                yield Violation(host=name, limit=f"tenant {tenant}", message=words, weight=float(count - 1))
