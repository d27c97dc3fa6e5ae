"""HostingPolicy: which clusters host control planes, how full they get, and how hosted clusters are distributed."""

from typing import Annotated, Final

from msgspec import Struct, field

from fairway.api.annotation import Field, Int32, QuantityText
from fairway.api.meta import Conditions, ObjectMeta

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

SCORE_RESOURCE: Final = "hosted-clusters-score"
COUNT_SCORE: Final = "hostedClustersCount"
"""Where the hypershift add-on publishes the number of hosted clusters."""

DEFAULT_MAX_PER_HOST: Final = 80
"""The maximum of the hypershift add-on."""

WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

SIZE_NAME: Final = "^[a-z]([-a-z0-9]{0,30}[a-z0-9])?$"
DURATION: Final = "^[1-9][0-9]{0,5}[hms]$"
TIME_OF_DAY: Final = "^([01][0-9]|2[0-3]):[0-5][0-9]$"

NEGATIVE_AMOUNT: Final = (
    'an amount must not be negative: write cpu such as "4" or "500m", memory such as "16Gi"'
)
SAME_TIMES: Final = 'start and end must differ: write 24 quiet hours as start "00:00" and end "23:59"'


AMOUNTS_RULE: Final = (
    " && ".join(
        f"(type(self.{name}) == string ? !self.{name}.startsWith('-') : self.{name} >= 0)"
        for name in ("cpu", "memory")
    ),
    NEGATIVE_AMOUNT,
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
            "What limits a hosting cluster. Count: the number of hosted clusters. Slots: the published free slots by "
            "size. Resources: free CPU and memory. Auto: the most exact of them that the cluster publishes.",
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


class HostingPolicySpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
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
    reserved: Annotated[Int32, Field("Number of hosted clusters that are reserved and not yet reported.")] = 0
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
