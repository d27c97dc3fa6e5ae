"""The CustomResourceDefinitions of every kind, generated from the Structs."""

from typing import Any, Final

from fairway.api.addon import ADD_ON_GROUP, ClusterManagementAddOn, ManagedClusterAddOn
from fairway.api.addon_config import AddOnDeploymentConfig
from fairway.api.addon_template import AddOnTemplate
from fairway.api.claim import ClusterClaim
from fairway.api.cluster import ManagedCluster
from fairway.api.clusterset import ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.decision import PlacementDecision
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.hosting_policy import HOSTING_GROUP, HostingPolicy
from fairway.api.machine_migration import MachineMigration
from fairway.api.placement import Placement
from fairway.api.placement_v1alpha1 import PlacementV1Alpha1
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.api.virtual_machine import NEON_GROUP, VirtualMachine, VirtualMachineMigration
from fairway.api.work import WORK_GROUP, AppliedManifestWork, ManifestWork
from kubewire.api.custom_resource import Column, CustomResource, Version, crd

GROUP: Final = "cluster.open-cluster-management.io"


_AGE: Final = Column(name="Age", type="date", path=".metadata.creationTimestamp")


def _condition(name: str, condition: str, attribute: str = "status", *, priority: int = 0) -> Column:
    path = f'.status.conditions[?(@.type=="{condition}")].{attribute}'
    return Column(name=name, type="string", path=path, priority=priority)


RESOURCES: Final = (
    CustomResource(
        kind="ManagedCluster",
        group=GROUP,
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
    CustomResource(
        kind="ManagedClusterSet",
        group=GROUP,
        plural="managedclustersets",
        namespaced=False,
        short_names=("mclset", "mclsets"),
        versions=(Version(name="v1beta2", struct=ManagedClusterSet),),
        columns=(_condition("Empty", "ClusterSetEmpty"), _AGE),
    ),
    CustomResource(
        kind="ManagedClusterSetBinding",
        group=GROUP,
        plural="managedclustersetbindings",
        namespaced=True,
        short_names=("mclsetbinding", "mclsetbindings"),
        versions=(Version(name="v1beta2", struct=ManagedClusterSetBinding),),
    ),
    CustomResource(
        kind="Placement",
        group=GROUP,
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
    CustomResource(
        kind="PlacementDecision",
        group=GROUP,
        plural="placementdecisions",
        namespaced=True,
        versions=(Version(name="v1beta1", struct=PlacementDecision),),
    ),
    CustomResource(
        kind="AddOnPlacementScore",
        group=GROUP,
        plural="addonplacementscores",
        namespaced=True,
        versions=(Version(name="v1alpha1", struct=AddOnPlacementScore),),
    ),
    CustomResource(
        kind="ManagedClusterScore",
        group=GROUP,
        plural="managedclusterscores",
        namespaced=True,
        versions=(Version(name="v1alpha1", struct=ManagedClusterScore),),
        columns=(Column(name="Score", type="integer", path=".status.score"), _AGE),
    ),
    CustomResource(
        kind="ManifestWork",
        plural="manifestworks",
        group=WORK_GROUP,
        namespaced=True,
        versions=(Version(name="v1", struct=ManifestWork),),
    ),
    CustomResource(
        kind="AppliedManifestWork",
        plural="appliedmanifestworks",
        group=WORK_GROUP,
        namespaced=False,
        versions=(Version(name="v1", struct=AppliedManifestWork),),
    ),
    CustomResource(
        kind="ClusterClaim",
        group=GROUP,
        plural="clusterclaims",
        namespaced=False,
        versions=(Version(name="v1alpha1", struct=ClusterClaim),),
    ),
    CustomResource(
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
    CustomResource(
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
    CustomResource(
        kind="AddOnDeploymentConfig",
        plural="addondeploymentconfigs",
        group=ADD_ON_GROUP,
        namespaced=True,
        versions=(Version(name="v1alpha1", struct=AddOnDeploymentConfig),),
    ),
    CustomResource(
        kind="AddOnTemplate",
        plural="addontemplates",
        group=ADD_ON_GROUP,
        namespaced=False,
        versions=(Version(name="v1alpha1", struct=AddOnTemplate),),
        columns=(Column(name="ADDON NAME", type="string", path=".spec.addonName"),),
    ),
    CustomResource(
        kind="HostedClusterRequest",
        plural="hostedclusterrequests",
        group=HOSTING_GROUP,
        namespaced=True,
        short_names=("hcr", "hcrs"),
        versions=(Version(name="v1alpha1", struct=HostedClusterRequest),),
        columns=(
            Column(name="Phase", type="string", path=".status.phase"),
            Column(name="Host", type="string", path=".status.hostingCluster.name"),
            _condition("Host Available", "HostAvailable", "status"),
            # Not of spec and conditions: a default size would be empty, and the condition with the reason varies.
            Column(name="Size", type="string", path=".status.size"),
            Column(name="Reason", type="string", path=".status.reason"),
            Column(name="Message", type="string", path=".status.message", priority=1),
            _AGE,
        ),
    ),
    CustomResource(
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
    CustomResource(
        kind="MachineMigration",
        plural="machinemigrations",
        group=HOSTING_GROUP,
        namespaced=True,
        versions=(Version(name="v1alpha1", struct=MachineMigration),),
        columns=(
            Column(name="Machine", type="string", path=".spec.machine.name"),
            Column(name="From", type="string", path=".spec.source.node"),
            Column(name="To", type="string", path=".spec.target.node"),
            Column(name="Phase", type="string", path=".spec.phase"),
            Column(name="Message", type="string", path=".spec.message", priority=1),
            _AGE,
        ),
    ),
)

MACHINE_RESOURCES: Final = (
    CustomResource(
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
    CustomResource(
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
