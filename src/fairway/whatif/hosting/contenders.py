"""Policies to compare. Each decides with the code that runs in production."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final, Protocol

from fairway.api.cluster import (
    CONDITION_AVAILABLE,
    ClusterClaim,
    ManagedCluster,
    ManagedClusterSpec,
    ManagedClusterStatus,
)
from fairway.api.clusterset import (
    LABEL_SELECTOR,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetBindingSpec,
    ManagedClusterSetSpec,
)
from fairway.api.hosted_request import (
    BOUND,
    CONFIRMED,
    COUNTED,
    HostedClusterRequest,
    HostedClusterRequestSpec,
    HostedClusterRequestStatus,
    HostingClusterReference,
)
from fairway.api.hosting_policy import (
    COUNT_SCORE,
    PACK,
    SCORE_RESOURCE,
    SPREAD,
    HostingPolicy,
    HostingPolicySpec,
)
from fairway.api.placement import (
    ADD_ON,
    EXACT,
    AddOnScore,
    ClusterClaimSelector,
    ClusterPredicate,
    ClusterSelector,
    Placement,
    PlacementSpec,
    PrioritizerConfig,
    PrioritizerPolicy,
    ScoreCoordinate,
)
from fairway.api.score import AddOnPlacementScore, AddOnPlacementScoreItem, AddOnPlacementScoreStatus
from fairway.engine.workload import ResourceList
from fairway.hosts.instant import SECOND, Micros, from_micros
from fairway.whatif.hosting.arrivals import Arrival
from fairway.whatif.world import World
from fairway.workloads.hosting.fleet.telemetry import FREE_CLAIMS, FULL_CLAIM, HOSTING_CLAIM
from fairway.workloads.hosting.planning.placing import place
from fairway.workloads.hosting.requests.conditions import CONFIRMED_CONDITION
from fairway.workloads.hosting.resources import CPU, MEMORY, as_quantity
from fairway.workloads.hosting.state import HostingState
from kubewire.api.meta import TRUE, Condition, ObjectMeta
from kubewire.api.selector import IN, LabelSelector, LabelSelectorRequirement

NAMESPACE: Final = "hosting"
VALID: Final = timedelta(days=3650)
HIGHEST_SCORE: Final = 100
_EVERY: Final = ManagedClusterSelector(selectorType=LABEL_SELECTOR, labelSelector=LabelSelector())


class Published(Protocol):
    """What a host publishes at the end of an interval."""

    @property
    def name(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def free(self) -> ResourceList: ...
    @property
    def full(self) -> bool: ...


class Contender(Protocol):
    def publish(self, host: Published, *, now: Micros) -> None: ...
    def place(self, arrival: Arrival, *, now: Micros) -> str | None:
        """Return the host, or None if none qualifies."""

    def remove(self, arrival: Arrival, *, now: Micros) -> None: ...


class HostingController:
    """Reserves at once, and counts what is reserved."""

    def __init__(self, *, strategy: str) -> None:
        self._state = HostingState()
        spec = HostingPolicySpec(strategy=strategy, maxPerHost=10_000)
        self._state.load([HostingPolicy(metadata=ObjectMeta(name="default"), spec=spec)], now=0)
        self._requests: dict[str, HostedClusterRequest] = {}

    def publish(self, host: Published, *, now: Micros) -> None:
        self._state.upsert(_cluster(host), now=now)
        self._state.upsert(_score(host, now), now=now)
        for name, request in self._requests.items():
            placed = request.status.hostingCluster
            if placed is not None and placed.name == host.name and request.status.phase != CONFIRMED:
                self._requests[name] = counted = _at(request, host.name, phase=CONFIRMED, now=now)
                self._state.upsert(counted, now=now)

    def place(self, arrival: Arrival, *, now: Micros) -> str | None:
        request = _request(arrival)
        (decision,) = place(self._state, [request], now=now)
        if decision.host is None:
            return None
        request = _at(request, decision.host.name, phase=BOUND, now=now)
        self._requests[arrival.name] = request
        self._state.upsert(request, now=now)
        return decision.host.name

    def remove(self, arrival: Arrival, *, now: Micros) -> None:
        request = self._requests.pop(arrival.name, None)
        if request is not None:
            self._state.delete(request, now=now)


class PlainPlacement:
    """The documented recipe with OCM alone: a Placement by the published count, at weight -1."""

    def __init__(self) -> None:
        self._world = World(
            [
                ManagedClusterSet(
                    metadata=ObjectMeta(name="global"), spec=ManagedClusterSetSpec(clusterSelector=_EVERY)
                ),
                ManagedClusterSetBinding(
                    metadata=ObjectMeta(name="global", namespace=NAMESPACE),
                    spec=ManagedClusterSetBindingSpec(clusterSet="global"),
                ),
            ]
        )

    def publish(self, host: Published, *, now: Micros) -> None:
        self._world.put(_cluster(host))
        self._world.put(_score(host, now))

    def place(self, arrival: Arrival, *, now: Micros) -> str | None:
        self._world.put(_placement(arrival))
        placed = self._world.place((NAMESPACE, arrival.name), now=now)
        return next(iter(placed.outcome.selected), None)

    def remove(self, arrival: Arrival, *, now: Micros) -> None:
        del arrival, now


POLICIES: Final[Mapping[str, Callable[[], Contender]]] = {
    "spread": lambda: HostingController(strategy=SPREAD),
    "pack": lambda: HostingController(strategy=PACK),
    "placement": PlainPlacement,
}
"""By name: the hosting controller's two strategies, and a plain Placement."""


def _cluster(host: Published) -> ManagedCluster:
    claims = {
        HOSTING_CLAIM: "true",
        FULL_CLAIM: "true" if host.full else "false",
        **{
            FREE_CLAIMS[resource]: as_quantity(resource, max(0, host.free[resource]))
            for resource in (CPU, MEMORY)
        },
    }
    return ManagedCluster(
        metadata=ObjectMeta(name=host.name, uid=f"uid-{host.name}"),
        spec=ManagedClusterSpec(hubAcceptsClient=True),
        status=ManagedClusterStatus(
            conditions=(Condition(type=CONDITION_AVAILABLE, status=TRUE, reason="Lease"),),
            clusterClaims=tuple(ClusterClaim(name=key, value=value) for key, value in claims.items()),
        ),
    )


def _score(host: Published, now: Micros) -> AddOnPlacementScore:
    item = AddOnPlacementScoreItem(name=COUNT_SCORE, value=min(HIGHEST_SCORE, host.count))
    return AddOnPlacementScore(
        metadata=ObjectMeta(name=SCORE_RESOURCE, namespace=host.name),
        status=AddOnPlacementScoreStatus(scores=(item,), validUntil=from_micros(now) + VALID),
    )


def _request(arrival: Arrival) -> HostedClusterRequest:
    return HostedClusterRequest(
        metadata=ObjectMeta(name=arrival.name, namespace=arrival.tenant, uid=f"uid-{arrival.name}"),
        spec=HostedClusterRequestSpec(size=arrival.size),
    )


def _at(request: HostedClusterRequest, host: str, *, phase: str, now: Micros) -> HostedClusterRequest:
    conditions: tuple[Condition, ...] = ()
    if phase == CONFIRMED:
        since = from_micros(now - now % SECOND)
        conditions = tuple(
            Condition(type=kind, status=TRUE, reason="Reported", lastTransitionTime=since)
            for kind in (CONFIRMED_CONDITION, COUNTED)
        )
    status = HostedClusterRequestStatus(
        phase=phase,
        hostingCluster=HostingClusterReference(name=host, uid=f"uid-{host}"),
        conditions=conditions,
    )
    return HostedClusterRequest(metadata=request.metadata, spec=request.spec, status=status)


def _placement(arrival: Arrival) -> Placement:
    not_full = LabelSelectorRequirement(key=FULL_CLAIM, operator=IN, values=("false",))
    predicate = ClusterPredicate(
        requiredClusterSelector=ClusterSelector(
            claimSelector=ClusterClaimSelector(matchExpressions=(not_full,))
        )
    )
    by_count = ScoreCoordinate(
        type=ADD_ON, addOn=AddOnScore(resourceName=SCORE_RESOURCE, scoreName=COUNT_SCORE)
    )
    return Placement(
        metadata=ObjectMeta(name=arrival.name, namespace=NAMESPACE),
        spec=PlacementSpec(
            numberOfClusters=1,
            predicates=(predicate,),
            prioritizerPolicy=PrioritizerPolicy(
                mode=EXACT, configurations=(PrioritizerConfig(scoreCoordinate=by_count, weight=-1),)
            ),
        ),
    )
