"""The status of a request in each phase. All functions return a new status; conditions keep their transition times."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from msgspec import structs

from fairway.api.hosted_request import (
    BOUND,
    CONFIRMED,
    PENDING,
    PLACED,
    RELEASING,
    RESERVED,
    UNSCHEDULABLE,
    HostedClusterRequest,
    HostedClusterRequestStatus,
    HostingClusterReference,
    HostingReservation,
)
from fairway.api.hosting_policy import HostingPolicy, HostingPolicyStatus
from fairway.api.kinds import encode
from fairway.api.meta import FALSE, TRUE, UNKNOWN, Condition, find_condition, set_condition
from fairway.api.work import ManifestWork
from fairway.engine.workload import HostKey, ResourceList
from fairway.fleet.instant import SECOND, Micros, from_micros
from fairway.hosting import conditions as reasons
from fairway.hosting.capacity import Capacity
from fairway.hosting.decision import Decision
from fairway.hosting.demand import SIZES, SMALL, Demand
from fairway.hosting.policy import policy_of
from fairway.hosting.resources import HOSTED, MILLI, SLOTS, as_quantities
from fairway.hosting.state import HostingState
from fairway.hosting.work import is_control_plane_available, is_reported, refusals, work_name

ON_HOST: Final = "{host}, ranked first with {total} points"
WORK_WRITTEN: Final = "ManifestWork {namespace}/{name}"
WORK_OF_OTHERS: Final = (
    "ManifestWork {namespace}/{name} was not created for this request; it is neither changed nor deleted. Delete it, "
    "or delete this request"
)
WAITS_FOR_AGENT: Final = "{host} has not reported the HostedCluster yet"
APPLIED: Final = "{host} applied the HostedCluster"
GONE: Final = (
    "hosting cluster {host} was deleted or recreated. The hosted cluster is not created again elsewhere, because its "
    "data was there: delete this request, and create another one"
)
TOO_LATE: Final = "{host} did not report the HostedCluster within {seconds} seconds; its place is given up"
MOVE: Final = "moving from {host} to {target}, as approved"
NOT_MOVED: Final = (
    "the move to {target} is approved, but the hosted cluster has its data on {host}: back up its etcd, delete this "
    "request, and create it again with the annotation fairway.dev/move-to: {target} and the backup; or remove the "
    "annotation"
)
GIVEN_UP: Final = "the place on {host} was given up ({why}); the request is scheduled again"
IN_LOAD: Final = "the load that {host} publishes includes it"
READY: Final = "its control plane is available"
NOT_READY: Final = "its control plane does not report that it is available"

_OF_PLACE: Final = (
    reasons.BOUND_CONDITION,
    reasons.CONFIRMED_CONDITION,
    reasons.AVAILABLE,
    reasons.COUNTED,
    reasons.MOVED,
)
LONGEST: Final = 2000


def patch_of(status: HostedClusterRequestStatus | HostingPolicyStatus) -> list[dict[str, Any]]:
    """Return a JSON patch that replaces the whole status; a merge patch would keep fields of nested objects."""
    return [{"op": "add", "path": "/status", "value": encode(status)}]


def unscheduled(
    request: HostedClusterRequest, decision: Decision, *, would_fit: tuple[str, ...], now: datetime
) -> HostedClusterRequestStatus:
    reason = reasons.MISCONFIGURED if decision.misconfigured else reasons.UNSCHEDULABLE
    return structs.replace(
        _without_place(request.status),
        observedGeneration=request.metadata.generation,
        phase=UNSCHEDULABLE,
        rejections=decision.rejections,
        wouldFit=would_fit,
        conditions=_with(request, reasons.SCHEDULED, FALSE, reason, decision.message, now=now),
    )


def refused(
    request: HostedClusterRequest, *, reason: str, message: str, now: datetime
) -> HostedClusterRequestStatus:
    """A request that has no place because of something other than hosts, such as a missing Secret."""
    return structs.replace(
        request.status,
        observedGeneration=request.metadata.generation,
        phase=UNSCHEDULABLE,
        rejections=(),
        wouldFit=(),
        conditions=_with(request, reasons.SCHEDULED, FALSE, reason, message, now=now),
    )


def reserved(
    request: HostedClusterRequest,
    decision: Decision,
    host: HostKey,
    *,
    amounts: ResourceList,
    timeout: Micros,
    now: Micros,
) -> HostedClusterRequestStatus:
    since = from_micros(now // SECOND * SECOND)
    message = ON_HOST.format(host=host.name, total=decision.total)
    return HostedClusterRequestStatus(
        observedGeneration=request.metadata.generation,
        phase=RESERVED,
        hostingCluster=HostingClusterReference(name=host.name, uid=host.uid),
        manifestWork=work_name(request),
        reservation=HostingReservation(
            amounts=dict(as_quantities(amounts)),
            since=since,
            deadline=from_micros((now + timeout) // SECOND * SECOND),
        ),
        total=decision.total,
        scores=decision.scores,
        rejections=decision.rejections,
        conditions=_with(request, reasons.SCHEDULED, TRUE, reasons.RESERVED, message, now=since),
    )


def waiting(
    request: HostedClusterRequest, *, reason: str, message: str, now: datetime
) -> HostedClusterRequestStatus:
    """A request with a place whose ManifestWork is not written."""
    return structs.replace(
        request.status, conditions=_with(request, reasons.BOUND_CONDITION, FALSE, reason, message, now=now)
    )


def followed(
    request: HostedClusterRequest, work: ManifestWork, *, counted: bool, now: datetime
) -> HostedClusterRequestStatus:
    """A request whose ManifestWork is written, by what the hosting cluster reports."""
    status = request.status
    assert status.hostingCluster is not None
    host = status.hostingCluster.name
    place = WORK_WRITTEN.format(namespace=work.metadata.namespace, name=work.metadata.name)
    found = _with(request, reasons.BOUND_CONDITION, TRUE, reasons.MANIFEST_WORK_WRITTEN, place, now=now)
    confirmed = find_condition(status.conditions, reasons.CONFIRMED_CONDITION)
    was_confirmed = confirmed is not None and confirmed.status == TRUE
    if is_reported(work, request):
        found = _set(
            found,
            request,
            reasons.CONFIRMED_CONDITION,
            TRUE,
            reasons.REPORTED,
            APPLIED.format(host=host),
            now,
        )
        was_confirmed = True
        ready = is_control_plane_available(work, request)
        reason = reasons.CONTROL_PLANE_READY if ready else reasons.NOT_READY
        words = READY if ready else NOT_READY
        found = _set(found, request, reasons.AVAILABLE, TRUE if ready else FALSE, reason, words, now)
    elif not was_confirmed:
        # Once confirmed, it stays confirmed: an agent that restarts reports nothing for a while.
        problems = refusals(work)
        reason = reasons.NOT_APPLIED if problems else reasons.NOT_REPORTED
        words = "; ".join(problems)[:LONGEST] or WAITS_FOR_AGENT.format(host=host)
        found = _set(found, request, reasons.CONFIRMED_CONDITION, FALSE, reason, words, now)
    if counted and was_confirmed:
        words = IN_LOAD.format(host=host)
        found = _set(found, request, reasons.COUNTED, TRUE, reasons.IN_PUBLISHED_LOAD, words, now)
    reservation = status.reservation
    if was_confirmed and reservation is not None and reservation.deadline is not None:
        reservation = structs.replace(reservation, deadline=None)
    return structs.replace(
        status,
        observedGeneration=request.metadata.generation,
        phase=CONFIRMED if was_confirmed else BOUND,
        reservation=reservation,
        conditions=found,
    )


def move_waits(
    request: HostedClusterRequest, status: HostedClusterRequestStatus, *, target: str, now: datetime
) -> HostedClusterRequestStatus:
    """Record that an approved move of an existing hosted cluster waits; an empty ``target`` withdraws that."""
    assert status.hostingCluster is not None
    if not target or target == status.hostingCluster.name:
        kept = tuple(each for each in status.conditions if each.type != reasons.MOVED)
        return structs.replace(status, conditions=kept)
    words = NOT_MOVED.format(host=status.hostingCluster.name, target=target)
    found = _set(status.conditions, request, reasons.MOVED, FALSE, reasons.DATA_ON_HOST, words, now)
    return structs.replace(status, conditions=found)


def host_gone(request: HostedClusterRequest, *, now: datetime) -> HostedClusterRequestStatus:
    """A request whose hosting cluster was deleted after its ManifestWork was written."""
    assert request.status.hostingCluster is not None
    words = GONE.format(host=request.status.hostingCluster.name)
    found = _with(request, reasons.CONFIRMED_CONDITION, UNKNOWN, reasons.HOST_GONE, words, now=now)
    found = _set(found, request, reasons.BOUND_CONDITION, FALSE, reasons.HOST_GONE, words, now)
    return structs.replace(request.status, conditions=found)


def releasing(
    request: HostedClusterRequest, *, reason: str = "", message: str = "", now: datetime
) -> HostedClusterRequestStatus:
    """The place is being given up; it is held until the ManifestWork is deleted."""
    found = request.status.conditions
    if reason:
        found = _with(request, reasons.SCHEDULED, FALSE, reason, message, now=now)
    return structs.replace(request.status, phase=RELEASING, conditions=found)


def released(request: HostedClusterRequest, *, now: datetime) -> HostedClusterRequestStatus:
    """The place was given up, and nothing of it is left on the hub."""
    status = request.status
    scheduled = find_condition(status.conditions, reasons.SCHEDULED)
    why = "" if scheduled is None or scheduled.status != FALSE else scheduled.reason
    host = "" if status.hostingCluster is None else status.hostingCluster.name
    message = GIVEN_UP.format(host=host, why=why or reasons.HOST_GONE)
    conditions = _with(request, reasons.SCHEDULED, FALSE, reasons.RELEASED, message, now=now)
    return structs.replace(
        _without_place(status),
        phase=PENDING,
        conditions=tuple(each for each in conditions if each.type not in _OF_PLACE),
    )


def is_overdue(request: HostedClusterRequest, *, now: datetime) -> bool:
    """Return whether a reservation ended before the hosting cluster reported the HostedCluster."""
    deadline = deadline_of(request)
    return deadline is not None and deadline <= now


def deadline_of(request: HostedClusterRequest) -> datetime | None:
    """Return when the reservation ends; None once the HostedCluster is reported."""
    reservation = request.status.reservation
    if reservation is None or request.status.phase not in PLACED:
        return None
    confirmed = find_condition(request.status.conditions, reasons.CONFIRMED_CONDITION)
    if confirmed is not None and confirmed.status == TRUE:
        return None
    return reservation.deadline


def policy_status(policy: HostingPolicy, state: HostingState, *, now: datetime) -> HostingPolicyStatus:
    """What the hosting clusters of a policy carry, and how much more."""
    applied = policy_of(policy)
    hosts = unknown = hosted = pending = free = 0
    small = Demand(size=SMALL, single=False, amounts={HOSTED: MILLI, SLOTS: MILLI, **SIZES[SMALL]})
    for facts in state.facts.values():
        if policy.metadata.name not in facts.policies:
            continue
        hosts += 1
        residents = list(state.on(facts.key))
        pending += sum(each.confirmed is None for each in residents) + len(facts.promised)
        capacity = facts.capacity
        if not isinstance(capacity, Capacity):
            unknown += 1
            hosted += len(residents) + len(facts.promised)
            continue
        hosted += len(residents) + len(facts.promised) + capacity.others.get(HOSTED, 0) // MILLI
        left, asked = state.free(facts.key), capacity.amounts_for(small)
        free += min(max(0, left.get(each, 0)) // amount for each, amount in asked.items() if amount)
    conflict = state.conflict_of(applied.name)
    condition = Condition(
        type=reasons.VALID,
        status=FALSE if conflict else TRUE,
        reason=reasons.CONFLICTING if conflict else reasons.APPLIES,
        message=conflict,
        observedGeneration=policy.metadata.generation,
    )
    return HostingPolicyStatus(
        hosts=hosts,
        unknownHosts=unknown,
        hostedClusters=hosted,
        reserved=pending,
        freeSlots=min(free, 2**31 - 1),
        conditions=set_condition(policy.status.conditions, condition, now=now),
    )


def _without_place(status: HostedClusterRequestStatus) -> HostedClusterRequestStatus:
    return structs.replace(
        status,
        hostingCluster=None,
        manifestWork="",
        reservation=None,
        total=None,
        scores=(),
        rejections=(),
        wouldFit=(),
    )


def _with(
    request: HostedClusterRequest, type_: str, status: str, reason: str, message: str, *, now: datetime
) -> tuple[Condition, ...]:
    return _set(request.status.conditions, request, type_, status, reason, message, now)


def _set(
    found: Iterable[Condition],
    request: HostedClusterRequest,
    type_: str,
    status: str,
    reason: str,
    message: str,
    now: datetime,
) -> tuple[Condition, ...]:
    condition = Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message[:LONGEST],
        observedGeneration=request.metadata.generation,
    )
    return set_condition(tuple(found), condition, now=now)
