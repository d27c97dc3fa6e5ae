"""What would make a request fit: single changes, each of which was tried and is enough.

Two kinds of change are tried: of the request (a smaller size, one constraint less) and of one host that only one plugin
rejects (room, telemetry, availability).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import structs

from fairway.api.hosted_request import SINGLE_REPLICA, HostedClusterRequest, HostingConstraints
from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.engine.points import Context
from fairway.engine.profile import Profile
from fairway.engine.workload import HostKey, Workload
from fairway.hosts import bitmap
from fairway.hosts.clusters import clusters_of
from fairway.hosts.instant import Micros
from fairway.hosts.steps import Steps, finish, strides
from fairway.workloads.hosting.fleet.capacity import Capacity
from fairway.workloads.hosting.fleet.facts import host_key
from fairway.workloads.hosting.plugins.add_on_healthy import NAME as ADD_ON
from fairway.workloads.hosting.plugins.available import NAME as AVAILABLE
from fairway.workloads.hosting.plugins.capacity_known import NAME as CAPACITY_KNOWN
from fairway.workloads.hosting.plugins.hosting_claim import hosting_rows
from fairway.workloads.hosting.plugins.not_full import NAME as NOT_FULL
from fairway.workloads.hosting.plugins.policy_member import NAME as MEMBER
from fairway.workloads.hosting.plugins.room import NAME as ROOM
from fairway.workloads.hosting.plugins.row import cluster_at
from fairway.workloads.hosting.plugins.tenant_quota import NAME as TENANT_QUOTA
from fairway.workloads.hosting.profile import without_quiet_hours
from fairway.workloads.hosting.requests.demand import SIZES, Demand, slots_worth
from fairway.workloads.hosting.resources import DIMENSIONS, HOSTED, MEMORY, MILLI, SLOTS, describe_amount
from fairway.workloads.hosting.state import HostingState
from fairway.workloads.hosting.workload import HostingSpec

MOST_CHANGES: Final = 8
MOST_OF_HOSTS: Final = 4

SMALLER: Final = "spec.size: {size}"
ONE_REPLICA: Final = "spec.availability: SingleReplica"
WITHOUT: Final = "spec.constraints without {field}"
FREED: Final = "one hosted cluster less on {host}"
MORE_ROOM: Final = "{amounts} more on {host}"
ONE_SLOT: Final = "1 slot of size {size}"
MEBIBYTE: Final = (1 << 20) * MILLI
HOST_CHANGES: Final = {
    AVAILABLE: "{host} becomes available",
    CAPACITY_KNOWN: "{host} publishes its load",
    NOT_FULL: "{host} is no longer full",
    ADD_ON: "the hypershift add-on of {host} becomes available",
    MEMBER: "{host} joins a cluster set of the policy",
}

_FIELDS: Final = ("platforms", "regions", "architectures", "minVersion", "minZones", "selector", "placement")


def changes_that_fit(state: HostingState, workload: Workload[HostingSpec], *, now: Micros) -> tuple[str, ...]:
    """Return at most eight changes; none if the request is invalid or no single change is enough."""
    return finish(changes_in_steps(state, workload, now=now))


def changes_in_steps(
    state: HostingState, workload: Workload[HostingSpec], *, now: Micros
) -> Steps[tuple[str, ...]]:
    """Return the same in steps of one cycle, or of some hosts. Between them ``state`` may change: each change that is
    returned was enough at the moment when it was tried."""
    if workload.spec.problem:
        return ()
    profile = without_quiet_hours(state.profile)
    enough: list[str] = []
    for words, changed in _requests(workload.spec.request):
        yield
        if _fits(state, changed, profile, now):
            enough.append(words)
    yield
    outcome = cycle.run(state.snapshot(), workload, profile, now=now)
    if outcome.status.plugin == TENANT_QUOTA:
        return tuple(enough[:MOST_CHANGES])  # no change of a host is enough
    of_hosts: list[str] = []
    rejecting = yield from _rejecting(outcome)
    for rows in strides(sorted(rejecting.items())):
        yield
        of_hosts += _of_hosts(state, workload, outcome, rows)
        if len(of_hosts) >= MOST_OF_HOSTS:
            break
    return tuple([*enough, *of_hosts[:MOST_OF_HOSTS]][:MOST_CHANGES])


def _rejecting(outcome: Outcome) -> Steps[dict[int, list[str]]]:
    """Return by hosting cluster all filters that reject it, and not only the first one."""
    hosting = hosting_rows(clusters_of(outcome.snapshot))
    rejecting: dict[int, list[str]] = {}
    for calls in outcome.plugins.filters:
        yield
        status, passed = cycle.filter_rows(outcome.context, calls, hosting, whole_fleet=True)
        for row in () if status.aborts else bitmap.rows_of(hosting & ~passed).tolist():
            rejecting.setdefault(row, []).append(calls.plugin.name)
    return rejecting


def _fits(state: HostingState, request: HostedClusterRequest, profile: Profile, now: Micros) -> bool:
    outcome = cycle.run(state.snapshot(), state.workload_of(request), profile, now=now)
    return bool(len(outcome.selected_rows)) and not outcome.status.aborts


def _requests(request: HostedClusterRequest) -> Iterator[tuple[str, HostedClusterRequest]]:
    spec = request.spec
    if spec.demand is None and spec.size in SIZES:
        worth = slots_worth(SIZES[spec.size])
        for size in sorted(SIZES, key=lambda name: -slots_worth(SIZES[name])):
            if slots_worth(SIZES[size]) < worth:
                yield SMALLER.format(size=size), _with(request, size=size)
    if spec.demand is None and not spec.availability:
        yield ONE_REPLICA, _with(request, availability=SINGLE_REPLICA)
    empty = HostingConstraints()
    for field in _FIELDS:
        if getattr(spec.constraints, field) != getattr(empty, field):
            relaxed = structs.replace(spec.constraints, **{field: getattr(empty, field)})
            yield WITHOUT.format(field=field), _with(request, constraints=relaxed)


def _with(request: HostedClusterRequest, **changes: object) -> HostedClusterRequest:
    return structs.replace(request, spec=structs.replace(request.spec, **changes))


def _of_hosts(
    state: HostingState,
    workload: Workload[HostingSpec],
    outcome: Outcome,
    rows: Iterable[tuple[int, list[str]]],
) -> Iterator[str]:
    """Yield a change of each host that only one plugin rejects."""
    context = outcome.context
    for row, rejecting in rows:
        name = outcome.snapshot.hosts.names[row]
        if rejecting == [ROOM]:
            yield _room(state, workload, context, row)
        elif len(rejecting) == 1 and rejecting[0] in HOST_CHANGES and rejecting[0] != CAPACITY_KNOWN:
            yield HOST_CHANGES[rejecting[0]].format(host=name)
        elif set(rejecting) == {CAPACITY_KNOWN, ROOM}:
            yield HOST_CHANGES[CAPACITY_KNOWN].format(host=name)


def _room(state: HostingState, workload: Workload[HostingSpec], context: Context, row: int) -> str:
    host = host_key(cluster_at(context, row))
    asked, left = state.amounts_on(workload, host), state.free(host)
    short = {
        resource: asked[resource] - max(0, left.get(resource, 0))
        for resource in DIMENSIONS
        if asked.get(resource, 0) > max(0, left.get(resource, 0))
    }
    if set(short) == {HOSTED}:
        return FREED.format(host=host)
    amounts = " and ".join(
        _amount(state, workload.spec.need, host, resource, amount) for resource, amount in short.items()
    )
    return MORE_ROOM.format(amounts=amounts, host=host)


def _amount(state: HostingState, need: Demand, host: HostKey, resource: str, amount: int) -> str:
    """Return what is missing, in words. A size of which free slots are published is short of one of these."""
    facts = state.facts.get(host.name)
    capacity = None if facts is None else facts.capacity
    if resource == SLOTS and isinstance(capacity, Capacity) and capacity.slot_share(need.slots_score):
        return ONE_SLOT.format(size=need.size)
    # Rounded up to a whole mebibyte, because less would not be enough.
    if resource == MEMORY:
        amount = -(-amount // MEBIBYTE) * MEBIBYTE
    return describe_amount(resource, amount)
