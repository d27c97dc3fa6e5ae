"""The CustomResourceDefinitions of every kind, generated from the Structs."""

from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from fairway.api.addon import ADD_ON_GROUP, ClusterManagementAddOn, ManagedClusterAddOn
from fairway.api.addon_config import AddOnDeploymentConfig
from fairway.api.addon_template import AddOnTemplate
from fairway.api.claim import ClusterClaim
from fairway.api.cluster import ManagedCluster
from fairway.api.clusterset import ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.decision import PlacementDecision
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.hosting_policy import HOSTING_GROUP, HostingPolicy
from fairway.api.placement import Placement
from fairway.api.placement_v1alpha1 import PlacementV1Alpha1
from fairway.api.schema import object_schema
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.api.virtual_machine import NEON_GROUP, VirtualMachine, VirtualMachineMigration
from fairway.api.work import WORK_GROUP, AppliedManifestWork, ManifestWork

GROUP: Final = "cluster.open-cluster-management.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of ``kubectl get``."""

    name: str
    type: str
    path: str
    priority: int = 0
    """Columns above 0 are shown with ``-o wide`` only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    name: str
    struct: type[Struct]
    storage: bool = True
    deprecation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Properties of a kind besides its fields."""

    kind: str
    plural: str
    namespaced: bool
    versions: tuple[Version, ...]
    group: str = GROUP
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    is_partial: bool = False
    """Whether the Struct has only some fields of the kind, so that the others are stored unchecked."""

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"


_AGE: Final = Column(name="Age", type="date", path=".metadata.creationTimestamp")


def _condition(name: str, condition: str, attribute: str = "status", *, priority: int = 0) -> Column:
    path = f'.status.conditions[?(@.type=="{condition}")].{attribute}'
    return Column(name=name, type="string", path=path, priority=priority)


RESOURCES: Final = (
    Resource(
        kind="ManagedCluster",
        plural="managedclusters",
        namespaced=False,
        short_names=("mcl", "mcls"),
        versions=(Version(name="v1", struct=ManagedCluster),),
        columns=(
            Column(name="Hub Accepted", type="boolean", path=".spec.hubAcceptsClient"),
            Column(
                name="Managed Cluster URLs", type="string", path=".spec.managedClusterClientConfigs[*].url"
            ),
            _condition("Joined", "ManagedClusterJoined"),
            _condition("Available", "ManagedClusterConditionAvailable"),
            _AGE,
        ),
    ),
    Resource(
        kind="ManagedClusterSet",
        plural="managedclustersets",
        namespaced=False,
        short_names=("mclset", "mclsets"),
        versions=(Version(name="v1beta2", struct=ManagedClusterSet),),
        columns=(_condition("Empty", "ClusterSetEmpty"), _AGE),
    ),
    Resource(
        kind="ManagedClusterSetBinding",
        plural="managedclustersetbindings",
        namespaced=True,
        short_names=("mclsetbinding", "mclsetbindings"),
        versions=(Version(name="v1beta2", struct=ManagedClusterSetBinding),),
    ),
    Resource(
        kind="Placement",
        plural="placements",
        namespaced=True,
        versions=(
            Version(name="v1beta1", struct=Placement),
            Version(
                name="v1alpha1",
                struct=PlacementV1Alpha1,
                storage=False,
                deprecation=f"{GROUP}/v1alpha1 Placement is deprecated; use {GROUP}/v1beta1",
            ),
        ),
        columns=(
            _condition("Succeeded", "PlacementSatisfied"),
            _condition("Reason", "PlacementSatisfied", "reason"),
            Column(name="SelectedClusters", type="integer", path=".status.numberOfSelectedClusters"),
        ),
    ),
    Resource(
        kind="PlacementDecision",
        plural="placementdecisions",
        namespaced=True,
        versions=(Version(name="v1beta1", struct=PlacementDecision),),
    ),
    Resource(
        kind="AddOnPlacementScore",
        plural="addonplacementscores",
        namespaced=True,
        versions=(Version(name="v1alpha1", struct=AddOnPlacementScore),),
    ),
    Resource(
        kind="ManagedClusterScore",
        plural="managedclusterscores",
        namespaced=True,
        versions=(Version(name="v1alpha1", struct=ManagedClusterScore),),
        columns=(Column(name="Score", type="integer", path=".status.score"), _AGE),
    ),
    Resource(
        kind="ManifestWork",
        plural="manifestworks",
        group=WORK_GROUP,
        namespaced=True,
        versions=(Version(name="v1", struct=ManifestWork),),
    ),
    Resource(
        kind="AppliedManifestWork",
        plural="appliedmanifestworks",
        group=WORK_GROUP,
        namespaced=False,
        versions=(Version(name="v1", struct=AppliedManifestWork),),
    ),
    Resource(
        kind="ClusterClaim",
        plural="clusterclaims",
        namespaced=False,
        versions=(Version(name="v1alpha1", struct=ClusterClaim),),
    ),
    Resource(
        kind="ClusterManagementAddOn",
        plural="clustermanagementaddons",
        group=ADD_ON_GROUP,
        namespaced=False,
        short_names=("cma", "cmas"),
        versions=(Version(name="v1alpha1", struct=ClusterManagementAddOn),),
        columns=(
            Column(name="DISPLAY NAME", type="string", path=".spec.addOnMeta.displayName"),
            Column(name="CRD NAME", type="string", path=".spec.addOnConfiguration.crdName"),
        ),
    ),
    Resource(
        kind="ManagedClusterAddOn",
        plural="managedclusteraddons",
        group=ADD_ON_GROUP,
        namespaced=True,
        short_names=("mca", "mcas"),
        versions=(Version(name="v1alpha1", struct=ManagedClusterAddOn),),
        columns=(
            _condition("Available", "Available"),
            _condition("Degraded", "Degraded"),
            _condition("Progressing", "Progressing"),
        ),
    ),
    Resource(
        kind="AddOnDeploymentConfig",
        plural="addondeploymentconfigs",
        group=ADD_ON_GROUP,
        namespaced=True,
        versions=(Version(name="v1alpha1", struct=AddOnDeploymentConfig),),
    ),
    Resource(
        kind="AddOnTemplate",
        plural="addontemplates",
        group=ADD_ON_GROUP,
        namespaced=False,
        versions=(Version(name="v1alpha1", struct=AddOnTemplate),),
        columns=(Column(name="ADDON NAME", type="string", path=".spec.addonName"),),
    ),
    Resource(
        kind="HostedClusterRequest",
        plural="hostedclusterrequests",
        group=HOSTING_GROUP,
        namespaced=True,
        short_names=("hcr", "hcrs"),
        versions=(Version(name="v1alpha1", struct=HostedClusterRequest),),
        columns=(
            Column(name="Phase", type="string", path=".status.phase"),
            Column(name="Host", type="string", path=".status.hostingCluster.name"),
            Column(name="Size", type="string", path=".spec.size"),
            _condition("Reason", "Scheduled", "reason"),
            _condition("Message", "Scheduled", "message", priority=1),
            _AGE,
        ),
    ),
    Resource(
        kind="HostingPolicy",
        plural="hostingpolicies",
        group=HOSTING_GROUP,
        namespaced=False,
        short_names=("hostpol", "hostpols"),
        versions=(Version(name="v1alpha1", struct=HostingPolicy),),
        columns=(
            Column(name="Strategy", type="string", path=".spec.strategy"),
            Column(name="Hosts", type="integer", path=".status.hosts"),
            Column(name="Unknown", type="integer", path=".status.unknownHosts"),
            Column(name="Hosted", type="integer", path=".status.hostedClusters"),
            Column(name="Reserved", type="integer", path=".status.reserved"),
            Column(name="Free", type="integer", path=".status.freeSlots"),
            _AGE,
        ),
    ),
)

MACHINE_RESOURCES: Final = (
    Resource(
        kind="VirtualMachine",
        plural="virtualmachines",
        group=NEON_GROUP,
        namespaced=True,
        short_names=("vm", "vms", "neonvm", "neonvms"),
        versions=(Version(name="v1", struct=VirtualMachine),),
        is_partial=True,
        columns=(
            Column(name="Cpus", type="string", path=".status.cpus"),
            Column(name="Memory", type="string", path=".status.memorySize"),
            Column(name="Pod", type="string", path=".status.podName"),
            Column(name="Status", type="string", path=".status.phase"),
            _AGE,
            Column(name="Node", type="string", path=".status.node", priority=1),
        ),
    ),
    Resource(
        kind="VirtualMachineMigration",
        plural="virtualmachinemigrations",
        group=NEON_GROUP,
        namespaced=True,
        short_names=("vmm", "vmms", "neonvmm", "neonvmms"),
        versions=(Version(name="v1", struct=VirtualMachineMigration),),
        is_partial=True,
        columns=(
            Column(name="VM", type="string", path=".spec.vmName"),
            Column(name="Source", type="string", path=".status.sourcePodName"),
            Column(name="Target", type="string", path=".status.targetPodName"),
            Column(name="Status", type="string", path=".status.phase"),
            _AGE,
        ),
    ),
)
"""NeonVM's kinds, for hubs without NeonVM: its own definitions have more fields."""


def crds() -> tuple[dict[str, Any], ...]:
    return tuple(crd(resource) for resource in RESOURCES)


def machine_crds() -> tuple[dict[str, Any], ...]:
    """Return definitions of NeonVM's kinds that accept its objects, for synthetic machines and for tests."""
    return tuple(crd(resource) for resource in MACHINE_RESOURCES)


def crd(resource: Resource) -> dict[str, Any]:
    names: dict[str, Any] = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.singular,
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.name},
        "spec": {
            "group": resource.group,
            "names": names,
            "preserveUnknownFields": False,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(resource, version) for version in resource.versions],
        },
    }


def _version(resource: Resource, version: Version) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": version.name,
        "served": True,
        "storage": version.storage,
        "schema": {"openAPIV3Schema": object_schema(version.struct)},
    }
    if resource.is_partial:
        for part in ("spec", "status"):
            _keep_unknown_fields(entry["schema"]["openAPIV3Schema"]["properties"][part])
    if "status" in version.struct.__struct_fields__:
        entry["subresources"] = {"status": {}}
    if resource.columns:
        entry["additionalPrinterColumns"] = [_column(each) for each in resource.columns]
    if version.deprecation:
        entry["deprecated"] = True
        entry["deprecationWarning"] = version.deprecation
    return entry


def _column(column: Column) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return {**entry, "priority": column.priority} if column.priority else entry


def _keep_unknown_fields(schema: dict[str, Any]) -> None:
    if "properties" in schema:
        schema["x-kubernetes-preserve-unknown-fields"] = True
        for each in schema["properties"].values():
            _keep_unknown_fields(each)
