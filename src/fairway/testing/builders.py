"""Build objects for tests with few arguments."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from fairway.api.cluster import (
    CLUSTER_SET_LABEL,
    ClusterClaim,
    ClusterVersion,
    ManagedCluster,
    ManagedClusterSpec,
    ManagedClusterStatus,
    Taint,
)
from fairway.api.clusterset import (
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetBindingSpec,
    ManagedClusterSetSpec,
)
from fairway.api.decision import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from fairway.api.placement import (
    ADD_ON,
    BUILT_IN,
    PLACEMENT_LABEL,
    AddOnScore,
    ClusterCelSelector,
    ClusterClaimSelector,
    ClusterPredicate,
    ClusterSelector,
    Placement,
    PlacementSpec,
    PrioritizerConfig,
    PrioritizerPolicy,
    ScoreCoordinate,
)
from fairway.api.score import (
    AddOnPlacementScore,
    AddOnPlacementScoreItem,
    AddOnPlacementScoreStatus,
    ManagedClusterScore,
    ManagedClusterScoreStatus,
    managed_cluster_score_name,
)
from kubewire.api.meta import ObjectMeta
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement


def cluster(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    claims: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    allocatable: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    version: str = "",
    member_of: str = "default",
    deleting: datetime | None = None,
) -> ManagedCluster:
    """Build a cluster. Capacity defaults to allocatable. ``member_of`` is its cluster set; empty for none."""
    own = {CLUSTER_SET_LABEL: member_of} if member_of else {}
    return ManagedCluster(
        metadata=ObjectMeta(name=name, labels={**own, **(labels or {})}, deletionTimestamp=deleting),
        spec=ManagedClusterSpec(hubAcceptsClient=True, taints=tuple(taints)),
        status=ManagedClusterStatus(
            allocatable=dict(allocatable or {}),
            capacity=dict(allocatable or {}) if capacity is None else dict(capacity),
            version=ClusterVersion(kubernetes=version),
            clusterClaims=tuple(ClusterClaim(name=key, value=value) for key, value in (claims or {}).items()),
        ),
    )


def cluster_set(name: str, *, selector: LabelSelector | None = None, kind: str = "") -> ManagedClusterSet:
    """Build a set that selects by the exclusive label, or by ``selector``."""
    how = ManagedClusterSelector(
        selectorType=kind or ("LabelSelector" if selector is not None else ""), labelSelector=selector
    )
    return ManagedClusterSet(metadata=ObjectMeta(name=name), spec=ManagedClusterSetSpec(clusterSelector=how))


def binding(name: str, *, namespace: str = "ns1") -> ManagedClusterSetBinding:
    return ManagedClusterSetBinding(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=ManagedClusterSetBindingSpec(clusterSet=name),
    )


def score(
    cluster_name: str,
    scores: Mapping[str, int],
    *,
    name: str = "default",
    valid_until: datetime | None = None,
) -> AddOnPlacementScore:
    return AddOnPlacementScore(
        metadata=ObjectMeta(name=name, namespace=cluster_name),
        status=AddOnPlacementScoreStatus(
            scores=tuple(AddOnPlacementScoreItem(name=key, value=value) for key, value in scores.items()),
            validUntil=valid_until,
        ),
    )


def cluster_score(cluster_name: str, calculator: str, value: int) -> ManagedClusterScore:
    return ManagedClusterScore(
        metadata=ObjectMeta(
            name=managed_cluster_score_name(cluster=cluster_name, calculator=calculator),
            namespace=cluster_name,
        ),
        status=ManagedClusterScoreStatus(score=value),
    )


def decision(
    name: str, clusters: Sequence[str], *, placement: str = "", namespace: str = "ns1"
) -> PlacementDecision:
    """Build a decision. Without a placement it has no label."""
    return PlacementDecision(
        metadata=ObjectMeta(
            name=name, namespace=namespace, labels={PLACEMENT_LABEL: placement} if placement else {}
        ),
        status=PlacementDecisionStatus(
            decisions=tuple(ClusterDecision(clusterName=cluster) for cluster in clusters)
        ),
    )


def requirement(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


def selector(
    *requirements: LabelSelectorRequirement, labels: Mapping[str, str] | None = None
) -> LabelSelector:
    return LabelSelector(matchExpressions=requirements, matchLabels=dict(labels or {}))


def predicate(
    *,
    labels: LabelSelector | None = None,
    claims: Sequence[LabelSelectorRequirement] = (),
    cel: Sequence[str] = (),
) -> ClusterPredicate:
    return ClusterPredicate(
        requiredClusterSelector=ClusterSelector(
            labelSelector=labels or LabelSelector(),
            claimSelector=ClusterClaimSelector(matchExpressions=tuple(claims)),
            celSelector=ClusterCelSelector(celExpressions=tuple(cel)),
        )
    )


def builtin(name: str, weight: int = 1) -> PrioritizerConfig:
    return PrioritizerConfig(scoreCoordinate=ScoreCoordinate(type=BUILT_IN, builtIn=name), weight=weight)


def addon(score_name: str, weight: int = 1, *, resource: str = "default") -> PrioritizerConfig:
    coordinate = ScoreCoordinate(type=ADD_ON, addOn=AddOnScore(resourceName=resource, scoreName=score_name))
    return PrioritizerConfig(scoreCoordinate=coordinate, weight=weight)


def policy(*configurations: PrioritizerConfig, mode: str = "") -> PrioritizerPolicy:
    return PrioritizerPolicy(mode=mode, configurations=configurations)


def placement(
    name: str = "p1",
    *,
    namespace: str = "ns1",
    spec: PlacementSpec | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Placement:
    return Placement(
        metadata=ObjectMeta(name=name, namespace=namespace, annotations=dict(annotations or {})),
        spec=spec or PlacementSpec(),
    )
