"""A consistent view of the nodes and their pods at one generation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairway.api.node import Node
from fairway.api.persistent_volume import PersistentVolume, PersistentVolumeClaim
from fairway.api.pod_disruption_budget import PodDisruptionBudget
from fairway.fleet.column import Key
from fairway.fleet.resources import LARGEST
from fairway.fleet.snapshot import Snapshot
from fairway.nodes.pod_columns import ADDED, PODS_MATCHING
from fairway.nodes.pod_template import PodInfo
from fairway.nodes.pods import PodIndex, PodKey

if TYPE_CHECKING:
    from fairway.nodes.fleet import NodeFleet


class NodeSnapshot(Snapshot[Node]):
    __slots__ = ("budgets", "claims", "namespaces", "nominated", "nominations", "pods", "volumes")

    def __init__(self, fleet: "NodeFleet") -> None:
        super().__init__(fleet)
        self.pods: PodIndex = fleet._pods
        self.namespaces: Mapping[str, Mapping[str, str]] = fleet._namespaces
        """Labels by namespace."""
        self.nominations: Mapping[PodKey, str] = fleet.nominations
        """The nominated node of each pod that waits for room there."""
        self.nominated: Mapping[str, Mapping[PodKey, PodInfo]] = fleet._nominated
        """The same by node."""
        self.budgets: Mapping[PodKey, PodDisruptionBudget] = fleet._budgets
        self.claims: Mapping[PodKey, PersistentVolumeClaim] = fleet._claims
        self.volumes: Mapping[str, PersistentVolume] = fleet._volumes

    def _fill(self, column: Any, key: Key) -> None:
        if key[0] not in ADDED and key[0] != PODS_MATCHING:
            super()._fill(column, key)
            return
        row_of, pods = self.hosts.row_of, self.pods
        for node in pods.nodes():
            if node in row_of:
                column.values[row_of[node]] = min(pods.cell(node, key), LARGEST)
