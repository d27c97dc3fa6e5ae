"""The status of a request in each phase. All functions return a new status; conditions keep their transition times."""

from collections.abc import Iterable, Mapping
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
    AcceptedRequest,
    HostedClusterRequest,
    HostedClusterRequestStatus,
    HostingClusterReference,
    HostingReservation,
)
from fairway.api.hosting_policy import HostingPolicy, HostingPolicyStatus
from fairway.api.hosting_template import HostingTemplate
from fairway.api.work import ManifestWork
from fairway.engine.workload import HostKey, ResourceList
from fairway.hosts.instant import SECOND, Micros, from_micros, to_micros
from fairway.hosts.steps import Steps, strides
from fairway.workloads.hosting.decision import Decision
from fairway.workloads.hosting.fleet.outages import Outage
from fairway.workloads.hosting.planning.report import report_of, sizes_of
from fairway.workloads.hosting.requests import conditions
from fairway.workloads.hosting.requests.demand import SMALL, Demand, size_name
from fairway.workloads.hosting.requests.work import (
    carries,
    control_plane_availability,
    is_owned,
    is_reported,
    work_name,
)
from fairway.workloads.hosting.resources import as_quantities
from fairway.workloads.hosting.rules.host_namespaces import overlapping
from fairway.workloads.hosting.rules.policy import Policy, policy_of
from fairway.workloads.hosting.rules.refusals import (
    Refusal,
    are_applied,
    is_conflict,
    refused_manifests,
    with_refusal,
    without_due,
)
from fairway.workloads.hosting.rules.template import as_accepted
from fairway.workloads.hosting.state import HostingState
from fairway.workloads.hosting.workload import is_adopted, was_confirmed
from kubewire.api.encoding import encode
from kubewire.api.meta import FALSE, TRUE, UNKNOWN, Condition, find_condition, set_condition

ON_HOST: Final = "{host}, ranked first with {total} points"
WORK_WRITTEN: Final = "ManifestWork {namespace}/{name}"
WORK_OF_OTHERS: Final = (
    "ManifestWork {namespace}/{name} was not created for this request; it is neither changed nor deleted. Delete it, "
    "or delete this request"
)
WORK_DELETING: Final = (
    "an earlier ManifestWork {namespace}/{name} is being deleted; a new one is created when the agent of the hosting "
    "cluster has finished"
)
EXISTED: Final = "the hosted cluster existed on {host} before this request, which follows it"
FOLLOWED_BY_WORK: Final = "ManifestWork {namespace}/{name} carries it; Fairway does not change it"
FOLLOWED_WITHOUT_WORK: Final = (
    "no ManifestWork carries it: it was created on {host}, and the hub sees nothing of it"
)
NO_LONGER_CARRIED: Final = (
    "ManifestWork {namespace}/{name} no longer carries it; it is not created again. If the hosted cluster is deleted, "
    "delete this request"
)
WAITS_FOR_AGENT: Final = "{host} has not reported the HostedCluster yet"
APPLIED: Final = "{host} applied the HostedCluster"
ALL_APPLIED: Final = "{host} applied all objects of the request"
REFUSED: Final = "{host} refused what the request creates, and its place is given up: {message}"
GONE: Final = (
    "hosting cluster {host} was deleted or recreated. The hosted cluster is not created again elsewhere by itself, "
    "because its data was there"
)
HOST_BACK: Final = "{host} is available again"
HOST_OUT: Final = "{host} {outage}. {remedy}"
WAITS_FOR_HOST: Final = "The hosted cluster keeps its place, because its data is there"
WAITS_FOR_LOSS: Final = "If {host} is lost, the request is placed again"
PLACED_AGAIN: Final = "It has not reported the hosted cluster: the request is placed again"
NOT_RECREATED: Final = (
    "The data of the hosted cluster is there, and policy {policy} does not permit to create it again elsewhere "
    "(hostLoss.recreate): wait for {host}, or delete this request and create another one"
)
RECREATED: Final = (
    "The data of the hosted cluster is there. To give it up, and create the hosted cluster again elsewhere, empty: "
    "fairway hosting recover {host}"
)
HELD: Final = (
    "ManifestWork {host}/{work} waits for the agent of {host}, which may have created the hosted cluster. If {host} "
    "does not return: fairway hosting recover {host}, once it counts as lost; or remove it from the hub (kubectl "
    "delete managedcluster {host} --wait=false), and then: fairway join forget {host}"
)
LOST_EARLY: Final = "{host} was lost before it reported the HostedCluster; its place is given up"
RECOVERY: Final = "{host} is lost; the hosted cluster is created again elsewhere, as approved"
TOO_LATE: Final = "{host} did not report the HostedCluster within {seconds} seconds; its place is given up"
MOVE: Final = "moving from {host} to {target}, as approved"
NOT_MOVED: Final = (
    "the move to {target} is approved, but the hosted cluster has its data on {host}: back up its etcd, delete this "
    "request, and create it again with the annotation fairway.dev/move-to: {target} and the backup; or remove the "
    "annotation"
)
NOT_MOVED_ADOPTED: Final = (
    "the move to {target} is approved, but the hosted cluster has its data on {host}, and Fairway did not create it: "
    "back up its etcd, delete it where it was created, then this request, and create it again with the annotation "
    "fairway.dev/move-to: {target} and the backup; or remove the annotation"
)
LOST_ADOPTED: Final = (
    "Fairway did not create the hosted cluster, and does not create it again: do that where it was created, and delete "
    "this request"
)
GIVEN_UP: Final = "the place on {host} was given up ({why}); the request is scheduled again"
IN_LOAD: Final = "the load that {host} publishes includes it"
READY: Final = "its control plane is available"
NOT_READY: Final = "its control plane does not report that it is available"

_OF_PLACE: Final = (
    conditions.BOUND_CONDITION,
    conditions.CONFIRMED_CONDITION,
    conditions.APPLIED_CONDITION,
    conditions.AVAILABLE,
    conditions.COUNTED,
    conditions.MOVED,
)
_REACHED: Final = (
    conditions.SCHEDULED,
    conditions.BOUND_CONDITION,
    conditions.APPLIED_CONDITION,
    conditions.CONFIRMED_CONDITION,
    conditions.AVAILABLE,
)
_STEPS: Final = (conditions.HOST_AVAILABLE, *_REACHED, conditions.MOVED)
LISTED_IN_VAIN: Final = (
    "permits.hostNamespaces: {pattern} matches namespaces of {protected}, which are protected: no request gets them; "
    "write names or beginnings that match none of these"
)
LONGEST: Final = 2000


def patch_of(status: HostedClusterRequestStatus | HostingPolicyStatus) -> list[dict[str, Any]]:
    """Return a JSON patch that replaces the whole status; a merge patch would keep fields of nested objects."""
    return [{"op": "add", "path": "/status", "value": encode(status)}]


def summarize(
    request: HostedClusterRequest, status: HostedClusterRequestStatus
) -> HostedClusterRequestStatus:
    """Return a status with the fields that summarise it for a table: size, reason and message."""
    shown = _most_important(status)
    return structs.replace(
        status,
        size=size_name(request),
        reason="" if shown is None else shown.reason,
        message="" if shown is None else shown.message,
    )


def _most_important(status: HostedClusterRequestStatus) -> Condition | None:
    """Return the first condition in the order of the steps that is not True; if all are, that of the last step."""
    known = [
        condition for type_ in _STEPS if (condition := find_condition(status.conditions, type_)) is not None
    ]
    if (failed := next((condition for condition in known if condition.status != TRUE), None)) is not None:
        return failed
    # HostAvailable is no step: once it is True, the last step says more.
    return next((condition for condition in reversed(known) if condition.type in _REACHED), None)


def unscheduled(
    request: HostedClusterRequest, decision: Decision, *, would_fit: tuple[str, ...], now: datetime
) -> HostedClusterRequestStatus:
    return structs.replace(
        _without_place(request.status),
        observedGeneration=request.metadata.generation,
        phase=UNSCHEDULABLE,
        rejections=decision.rejections,
        wouldFit=would_fit,
        conditions=_with(request, conditions.SCHEDULED, FALSE, decision.reason, decision.message, now=now),
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
        conditions=_with(request, conditions.SCHEDULED, FALSE, reason, message, now=now),
    )


def reserved(
    request: HostedClusterRequest,
    decision: Decision,
    host: HostKey,
    *,
    namespace: str,
    policy: str,
    template: HostingTemplate | None,
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
        accepted=AcceptedRequest(namespace=namespace, policy=policy, template=template),
        refusals=request.status.refusals,
        total=decision.total,
        scores=decision.scores,
        rejections=decision.rejections,
        conditions=tuple(
            condition
            for condition in _with(
                request, conditions.SCHEDULED, TRUE, conditions.RESERVED, message, now=since
            )
            if condition.type != conditions.HOST_AVAILABLE
        ),
    )


def adopted(
    request: HostedClusterRequest,
    host: HostKey,
    *,
    namespace: str,
    policy: str,
    work: ManifestWork | None,
    amounts: ResourceList,
    counted: bool,
    since: datetime,
    now: datetime,
) -> HostedClusterRequestStatus:
    """A request for a hosted cluster that exists on a host. ``since``: when the host reported it, or it was created."""
    now = now.replace(microsecond=0)
    words = EXISTED.format(host=host.name)
    set_ = _with(request, conditions.SCHEDULED, TRUE, conditions.ADOPTED, words, now=now)
    # It exists: a Confirmed condition that came later would let the place be given up, as one that was never reported.
    words = APPLIED.format(host=host.name)
    set_ = _set(
        set_,
        request,
        conditions.CONFIRMED_CONDITION,
        TRUE,
        conditions.REPORTED,
        words,
        min(since, now).replace(microsecond=0),
    )
    status = HostedClusterRequestStatus(
        observedGeneration=request.metadata.generation,
        phase=CONFIRMED,
        hostingCluster=HostingClusterReference(name=host.name, uid=host.uid),
        manifestWork="" if work is None else work.metadata.name,
        reservation=HostingReservation(amounts=dict(as_quantities(amounts)), since=now),
        accepted=AcceptedRequest(namespace=namespace, policy=policy, adopted=True),
        conditions=set_,
    )
    return adopted_followed(structs.replace(request, status=status), work, counted=counted, now=now)


def adopted_followed(
    request: HostedClusterRequest, work: ManifestWork | None, *, counted: bool, now: datetime
) -> HostedClusterRequestStatus:
    """An adopted request, by what its ManifestWork reports. Whatever that is, it keeps its place."""
    status = request.status
    assert status.hostingCluster is not None
    host, name = status.hostingCluster.name, status.manifestWork
    changed = status.conditions
    follows = (
        work is not None
        and work.metadata.deletionTimestamp is None
        and is_owned(work, request)
        and carries(work, request)
    )
    if name and not follows:
        words = NO_LONGER_CARRIED.format(namespace=host, name=name)
        changed = _set(
            changed, request, conditions.BOUND_CONDITION, FALSE, conditions.MANIFEST_WORK_GONE, words, now
        )
    else:
        words = FOLLOWED_BY_WORK if name else FOLLOWED_WITHOUT_WORK
        words = words.format(host=host, namespace=host, name=name)
        changed = _set(changed, request, conditions.BOUND_CONDITION, TRUE, conditions.ADOPTED, words, now)
    if work is not None and (ready := control_plane_availability(work, request)):
        reason = conditions.CONTROL_PLANE_READY if ready == TRUE else conditions.NOT_READY
        words = READY if ready == TRUE else NOT_READY
        changed = _set(
            changed, request, conditions.AVAILABLE, TRUE if ready == TRUE else FALSE, reason, words, now
        )
    if counted:
        words = IN_LOAD.format(host=host)
        changed = _set(changed, request, conditions.COUNTED, TRUE, conditions.IN_PUBLISHED_LOAD, words, now)
    return structs.replace(status, observedGeneration=request.metadata.generation, conditions=changed)


def waiting(
    request: HostedClusterRequest, *, reason: str, message: str, now: datetime
) -> HostedClusterRequestStatus:
    """A request with a place whose ManifestWork is not written."""
    return structs.replace(
        request.status, conditions=_with(request, conditions.BOUND_CONDITION, FALSE, reason, message, now=now)
    )


def followed(
    request: HostedClusterRequest, work: ManifestWork, *, counted: bool, now: datetime
) -> HostedClusterRequestStatus:
    """A request whose ManifestWork is written, by what the hosting cluster reports."""
    status = request.status
    assert status.hostingCluster is not None
    host = status.hostingCluster.name
    place = WORK_WRITTEN.format(namespace=work.metadata.namespace, name=work.metadata.name)
    changed = _with(
        request, conditions.BOUND_CONDITION, TRUE, conditions.MANIFEST_WORK_WRITTEN, place, now=now
    )
    confirmed = find_condition(status.conditions, conditions.CONFIRMED_CONDITION)
    confirmed_once = confirmed is not None and confirmed.status == TRUE
    problems = refused_manifests(work)
    if problems:
        reason = conditions.CONFLICT if all(map(is_conflict, problems)) else conditions.NOT_APPLIED
        words = "; ".join(problems)
        changed = _set(changed, request, conditions.APPLIED_CONDITION, FALSE, reason, words, now)
    elif are_applied(work):
        words = ALL_APPLIED.format(host=host)
        changed = _set(
            changed, request, conditions.APPLIED_CONDITION, TRUE, conditions.ALL_APPLIED, words, now
        )
    if is_reported(work, request):
        changed = _set(
            changed,
            request,
            conditions.CONFIRMED_CONDITION,
            TRUE,
            conditions.REPORTED,
            APPLIED.format(host=host),
            now,
        )
        confirmed_once = True
        ready = control_plane_availability(work, request) == TRUE
        reason = conditions.CONTROL_PLANE_READY if ready else conditions.NOT_READY
        words = READY if ready else NOT_READY
        changed = _set(changed, request, conditions.AVAILABLE, TRUE if ready else FALSE, reason, words, now)
    elif not confirmed_once:
        # Once confirmed, it stays confirmed: an agent that restarts reports nothing for a while.
        reason = conditions.NOT_APPLIED if problems else conditions.NOT_REPORTED
        words = "; ".join(problems)[:LONGEST] or WAITS_FOR_AGENT.format(host=host)
        changed = _set(changed, request, conditions.CONFIRMED_CONDITION, FALSE, reason, words, now)
    if counted and confirmed_once:
        words = IN_LOAD.format(host=host)
        changed = _set(changed, request, conditions.COUNTED, TRUE, conditions.IN_PUBLISHED_LOAD, words, now)
    reservation = status.reservation
    if confirmed_once and reservation is not None and reservation.deadline is not None:
        reservation = structs.replace(reservation, deadline=None)
    return structs.replace(
        status,
        observedGeneration=request.metadata.generation,
        phase=CONFIRMED if confirmed_once else BOUND,
        reservation=reservation,
        refusals=() if confirmed_once else status.refusals,
        conditions=changed,
    )


def move_waits(
    request: HostedClusterRequest, status: HostedClusterRequestStatus, *, target: str, now: datetime
) -> HostedClusterRequestStatus:
    """Record that an approved move of an existing hosted cluster waits; an empty ``target`` withdraws that."""
    assert status.hostingCluster is not None
    if not target or target == status.hostingCluster.name:
        kept = tuple(condition for condition in status.conditions if condition.type != conditions.MOVED)
        return structs.replace(status, conditions=kept)
    text = NOT_MOVED_ADOPTED if is_adopted(request) else NOT_MOVED
    words = text.format(host=status.hostingCluster.name, target=target)
    changed = _set(status.conditions, request, conditions.MOVED, FALSE, conditions.DATA_ON_HOST, words, now)
    return structs.replace(status, conditions=changed)


def host_gone(request: HostedClusterRequest, *, now: datetime) -> HostedClusterRequestStatus:
    """A request whose hosting cluster was deleted after its ManifestWork was written."""
    assert request.status.hostingCluster is not None
    words = GONE.format(host=request.status.hostingCluster.name)
    changed = _with(request, conditions.CONFIRMED_CONDITION, UNKNOWN, conditions.HOST_GONE, words, now=now)
    changed = _set(changed, request, conditions.BOUND_CONDITION, FALSE, conditions.HOST_GONE, words, now)
    return structs.replace(request.status, conditions=changed)


def with_host(
    request: HostedClusterRequest, outage: Outage | None, *, policy: Policy, held: bool, now: datetime
) -> HostedClusterRequestStatus:
    """Record whether the hosting cluster of a request is available. Only outages, and their end, are written.

    ``held``: whether the ManifestWork is being deleted, and waits for an agent.
    """
    status = request.status
    assert status.hostingCluster is not None
    host = status.hostingCluster.name
    old = find_condition(status.conditions, conditions.HOST_AVAILABLE)
    if outage is None:
        if old is None:
            return status
        words = HOST_BACK.format(host=host)
        changed = _with(request, conditions.HOST_AVAILABLE, TRUE, conditions.HOST_REPORTS, words, now=now)
        return structs.replace(status, conditions=changed)
    micros = to_micros(now)
    lost = outage.is_lost(policy.lost_after, now=micros)
    if held:
        remedy = HELD.format(host=host, work=work_name(request))
    elif not was_confirmed(request):
        remedy = (PLACED_AGAIN if lost else WAITS_FOR_LOSS).format(host=host)
    elif not lost:
        remedy = WAITS_FOR_HOST
    elif is_adopted(request):
        remedy = LOST_ADOPTED
    else:
        remedy = (RECREATED if policy.recreates else NOT_RECREATED).format(host=host, policy=policy.name)
    words = HOST_OUT.format(host=host, outage=outage.describe(policy.lost_after, now=micros), remedy=remedy)
    reason = _outage_reason(outage, lost=lost)
    began = outage.since.replace(microsecond=0) if outage.since is not None and outage.since <= now else None
    since = began or now
    recorded = None if old is None else old.lastTransitionTime
    if began is not None and recorded is not None and recorded < began:
        # It was available in between, unseen: an approval of the outage before must not apply to this one.
        kept = tuple(
            condition for condition in status.conditions if condition.type != conditions.HOST_AVAILABLE
        )
        request = structs.replace(request, status=structs.replace(status, conditions=kept))
    changed = _with(request, conditions.HOST_AVAILABLE, FALSE, reason, words, now=since)
    return structs.replace(status, conditions=changed)


def _outage_reason(outage: Outage, *, lost: bool) -> str:
    if outage.is_deleted:
        return conditions.HOST_GONE
    if outage.is_deleting:
        return conditions.HOST_DELETING
    return conditions.HOST_LOST if lost else conditions.HOST_UNAVAILABLE


def releasing(
    request: HostedClusterRequest, *, reason: str = "", message: str = "", now: datetime
) -> HostedClusterRequestStatus:
    """The place is being given up; it is held until the ManifestWork is deleted."""
    changed = request.status.conditions
    if reason:
        changed = _with(request, conditions.SCHEDULED, FALSE, reason, message, now=now)
    return structs.replace(request.status, phase=RELEASING, conditions=changed)


def refused_on_host(
    request: HostedClusterRequest, refusal: Refusal, *, host: HostKey, now: datetime
) -> HostedClusterRequestStatus:
    """A request whose hosting cluster will not create the hosted cluster: its place is being given up."""
    message = REFUSED.format(host=host.name, message=refusal.message)
    refusals = with_refusal(as_accepted(request), refusal, host=host, now=now)
    status = releasing(request, reason=conditions.REFUSED, message=message, now=now)
    return structs.replace(status, refusals=refusals)


def retried(request: HostedClusterRequest, *, now: datetime) -> HostedClusterRequestStatus:
    """A request without a place, whose due refusals no longer keep it from hosting clusters."""
    return structs.replace(request.status, refusals=without_due(request.status.refusals, now=now))


def released(request: HostedClusterRequest, *, now: datetime) -> HostedClusterRequestStatus:
    """The place was given up, and nothing of it is left on the hub."""
    status = request.status
    scheduled = find_condition(status.conditions, conditions.SCHEDULED)
    why = "" if scheduled is None or scheduled.status != FALSE else scheduled.reason
    host = "" if status.hostingCluster is None else status.hostingCluster.name
    message = GIVEN_UP.format(host=host, why=why or conditions.HOST_GONE)
    updated = _with(request, conditions.SCHEDULED, FALSE, conditions.RELEASED, message, now=now)
    return structs.replace(
        _without_place(status),
        phase=PENDING,
        conditions=tuple(
            condition
            for condition in updated
            if condition.type not in _OF_PLACE
            # That its host was lost entitles the request to the room that is kept for this.
            and (condition.type != conditions.HOST_AVAILABLE or condition.reason in conditions.LOSSES)
        ),
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
    confirmed = find_condition(request.status.conditions, conditions.CONFIRMED_CONDITION)
    if confirmed is not None and confirmed.status == TRUE:
        return None
    return reservation.deadline


def policy_status(policy: HostingPolicy, state: HostingState, *, now: datetime) -> Steps[HostingPolicyStatus]:
    """What the hosting clusters of a policy carry, and how much more."""
    applied = policy_of(policy)
    covered = [facts for facts in state.facts.values() if applied.name in facts.policies]
    hosted = reserved = unknown = free = 0
    sizes: dict[tuple[str, ...], Mapping[str, Demand]] = {}
    # The numbers of `fairway hosting capacity`, added up. A host that changes between two steps changes the status
    # again.
    for some in strides(covered):
        yield
        for facts in some:
            if facts.policies not in sizes:
                sizes[facts.policies] = {SMALL: sizes_of(state, facts)[SMALL]}
            report = report_of(state, facts, now=to_micros(now), sizes=sizes[facts.policies])
            hosted += (report.hosted or 0) + report.reserved
            reserved += report.reserved
            unknown += report.hosted is None
            free += report.slots[SMALL]
    conflict, protected = state.conflict_of(applied.name), _protected(applied)
    reason = conditions.PROTECTED_NAMESPACE if protected else conditions.APPLIES
    condition = Condition(
        type=conditions.VALID,
        status=FALSE if conflict or protected else TRUE,
        reason=conditions.CONFLICTING if conflict else reason,
        message=conflict or protected,
        observedGeneration=policy.metadata.generation,
    )
    return HostingPolicyStatus(
        hosts=len(covered),
        unknownHosts=unknown,
        hostedClusters=hosted,
        reserved=reserved,
        freeSlots=min(free, 2**31 - 1),
        conditions=set_condition(policy.status.conditions, condition, now=now),
    )


def _protected(policy: Policy) -> str:
    """Return which namespaces a policy lists in vain."""
    for pattern in policy.permits.host_namespaces:
        if protected := overlapping(pattern):
            return LISTED_IN_VAIN.format(pattern=pattern, protected=protected)
    return ""


def _without_place(status: HostedClusterRequestStatus) -> HostedClusterRequestStatus:
    return structs.replace(
        status,
        hostingCluster=None,
        manifestWork="",
        reservation=None,
        accepted=None,
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
    current: Iterable[Condition],
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
    return set_condition(tuple(current), condition, now=now)
