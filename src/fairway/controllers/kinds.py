"""Kubernetes kinds that controllers use, with the fields they need."""

from typing import Final

from msgspec import Struct, field

from kubewire.api.meta import Condition, ObjectMeta
from kubewire.api.resource import T
from kubewire.client import Resource

RBAC_GROUP: Final = "rbac.authorization.k8s.io"

CLUSTER_NAME_LABEL: Final = "open-cluster-management.io/cluster-name"
"""Label of all objects on the hub that belong to one cluster."""


class NamespaceStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    conditions: tuple[Condition, ...] | None = None
    """What blocks the deletion of a namespace."""


class Namespace(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()


class PolicyRule(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, rename="camel"):
    """No ``resource_names`` means all of them."""

    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = field(default=(), name="nonResourceURLs")


class Subject(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, rename="camel"):
    kind: str = ""
    api_group: str = ""
    name: str = ""
    namespace: str = ""


class RoleRef(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, rename="camel"):
    kind: str = ""
    api_group: str = ""
    name: str = ""


class ClusterRole(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    metadata: ObjectMeta = ObjectMeta()
    rules: tuple[PolicyRule, ...] = ()


class ClusterRoleBinding(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    role_ref: RoleRef = RoleRef()
    subjects: tuple[Subject, ...] = ()


class RoleBinding(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    role_ref: RoleRef = RoleRef()
    subjects: tuple[Subject, ...] = ()


class DefinitionVersion(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: str = ""
    served: bool = False


class DefinitionSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    versions: tuple[DefinitionVersion, ...] = ()


class DefinitionStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    conditions: tuple[Condition, ...] | None = None


class CustomResourceDefinition(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()


def _rbac(plural: str, struct: type[T], *, namespaced: bool) -> Resource[T]:
    return Resource(
        group=RBAC_GROUP,
        version="v1",
        plural=plural,
        kind=struct.__name__,
        namespaced=namespaced,
        type=struct,
    )


NAMESPACES: Final = Resource(
    group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False, type=Namespace
)
CLUSTER_ROLES: Final = _rbac("clusterroles", ClusterRole, namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = _rbac("clusterrolebindings", ClusterRoleBinding, namespaced=False)
ROLE_BINDINGS: Final = _rbac("rolebindings", RoleBinding, namespaced=True)
DEFINITIONS: Final = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
    type=CustomResourceDefinition,
)
