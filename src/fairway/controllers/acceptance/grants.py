"""Permissions of a cluster's agent on the hub, as data and as RBAC objects.

Names are OCM's, because its agents and users expect them. Everything that belongs to one cluster is owned by its
ManagedCluster, so the hub's garbage collector deletes it even if a user removes the finalizers of the ManagedCluster.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import structs

from fairway.api import GROUP
from fairway.api.cluster import ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.cluster_names import GROUP_PREFIX, PREFIX, REGISTRATION, WORK
from fairway.controllers.kinds import (
    CLUSTER_NAME_LABEL,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    RBAC_GROUP,
    ROLE_BINDINGS,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    RoleBinding,
    RoleRef,
    Subject,
)
from kubewire.api.meta import ObjectMeta, OwnerReference
from kubewire.client import Resource

Permission = ClusterRole | ClusterRoleBinding | RoleBinding

_READ: Final = ("get", "list", "watch")

OF_REGISTRATION: Final = (
    PolicyRule(api_groups=("coordination.k8s.io",), resources=("leases",), verbs=(*_READ, "update")),
    PolicyRule(
        api_groups=("addon.open-cluster-management.io",), resources=("managedclusteraddons",), verbs=_READ
    ),
    PolicyRule(
        api_groups=("addon.open-cluster-management.io",),
        resources=("managedclusteraddons/status",),
        verbs=("patch", "update"),
    ),
    PolicyRule(api_groups=("events.k8s.io",), resources=("events",), verbs=("create",)),
)
OF_WORK: Final = (
    PolicyRule(api_groups=("", "events.k8s.io"), resources=("events",), verbs=("create", "patch", "update")),
    PolicyRule(
        api_groups=("work.open-cluster-management.io",),
        resources=("manifestworks",),
        verbs=(*_READ, "patch", "update"),
    ),
    PolicyRule(
        api_groups=("work.open-cluster-management.io",),
        resources=("manifestworks/status",),
        verbs=("patch", "update"),
    ),
)
"""Both apply within the cluster's own namespace."""


def of_cluster(name: str) -> tuple[PolicyRule, ...]:
    """On the whole hub: its certificates, and its own ManagedCluster.

    OCM also lets an agent update its ManagedCluster, because OCM's webhook keeps it from accepting itself and from
    joining a cluster set. Without that webhook an agent could do both, and remove taints; so it may write the status
    only.
    """
    names = (name,) if name else ()
    return (
        PolicyRule(
            api_groups=("certificates.k8s.io",),
            resources=("certificatesigningrequests",),
            verbs=("create", *_READ),
        ),
        PolicyRule(
            api_groups=("register.open-cluster-management.io",),
            resources=("managedclusters/clientcertificates",),
            verbs=("renew",),
        ),
        PolicyRule(api_groups=(GROUP,), resources=("managedclusters",), resource_names=names, verbs=_READ),
        PolicyRule(
            api_groups=(GROUP,),
            resources=("managedclusters/status",),
            resource_names=names,
            verbs=("patch", "update"),
        ),
    )


def of_denied(name: str) -> tuple[PolicyRule, ...]:
    """Of a cluster that was accepted before: enough to report the denial, and to notice a new acceptance."""
    return (
        PolicyRule(api_groups=(GROUP,), resources=("managedclusters",), resource_names=(name,), verbs=_READ),
    )


@dataclass(frozen=True, slots=True)
class Grant:
    """A desired object and its resource."""

    resource: Resource[Any]
    wanted: Permission

    def met_by(self, seen: Permission) -> bool:
        """Whether an object is as desired, regardless of labels and owners that other clients added."""
        wanted = self.wanted.metadata
        if not wanted.labels.items() <= seen.metadata.labels.items():
            return False
        owners = {(reference.kind, reference.uid) for reference in seen.metadata.ownerReferences}
        if not {(reference.kind, reference.uid) for reference in wanted.ownerReferences} <= owners:
            return False
        return structs.replace(seen, metadata=wanted) == self.wanted

    def refers_elsewhere(self, seen: Permission) -> bool:
        """Whether it is a binding to another role, which must be replaced because roleRef is immutable."""
        if isinstance(seen, ClusterRole) or isinstance(self.wanted, ClusterRole):
            return False
        return seen.role_ref != self.wanted.role_ref

    def body(self) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.to_builtins(self.wanted)
        return document


COMMON: Final = {
    f"{PREFIX}{short}": Grant(
        CLUSTER_ROLES,
        ClusterRole(
            metadata=ObjectMeta(name=f"{PREFIX}{short}", labels={CLUSTER_NAME_LABEL: ""}), rules=rules
        ),
    )
    for short, rules in ((REGISTRATION, OF_REGISTRATION), (WORK, OF_WORK))
}
"""The roles that all clusters share, by name."""


def role(cluster: ManagedCluster, *, accepted: bool = True) -> Grant:
    name = cluster.metadata.name
    rules = of_cluster(name) if accepted else of_denied(name)
    return Grant(CLUSTER_ROLES, ClusterRole(metadata=_meta(cluster, f"{PREFIX}{name}"), rules=rules))


def bindings(cluster: ManagedCluster) -> tuple[Grant, ...]:
    name = cluster.metadata.name
    agent = (Subject(kind="Group", api_group=RBAC_GROUP, name=f"{GROUP_PREFIX}{name}"),)
    own = ClusterRoleBinding(
        metadata=_meta(cluster, f"{PREFIX}{name}"), role_ref=_to(f"{PREFIX}{name}"), subjects=agent
    )
    shared = (
        RoleBinding(
            metadata=_meta(cluster, f"{PREFIX}{name}:{short}", namespace=name),
            role_ref=_to(f"{PREFIX}{short}"),
            subjects=agent,
        )
        for short in (REGISTRATION, WORK)
    )
    return (Grant(CLUSTER_ROLE_BINDINGS, own), *(Grant(ROLE_BINDINGS, binding) for binding in shared))


def cluster_of(resource: Resource[Any], seen: Permission) -> str | None:
    """The cluster in an object's name; None if the name is of another form."""
    meta = seen.metadata
    if resource is ROLE_BINDINGS:
        mine = {f"{PREFIX}{meta.namespace}:{short}" for short in (REGISTRATION, WORK)}
        return meta.namespace if meta.name in mine else None
    if not meta.name.startswith(PREFIX) or meta.name in COMMON:
        return None
    return meta.name.removeprefix(PREFIX)


def _meta(cluster: ManagedCluster, name: str, *, namespace: str = "") -> ObjectMeta:
    owner = cluster.metadata
    return ObjectMeta(
        name=name,
        namespace=namespace,
        labels={CLUSTER_NAME_LABEL: owner.name},
        ownerReferences=(
            OwnerReference(
                apiVersion=MANAGED_CLUSTERS.api_version,
                kind=MANAGED_CLUSTERS.kind,
                name=owner.name,
                uid=owner.uid,
            ),
        ),
    )


def _to(name: str) -> RoleRef:
    return RoleRef(kind="ClusterRole", api_group=RBAC_GROUP, name=name)
