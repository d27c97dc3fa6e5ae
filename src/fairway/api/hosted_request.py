"""HostedClusterRequest: a hosted cluster to create on one of the hosting clusters.

A template instead of complete objects keeps the smallest request short, and leaves no apiVersion, kind or namespace
that could contradict the request.
"""

from typing import Annotated, Any, Final

from msgspec import Struct, field

from fairway.api.hosting_policy import (
    AMOUNTS_RULE,
    HOSTING_GROUP,
    HOSTING_VERSION,
    SIZE_NAME,
    HostedClusterDemand,
)
from fairway.api.hosting_template import OBJECT_NAME, HostedClusterSecret, HostingTemplate
from fairway.api.placement import ClusterSelector, Toleration
from kubewire.api.annotation import NAMESPACE, Field, Int32, Int64, QuantityText, Time
from kubewire.api.meta import Conditions, ObjectMeta

HIGHLY_AVAILABLE: Final = "HighlyAvailable"
SINGLE_REPLICA: Final = "SingleReplica"
AVAILABILITY_FIELD: Final = "controllerAvailabilityPolicy"
"""Field of a HostedCluster's spec."""

REQUEST_UID_LABEL: Final = f"{HOSTING_GROUP}/request-uid"
"""Label of all objects that are created for a request."""
DEFAULT_POLICY: Final = "default"
DEFAULT_NAMESPACE: Final = "clusters"
"""Namespace of HostedClusters on a hosting cluster, as HyperShift's tools use it, and earlier versions by default."""

PENDING: Final = "Pending"
UNSCHEDULABLE: Final = "Unschedulable"
RESERVED: Final = "Reserved"
BOUND: Final = "Bound"
CONFIRMED: Final = "Confirmed"
RELEASING: Final = "Releasing"
PHASES: Final = (PENDING, UNSCHEDULABLE, RESERVED, BOUND, CONFIRMED, RELEASING)
PLACED: Final = (RESERVED, BOUND, CONFIRMED, RELEASING)
"""Phases in which a request holds room on its hosting cluster."""
COUNTED: Final = "Counted"
"""Condition: the published load of the hosting cluster includes the hosted cluster."""

OBJECT_CAUSE: Final = "Object"
HOST_CAUSE: Final = "Host"
MOST_REFUSALS: Final = 32
"""Of one request. An older one is forgotten first."""

VERSION: Final = r"^v?[1-9][0-9]*\.[0-9]+(\.[0-9]+)?$"

SIZE_AND_DEMAND: Final = "size and demand are both set: remove one; size names amounts, demand lists them"
TWO_SELECTIONS: Final = (
    "placement is set, and selector or tolerations, too: write them into the Placement, or remove it"
)
RENAMED: Final = "name and namespace cannot be changed: create another request, and delete this one"


def _unchanged(name: str) -> str:
    # CEL reserves the word namespace; without underscores kube-apiserver finds no maximum length and refuses the rule.
    same = f"has(self.{name}) == has(oldSelf.{name})"
    return f"{same} && (!has(self.{name}) || self.{name} == oldSelf.{name})"


class HostedClusterTemplate(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[
        str,
        Field(
            "Name of the HostedCluster; by default that of the request.", pattern=OBJECT_NAME, max_length=253
        ),
    ] = ""
    namespace: Annotated[
        str,
        Field(
            "Namespace of the HostedCluster on the hosting cluster, which the HostingPolicy must permit; by default "
            "one that is derived from the namespace of the request.",
            pattern=NAMESPACE,
            max_length=63,
        ),
    ] = ""
    labels: Annotated[dict[str, str], Field("Labels of the HostedCluster.")] = field(default_factory=dict)
    annotations: Annotated[dict[str, str], Field("Annotations of the HostedCluster.")] = field(
        default_factory=dict
    )
    spec: Annotated[
        dict[str, Any],
        Field(
            "The spec of the HostedCluster, unchanged, over the defaults in the template of the policy.",
            required=True,
        ),
    ] = field(default_factory=dict)


class NodePoolTemplate(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[
        str, Field("Name of the NodePool.", required=True, pattern=OBJECT_NAME, max_length=253)
    ] = field(default_factory=str)
    labels: Annotated[dict[str, str], Field("Labels of the NodePool.")] = field(default_factory=dict)
    spec: Annotated[
        dict[str, Any],
        Field(
            "The spec of the NodePool, unchanged, over the defaults in the template of the policy; clusterName is set "
            "to the HostedCluster.",
            required=True,
        ),
    ] = field(default_factory=dict)


class HostingConstraints(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    placement: Annotated[
        str,
        Field(
            "Name of a Placement in the namespace of the request; only clusters that meet its cluster sets, "
            "predicates and tolerations qualify.",
            pattern=OBJECT_NAME,
            max_length=253,
        ),
    ] = ""
    selector: Annotated[
        ClusterSelector | None,
        Field("What a hosting cluster must meet: labels, claims and CEL, all of them."),
    ] = None
    tolerations: Annotated[tuple[Toleration, ...], Field("Taints that do not rule a cluster out.")] = ()
    platforms: Annotated[
        tuple[str, ...],
        Field(
            "Platforms that qualify, as in the claim platform.open-cluster-management.io; empty means any.",
            list_type="set",
            max_items=32,
        ),
    ] = ()
    regions: Annotated[
        tuple[str, ...],
        Field(
            "Regions that qualify, as in the claim region.open-cluster-management.io; empty means any.",
            list_type="set",
            max_items=64,
        ),
    ] = ()
    architectures: Annotated[
        tuple[str, ...],
        Field(
            "Architectures that qualify, as in the claim architecture.open-cluster-management.io; empty means any.",
            list_type="set",
            max_items=8,
        ),
    ] = ()
    minVersion: Annotated[
        str,
        Field(
            'Oldest Kubernetes version of a hosting cluster, such as "1.29".', pattern=VERSION, max_length=32
        ),
    ] = ""
    minZones: Annotated[
        Int32,
        Field(
            "Fewest zones of a hosting cluster, as in the claim zones.fairway.dev; 0 means any.",
            minimum=0,
            maximum=64,
        ),
    ] = 0


class HostedClusterRequestSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    hostedCluster: Annotated[
        HostedClusterTemplate,
        Field(
            "The HostedCluster to create.",
            required=True,
            validations=((f"({_unchanged('name')}) && ({_unchanged('__namespace__')})", RENAMED),),
        ),
    ] = HostedClusterTemplate()
    nodePools: Annotated[
        tuple[NodePoolTemplate, ...],
        Field("NodePools to create with it.", list_type="map", map_keys=("name",), max_items=64),
    ] = ()
    secrets: Annotated[
        tuple[HostedClusterSecret, ...],
        Field(
            "Secrets to create with it, such as the pull secret.",
            list_type="map",
            map_keys=("name",),
            max_items=64,
        ),
    ] = ()
    size: Annotated[
        str,
        Field(
            "Size of the control plane: small, medium, large, or a size of the policy. Without size and demand: small.",
            pattern=SIZE_NAME,
            max_length=32,
        ),
    ] = ""
    demand: Annotated[
        HostedClusterDemand | None,
        Field("What the control plane needs, instead of a size.", validations=(AMOUNTS_RULE,)),
    ] = None
    availability: Annotated[
        str,
        Field(
            "Whether the control plane has three replicas or one; by default as in hostedCluster.spec."
            "controllerAvailabilityPolicy, and HighlyAvailable without it.",
            enum=(HIGHLY_AVAILABLE, SINGLE_REPLICA),
        ),
    ] = ""
    constraints: Annotated[
        HostingConstraints,
        Field(
            "Which hosting clusters qualify.",
            validations=(
                ("!has(self.placement) || (!has(self.selector) && !has(self.tolerations))", TWO_SELECTIONS),
            ),
        ),
    ] = HostingConstraints()
    policy: Annotated[
        str, Field("Name of the HostingPolicy.", default=DEFAULT_POLICY, pattern=OBJECT_NAME, max_length=253)
    ] = ""
    tenant: Annotated[
        str,
        Field(
            "Tenant, where the policy lists the namespace of the request for several; by default the first of them, "
            "and the namespace itself if the policy lists it for none.",
            max_length=253,
        ),
    ] = ""
    priorityClass: Annotated[
        str,
        Field(
            "Name of a priority class of the policy; by default the policy's default class.",
            pattern=SIZE_NAME,
            max_length=32,
        ),
    ] = ""
    priority: Annotated[
        Int32,
        Field(
            "Lowers the priority below that of the class. A higher number has no effect: use priorityClass.",
            default=0,
        ),
    ] = 0


class HostingClusterReference(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of the ManagedCluster.", required=True)] = field(default_factory=str)
    uid: Annotated[
        str, Field("Uid of the ManagedCluster; a recreated cluster has another.", required=True)
    ] = field(default_factory=str)


class HostingReservation(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    amounts: Annotated[dict[str, QuantityText], Field("Reserved amounts, by resource.", required=True)] = (
        field(default_factory=dict)
    )
    since: Annotated[Time | None, Field("When the amounts were reserved.", required=True)] = None
    deadline: Annotated[
        Time | None, Field("When the reservation ends, unless the hosting cluster reports the HostedCluster.")
    ] = None


class HostingScore(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    plugin: Annotated[str, Field("The plugin that scored the hosting cluster.", required=True)] = field(
        default_factory=str
    )
    score: Annotated[Int64, Field("Its normalised score.", required=True)] = field(default_factory=int)
    weight: Annotated[Int32, Field("The factor with which the score counts.", required=True)] = field(
        default_factory=int
    )


class HostingRejection(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    reason: Annotated[str, Field("Why the clusters do not qualify.", required=True, max_length=1024)] = field(
        default_factory=str
    )
    plugin: Annotated[str, Field("The plugin that rejected them.")] = ""
    count: Annotated[Int32, Field("Number of clusters.", required=True)] = field(default_factory=int)
    clusters: Annotated[
        tuple[str, ...], Field("The first of them, by name.", list_type="atomic", max_items=5)
    ] = ()


class AcceptedRequest(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    namespace: Annotated[
        str, Field("Namespace of the HostedCluster on the hosting cluster.", required=True)
    ] = field(default_factory=str)
    policy: Annotated[
        str, Field("The policy that reserved the place, whose quota counts it until it is given up.")
    ] = ""
    template: Annotated[
        HostingTemplate | None,
        Field(
            "Template of the policy when the place was reserved. Later changes of the policy do not apply."
        ),
    ] = None
    adopted: Annotated[
        bool,
        Field(
            "The hosted cluster existed before the request, which follows it. It is neither changed nor deleted "
            "with the request."
        ),
    ] = False


class HostingRefusal(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of the ManagedCluster that refused.", required=True)] = field(
        default_factory=str
    )
    uid: Annotated[str, Field("Uid of the ManagedCluster.", required=True)] = field(default_factory=str)
    cause: Annotated[
        str,
        Field(
            "Object: what the request creates is invalid, so that no hosting cluster is tried. Host: something on this "
            "hosting cluster prevents it, so that others are tried.",
            required=True,
            enum=(OBJECT_CAUSE, HOST_CAUSE),
        ),
    ] = field(default_factory=str)
    message: Annotated[str, Field("What the hosting cluster reported.", max_length=1024)] = ""
    content: Annotated[str, Field("Digest of what was refused.", max_length=64)] = ""
    count: Annotated[Int32, Field("How often it refused.", minimum=1)] = 0
    retryTime: Annotated[Time | None, Field("When it is tried again; absent once that time has passed.")] = (
        None
    )


class HostedClusterRequestStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    observedGeneration: Annotated[Int64, Field("The generation that this status describes.", minimum=0)] = 0
    phase: Annotated[
        str,
        Field(
            "Pending until the request is first tried; Unschedulable while no hosting cluster qualifies; Reserved; "
            "Bound when the ManifestWork is written; Confirmed when the hosting cluster reports the HostedCluster; "
            "Releasing while it is deleted.",
            enum=PHASES,
        ),
    ] = ""
    size: Annotated[
        str, Field("The size that is placed: small unless spec.size is set, custom with spec.demand.")
    ] = ""
    reason: Annotated[
        str, Field("Reason of the first condition that is not True, or else of the last step that is done.")
    ] = ""
    message: Annotated[str, Field("Message of the same condition.")] = ""
    hostingCluster: Annotated[HostingClusterReference | None, Field("The selected hosting cluster.")] = None
    manifestWork: Annotated[
        str, Field("Name of the ManifestWork in the namespace of the hosting cluster.")
    ] = ""
    reservation: Annotated[HostingReservation | None, Field("What is reserved on the hosting cluster.")] = (
        None
    )
    accepted: Annotated[
        AcceptedRequest | None, Field("What of the request is accepted, and created on the hosting cluster.")
    ] = None
    refusals: Annotated[
        tuple[HostingRefusal, ...],
        Field(
            "Hosting clusters that refused what the request creates, the last one first, until one accepts it.",
            list_type="map",
            map_keys=("name",),
            max_items=MOST_REFUSALS,
        ),
    ] = ()
    total: Annotated[Int64 | None, Field("Sum of scores times weights of the hosting cluster.")] = None
    scores: Annotated[
        tuple[HostingScore, ...],
        Field("The parts of the sum.", list_type="map", map_keys=("plugin",), max_items=64),
    ] = ()
    rejections: Annotated[
        tuple[HostingRejection, ...],
        Field(
            "Why the other clusters do not qualify, most frequent first.", list_type="atomic", max_items=16
        ),
    ] = ()
    wouldFit: Annotated[
        tuple[str, ...],
        Field("Changes, each of which would make the request fit.", list_type="atomic", max_items=8),
    ] = ()
    conditions: Conditions = ()


class HostedClusterRequest(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A hosted cluster to create on one of the hosting clusters, selected once."""

    apiVersion: str = HOSTING_VERSION
    kind: str = "HostedClusterRequest"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        HostedClusterRequestSpec,
        Field(
            "What to create, and where it may be hosted.",
            required=True,
            validations=(("!(has(self.size) && has(self.demand))", SIZE_AND_DEMAND),),
        ),
    ] = HostedClusterRequestSpec()
    status: Annotated[HostedClusterRequestStatus, Field("Where it is hosted, or why it is not.")] = (
        HostedClusterRequestStatus()
    )
