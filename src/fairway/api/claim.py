"""ClusterClaim: a property of a managed cluster, stored on that cluster."""

from typing import Annotated

from msgspec import Struct, field

from fairway.api.annotation import Field
from fairway.api.meta import ObjectMeta


class ClusterClaimSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    value: Annotated[str, Field("Value of the claim.", required=True, min_length=1, max_length=1024)] = field(
        default_factory=str
    )


class ClusterClaim(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Served by managed clusters. Its name is the claim's; the hub sees it in the ManagedCluster's status,

    as ``fairway.api.cluster.ClusterClaim``.
    """

    apiVersion: str = "cluster.open-cluster-management.io/v1alpha1"
    kind: str = "ClusterClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ClusterClaimSpec, Field("The claim.", required=True)] = field(
        default_factory=ClusterClaimSpec
    )
