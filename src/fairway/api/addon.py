"""Add-ons: ClusterManagementAddOn for the fleet, and ManagedClusterAddOn for one cluster."""

from typing import Annotated, Final

from msgspec import Struct, field

from fairway.api.annotation import NAMESPACE, Field, Int32, Int64
from fairway.api.meta import Conditions, ObjectMeta

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

SIGNER_NAME: Final = r"^([a-z0-9][a-z0-9-]*[a-z0-9]\.)+[a-z]+\/[a-z0-9-\.]+$"
_COUNT_OR_SHARE: Final = r"^((100|[0-9]{1,2})%|[0-9]+)$"
_DEADLINE: Final = r"^(([0-9])+[h|m|s])|None$"

Share = Annotated[int | str, Field(pattern=_COUNT_OR_SHARE)]
"""A number of clusters, or a percentage of them."""


class ConfigGroupResource(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The group and resource of a kind of configuration."""

    group: Annotated[str, Field("API group of the configuration.", default="")] = ""
    resource: Annotated[
        str, Field("Plural name of the configuration's kind.", required=True, min_length=1)
    ] = field(default_factory=str)


class ConfigReferent(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    namespace: Annotated[str, Field("Its namespace; empty for a cluster-wide kind.")] = ""
    name: Annotated[str, Field("Its name.", required=True, min_length=1)] = field(default_factory=str)


class AddOnConfig(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A configuration: its kind and object."""

    group: Annotated[str, Field("API group of the configuration.", default="")] = ""
    resource: Annotated[
        str, Field("Plural name of the configuration's kind.", required=True, min_length=1)
    ] = field(default_factory=str)
    namespace: Annotated[str, Field("Its namespace; empty for a cluster-wide kind.")] = ""
    name: Annotated[str, Field("Its name.", required=True, min_length=1)] = field(default_factory=str)


class ConfigSpecHash(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    namespace: Annotated[str, Field("Its namespace; empty for a cluster-wide kind.")] = ""
    name: Annotated[str, Field("Its name.", required=True, min_length=1)] = field(default_factory=str)
    specHash: Annotated[str, Field("Hash of the spec it had.")] = ""


class AddOnMeta(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    displayName: Annotated[str, Field("Name for people.")] = ""
    description: Annotated[str, Field("What it does, for people.")] = ""


class ConfigCoordinates(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The deprecated way to name a configuration; ignored."""

    crdName: Annotated[str, Field("Name of the definition of the configuration's kind.")] = ""
    crName: Annotated[str, Field("Name of the configuration.")] = ""
    lastObservedGeneration: Annotated[Int64, Field("Generation that was last seen.")] = 0


class SupportedConfig(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    group: Annotated[str, Field("API group of the configuration.", default="")] = ""
    resource: Annotated[
        str, Field("Plural name of the configuration's kind.", required=True, min_length=1)
    ] = field(default_factory=str)
    defaultConfig: Annotated[ConfigReferent | None, Field("Used wherever no other is named.")] = None


class MandatoryDecisionGroup(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    groupName: Annotated[str, Field("Name of a decision group.")] = ""
    groupIndex: Annotated[Int32, Field("Index of a decision group.")] = 0


class RolloutAll(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    minSuccessTime: Annotated[
        str, Field("How long a success must last before the next one is begun.", default="0")
    ] = ""
    progressDeadline: Annotated[
        str, Field("How long a cluster may take.", default="None", pattern=_DEADLINE)
    ] = ""
    maxFailures: Annotated[Share | None, Field("How many may fail before the rollout stops.", default=0)] = (
        None
    )


class RolloutPerGroup(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    minSuccessTime: Annotated[
        str, Field("How long a success must last before the next one is begun.", default="0")
    ] = ""
    progressDeadline: Annotated[
        str, Field("How long a cluster may take.", default="None", pattern=_DEADLINE)
    ] = ""
    maxFailures: Annotated[Share | None, Field("How many may fail before the rollout stops.", default=0)] = (
        None
    )
    mandatoryDecisionGroups: Annotated[
        tuple[MandatoryDecisionGroup, ...], Field("Groups that must succeed before all others.")
    ] = ()


class RolloutProgressive(RolloutPerGroup, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    maxConcurrency: Annotated[Share | None, Field("How many clusters at a time.")] = None


class RolloutStrategy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str,
        Field(
            "How a change reaches the clusters.",
            default=ROLLOUT_ALL,
            enum=(ROLLOUT_ALL, ROLLOUT_PROGRESSIVE, ROLLOUT_PER_GROUP),
        ),
    ] = ""
    all: Annotated[RolloutAll | None, Field("All at once.")] = None
    progressive: Annotated[RolloutProgressive | None, Field("Some at a time.")] = None
    progressivePerGroup: Annotated[RolloutPerGroup | None, Field("One decision group at a time.")] = None


class PlacementStrategy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of the Placement.", required=True, min_length=1)] = field(
        default_factory=str
    )
    namespace: Annotated[str, Field("Namespace of the Placement.", required=True, min_length=1)] = field(
        default_factory=str
    )
    configs: Annotated[
        tuple[AddOnConfig, ...], Field("Configurations for the clusters this Placement chooses.")
    ] = ()
    rolloutStrategy: Annotated[
        RolloutStrategy, Field("How a change reaches these clusters.", default={"type": ROLLOUT_ALL})
    ] = RolloutStrategy()


class InstallStrategy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str,
        Field(
            "Who decides on which clusters it is installed: users, or Placements.",
            default=MANUAL,
            enum=(MANUAL, PLACEMENTS),
        ),
    ] = ""
    placements: Annotated[
        tuple[PlacementStrategy, ...],
        Field(
            "The Placements, if those decide. Where several choose a cluster, the first one counts.",
            list_type="map",
            map_keys=("namespace", "name"),
        ),
    ] = ()


class ClusterManagementAddOnSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    addOnMeta: Annotated[AddOnMeta, Field("For people.")] = AddOnMeta()
    addOnConfiguration: Annotated[ConfigCoordinates | None, Field("Deprecated; use supportedConfigs.")] = None
    supportedConfigs: Annotated[
        tuple[SupportedConfig, ...],
        Field(
            "Kinds of configuration the add-on understands.", list_type="map", map_keys=("group", "resource")
        ),
    ] = ()
    installStrategy: Annotated[
        InstallStrategy, Field("On which clusters it is installed.", default={"type": MANUAL})
    ] = InstallStrategy()


class DefaultConfigReference(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    group: Annotated[str, Field("API group of the configuration.", default="")] = ""
    resource: Annotated[
        str, Field("Plural name of the configuration's kind.", required=True, min_length=1)
    ] = field(default_factory=str)
    desiredConfig: Annotated[ConfigSpecHash | None, Field("What it should be.")] = None


class InstallConfigReference(DefaultConfigReference, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    lastKnownGoodConfig: Annotated[ConfigSpecHash | None, Field("What last worked everywhere.")] = None
    lastAppliedConfig: Annotated[ConfigSpecHash | None, Field("What was last applied everywhere.")] = None


class InstallProgression(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of the Placement.", required=True, min_length=1)] = field(
        default_factory=str
    )
    namespace: Annotated[str, Field("Namespace of the Placement.", required=True, min_length=1)] = field(
        default_factory=str
    )
    configReferences: Annotated[
        tuple[InstallConfigReference, ...], Field("Configurations and how far they got.")
    ] = ()
    conditions: Conditions = ()


class ClusterManagementAddOnStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    defaultconfigReferences: Annotated[
        tuple[DefaultConfigReference, ...], Field("The default configurations.")
    ] = ()
    installProgressions: Annotated[
        tuple[InstallProgression, ...], Field("How far the installation got, by Placement.")
    ] = ()


class ClusterManagementAddOn(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An add-on the hub offers. Its ManagedClusterAddOns have its name."""

    apiVersion: str = f"{ADD_ON_GROUP}/v1alpha1"
    kind: str = "ClusterManagementAddOn"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        ClusterManagementAddOnSpec, Field("What it is, and where it is wanted.", required=True)
    ] = ClusterManagementAddOnSpec()
    status: Annotated[ClusterManagementAddOnStatus, Field("How far it got.")] = ClusterManagementAddOnStatus()


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
        tuple[AddOnConfig, ...], Field("Configurations for this cluster, before those of the add-on.")
    ] = ()


class ConfigReference(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """``name`` and ``namespace`` repeat what ``desiredConfig`` says: old readers look there."""

    group: Annotated[str, Field("API group of the configuration.", default="")] = ""
    resource: Annotated[
        str, Field("Plural name of the configuration's kind.", required=True, min_length=1)
    ] = field(default_factory=str)
    namespace: Annotated[str, Field("Its namespace; empty for a cluster-wide kind.")] = ""
    name: Annotated[str, Field("Its name.", required=True, min_length=1)] = field(default_factory=str)
    lastObservedGeneration: Annotated[Int64, Field("Generation that was last seen.")] = 0
    desiredConfig: Annotated[ConfigSpecHash | None, Field("What it should be.")] = None
    lastAppliedConfig: Annotated[ConfigSpecHash | None, Field("What was last applied.")] = None


class RegistrationSubject(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    user: Annotated[str, Field("The user the agent is on the hub.")] = ""
    groups: Annotated[tuple[str, ...], Field("The groups it is in.")] = ()
    organizationUnit: Annotated[
        tuple[str, ...], Field("Organisational units in its certificate, for signers that ask for them.")
    ] = ()


class RegistrationConfig(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    signerName: Annotated[
        str,
        Field(
            "Who signs the certificate of the agent.",
            required=True,
            min_length=5,
            max_length=571,
            pattern=SIGNER_NAME,
        ),
    ] = field(default_factory=str)
    subject: Annotated[RegistrationSubject, Field("Who the certificate says the agent is.")] = (
        RegistrationSubject()
    )


class HealthCheck(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    mode: Annotated[
        str,
        Field(
            "By what the health of the agent is judged.",
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
        tuple[AddOnObjectReference, ...], Field("Objects that belong to the add-on, on the hub.")
    ] = ()
    addOnMeta: Annotated[AddOnMeta | None, Field("For people.")] = None
    addOnConfiguration: Annotated[ConfigCoordinates | None, Field("Deprecated; use configReferences.")] = None
    supportedConfigs: Annotated[
        tuple[ConfigGroupResource, ...],
        Field(
            "Kinds of configuration the add-on understands.", list_type="map", map_keys=("group", "resource")
        ),
    ] = ()
    configReferences: Annotated[
        tuple[ConfigReference, ...], Field("Configurations in use, and which state of them.")
    ] = ()
    namespace: Annotated[str, Field("Namespace of the agent on the managed cluster.")] = ""
    registrations: Annotated[
        tuple[RegistrationConfig, ...], Field("The identities the agent gets on the hub.")
    ] = ()
    healthCheck: Annotated[HealthCheck | None, Field("How the health of the agent is judged.")] = None
    kubeClientDriver: Annotated[
        str, Field("How the agent gets its credentials for the hub.", enum=("csr", "token"))
    ] = ""


class ManagedClusterAddOn(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An add-on on one cluster: the one its namespace is named like."""

    apiVersion: str = f"{ADD_ON_GROUP}/v1alpha1"
    kind: str = "ManagedClusterAddOn"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ManagedClusterAddOnSpec, Field("What is wanted.", required=True)] = (
        ManagedClusterAddOnSpec()
    )
    status: Annotated[ManagedClusterAddOnStatus, Field("What is known.")] = ManagedClusterAddOnStatus()
