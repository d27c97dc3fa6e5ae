"""A consistent view of the nodes and their pods at one generation."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fairway.api.node import Node
from fairway.api.pod_disruption_budget import PodDisruptionBudget
from fairway.hosts.bitmap import Bits
from fairway.hosts.column import Key
from fairway.hosts.nodes.pod_columns import (
    ADDED,
    ATTACHED_VOLUMES,
    OF_LOWER_PRIORITY,
    OF_NOMINATED,
    PODS_MATCHING,
    STORAGE_COLUMNS,
)
from fairway.hosts.nodes.pod_template import PodInfo
from fairway.hosts.nodes.pods import PodIndex, PodKey, nominated_amount
from fairway.hosts.nodes.storage import AttachedVolume, Storage
from fairway.hosts.resources import LARGEST
from fairway.hosts.snapshot import Snapshot

if TYPE_CHECKING:
    from fairway.hosts.nodes.fleet import NodeFleet


class NodeSnapshot(Snapshot[Node]):
    __slots__ = (
        "budgets",
        "evicting",
        "namespaces",
        "nominated",
        "nominates_terms",
        "nominations",
        "pods",
        "storage",
    )

    def __init__(self, fleet: "NodeFleet") -> None:
        super().__init__(fleet)
        self.pods: PodIndex = fleet._pods
        self.namespaces: Mapping[str, Mapping[str, str]] = fleet._namespaces
        """Labels by namespace."""
        self.nominations: Mapping[PodKey, str] = fleet.nominations
        """The nominated node of each pod that waits for room there."""
        self.nominated: Mapping[str, Mapping[PodKey, PodInfo]] = fleet._nominated
        """The same by node."""
        self.nominates_terms = bool(fleet._nominated_with_terms)
        """Whether one of them has affinity terms."""
        self.evicting = fleet._evicting
        """The pods that a preemption evicts, and that are not observed to terminate yet."""
        self.budgets: Mapping[PodKey, PodDisruptionBudget] = fleet._budgets
        self.storage: Storage = fleet.storage

    def nodes_holding(self, key: Key) -> Iterable[str]:
        """Return the nodes whose own pods add to a column of ``HELD``."""
        return self.pods.holders(key)

    def unheld(self, key: Key) -> Bits:
        """Return the nodes of which no pod adds to a column of ``HELD``, there or on any other node."""
        return self.none() if self.pods.holders(key) else self.live

    def _fill(self, column: Any, key: Key) -> None:
        row_of, pods = self.hosts.row_of, self.pods
        if key[0] == OF_LOWER_PRIORITY:
            priority, part = int(key[1]), key[2:]
            for node, on in pods.nodes().items():
                if node in row_of:
                    column.values[row_of[node]] = min(on.below(priority, part), LARGEST)
            return
        if key[0] == OF_NOMINATED:
            priority, part = int(key[1]), key[2:]
            for node in self.nominated:
                if node in row_of:
                    column.values[row_of[node]] = min(
                        nominated_amount(self.nominated, pods, node, priority, part), LARGEST
                    )
            return
        if key[0] in STORAGE_COLUMNS:
            filled = pods.nodes().keys() | self.storage.attachments.keys()
            for node in filled if key[0] == ATTACHED_VOLUMES else self.storage.csi_nodes:
                if node in row_of:
                    column.values[row_of[node]] = storage_cell(pods, self.storage, node, key)
            return
        if key[0] not in ADDED and key[0] != PODS_MATCHING:
            super()._fill(column, key)
            return
        for node in pods.nodes():
            if node in row_of:
                column.values[row_of[node]] = min(pods.cell(node, key), LARGEST)


def volumes_on(pods: PodIndex, storage: Storage, node: str) -> set[AttachedVolume]:
    """Return the volumes of CSI drivers that the pods of a node use."""
    volumes: set[AttachedVolume] = set()
    for info in pods.on(node).pods.values():
        if info.template.held:
            volumes |= storage.volumes_of(info.template, node)
    return volumes


def volumes_attached(pods: PodIndex, storage: Storage, node: str) -> set[AttachedVolume]:
    """The same with the volumes of VolumeAttachments."""
    return volumes_on(pods, storage, node) | storage.attachments_on(node)


def storage_cell(pods: PodIndex, storage: Storage, node: str, key: Key) -> int:
    """Return the node's cell of a column of ``STORAGE_COLUMNS``."""
    driver = key[1]
    if key[0] == ATTACHED_VOLUMES:
        return sum(1 for volume in volumes_attached(pods, storage, node) if volume.driver == driver)
    limits = storage.limits(node)
    if driver not in limits:
        return 0
    limit = limits[driver]
    return 1 if limit is None else limit + 2
