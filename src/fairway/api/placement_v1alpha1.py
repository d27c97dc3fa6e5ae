"""Placement v1alpha1: prioritizers by name, without later fields.

OCM stopped serving it in 2022, but documents still exist. It is converted to v1beta1 when it is read;
it is never written.
"""

from typing import Annotated

from msgspec import Struct, field

from fairway.api.placement import (
    ADDITIVE,
    BUILT_IN,
    ClusterPredicate,
    ClusterSelector,
    GroupClusterSelector,
    Placement,
    PlacementSpec,
    PlacementStatus,
    PrioritizerConfig,
    PrioritizerPolicy,
    ScoreCoordinate,
    Toleration,
)
from kubewire.api.annotation import Field, Int32
from kubewire.api.meta import Conditions, ObjectMeta


class PredicateV1Alpha1(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    requiredClusterSelector: Annotated[
        GroupClusterSelector, Field("What a cluster must meet: labels and claims, both.")
    ] = GroupClusterSelector()


class PrioritizerConfigV1Alpha1(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of a built-in prioritizer; scoreCoordinate wins over it.")] = ""
    scoreCoordinate: Annotated[ScoreCoordinate | None, Field("The score to use.")] = None
    weight: Annotated[Int32, Field("How much the score counts.", default=1, minimum=-10, maximum=10)] = 0

    def upgrade(self) -> PrioritizerConfig:
        coordinate = self.scoreCoordinate
        if coordinate is None and self.name:
            coordinate = ScoreCoordinate(type=BUILT_IN, builtIn=self.name)
        return PrioritizerConfig(scoreCoordinate=coordinate, weight=self.weight)


class PrioritizerPolicyV1Alpha1(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    mode: Annotated[
        str,
        Field(
            "Additive keeps the default prioritizers beside the listed ones; Exact uses only the listed.",
            default=ADDITIVE,
        ),
    ] = ""
    configurations: Annotated[
        tuple[PrioritizerConfigV1Alpha1, ...], Field("Prioritizers and their weights.")
    ] = ()

    def upgrade(self) -> PrioritizerPolicy:
        return PrioritizerPolicy(
            mode=self.mode,
            configurations=tuple(configuration.upgrade() for configuration in self.configurations),
        )


class PlacementSpecV1Alpha1(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    clusterSets: Annotated[
        tuple[str, ...], Field("Cluster sets to choose from; empty means all bound to the namespace.")
    ] = ()
    numberOfClusters: Annotated[
        Int32 | None, Field("How many clusters to choose; missing means all that qualify.")
    ] = None
    predicates: Annotated[
        tuple[PredicateV1Alpha1, ...], Field("A cluster qualifies if it meets any of these.")
    ] = ()
    prioritizerPolicy: Annotated[
        PrioritizerPolicyV1Alpha1 | None, Field("How clusters that qualify are ranked.")
    ] = None
    tolerations: Annotated[tuple[Toleration, ...], Field("Taints that do not rule a cluster out.")] = ()

    def upgrade(self) -> PlacementSpec:
        policy = self.prioritizerPolicy
        selectors = (predicate.requiredClusterSelector for predicate in self.predicates)
        return PlacementSpec(
            clusterSets=self.clusterSets,
            numberOfClusters=self.numberOfClusters,
            predicates=tuple(
                ClusterPredicate(
                    requiredClusterSelector=ClusterSelector(
                        labelSelector=selector.labelSelector, claimSelector=selector.claimSelector
                    )
                )
                for selector in selectors
            ),
            prioritizerPolicy=policy.upgrade() if policy else None,
            tolerations=self.tolerations,
        )


class PlacementStatusV1Alpha1(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    numberOfSelectedClusters: Annotated[Int32, Field("How many clusters were chosen.")] = field(
        default_factory=int
    )
    conditions: Conditions = ()


class PlacementV1Alpha1(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The old form of Placement; write cluster.open-cluster-management.io/v1beta1 instead."""

    apiVersion: str = "cluster.open-cluster-management.io/v1alpha1"
    kind: str = "Placement"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PlacementSpecV1Alpha1, Field("Which clusters to choose.", required=True)] = (
        PlacementSpecV1Alpha1()
    )
    status: Annotated[PlacementStatusV1Alpha1, Field("What was chosen.")] = PlacementStatusV1Alpha1()

    def upgrade(self) -> Placement:
        return Placement(
            metadata=self.metadata,
            spec=self.spec.upgrade(),
            status=PlacementStatus(
                numberOfSelectedClusters=self.status.numberOfSelectedClusters,
                conditions=self.status.conditions,
            ),
        )
