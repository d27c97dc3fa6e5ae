"""A HostedClusterRequest as a workload of the engine."""

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Final

from fairway.api.hosted_request import CONFIRMED, DEFAULT_NAMESPACE, DEFAULT_POLICY, HostedClusterRequest
from fairway.api.placement import ClusterPredicate, Placement, PlacementSpec
from fairway.engine.workload import HostKey, ResourceList, Workload, WorkloadKey, checked_resources
from fairway.hosts.clusters.promises import is_counted, place_of
from fairway.hosts.instant import Micros, to_micros
from fairway.workloads.hosting.fleet.tenant_usage import Claimant
from fairway.workloads.hosting.requests.conditions import (
    AVAILABLE,
    CONFIRMED_CONDITION,
    HOST_AVAILABLE,
    LOSSES,
)
from fairway.workloads.hosting.requests.demand import CUSTOM, Demand, DemandError, demand_of
from fairway.workloads.hosting.resources import HOSTED, MILLI, MOST_OF_ONE, SLOTS, from_quantities
from fairway.workloads.hosting.rules.host_namespaces import control_plane_namespace, derived_namespace
from fairway.workloads.hosting.rules.permits import WRITTEN_BY_HYPERSHIFT, NotPermitted
from fairway.workloads.hosting.rules.policy import Policy, PolicyError, find_policy, policy_for
from fairway.workloads.hosting.rules.refusals import RefusedContentError, avoided_hosts, check_not_refused
from fairway.workloads.hosting.rules.template import as_accepted, with_template
from fairway.workloads.hosting.rules.tenancy import TenancyError
from fairway.workloads.placement.plugins.work_budget import OF_REQUEST
from fairway.workloads.placement.workload import PlacementWorkload
from kubewire.api.meta import (
    FALSE,
    TRUE,
    Condition,
    ObjectMeta,
    find_condition,
    format_time,
    unreadable_within,
)
from kubewire.api.quantity import QuantityError

NO_PLACEMENT: Final = (
    "spec.constraints.placement: there is no Placement {namespace}/{name}; create it, or remove the field"
)
UNREADABLE: Final = "{field} cannot be read: {reason}"

Placements = Mapping[tuple[str, str], Placement]


MOVE_TO: Final = "fairway.dev/move-to"
"""Annotation of a request: the hosting cluster to which a person approved to move it."""
MOVE_PLAN: Final = "fairway.dev/move-plan"
"""Annotation: hash of the approved plan."""
RECOVER_FROM: Final = "fairway.dev/recover-from"
"""Annotation: the loss of a hosting cluster from which a person approved to recover the request."""
ADOPTS: Final = "fairway.dev/adopts"
"""Annotation: host, namespace and name of the existing HostedCluster for which the request was created."""
NOT_ADOPTED: Final = (
    "the request is for the existing hosted cluster {adopts}, and its adoption is not finished: repeat fairway hosting "
    "adopt --apply, or delete the request; without the annotation fairway.dev/adopts it is placed as a new one"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostingSpec:
    """What the plugins read of a request."""

    request: HostedClusterRequest = field(compare=False)
    """With the defaults of the policy's template. Its metadata and status are from when it was queued."""
    source: tuple[object, ...] = ()
    """What the decision depends on besides hosts: equal sources mean equal requests."""
    policy: Policy = field(default_factory=Policy)
    demand: Demand | None = None
    tenant: str = ""
    claimant: Claimant = field(default=Claimant(DEFAULT_POLICY, "", ""), compare=False)
    priority: int = 0
    is_placed: bool = False
    is_displaced: bool = False
    """Whether its hosting cluster was lost: the room that is kept for the failure of a host is for it."""
    namespace: str = ""
    """On the host: the one that the request has there, else the one that it would get."""
    avoided: Mapping[HostKey, str] = field(default_factory=dict)
    """What hosts reported that refused it for a reason of their own, until it is tried there again."""
    target: str = ""
    """The only host that an approved move allows; empty for any."""
    selection: PlacementWorkload | None = field(default=None, compare=False)
    """The request's Placement, or one with its own selector and tolerations."""
    in_sets: bool = False
    """Whether the cluster sets of the Placement count."""
    problem: str = ""
    """Why the request cannot be placed at all; only a change of an object that it names helps."""

    def __deepcopy__(self, memo: dict[int, object]) -> "HostingSpec":
        """Return the copy that a third-party plugin gets. Read-only mappings cannot be copied, and need not be."""
        memo |= {id(shared): shared for shared in (self.demand, self.selection)}
        return HostingSpec(
            **{field.name: deepcopy(getattr(self, field.name), memo) for field in fields(self)}
        )

    @property
    def need(self) -> Demand:
        assert self.demand is not None
        return self.demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A request with a place on a host: in its status on the hub, or reserved by a decision."""

    key: WorkloadKey
    host: HostKey
    claimant: Claimant
    """From what its tenant follows."""
    amounts: ResourceList
    demand: Demand | None
    """None if it cannot be determined any more."""
    phase: str
    counted: bool
    """Whether the telemetry of the host certainly includes it."""
    confirmed: Micros | None
    """When the host reported the HostedCluster."""
    available: Micros | None
    """When its control plane became available, as far as the host reports that."""
    objects: frozenset[tuple[str, str, str, str]]
    """What it creates on the host: kind, namespace, name and source."""


def objects_of(request: HostedClusterRequest, namespace: str) -> frozenset[tuple[str, str, str, str]]:
    """Return kind, namespace, name and source of the objects that a request creates in a namespace of its host.

    Two requests can share a Secret of one namespace of the hub, and their own namespace on the host, and nothing else.
    """
    meta = request.metadata
    name = hosted_cluster_name(request)
    own = meta.namespace if namespace == derived_namespace(meta.namespace) else ""
    return frozenset(
        {
            ("Namespace", "", namespace, own),
            ("Namespace", "", control_plane_namespace(namespace, name), meta.uid),
            ("HostedCluster", namespace, name, meta.uid),
            *(
                ("Secret", namespace, pattern.format(name=name), meta.uid)
                for pattern in WRITTEN_BY_HYPERSHIFT
            ),
            *(("NodePool", namespace, pool.name, meta.uid) for pool in request.spec.nodePools),
            *(("Secret", namespace, secret.name, meta.namespace) for secret in request.spec.secrets),
        }
    )


def key_of(request: HostedClusterRequest) -> WorkloadKey:
    meta = request.metadata
    return WorkloadKey.of(meta)


def approved_target(request: HostedClusterRequest) -> str:
    """Return the hosting cluster to which the request may move; empty if no move is approved."""
    return request.metadata.annotations.get(MOVE_TO, "")


def loss_of(request: HostedClusterRequest) -> str:
    """Return what identifies the loss of the request's hosting cluster; empty if none is recorded.

    A host that returned meanwhile has another loss, so that an approval of the one before does not apply.
    """
    place, condition = place_of(request), _loss_condition(request)
    if place is None or condition is None or condition.lastTransitionTime is None:
        return ""
    return f"{place.uid}@{format_time(condition.lastTransitionTime)}"


def is_adopted(request: HostedClusterRequest) -> bool:
    """Return whether a request follows a hosted cluster that existed before it."""
    return request.status.accepted is not None and request.status.accepted.adopted


def is_recovery_approved(request: HostedClusterRequest) -> bool:
    loss = loss_of(request)
    return bool(loss) and request.metadata.annotations.get(RECOVER_FROM) == loss


def was_confirmed(request: HostedClusterRequest) -> bool:
    """Return whether a host has reported the HostedCluster in its present place, also if that host is lost now."""
    condition = find_condition(request.status.conditions, CONFIRMED_CONDITION)
    return request.status.phase == CONFIRMED or (condition is not None and condition.status == TRUE)


def _loss_condition(request: HostedClusterRequest) -> Condition | None:
    condition = find_condition(request.status.conditions, HOST_AVAILABLE)
    return (
        condition
        if condition is not None and condition.status == FALSE and condition.reason in LOSSES
        else None
    )


def policy_name(request: HostedClusterRequest) -> str:
    """Return the policy whose quota counts a request: the one that reserved its place, whatever the spec names now."""
    accepted = request.status.accepted
    return (accepted.policy if accepted is not None else "") or request.spec.policy or DEFAULT_POLICY


def claimant_of(request: HostedClusterRequest, policy: Policy) -> Claimant:
    namespace, asked = request.metadata.namespace, request.spec.tenant
    is_granted = asked in policy.tenancy.granted(namespace)
    return Claimant(policy.name, namespace, asked if is_granted else "")


def hosted_name(request: HostedClusterRequest) -> tuple[str, str]:
    """Return namespace and name of the HostedCluster of a request with a place.

    The namespace is recorded with the reservation, so that a later change of a policy does not move the hosted cluster.
    Earlier versions did not record it.
    """
    accepted = request.status.accepted
    if accepted is not None:
        return accepted.namespace, hosted_cluster_name(request)
    return request.spec.hostedCluster.namespace or DEFAULT_NAMESPACE, hosted_cluster_name(request)


def hosted_cluster_name(request: HostedClusterRequest) -> str:
    return request.spec.hostedCluster.name or request.metadata.name


def spec_of(
    request: HostedClusterRequest,
    *,
    policies: Mapping[str, Policy],
    placements: Placements,
    conflict: str = "",
) -> HostingSpec:
    """``conflict``: why the request's policy cannot be applied."""
    problem, demand, policy = conflict, None, Policy()
    has_place = place_of(request) is not None
    namespace = hosted_name(request)[0] if has_place else ""
    priority = 0
    try:
        policy = find_policy(policies, policy_name(request) if has_place else request.spec.policy)
        request = as_accepted(request) if has_place else with_template(request, policy.template)
        demand = demand_of(request, sizes=policy.sizes)
        if not has_place:
            namespace = policy.permits.namespace_for(request)
            policy = policy_for(request, policies)
            policy.permits.check_namespace(request, namespace, policy=policy.name)
            policy.permits.check_secret_names(request, policy=policy.name)
            policy.tenancy.check_tenant(request.metadata.namespace, request.spec.tenant)
            priority = policy.tenancy.priority_of(request)
            check_not_refused(request, policy=policy.name)
    except (PolicyError, DemandError, NotPermitted, TenancyError, RefusedContentError) as error:
        problem = problem or str(error)
    if not has_place and (adopts := request.metadata.annotations.get(ADOPTS)) is not None:
        # An adoption that was killed before it recorded the place must not create the hosted cluster a second time.
        problem = NOT_ADOPTED.format(adopts=adopts)
    if (unreadable := unreadable_within(request, "spec")) is not None:
        problem = UNREADABLE.format(field=unreadable.path, reason=unreadable.reason)
    selection, missing = _selection(request, placements)
    return HostingSpec(
        request=request,
        source=(request.spec, None if selection is None else selection.placement.spec),
        policy=policy,
        demand=demand,
        tenant=policy.tenancy.tenant_for(request.metadata.namespace, request.spec.tenant),
        claimant=claimant_of(request, policy),
        priority=priority,
        is_placed=has_place,
        is_displaced=not has_place and _loss_condition(request) is not None,
        namespace=namespace,
        target=approved_target(request),
        avoided=avoided_hosts(request),
        selection=selection,
        in_sets=bool(request.spec.constraints.placement),
        problem=problem or missing,
    )


def workload_of(spec: HostingSpec) -> Workload[HostingSpec]:
    created = spec.request.metadata.creationTimestamp
    return Workload(
        key=key_of(spec.request),
        spec=spec,
        priority=spec.priority,
        created=0 if created is None else to_micros(created),
        demand={} if spec.demand is None else spec.demand.amounts,
    )


def resident_of(request: HostedClusterRequest, *, policies: Mapping[str, Policy]) -> Resident | None:
    """Return the place that a request has; None if it has none."""
    status = request.status
    place = place_of(request)
    if place is None:
        return None
    request = as_accepted(request)
    demand: Demand | None = None
    policy = Policy(name=policy_name(request))
    with suppress(PolicyError, DemandError):
        policy = find_policy(policies, policy.name)
        demand = demand_of(request, sizes=policy.sizes)
    amounts: dict[str, int] = {} if demand is None else dict(demand.amounts)
    if status.reservation is not None:
        with suppress(QuantityError):  # if they are unreadable, what it needs counts
            # Only what was granted counts. A spec that grows afterwards must not take room that nothing granted.
            amounts = {
                resource: min(amount, MOST_OF_ONE.get(resource, amount))
                for resource, amount in from_quantities(status.reservation.amounts).items()
            }
            if demand is not None and _exceeds(demand.amounts, amounts):
                demand = Demand(size=CUSTOM, single=demand.single, amounts=checked_resources(amounts))
    return Resident(
        key=key_of(request),
        host=HostKey(place.name, place.uid),
        claimant=claimant_of(request, policy),
        amounts=checked_resources({HOSTED: MILLI, SLOTS: 1, **amounts}),
        demand=demand,
        phase=status.phase,
        counted=is_counted(request),
        confirmed=_since(request, CONFIRMED_CONDITION),
        available=_since(request, AVAILABLE),
        objects=objects_of(request, hosted_name(request)[0]),
    )


def _exceeds(demand: ResourceList, granted: ResourceList) -> bool:
    return any(amount > granted.get(resource, 0) for resource, amount in demand.items())


def resident_on(workload: Workload[HostingSpec], host: HostKey, amounts: ResourceList) -> Resident:
    """Return a resident whose place is decided, and not in its status yet."""
    return Resident(
        key=workload.key,
        host=host,
        claimant=workload.spec.claimant,
        amounts=amounts,
        demand=workload.spec.demand,
        phase="",
        counted=False,
        confirmed=None,
        available=None,
        objects=objects_of(workload.spec.request, workload.spec.namespace),
    )


def _since(request: HostedClusterRequest, condition: str) -> Micros | None:
    current = find_condition(request.status.conditions, condition)
    if current is None or current.status != TRUE or current.lastTransitionTime is None:
        return None
    return to_micros(current.lastTransitionTime)


def _selection(request: HostedClusterRequest, placements: Placements) -> tuple[PlacementWorkload | None, str]:
    """Return what restricts the hosts, or why that is unknown."""
    constraints, namespace = request.spec.constraints, request.metadata.namespace
    if constraints.placement:
        placement = placements.get((namespace, constraints.placement))
        if placement is None:
            return None, NO_PLACEMENT.format(namespace=namespace, name=constraints.placement)
        return PlacementWorkload(placement, limits=OF_REQUEST), ""
    selector = constraints.selector
    inline = PlacementSpec(
        predicates=() if selector is None else (ClusterPredicate(requiredClusterSelector=selector),),
        tolerations=constraints.tolerations,
    )
    meta = ObjectMeta(namespace=namespace, name=request.metadata.name)
    return PlacementWorkload(Placement(metadata=meta, spec=inline), limits=OF_REQUEST), ""
