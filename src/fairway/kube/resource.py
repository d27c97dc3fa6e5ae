"""Resources: the path of a kind, and the type its objects are decoded into."""

import re
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import quote

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
from fairway.api.meta import ObjectMeta
from fairway.api.node import Node
from fairway.api.placement import Placement
from fairway.api.pod import Pod
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.api.virtual_machine import VirtualMachine, VirtualMachineMigration
from fairway.api.work import AppliedManifestWork, ManifestWork

BAD_SEGMENT: Final = (
    "{what} {given!r} cannot be part of a path: it must not be empty, '.', '..' or contain '/' or '%'"
)
NEEDS_NAMESPACE: Final = "{kind} is namespaced: give the namespace of {name!r}"
NO_NAMESPACE: Final = "{kind} is not namespaced: leave out {namespace!r}"
SUBRESOURCE_NEEDS_NAME: Final = "subresource {subresource!r} of which {kind}? give its name"

_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9.-]*", re.ASCII)
"""Names that need no quoting, which would take as long as the rest of the path."""


class KubeStruct(Protocol):
    """A msgspec Struct with the metadata of a Kubernetes object."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=KubeStruct)

Key = tuple[str, str]
"""Namespace and name; the namespace of a cluster-wide object is empty."""


def key_of(obj: KubeStruct) -> Key:
    meta = obj.metadata
    return (meta.namespace, meta.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[T]):
    """``group`` is empty for the core API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[T]

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """As kubectl names it: ``managedclusters.v1.cluster.open-cluster-management.io``."""
        return ".".join(part for part in (self.plural, self.version, self.group) if part)

    def path(
        self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The quoted path. Raise ValueError for a name that would lead to another resource."""
        if namespace is not None and not self.namespaced:
            raise ValueError(NO_NAMESPACE.format(kind=self.kind, namespace=namespace))
        if name is not None and namespace is None and self.namespaced:
            raise ValueError(NEEDS_NAMESPACE.format(kind=self.kind, name=name))
        if subresource is not None and name is None:
            raise ValueError(SUBRESOURCE_NEEDS_NAME.format(subresource=subresource, kind=self.kind))
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if namespace is not None:
            parts += ["namespaces", _segment("namespace", namespace)]
        parts.append(self.plural)
        if name is not None:
            parts.append(_segment("name", name))
        if subresource is not None:
            parts.append(_segment("subresource", subresource))
        return "/".join(parts)


def _segment(what: str, given: str) -> str:
    if _PLAIN.fullmatch(given):
        return given
    if given in ("", ".", "..") or "/" in given or "%" in given:
        raise ValueError(BAD_SEGMENT.format(what=what, given=given))
    return quote(given, safe=":@!$&'()*+,;=~")


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
VIRTUAL_MACHINES: Final = _served(VirtualMachine)
VIRTUAL_MACHINE_MIGRATIONS: Final = _served(VirtualMachineMigration)

NODES: Final = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False, type=Node)
PODS: Final = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True, type=Pod)
