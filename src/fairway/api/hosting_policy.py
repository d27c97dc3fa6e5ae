"""HostingPolicy: which clusters host control planes, how full they get, and how hosted clusters are distributed."""

from typing import Annotated, Final

from msgspec import Struct, field

from fairway.api.hosting_template import HostingTemplate
from kubewire.api.annotation import NAMESPACE, Field, Int32, QuantityText
from kubewire.api.meta import Conditions, ObjectMeta

HOSTING_GROUP: Final = "placement.fairway.dev"
HOSTING_VERSION: Final = f"{HOSTING_GROUP}/v1alpha1"

AUTO: Final = "Auto"
COUNT_MODEL: Final = "Count"
SLOTS_MODEL: Final = "Slots"
RESOURCES_MODEL: Final = "Resources"
CAPACITY_MODELS: Final = (AUTO, COUNT_MODEL, SLOTS_MODEL, RESOURCES_MODEL)

SPREAD: Final = "Spread"
PACK: Final = "Pack"

NONE: Final = "None"
PREFERRED: Final = "Preferred"
REQUIRED: Final = "Required"

NEVER: Final = "Never"
APPROVED: Final = "Approved"

SCORE_RESOURCE: Final = "hosted-clusters-score"
COUNT_SCORE: Final = "hostedClustersCount"
"""Where the hypershift add-on publishes the number of hosted clusters."""
REQUESTS_SCORE: Final = "hostedClustersOfRequests"
"""Where the provider of hosted clusters publishes how many of them were created for HostedClusterRequests."""

DEFAULT_MAX_PER_HOST: Final = 80
"""The maximum of the hypershift add-on."""

WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

MOST_PRIORITY: Final = 1_000_000_000
"""As the priority classes of pods."""

SIZE_NAME: Final = "^[a-z]([-a-z0-9]{0,30}[a-z0-9])?$"
DURATION: Final = "^[1-9][0-9]{0,5}[hms]$"
TIME_OF_DAY: Final = "^([01][0-9]|2[0-3]):[0-5][0-9]$"

NAMESPACE_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$|^[a-z0-9][-a-z0-9]*\*$"
"""A namespace, or the beginning of one with an asterisk."""
SECRET_PATTERN: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$|^[a-z0-9][-a-z0-9.]*\*$"
TOKEN_SECRETS: Final = ("bootstrap.kubernetes.io/token", "kubernetes.io/service-account-token")
"""Types of Secrets that are credentials of the cluster they are in."""
NO_TOKENS: Final = (
    "Secrets of these types are credentials for the hosting cluster: remove bootstrap.kubernetes.io/token and "
    "kubernetes.io/service-account-token"
)

NEGATIVE_AMOUNT: Final = (
    'an amount must not be negative: write cpu such as "4" or "500m", memory such as "16Gi"'
)
SAME_TIMES: Final = 'start and end must differ: write 24 quiet hours as start "00:00" and end "23:59"'


SEVERAL_DEFAULTS: Final = "several classes are the default: write default: true for one of them"


def _not_negative(name: str) -> str:
    return f"(type(self.{name}) == string ? !self.{name}.startsWith('-') : self.{name} >= 0)"


AMOUNTS_RULE: Final = (" && ".join(_not_negative(name) for name in ("cpu", "memory")), NEGATIVE_AMOUNT)
QUOTA_RULE: Final = (
    " && ".join(f"(!has(self.{name}) || {_not_negative(name)})" for name in ("cpu", "memory")),
    NEGATIVE_AMOUNT,
)
DEFAULTS_RULE: Final = (
    "self.filter(each, has(each.default) && each.default).size() <= 1",
    SEVERAL_DEFAULTS,
)


class HostedClusterDemand(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    cpu: Annotated[QuantityText, Field("CPU requests of the control plane, in cores.", required=True)] = (
        field(default_factory=str)
    )
    memory: Annotated[QuantityText, Field("Memory requests of the control plane.", required=True)] = field(
        default_factory=str
    )
    pods: Annotated[Int32, Field("Number of pods of the control plane.", minimum=0)] = 0


class HostedClusterSize(HostedClusterDemand, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[
        str, Field("Name that requests use in spec.size.", required=True, pattern=SIZE_NAME, max_length=32)
    ] = field(default_factory=str)


class HostingScoreReference(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    resourceName: Annotated[
        str,
        Field(
            "Name of the AddOnPlacementScore in the namespace of each hosting cluster.",
            default=SCORE_RESOURCE,
        ),
    ] = ""
    scoreName: Annotated[str, Field("Score with the number of hosted clusters.", default=COUNT_SCORE)] = ""


class HostingCapacity(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    model: Annotated[
        str,
        Field(
            "What limits a hosting cluster. Count: the number of hosted clusters, and free CPU and memory where they "
            "are published. Slots: the published free slots by size. Resources: free CPU and memory; where they are "
            "not published, what the nodes can give, less a small one for each hosted cluster. Auto: the most exact "
            "of them that the cluster publishes.",
            default=AUTO,
            enum=CAPACITY_MODELS,
        ),
    ] = ""
    count: Annotated[HostingScoreReference, Field("Where the number of hosted clusters is published.")] = (
        HostingScoreReference()
    )
    maxAge: Annotated[
        str,
        Field(
            "Values that were measured longer ago count as missing; a cluster without valid values gets no new "
            "hosted cluster.",
            default="10m",
            pattern=DURATION,
        ),
    ] = ""


class QuietHours(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    days: Annotated[
        tuple[Annotated[str, Field(enum=WEEKDAYS)], ...],
        Field("Weekdays on which they begin; empty means every day.", list_type="set", max_items=7),
    ] = ()
    start: Annotated[
        str, Field('Beginning in UTC, such as "22:00".', required=True, pattern=TIME_OF_DAY, max_length=5)
    ] = field(default_factory=str)
    end: Annotated[
        str,
        Field(
            'End in UTC, such as "06:00"; on the next day if it is before start.',
            required=True,
            pattern=TIME_OF_DAY,
            max_length=5,
        ),
    ] = field(default_factory=str)


class HostingPermits(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    hostNamespaces: Annotated[
        tuple[Annotated[str, Field(pattern=NAMESPACE_PATTERN, max_length=63)], ...],
        Field(
            "Namespaces of hosting clusters that requests may name in spec.hostedCluster.namespace, besides the one "
            "that is derived from the namespace of the request; a final asterisk matches any rest.",
            list_type="set",
            max_items=64,
        ),
    ] = ()
    secretTypes: Annotated[
        tuple[Annotated[str, Field(max_length=253)], ...],
        Field(
            "Types of Secrets that requests may create; by default Opaque, kubernetes.io/dockerconfigjson, "
            "kubernetes.io/ssh-auth and kubernetes.io/tls.",
            list_type="set",
            max_items=16,
            validations=((" && ".join(f"!('{name}' in self)" for name in TOKEN_SECRETS), NO_TOKENS),),
        ),
    ] = ()
    secretNames: Annotated[
        tuple[Annotated[str, Field(pattern=SECRET_PATTERN, max_length=253)], ...],
        Field(
            "Names of Secrets that requests may create; a final asterisk matches any rest. Empty means every name.",
            list_type="set",
            max_items=64,
        ),
    ] = ()


class HostingQuota(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    hostedClusters: Annotated[Int32 | None, Field("Most hosted clusters.", minimum=0)] = None
    cpu: Annotated[QuantityText, Field("Most CPU of their control planes together, in cores.")] = ""
    memory: Annotated[QuantityText, Field("Most memory of their control planes together.")] = ""
    pods: Annotated[Int32 | None, Field("Most pods of their control planes together.", minimum=0)] = None
    slots: Annotated[
        Int32 | None, Field("Most room, in hosted clusters of size small that it is worth.", minimum=0)
    ] = None


class HostingTenant(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[
        str, Field("Name of the tenant.", required=True, pattern=NAMESPACE, max_length=63, min_length=1)
    ] = field(default_factory=str)
    namespaces: Annotated[
        tuple[Annotated[str, Field(pattern=NAMESPACE_PATTERN, max_length=63)], ...],
        Field(
            "Namespaces of the hub whose requests are of this tenant; a final asterisk matches any rest. A namespace "
            "of several tenants is of the first one, unless the request names another in spec.tenant.",
            required=True,
            list_type="set",
            max_items=1024,
        ),
    ] = field(default_factory=tuple)
    quota: Annotated[
        HostingQuota | None,
        Field("What its requests may hold, instead of the quota of the policy.", validations=(QUOTA_RULE,)),
    ] = None


class HostingPriorityClass(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[
        str,
        Field(
            "Name that requests use in spec.priorityClass.", required=True, pattern=SIZE_NAME, max_length=32
        ),
    ] = field(default_factory=str)
    value: Annotated[
        Int32,
        Field(
            "Requests with a higher value are placed first.",
            required=True,
            minimum=-MOST_PRIORITY,
            maximum=MOST_PRIORITY,
        ),
    ] = field(default_factory=int)
    namespaces: Annotated[
        tuple[Annotated[str, Field(pattern=NAMESPACE_PATTERN, max_length=63)], ...],
        Field(
            "Namespaces whose requests may use the class; a final asterisk matches any rest. Empty means every "
            "namespace.",
            list_type="set",
            max_items=1024,
        ),
    ] = ()
    default: Annotated[
        bool,
        Field("Whether requests without spec.priorityClass have this class, if their namespace may use it."),
    ] = False


class HostLoss(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    after: Annotated[
        str,
        Field(
            "How long a hosting cluster must be unavailable without a break before it counts as lost. Requests that it "
            "has not reported by then are placed again.",
            default="10m",
            pattern=DURATION,
        ),
    ] = ""
    recreate: Annotated[
        str,
        Field(
            "Whether hosted clusters of a lost hosting cluster may be created again, empty, on others. Never: they "
            "keep their place, because their data is there. Approved: if a person approves it by fairway hosting "
            "recover.",
            default=NEVER,
            enum=(NEVER, APPROVED),
        ),
    ] = ""


class HostingPolicySpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    namespaces: Annotated[
        tuple[Annotated[str, Field(pattern=NAMESPACE_PATTERN, max_length=63)], ...],
        Field(
            "Namespaces whose requests may name the policy; a final asterisk matches any rest. Empty means every "
            "namespace.",
            list_type="set",
            max_items=1024,
        ),
    ] = ()
    permits: Annotated[HostingPermits, Field("What requests may create on hosting clusters.")] = (
        HostingPermits()
    )
    placementNamespaces: Annotated[
        tuple[Annotated[str, Field(pattern=NAMESPACE_PATTERN, max_length=63)], ...],
        Field(
            "Namespaces whose Placements take room: each of their decisions that debits the score of the policy counts "
            "as one hosted cluster until the hosting cluster publishes again; a final asterisk matches any rest. Name "
            "only namespaces whose users may fill the hosting clusters. Empty means none.",
            list_type="set",
            max_items=1024,
        ),
    ] = ()
    tenants: Annotated[
        tuple[HostingTenant, ...],
        Field(
            "Tenants, where one is more or less than a namespace. A namespace that none of them lists is a tenant of "
            "its own.",
            list_type="map",
            map_keys=("name",),
            max_items=1024,
        ),
    ] = ()
    quota: Annotated[
        HostingQuota | None,
        Field(
            "What the requests of each tenant may hold under this policy, from their reservation on.",
            validations=(QUOTA_RULE,),
        ),
    ] = None
    priorityClasses: Annotated[
        tuple[HostingPriorityClass, ...],
        Field(
            "Priorities that requests can have. Without classes, all requests have the same.",
            list_type="map",
            map_keys=("name",),
            max_items=32,
            validations=(DEFAULTS_RULE,),
        ),
    ] = ()
    template: Annotated[
        HostingTemplate | None,
        Field(
            "Defaults for what requests create: maps are merged, and any other value of a request replaces the one of "
            "the template."
        ),
    ] = None
    clusterSets: Annotated[
        tuple[str, ...],
        Field("Cluster sets whose members host; empty means every hosting cluster.", list_type="set"),
    ] = ()
    capacity: Annotated[HostingCapacity, Field("How the capacity of a hosting cluster is determined.")] = (
        HostingCapacity()
    )
    strategy: Annotated[
        str,
        Field(
            "Spread prefers the hosting cluster with the most headroom, Pack the one with the least that fits.",
            default=SPREAD,
            enum=(SPREAD, PACK),
        ),
    ] = ""
    spareHosts: Annotated[
        Int32,
        Field(
            "Number of hosting clusters that may fail at once while everything they carry still fits on the others.",
            default=0,
            minimum=0,
            maximum=1,
        ),
    ] = 0
    maxPerHost: Annotated[
        Int32, Field("Most hosted clusters on one hosting cluster.", default=DEFAULT_MAX_PER_HOST, minimum=1)
    ] = 0
    maxUtilization: Annotated[
        Int32,
        Field(
            "Percentage of the capacity in the fullest dimension up to which a hosting cluster is filled.",
            default=100,
            minimum=1,
            maximum=100,
        ),
    ] = 0
    tenantAntiAffinity: Annotated[
        str,
        Field(
            "Whether hosted clusters of one tenant avoid each other. Required refuses a second one on the same hosting "
            "cluster, Preferred avoids it while another one fits.",
            default=NONE,
            enum=(NONE, PREFERRED, REQUIRED),
        ),
    ] = ""
    sizes: Annotated[
        tuple[Annotated[HostedClusterSize, Field(validations=(AMOUNTS_RULE,))], ...],
        Field(
            "Sizes that requests can name, besides small, medium and large; the same name replaces one of those.",
            list_type="map",
            map_keys=("name",),
            max_items=32,
        ),
    ] = ()
    reservationTimeout: Annotated[
        str,
        Field(
            "How long a hosted cluster may take to appear on its hosting cluster before its reservation is released.",
            default="10m",
            pattern=DURATION,
        ),
    ] = ""
    hostLoss: Annotated[
        HostLoss, Field("When a hosting cluster counts as lost, and what may happen to what it carried.")
    ] = HostLoss()
    quietHours: Annotated[
        tuple[Annotated[QuietHours, Field(validations=(("self.start != self.end", SAME_TIMES),))], ...],
        Field(
            "Times in which no hosted cluster is bound or moved; requests wait.",
            list_type="atomic",
            max_items=32,
        ),
    ] = ()


class HostingPolicyStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    hosts: Annotated[Int32, Field("Number of hosting clusters that the policy covers.")] = 0
    unknownHosts: Annotated[Int32, Field("Number of these whose capacity is unknown or too old.")] = 0
    hostedClusters: Annotated[Int32, Field("Number of hosted clusters on them.")] = 0
    reserved: Annotated[Int32, Field("How many of these the published load does not include yet.")] = 0
    freeSlots: Annotated[Int32, Field("How many more small hosted clusters fit.")] = 0
    conditions: Conditions = ()


class HostingPolicy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """How hosted clusters are distributed over hosting clusters. Requests that name no policy use ``default``."""

    apiVersion: str = HOSTING_VERSION
    kind: str = "HostingPolicy"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        HostingPolicySpec, Field("Which clusters host, and how they are filled.", required=True)
    ] = HostingPolicySpec()
    status: Annotated[HostingPolicyStatus, Field("Observed use of the hosting clusters.")] = (
        HostingPolicyStatus()
    )
