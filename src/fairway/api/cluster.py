"""ManagedCluster: a cluster that joined the hub."""

from typing import Annotated, Final

from msgspec import Struct, field

from fairway.api.annotation import LABEL_KEY, NAMESPACE, Field, Int32, QuantityText, Time
from fairway.api.meta import Condition, Conditions, ObjectMeta

NO_SELECT: Final = "NoSelect"
PREFER_NO_SELECT: Final = "PreferNoSelect"
NO_SELECT_IF_NEW: Final = "NoSelectIfNew"
EFFECTS: Final = (NO_SELECT, PREFER_NO_SELECT, NO_SELECT_IF_NEW)

CLUSTER_SET_LABEL: Final = "cluster.open-cluster-management.io/clusterset"


class ClientConfig(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    url: Annotated[str, Field("Address of the cluster's API server.", required=True)] = field(
        default_factory=str
    )
    caBundle: Annotated[
        bytes, Field("CA certificates to trust there; the system's own when empty.", format="byte")
    ] = b""


class Taint(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    key: Annotated[str, Field("Name of the taint.", required=True, max_length=316, pattern=LABEL_KEY)] = (
        field(default_factory=str)
    )
    value: Annotated[str, Field("Value that belongs to the key.", max_length=1024)] = ""
    effect: Annotated[
        str,
        Field("What happens to placements that do not tolerate the taint.", required=True, enum=EFFECTS),
    ] = field(default_factory=str)
    timeAdded: Annotated[
        Time | None, Field("When the taint was added.", format="date-time", nullable=True)
    ] = None


class ManagedClusterSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    managedClusterClientConfigs: Annotated[
        tuple[ClientConfig, ...], Field("Ways for the hub to reach the cluster's API server.")
    ] = ()
    hubAcceptsClient: Annotated[bool, Field("Whether the hub has accepted the cluster.")] = field(
        default_factory=bool
    )
    leaseDurationSeconds: Annotated[
        Int32, Field("How often, in seconds, the cluster's agent renews its lease.", default=60)
    ] = 0
    taints: Annotated[tuple[Taint, ...], Field("Repel placements that do not tolerate them.")] = ()


class ClusterVersion(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    kubernetes: Annotated[str, Field("Kubernetes version of the cluster.")] = ""


class ClusterClaim(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of the claim.", min_length=1, max_length=253)] = ""
    value: Annotated[str, Field("Value of the claim.", min_length=1, max_length=1024)] = ""


class ClusterSetManagedNamespaceStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of the namespace.", required=True, max_length=63, pattern=NAMESPACE)] = (
        field(default_factory=str)
    )
    clusterSet: Annotated[str, Field("The cluster set that manages the namespace.", required=True)] = field(
        default_factory=str
    )
    conditions: Conditions = ()


class ManagedClusterStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    conditions: Annotated[
        tuple[Condition, ...] | None,
        Field("What is known about the state of this object.", list_type="map", map_keys=("type",)),
    ] = None
    """None and empty differ: CEL sees ``null`` for the one and ``[]`` for the other."""
    capacity: Annotated[dict[str, QuantityText], Field("What all nodes have, by resource.")] = field(
        default_factory=dict
    )
    allocatable: Annotated[
        dict[str, QuantityText], Field("What all nodes can give to workloads, by resource.")
    ] = field(default_factory=dict)
    version: Annotated[ClusterVersion, Field("Versions the cluster runs.")] = ClusterVersion()
    clusterClaims: Annotated[tuple[ClusterClaim, ...], Field("What the cluster says about itself.")] = ()
    managedNamespaces: Annotated[
        tuple[ClusterSetManagedNamespaceStatus, ...],
        Field(
            "Namespaces managed by the cluster sets this cluster is in.",
            list_type="map",
            map_keys=("clusterSet", "name"),
        ),
    ] = ()


class ManagedCluster(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "cluster.open-cluster-management.io/v1"
    kind: str = "ManagedCluster"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ManagedClusterSpec, Field("What is wanted of the cluster.")] = ManagedClusterSpec()
    status: Annotated[ManagedClusterStatus, Field("What is known of the cluster.")] = ManagedClusterStatus()
