"""The resources that Fairway reads and writes, each with the type of its objects."""

from typing import Final, TypeVar

from fairway.api.addon import ClusterManagementAddOn, ManagedClusterAddOn
from fairway.api.addon_config import AddOnDeploymentConfig
from fairway.api.addon_template import AddOnTemplate
from fairway.api.claim import ClusterClaim
from fairway.api.cluster import ManagedCluster
from fairway.api.clusterset import ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.crd import MACHINE_RESOURCES, RESOURCES
from fairway.api.decision import PlacementDecision
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.hosting_policy import HostingPolicy
from fairway.api.machine_migration import MachineMigration
from fairway.api.node import Node
from fairway.api.placement import Placement
from fairway.api.pod import Pod
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.api.virtual_machine import VirtualMachine, VirtualMachineMigration
from fairway.api.work import AppliedManifestWork, ManifestWork
from kubewire.api.resource import KubeStruct, Resource

T = TypeVar("T", bound=KubeStruct)


def _served(struct: type[T]) -> Resource[T]:
    for resource in (*RESOURCES, *MACHINE_RESOURCES):
        for version in resource.versions:
            served: type[object] = version.struct
            if served is struct:
                return Resource(
                    group=resource.group,
                    version=version.name,
                    plural=resource.plural,
                    kind=resource.kind,
                    namespaced=resource.namespaced,
                    type=struct,
                )
    raise LookupError(struct.__name__)


MANAGED_CLUSTERS: Final = _served(ManagedCluster)
MANAGED_CLUSTER_SETS: Final = _served(ManagedClusterSet)
MANAGED_CLUSTER_SET_BINDINGS: Final = _served(ManagedClusterSetBinding)
PLACEMENTS: Final = _served(Placement)
PLACEMENT_DECISIONS: Final = _served(PlacementDecision)
ADD_ON_PLACEMENT_SCORES: Final = _served(AddOnPlacementScore)
MANAGED_CLUSTER_SCORES: Final = _served(ManagedClusterScore)
MANIFEST_WORKS: Final = _served(ManifestWork)
APPLIED_MANIFEST_WORKS: Final = _served(AppliedManifestWork)
CLUSTER_CLAIMS: Final = _served(ClusterClaim)
CLUSTER_MANAGEMENT_ADD_ONS: Final = _served(ClusterManagementAddOn)
MANAGED_CLUSTER_ADD_ONS: Final = _served(ManagedClusterAddOn)
ADD_ON_DEPLOYMENT_CONFIGS: Final = _served(AddOnDeploymentConfig)
ADD_ON_TEMPLATES: Final = _served(AddOnTemplate)
HOSTED_CLUSTER_REQUESTS: Final = _served(HostedClusterRequest)
HOSTING_POLICIES: Final = _served(HostingPolicy)
MACHINE_MIGRATIONS: Final = _served(MachineMigration)
VIRTUAL_MACHINES: Final = _served(VirtualMachine)
VIRTUAL_MACHINE_MIGRATIONS: Final = _served(VirtualMachineMigration)

NODES: Final = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False, type=Node)
PODS: Final = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True, type=Pod)
