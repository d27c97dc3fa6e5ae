"""Add-ons: ClusterManagementAddOn for the fleet, and ManagedClusterAddOn for one cluster."""

from typing import Annotated, Final

from msgspec import Struct, field

from kubewire.api.annotation import NAMESPACE, Field, Int32, Int64
from kubewire.api.meta import Conditions, ObjectMeta

ADD_ON_GROUP: Final = "addon.open-cluster-management.io"

INSTALL_NAMESPACE: Final = "open-cluster-management-agent-addon"
"""Default namespace of add-on agents on a managed cluster."""

MANUAL: Final = "Manual"
PLACEMENTS: Final = "Placements"

ROLLOUT_ALL: Final = "All"
ROLLOUT_PROGRESSIVE: Final = "Progressive"
ROLLOUT_PER_GROUP: Final = "ProgressivePerGroup"

LEASE_HEALTH: Final = "Lease"
CUSTOMIZED_HEALTH: Final = "Customized"

_SIGNER_NAME: Final = r"^([a-z0-9][a-z0-9-]*[a-z0-9]\.)+[a-z]+\/[a-z0-9-\.]+$"
_COUNT_OR_SHARE: Final = r"^((100|[0-9]{1,2})%|[0-9]+)$"
_DEADLINE: Final = r"^(([0-9])+[h|m|s])|None$"

Share = Annotated[int | str, Field(pattern=_COUNT_OR_SHARE)]
"""A number of clusters, or a percentage of them."""
SignerName = Annotated[
    str,
    Field(
        "Signer of the agent's certificate.",
        required=True,
        min_length=5,
        max_length=571,
        pattern=_SIGNER_NAME,
    ),
]


class ConfigGroupResource(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The group and resource of a kind of configuration."""

    group: Annotated[str, Field("API group of the configuration.", default="")] = ""
    resource: Annotated[
        str, Field("Plural name of the configuration's kind.", required=True, min_length=1)
    ] = field(default_factory=str)


class ConfigReferent(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    namespace: Annotated[str, Field("Namespace of the configuration; empty for a cluster-scoped kind.")] = ""
    name: Annotated[str, Field("Name of the configuration.", required=True, min_length=1)] = field(
        default_factory=str
    )


class AddOnConfig(ConfigGroupResource, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A configuration: its kind and object."""

    namespace: Annotated[str, Field("Namespace of the configuration; empty for a cluster-scoped kind.")] = ""
    name: Annotated[str, Field("Name of the configuration.", required=True, min_length=1)] = field(
        default_factory=str
    )


class ConfigSpecHash(ConfigReferent, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    specHash: Annotated[str, Field("Hash of its spec.")] = ""


class AddOnMeta(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    displayName: Annotated[str, Field("Display name.")] = ""
    description: Annotated[str, Field("Description of the add-on.")] = ""


class ConfigCoordinates(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The deprecated way to name a configuration; ignored."""

    crdName: Annotated[str, Field("Name of the CustomResourceDefinition of the configuration.")] = ""
    crName: Annotated[str, Field("Name of the configuration.")] = ""
    lastObservedGeneration: Annotated[Int64, Field("Last observed generation.")] = 0


class SupportedConfig(ConfigGroupResource, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    defaultConfig: Annotated[ConfigReferent | None, Field("Default configuration.")] = None


class MandatoryDecisionGroup(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    groupName: Annotated[str, Field("Name of a decision group.")] = ""
    groupIndex: Annotated[Int32, Field("Index of a decision group.")] = 0


class RolloutAll(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    minSuccessTime: Annotated[
        str, Field("Minimum time for which a cluster must succeed before the rollout continues.", default="0")
    ] = ""
    progressDeadline: Annotated[
        str, Field("Maximum time until a cluster counts as failed.", default="None", pattern=_DEADLINE)
    ] = ""
    maxFailures: Annotated[
        Share | None,
        Field("Number or percentage of clusters that may fail before the rollout stops.", default=0),
    ] = None


class RolloutPerGroup(RolloutAll, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    mandatoryDecisionGroups: Annotated[
        tuple[MandatoryDecisionGroup, ...], Field("Decision groups that are rolled out first.")
    ] = ()


class RolloutProgressive(RolloutPerGroup, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    maxConcurrency: Annotated[
        Share | None, Field("Number or percentage of clusters that are rolled out concurrently.")
    ] = None


class RolloutStrategy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str,
        Field(
            "Rollout strategy.",
            default=ROLLOUT_ALL,
            enum=(ROLLOUT_ALL, ROLLOUT_PROGRESSIVE, ROLLOUT_PER_GROUP),
        ),
    ] = ""
    all: Annotated[RolloutAll | None, Field("Options of the strategy All.")] = None
    progressive: Annotated[RolloutProgressive | None, Field("Options of the strategy Progressive.")] = None
    progressivePerGroup: Annotated[
        RolloutPerGroup | None, Field("Options of the strategy ProgressivePerGroup.")
    ] = None


class PlacementReference(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of the Placement.", required=True, min_length=1)] = field(
        default_factory=str
    )
    namespace: Annotated[str, Field("Namespace of the Placement.", required=True, min_length=1)] = field(
        default_factory=str
    )


class PlacementStrategy(PlacementReference, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    configs: Annotated[
        tuple[AddOnConfig, ...], Field("Configurations for the clusters that this Placement selects.")
    ] = ()
    rolloutStrategy: Annotated[
        RolloutStrategy, Field("Rollout strategy of these clusters.", default={"type": ROLLOUT_ALL})
    ] = RolloutStrategy()


class InstallStrategy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str,
        Field(
            "Whether users (Manual) or Placements select the clusters on which the add-on is installed.",
            default=MANUAL,
            enum=(MANUAL, PLACEMENTS),
        ),
    ] = ""
    placements: Annotated[
        tuple[PlacementStrategy, ...],
        Field(
            "Placements of the type Placements. If several select a cluster, the last one applies.",
            list_type="map",
            map_keys=("namespace", "name"),
        ),
    ] = ()


class ClusterManagementAddOnSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    addOnMeta: Annotated[AddOnMeta, Field("Display name and description.")] = AddOnMeta()
    addOnConfiguration: Annotated[ConfigCoordinates | None, Field("Deprecated; use supportedConfigs.")] = None
    supportedConfigs: Annotated[
        tuple[SupportedConfig, ...],
        Field(
            "Kinds of configuration that the add-on supports.",
            list_type="map",
            map_keys=("group", "resource"),
        ),
    ] = ()
    installStrategy: Annotated[
        InstallStrategy, Field("Clusters on which the add-on is installed.", default={"type": MANUAL})
    ] = InstallStrategy()


class DefaultConfigReference(ConfigGroupResource, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    desiredConfig: Annotated[ConfigSpecHash | None, Field("Desired configuration.")] = None


class InstallConfigReference(DefaultConfigReference, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    lastKnownGoodConfig: Annotated[
        ConfigSpecHash | None, Field("Configuration of the last complete rollout.")
    ] = None
    lastAppliedConfig: Annotated[
        ConfigSpecHash | None, Field("Configuration that was last applied to all clusters.")
    ] = None


class InstallProgression(PlacementReference, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    configReferences: Annotated[
        tuple[InstallConfigReference, ...], Field("Configurations and the progress of their rollout.")
    ] = ()
    conditions: Conditions = ()


class ClusterManagementAddOnStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    defaultconfigReferences: Annotated[
        tuple[DefaultConfigReference, ...], Field("Default configurations.")
    ] = ()
    installProgressions: Annotated[
        tuple[InstallProgression, ...], Field("Progress of the installation, by Placement.")
    ] = ()


class ClusterManagementAddOn(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An add-on the hub offers. Its ManagedClusterAddOns have its name."""

    apiVersion: str = f"{ADD_ON_GROUP}/v1alpha1"
    kind: str = "ClusterManagementAddOn"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ClusterManagementAddOnSpec, Field("Desired state of the add-on.", required=True)] = (
        ClusterManagementAddOnSpec()
    )
    status: Annotated[ClusterManagementAddOnStatus, Field("Observed state of the add-on.")] = (
        ClusterManagementAddOnStatus()
    )


class ManagedClusterAddOnSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    installNamespace: Annotated[
        str,
        Field(
            "Namespace of the agent on the managed cluster.",
            default=INSTALL_NAMESPACE,
            max_length=63,
            pattern=NAMESPACE,
        ),
    ] = ""
    configs: Annotated[
        tuple[AddOnConfig, ...], Field("Configurations for this cluster, which override those of the add-on.")
    ] = ()


class ConfigReference(AddOnConfig, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """``name`` and ``namespace`` repeat ``desiredConfig``, for older readers."""

    lastObservedGeneration: Annotated[Int64, Field("Last observed generation.")] = 0
    desiredConfig: Annotated[ConfigSpecHash | None, Field("Desired configuration.")] = None
    lastAppliedConfig: Annotated[ConfigSpecHash | None, Field("Last applied configuration.")] = None


class RegistrationSubject(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    user: Annotated[str, Field("User name of the agent on the hub.")] = ""
    groups: Annotated[tuple[str, ...], Field("Groups of the user.")] = ()
    organizationUnit: Annotated[
        tuple[str, ...], Field("Organisational units in the certificate, for custom signers.")
    ] = ()


class RegistrationConfig(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    signerName: SignerName = field(default_factory=str)
    subject: Annotated[RegistrationSubject, Field("Subject of the agent's certificate.")] = (
        RegistrationSubject()
    )


class HealthCheck(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    mode: Annotated[
        str,
        Field(
            "How the health of the agent is determined.",
            default=LEASE_HEALTH,
            enum=(LEASE_HEALTH, CUSTOMIZED_HEALTH),
        ),
    ] = ""


class AddOnObjectReference(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    group: Annotated[str, Field("API group.", required=True)] = field(default_factory=str)
    resource: Annotated[str, Field("Plural name of the kind.", required=True)] = field(default_factory=str)
    namespace: Annotated[str, Field("Namespace.")] = ""
    name: Annotated[str, Field("Name.", required=True)] = field(default_factory=str)


class ManagedClusterAddOnStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    conditions: Conditions = ()
    relatedObjects: Annotated[
        tuple[AddOnObjectReference, ...], Field("Objects on the hub that are related to the add-on.")
    ] = ()
    addOnMeta: Annotated[AddOnMeta | None, Field("Display name and description.")] = None
    addOnConfiguration: Annotated[ConfigCoordinates | None, Field("Deprecated; use configReferences.")] = None
    supportedConfigs: Annotated[
        tuple[ConfigGroupResource, ...],
        Field(
            "Kinds of configuration that the add-on supports.",
            list_type="map",
            map_keys=("group", "resource"),
        ),
    ] = ()
    configReferences: Annotated[
        tuple[ConfigReference, ...], Field("Configurations in use, with their desired and applied versions.")
    ] = ()
    namespace: Annotated[str, Field("Namespace of the agent on the managed cluster.")] = ""
    registrations: Annotated[
        tuple[RegistrationConfig, ...], Field("Identities of the agent on the hub.")
    ] = ()
    healthCheck: Annotated[HealthCheck | None, Field("How the health of the agent is determined.")] = None
    kubeClientDriver: Annotated[
        str, Field("How the agent gets its credentials for the hub.", enum=("csr", "token"))
    ] = ""


class ManagedClusterAddOn(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An add-on on one cluster: the one its namespace is named like."""

    apiVersion: str = f"{ADD_ON_GROUP}/v1alpha1"
    kind: str = "ManagedClusterAddOn"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ManagedClusterAddOnSpec, Field("Desired state.", required=True)] = (
        ManagedClusterAddOnSpec()
    )
    status: Annotated[ManagedClusterAddOnStatus, Field("Observed state.")] = ManagedClusterAddOnStatus()
