"""Published scores of clusters: AddOnPlacementScore, and the one-number ManagedClusterScore."""

from typing import Annotated

from msgspec import Struct, field

from kubewire.api.annotation import Field, Int32, Int64, Time, no_items
from kubewire.api.meta import Condition, Conditions, ObjectMeta, is_dropped


class AddOnPlacementScoreItem(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of the score.", required=True)] = field(default_factory=str)
    value: Annotated[Int32, Field("Value of the score.", required=True, minimum=-100, maximum=100)] = field(
        default_factory=int
    )


class AddOnPlacementScoreStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    conditions: Conditions = ()
    scores: Annotated[
        tuple[AddOnPlacementScoreItem, ...],
        Field("The scores, by name.", list_type="map", map_keys=("name",)),
    ] = ()
    validUntil: Annotated[
        Time | None, Field("After this moment the scores count as missing; absent means never.")
    ] = None


class AddOnPlacementScore(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Its namespace is the name of the cluster it scores."""

    apiVersion: str = "cluster.open-cluster-management.io/v1alpha1"
    kind: str = "AddOnPlacementScore"
    metadata: ObjectMeta = ObjectMeta()
    status: Annotated[AddOnPlacementScoreStatus, Field("The scores.")] = AddOnPlacementScoreStatus()


class ManagedClusterScoreCondition(Condition, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    lastUpdateTime: Annotated[Time | None, Field("When the score was last written.", required=True)] = None


class ManagedClusterScoreStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    conditions: Annotated[
        tuple[ManagedClusterScoreCondition, ...],
        Field("Conditions of the score.", required=True, list_type="map", map_keys=("type",)),
    ] = field(default_factory=no_items)
    score: Annotated[Int64, Field("The score of the cluster; higher is better.")] = 0


class ManagedClusterScore(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "cluster.open-cluster-management.io/v1alpha1"
    kind: str = "ManagedClusterScore"
    metadata: ObjectMeta = ObjectMeta()
    status: Annotated[ManagedClusterScoreStatus, Field("The score.")] = ManagedClusterScoreStatus()

    @property
    def value(self) -> int | None:
        """The score; None if it cannot be read, which is not 0."""
        return None if is_dropped(self, "status.score") else self.status.score


def managed_cluster_score_name(*, cluster: str, calculator: str) -> str:
    return f"{cluster}-{calculator}".lower()
