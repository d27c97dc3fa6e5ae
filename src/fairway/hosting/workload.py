"""A HostedClusterRequest as a workload of the engine."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from fairway.api.hosted_request import DEFAULT_NAMESPACE, HostedClusterRequest
from fairway.api.meta import TRUE, ObjectMeta, find_condition, unreadable_within
from fairway.api.placement import ClusterPredicate, Placement, PlacementSpec
from fairway.api.quantity import QuantityError
from fairway.clusters.promises import is_counted, place_of
from fairway.engine.workload import HostKey, ResourceList, Workload, WorkloadKey, checked_resources
from fairway.fleet.instant import Micros, to_micros
from fairway.hosting.conditions import AVAILABLE, CONFIRMED_CONDITION
from fairway.hosting.demand import Demand, DemandError, demand_of
from fairway.hosting.policy import Policy, PolicyError, find_policy
from fairway.hosting.resources import HOSTED, MILLI, SLOTS, from_quantities
from fairway.plugins.placement_workload import PlacementWorkload

NO_PLACEMENT: Final = (
    "spec.constraints.placement: there is no Placement {namespace}/{name}; create it, or remove the field"
)
UNREADABLE: Final = "{field} cannot be read: {reason}"

Placements = Mapping[tuple[str, str], Placement]


MOVE_TO: Final = "fairway.dev/move-to"
"""Annotation of a request: the hosting cluster to which a person approved to move it."""
MOVE_PLAN: Final = "fairway.dev/move-plan"
"""Annotation: hash of the approved plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostingSpec:
    """What the plugins read of a request."""

    request: HostedClusterRequest = field(compare=False)
    """As it was when it was queued; its metadata and status may be out of date."""
    source: tuple[object, ...] = ()
    """What the decision depends on besides hosts: equal sources mean equal requests."""
    policy: Policy = field(default_factory=Policy)
    demand: Demand | None = None
    tenant: str = ""
    target: str = ""
    """The only host that an approved move allows; empty for any."""
    selection: PlacementWorkload | None = field(default=None, compare=False)
    """The request's Placement, or one with its own selector and tolerations."""
    in_sets: bool = False
    """Whether the cluster sets of the Placement count."""
    problem: str = ""
    """Why the request cannot be placed at all; only a change of an object that it names helps."""

    @property
    def need(self) -> Demand:
        assert self.demand is not None
        return self.demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A request with a place in its status on the hub."""

    key: WorkloadKey
    host: HostKey
    tenant: str
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
    deadline: Micros | None
    objects: frozenset[tuple[str, str, str, str]]
    """What it creates on the host: kind, namespace, name and source."""


def objects_of(request: HostedClusterRequest) -> frozenset[tuple[str, str, str, str]]:
    """Return kind, namespace, name and source of the objects that a request creates on its host.

    Two requests can share a Secret of one namespace of the hub, and nothing else.
    """
    namespace, name = hosted_name(request)
    meta = request.metadata
    return frozenset(
        {
            ("HostedCluster", namespace, name, meta.uid),
            *(("NodePool", namespace, each.name, meta.uid) for each in request.spec.nodePools),
            *(("Secret", namespace, each.name, meta.namespace) for each in request.spec.secrets),
        }
    )


def key_of(request: HostedClusterRequest) -> WorkloadKey:
    meta = request.metadata
    return WorkloadKey(meta.namespace, meta.name, meta.uid)


def approved_target(request: HostedClusterRequest) -> str:
    """Return the hosting cluster to which the request may move; empty if no move is approved."""
    return request.metadata.annotations.get(MOVE_TO, "")


def tenant_of(request: HostedClusterRequest) -> str:
    return request.spec.tenant or request.metadata.namespace


def hosted_name(request: HostedClusterRequest) -> tuple[str, str]:
    """Return namespace and name of the HostedCluster on the hosting cluster."""
    template = request.spec.hostedCluster
    return template.namespace or DEFAULT_NAMESPACE, template.name or request.metadata.name


def spec_of(
    request: HostedClusterRequest,
    *,
    policies: Mapping[str, Policy],
    placements: Placements,
    conflict: str = "",
) -> HostingSpec:
    """``conflict``: why the request's policy cannot be applied."""
    problem, demand, policy = conflict, None, Policy()
    try:
        policy = find_policy(policies, request.spec.policy)
        demand = demand_of(request, sizes=policy.sizes)
    except (PolicyError, DemandError) as error:
        problem = problem or str(error)
    if (unreadable := unreadable_within(request, "spec")) is not None:
        problem = UNREADABLE.format(field=unreadable.path, reason=unreadable.reason)
    selection, missing = _selection(request, placements)
    return HostingSpec(
        request=request,
        source=(request.spec, None if selection is None else selection.placement.spec),
        policy=policy,
        demand=demand,
        tenant=tenant_of(request),
        target=approved_target(request),
        selection=selection,
        in_sets=bool(request.spec.constraints.placement),
        problem=problem or missing,
    )


def workload_of(spec: HostingSpec) -> Workload[HostingSpec]:
    created = spec.request.metadata.creationTimestamp
    return Workload(
        key=key_of(spec.request),
        spec=spec,
        priority=spec.request.spec.priority,
        created=0 if created is None else to_micros(created),
        demand={} if spec.demand is None else spec.demand.amounts,
    )


def resident_of(request: HostedClusterRequest, *, policies: Mapping[str, Policy]) -> Resident | None:
    """Return the place that a request has; None if it has none."""
    status = request.status
    place = place_of(request)
    if place is None:
        return None
    demand: Demand | None = None
    with suppress(PolicyError, DemandError):
        demand = demand_of(request, sizes=find_policy(policies, request.spec.policy).sizes)
    amounts: dict[str, int] = {} if demand is None else dict(demand.amounts)
    deadline: Micros | None = None
    if status.reservation is not None:
        with suppress(QuantityError):  # if they are unreadable, what it needs counts
            # A request that grew since takes more, and one that shrank keeps what was promised.
            for resource, amount in from_quantities(status.reservation.amounts).items():
                amounts[resource] = max(amounts.get(resource, 0), amount)
        if status.reservation.deadline is not None:
            deadline = to_micros(status.reservation.deadline)
    return Resident(
        key=key_of(request),
        host=HostKey(place.name, place.uid),
        tenant=tenant_of(request),
        amounts=checked_resources({HOSTED: MILLI, SLOTS: 1, **amounts}),
        demand=demand,
        phase=status.phase,
        counted=is_counted(request),
        confirmed=_since(request, CONFIRMED_CONDITION),
        available=_since(request, AVAILABLE),
        deadline=deadline,
        objects=objects_of(request),
    )


def _since(request: HostedClusterRequest, condition: str) -> Micros | None:
    found = find_condition(request.status.conditions, condition)
    if found is None or found.status != TRUE or found.lastTransitionTime is None:
        return None
    return to_micros(found.lastTransitionTime)


def _selection(request: HostedClusterRequest, placements: Placements) -> tuple[PlacementWorkload | None, str]:
    """Return what restricts the hosts, or why that is unknown."""
    constraints, namespace = request.spec.constraints, request.metadata.namespace
    if constraints.placement:
        placement = placements.get((namespace, constraints.placement))
        if placement is None:
            return None, NO_PLACEMENT.format(namespace=namespace, name=constraints.placement)
        return PlacementWorkload(placement), ""
    selector = constraints.selector
    inline = PlacementSpec(
        predicates=() if selector is None else (ClusterPredicate(requiredClusterSelector=selector),),
        tolerations=constraints.tolerations,
    )
    meta = ObjectMeta(namespace=namespace, name=request.metadata.name)
    return PlacementWorkload(Placement(metadata=meta, spec=inline)), ""
