"""ManagedClusterSet, a named group of clusters, and its binding to a namespace."""

from typing import Annotated, Final

from msgspec import Struct, field

from kubewire.api.annotation import NAMESPACE, Field
from kubewire.api.meta import Condition, ObjectMeta
from kubewire.api.selector import LabelSelector

EXCLUSIVE_LABEL: Final = "ExclusiveClusterSetLabel"
LABEL_SELECTOR: Final = "LabelSelector"

PlainConditions = Annotated[tuple[Condition, ...], Field("Conditions of the object.")]
"""The set CRDs do not declare their conditions a list-map."""


class ManagedClusterSelector(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    selectorType: Annotated[
        str,
        Field(
            "How members are found: by the cluster set label, or by a label selector.",
            required=True,
            default=EXCLUSIVE_LABEL,
            enum=(EXCLUSIVE_LABEL, LABEL_SELECTOR),
        ),
    ] = ""
    labelSelector: Annotated[
        LabelSelector | None,
        Field(
            "Members by label, for the type LabelSelector. Missing selects nothing, empty everything.",
            map_type="atomic",
        ),
    ] = None


class ManagedNamespace(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of the namespace.", required=True, max_length=63, pattern=NAMESPACE)] = (
        field(default_factory=str)
    )


class ManagedClusterSetSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    clusterSelector: Annotated[
        ManagedClusterSelector,
        Field("Which clusters are members.", default={"selectorType": EXCLUSIVE_LABEL}),
    ] = ManagedClusterSelector()
    managedNamespaces: Annotated[
        tuple[ManagedNamespace, ...],
        Field("Namespaces to manage on every member.", list_type="map", map_keys=("name",)),
    ] = ()


class ManagedClusterSetStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    conditions: PlainConditions = ()


class ManagedClusterSet(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "cluster.open-cluster-management.io/v1beta2"
    kind: str = "ManagedClusterSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        ManagedClusterSetSpec,
        Field("Members of the set.", default={"clusterSelector": {"selectorType": EXCLUSIVE_LABEL}}),
    ] = ManagedClusterSetSpec()
    status: Annotated[ManagedClusterSetStatus, Field("Observed state of the set.")] = (
        ManagedClusterSetStatus()
    )


class ManagedClusterSetBindingSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    clusterSet: Annotated[
        str, Field("The set that this namespace may use; also the name of the binding.", min_length=1)
    ] = field(default_factory=str)


class ManagedClusterSetBindingStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    conditions: PlainConditions = ()


class ManagedClusterSetBinding(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "cluster.open-cluster-management.io/v1beta2"
    kind: str = "ManagedClusterSetBinding"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ManagedClusterSetBindingSpec, Field("Which set is bound.")] = (
        ManagedClusterSetBindingSpec()
    )
    status: Annotated[ManagedClusterSetBindingStatus, Field("Whether the set exists.")] = (
        ManagedClusterSetBindingStatus()
    )
