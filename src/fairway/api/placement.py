"""Placement: which clusters an application may run on, and how many of them to choose."""

from typing import Annotated, Final

from msgspec import Struct, field

from fairway.api.cluster import EFFECTS
from kubewire.api.annotation import LABEL_KEY, Field, Int32, Int64, Time, no_items
from kubewire.api.meta import Conditions, ObjectMeta
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement

ADDITIVE: Final = "Additive"
EXACT: Final = "Exact"
BUILT_IN: Final = "BuiltIn"
ADD_ON: Final = "AddOn"
EQUAL: Final = "Equal"
EXISTS: Final = "Exists"
SORT_BY_NAME: Final = "ClusterName"
SORT_BY_SCORE: Final = "Score"
DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
TOPOLOGY_LABEL: Final = "Label"
TOPOLOGY_CLAIM: Final = "Claim"

PLACEMENT_LABEL: Final = "cluster.open-cluster-management.io/placement"
GROUP_INDEX_LABEL: Final = "cluster.open-cluster-management.io/decision-group-index"
GROUP_NAME_LABEL: Final = "cluster.open-cluster-management.io/decision-group-name"
SCHEDULING_DISABLED_ANNOTATION: Final = "cluster.open-cluster-management.io/experimental-scheduling-disable"

TOPOLOGY_KEY: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)


class ClusterClaimSelector(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    matchExpressions: Annotated[
        tuple[LabelSelectorRequirement, ...],
        Field("Requirements on cluster claims, all of which must be met."),
    ] = ()


class ClusterCelSelector(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    celExpressions: Annotated[
        tuple[str, ...], Field("CEL expressions over managedCluster, all of which must be true.")
    ] = ()


class ClusterSelector(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    labelSelector: Annotated[LabelSelector, Field("Requirements on cluster labels.", map_type="atomic")] = (
        LabelSelector()
    )
    claimSelector: Annotated[ClusterClaimSelector, Field("Requirements on cluster claims.")] = (
        ClusterClaimSelector()
    )
    celSelector: Annotated[ClusterCelSelector, Field("Requirements as CEL expressions.")] = (
        ClusterCelSelector()
    )


class ClusterPredicate(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    requiredClusterSelector: Annotated[
        ClusterSelector, Field("What a cluster must meet: labels, claims and CEL, all of them.")
    ] = ClusterSelector()


class AddOnScore(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    resourceName: Annotated[
        str, Field("Name of the AddOnPlacementScore in the cluster's namespace.", required=True)
    ] = field(default_factory=str)
    scoreName: Annotated[str, Field("Name of one score inside that AddOnPlacementScore.", required=True)] = (
        field(default_factory=str)
    )


class ScoreCoordinate(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str, Field("Source of the score.", required=True, default=BUILT_IN, enum=(BUILT_IN, ADD_ON))
    ] = ""
    builtIn: Annotated[str, Field("Name of a built-in prioritizer, for the type BuiltIn.")] = ""
    addOn: Annotated[AddOnScore | None, Field("The published score, for the type AddOn.")] = None


class PrioritizerConfig(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    scoreCoordinate: Annotated[ScoreCoordinate | None, Field("The score to use.", required=True)] = None
    weight: Annotated[
        Int32,
        Field(
            "How much the score counts; negative prefers low scores, 0 switches it off.",
            default=1,
            minimum=-10,
            maximum=10,
        ),
    ] = 0


class PrioritizerPolicy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    mode: Annotated[
        str,
        Field(
            "Additive keeps the default prioritizers beside the listed ones; Exact uses only the listed.",
            default=ADDITIVE,
        ),
    ] = ""
    configurations: Annotated[tuple[PrioritizerConfig, ...], Field("Prioritizers and their weights.")] = ()


class SpreadConstraint(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    topologyKey: Annotated[
        str,
        Field(
            "The label or claim whose values are the topologies to spread over.",
            required=True,
            max_length=316,
            pattern=TOPOLOGY_KEY,
        ),
    ] = field(default_factory=str)
    topologyKeyType: Annotated[
        str,
        Field(
            "Whether the key names a label or a claim.", required=True, enum=(TOPOLOGY_LABEL, TOPOLOGY_CLAIM)
        ),
    ] = field(default_factory=str)
    maxSkew: Annotated[
        Int32, Field("How far the topologies may differ in chosen clusters.", default=1, minimum=1)
    ] = 0
    whenUnsatisfiable: Annotated[
        str,
        Field(
            "What to do with a cluster that would break the constraint.",
            default=SCHEDULE_ANYWAY,
            enum=(DO_NOT_SCHEDULE, SCHEDULE_ANYWAY),
        ),
    ] = ""


class SpreadPolicy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    spreadConstraints: Annotated[
        tuple[SpreadConstraint, ...], Field("Constraints; earlier ones matter more.", max_items=8)
    ] = ()


class Toleration(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    key: Annotated[
        str,
        Field(
            "The taint tolerated; empty means any, with the operator Exists.",
            max_length=316,
            pattern=LABEL_KEY,
        ),
    ] = ""
    operator: Annotated[str, Field("Equal compares values, Exists accepts any value.", default=EQUAL)] = ""
    value: Annotated[str, Field("The taint's value, for the operator Equal.", max_length=1024)] = ""
    effect: Annotated[str, Field("The taint's effect; empty means any.", enum=EFFECTS)] = ""
    tolerationSeconds: Annotated[
        Int64 | None, Field("How long after the taint was added it is tolerated; missing means forever.")
    ] = None


class GroupClusterSelector(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    labelSelector: Annotated[LabelSelector, Field("Requirements on cluster labels.", map_type="atomic")] = (
        LabelSelector()
    )
    claimSelector: Annotated[ClusterClaimSelector, Field("Requirements on cluster claims.")] = (
        ClusterClaimSelector()
    )


class DecisionGroup(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    groupName: Annotated[
        str,
        Field("Name of the group.", required=True, pattern="^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$"),
    ] = field(default_factory=str)
    groupClusterSelector: Annotated[
        GroupClusterSelector, Field("Which of the chosen clusters go into the group.", required=True)
    ] = GroupClusterSelector()


class GroupStrategy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    decisionGroups: Annotated[tuple[DecisionGroup, ...], Field("Named groups, filled in this order.")] = ()
    clustersPerDecisionGroup: Annotated[
        int | str | None,
        Field(
            "Most clusters in one group: a number, or a percentage of the chosen clusters.",
            default="100%",
            pattern="^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$",
        ),
    ] = None


class DecisionStrategy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    groupStrategy: Annotated[GroupStrategy, Field("How the chosen clusters are divided into groups.")] = (
        GroupStrategy()
    )


class PlacementSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    clusterSets: Annotated[
        tuple[str, ...], Field("Cluster sets to choose from; empty means all bound to the namespace.")
    ] = ()
    numberOfClusters: Annotated[
        Int32 | None, Field("How many clusters to choose; missing means all that qualify.")
    ] = None
    predicates: Annotated[
        tuple[ClusterPredicate, ...], Field("A cluster qualifies if it meets any of these.")
    ] = ()
    prioritizerPolicy: Annotated[PrioritizerPolicy | None, Field("How clusters that qualify are ranked.")] = (
        None
    )
    spreadPolicy: Annotated[SpreadPolicy, Field("How the chosen clusters are spread over topologies.")] = (
        SpreadPolicy()
    )
    tolerations: Annotated[tuple[Toleration, ...], Field("Taints that do not rule a cluster out.")] = ()
    decisionStrategy: Annotated[DecisionStrategy, Field("How the decision is divided.")] = DecisionStrategy()
    sortBy: Annotated[
        str,
        Field(
            "Order of the clusters in the decision.", default=SORT_BY_NAME, enum=(SORT_BY_NAME, SORT_BY_SCORE)
        ),
    ] = ""
    scoreRateLimit: Annotated[
        str,
        Field(
            "How long to wait before recorded scores are written again.",
            default="1m",
            pattern="^[0-9]+[hms]$",
        ),
    ] = ""


class DecisionGroupStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    decisionGroupIndex: Annotated[Int32, Field("Position of the group, from 0.")] = field(default_factory=int)
    decisionGroupName: Annotated[str, Field("Name of the group; empty for the remainder.")] = field(
        default_factory=str
    )
    decisions: Annotated[tuple[str, ...], Field("Names of the PlacementDecisions that hold the group.")] = (
        field(default_factory=no_items)
    )
    clusterCount: Annotated[Int32, Field("How many clusters the group has.", default=0)] = field(
        default_factory=int
    )


class PlacementStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    numberOfSelectedClusters: Annotated[Int32, Field("How many clusters were chosen.")] = field(
        default_factory=int
    )
    decisionGroups: Annotated[
        tuple[DecisionGroupStatus, ...], Field("The groups the decision was divided into.")
    ] = ()
    conditions: Conditions = ()
    lastScoreUpdateTime: Annotated[Time | None, Field("When scores were last recorded in the decisions.")] = (
        None
    )


class Placement(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "cluster.open-cluster-management.io/v1beta1"
    kind: str = "Placement"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PlacementSpec, Field("Which clusters to choose.", required=True)] = PlacementSpec()
    status: Annotated[PlacementStatus, Field("What was chosen.")] = PlacementStatus()
