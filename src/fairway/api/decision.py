"""PlacementDecision: one page of the selected clusters of a placement."""

from typing import Annotated

from msgspec import Struct, field

from kubewire.api.annotation import Field, Int64, no_items
from kubewire.api.meta import ObjectMeta


class ClusterDecision(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    clusterName: Annotated[str, Field("Name of the chosen cluster.", required=True)] = field(
        default_factory=str
    )
    reason: Annotated[str, Field("Why it was chosen; may be empty.", required=True)] = field(
        default_factory=str
    )
    score: Annotated[Int64 | None, Field("Its total score, if scores are recorded.")] = None


class PlacementDecisionStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    decisions: Annotated[tuple[ClusterDecision, ...], Field("The chosen clusters.", required=True)] = field(
        default_factory=no_items
    )


class PlacementDecision(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "cluster.open-cluster-management.io/v1beta1"
    kind: str = "PlacementDecision"
    metadata: ObjectMeta = ObjectMeta()
    status: Annotated[PlacementDecisionStatus, Field("The decision.")] = PlacementDecisionStatus()
