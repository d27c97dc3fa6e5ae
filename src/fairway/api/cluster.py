"""ManagedCluster: a cluster that joined the hub."""

from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Final

from msgspec import Struct, field

from kubewire.api.annotation import LABEL_KEY, NAMESPACE, Field, Int32, QuantityText, Time
from kubewire.api.meta import Condition, Conditions, ObjectMeta, format_time
from kubewire.api.quantity import Quantity, QuantityError

NO_SELECT: Final = "NoSelect"
PREFER_NO_SELECT: Final = "PreferNoSelect"
NO_SELECT_IF_NEW: Final = "NoSelectIfNew"
EFFECTS: Final = (NO_SELECT, PREFER_NO_SELECT, NO_SELECT_IF_NEW)

CONDITION_ACCEPTED: Final = "HubAcceptedManagedCluster"
CONDITION_AVAILABLE: Final = "ManagedClusterConditionAvailable"
CONDITION_JOINED: Final = "ManagedClusterJoined"
TAINT_UNREACHABLE: Final = "cluster.open-cluster-management.io/unreachable"
TAINT_UNAVAILABLE: Final = "cluster.open-cluster-management.io/unavailable"
WEBHOOK_SETS_TIME_ADDED: Final = "It is not allowed to set TimeAdded"
"""Prefix of the error of OCM's webhook for a taint with ``timeAdded``, which the webhook sets itself."""

CLUSTER_SET_LABEL: Final = "cluster.open-cluster-management.io/clusterset"


class ClientConfig(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    url: Annotated[str, Field("Address of the cluster's API server.", required=True)] = field(
        default_factory=str
    )
    caBundle: Annotated[bytes, Field("CA certificates to trust there; the system's own when empty.")] = b""


class Taint(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    key: Annotated[str, Field("Name of the taint.", required=True, max_length=316, pattern=LABEL_KEY)] = (
        field(default_factory=str)
    )
    value: Annotated[str, Field("Value that belongs to the key.", max_length=1024)] = ""
    effect: Annotated[
        str, Field("What happens to placements that do not tolerate the taint.", required=True, enum=EFFECTS)
    ] = field(default_factory=str)
    timeAdded: Annotated[Time | None, Field("When the taint was added.", nullable=True)] = None


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
        tuple[Condition, ...] | None, Field("Conditions of the object.", list_type="map", map_keys=("type",))
    ] = None
    """None and empty differ: CEL sees ``null`` and ``[]``."""
    capacity: Annotated[dict[str, QuantityText], Field("Total capacity of all nodes, by resource.")] = field(
        default_factory=dict
    )
    allocatable: Annotated[
        dict[str, QuantityText], Field("Amounts of all nodes that workloads can use, by resource.")
    ] = field(default_factory=dict)
    version: Annotated[ClusterVersion, Field("Versions the cluster runs.")] = ClusterVersion()
    clusterClaims: Annotated[
        tuple[ClusterClaim, ...], Field("Claims that the agent of the cluster reports.")
    ] = ()
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
    spec: Annotated[ManagedClusterSpec, Field("Desired state of the cluster.")] = ManagedClusterSpec()
    status: Annotated[ManagedClusterStatus, Field("Observed state of the cluster.")] = ManagedClusterStatus()


def cluster_as_json(
    cluster: ManagedCluster, *, fields: Collection[tuple[str, str]] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the cluster as OCM's CEL expressions see it.

    The typed object is converted to maps: fields that Go omits when empty are missing, others are present
    (``status.conditions`` as null, a taint's ``timeAdded`` as null), and there is no apiVersion or kind.
    With ``fields``, such as ``("metadata", "labels")``, only those are included.
    """
    sections: dict[str, dict[str, Any]] = {"metadata": {}, "spec": {}, "status": {}}
    for section, name in _AS_JSON if fields is None else fields:
        read = _AS_JSON.get((section, name))
        if read is not None:
            value = read(cluster)
            if value is not MISSING:
                sections[section][name] = value
    return sections


MISSING: Final = object()


def _or_missing(value: Any) -> Any:
    """Return the value, or ``MISSING`` where Go's ``omitempty`` omits it."""
    return value or MISSING


_AS_JSON: Final[dict[tuple[str, str], Callable[[ManagedCluster], Any]]] = {
    ("metadata", "name"): lambda cluster: _or_missing(cluster.metadata.name),
    ("metadata", "generateName"): lambda cluster: _or_missing(cluster.metadata.generateName),
    ("metadata", "namespace"): lambda cluster: _or_missing(cluster.metadata.namespace),
    ("metadata", "uid"): lambda cluster: _or_missing(cluster.metadata.uid),
    ("metadata", "resourceVersion"): lambda cluster: _or_missing(cluster.metadata.resourceVersion),
    ("metadata", "generation"): lambda cluster: _or_missing(cluster.metadata.generation),
    ("metadata", "creationTimestamp"): lambda cluster: _or_missing(_time(cluster.metadata.creationTimestamp)),
    ("metadata", "deletionTimestamp"): lambda cluster: (
        MISSING if cluster.metadata.deletionTimestamp is None else _time(cluster.metadata.deletionTimestamp)
    ),
    ("metadata", "deletionGracePeriodSeconds"): lambda cluster: (
        MISSING
        if cluster.metadata.deletionGracePeriodSeconds is None
        else cluster.metadata.deletionGracePeriodSeconds
    ),
    ("metadata", "labels"): lambda cluster: _or_missing(cluster.metadata.labels),
    ("metadata", "annotations"): lambda cluster: _or_missing(cluster.metadata.annotations),
    ("metadata", "finalizers"): lambda cluster: _or_missing(list(cluster.metadata.finalizers)),
    ("metadata", "ownerReferences"): lambda cluster: _or_missing(_owners_as_json(cluster.metadata)),
    ("spec", "hubAcceptsClient"): lambda cluster: cluster.spec.hubAcceptsClient,
    ("spec", "managedClusterClientConfigs"): lambda cluster: _or_missing(
        [
            {"url": config.url} | _filled(caBundle=b64encode(config.caBundle).decode())
            for config in cluster.spec.managedClusterClientConfigs
        ]
    ),
    ("spec", "leaseDurationSeconds"): lambda cluster: _or_missing(cluster.spec.leaseDurationSeconds),
    ("spec", "taints"): lambda cluster: _or_missing(
        [
            {"key": taint.key, "effect": taint.effect, "timeAdded": _time(taint.timeAdded)}
            | _filled(value=taint.value)
            for taint in cluster.spec.taints
        ]
    ),
    ("status", "conditions"): lambda cluster: (
        None if cluster.status.conditions is None else _conditions_as_json(cluster.status.conditions)
    ),
    ("status", "version"): lambda cluster: _filled(kubernetes=cluster.status.version.kubernetes),
    ("status", "capacity"): lambda cluster: _or_missing(_amounts_as_json(cluster.status.capacity)),
    ("status", "allocatable"): lambda cluster: _or_missing(_amounts_as_json(cluster.status.allocatable)),
    ("status", "clusterClaims"): lambda cluster: _or_missing(
        [_filled(name=claim.name, value=claim.value) for claim in cluster.status.clusterClaims]
    ),
    ("status", "managedNamespaces"): lambda cluster: _or_missing(
        [
            {"name": space.name, "clusterSet": space.clusterSet}
            | _filled(conditions=_conditions_as_json(space.conditions))
            for space in cluster.status.managedNamespaces
        ]
    ),
}


def _amounts_as_json(amounts: Mapping[str, str | int | float]) -> dict[str, str]:
    return {name: canonical(text) for name, text in amounts.items()}


def _owners_as_json(meta: ObjectMeta) -> list[dict[str, Any]]:
    return [
        {"apiVersion": owner.apiVersion, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
        | _present(controller=owner.controller, blockOwnerDeletion=owner.blockOwnerDeletion)
        for owner in meta.ownerReferences
    ]


def _conditions_as_json(conditions: tuple[Condition, ...]) -> list[dict[str, Any]]:
    return [
        {
            "type": condition.type,
            "status": condition.status,
            "lastTransitionTime": _time(condition.lastTransitionTime),
            "reason": condition.reason,
            "message": condition.message,
        }
        | _filled(observedGeneration=condition.observedGeneration)
        for condition in conditions
    ]


def _filled(**fields: Any) -> dict[str, Any]:
    """Return the mapping without the fields that Go's ``omitempty`` omits."""
    return {name: value for name, value in fields.items() if value}


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _time(moment: datetime | None) -> str | None:
    return None if moment is None or moment.year == 1 else format_time(moment)


def canonical(text: str | int | float) -> str:
    """Format a quantity as Kubernetes does. An invalid one is unchanged, so that it does not hide the cluster."""
    try:
        return _canonical(text)
    except QuantityError:
        return str(text)


@lru_cache(maxsize=8192, typed=True)
def _canonical(text: str | int | float) -> str:
    """Raise QuantityError, so that the cache contains no string that is too long for a quantity."""
    return str(Quantity.parse(text))
