"""ClusterClaim: a property of a managed cluster, stored on that cluster."""

from typing import Annotated

from msgspec import Struct, field

from kubewire.api.annotation import Field
from kubewire.api.meta import ObjectMeta


class ClusterClaimSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    value: Annotated[str, Field("Value of the claim.", required=True, min_length=1, max_length=1024)] = field(
        default_factory=str
    )


class ClusterClaim(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A fact about a managed cluster, which serves it. The hub has it in the status of the ManagedCluster."""

    apiVersion: str = "cluster.open-cluster-management.io/v1alpha1"
    kind: str = "ClusterClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ClusterClaimSpec, Field("The claim.", required=True)] = field(
        default_factory=ClusterClaimSpec
    )
