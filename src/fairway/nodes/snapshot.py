"""A consistent view of the nodes and the requests of their pods at one generation."""

from typing import TYPE_CHECKING, Any

from fairway.api.node import Node
from fairway.fleet.column import Key
from fairway.fleet.resources import LARGEST, REQUESTED
from fairway.fleet.snapshot import Snapshot
from fairway.nodes.pods import PodIndex

if TYPE_CHECKING:
    from fairway.nodes.fleet import NodeFleet


class NodeSnapshot(Snapshot[Node]):
    __slots__ = ("pods",)

    def __init__(self, fleet: "NodeFleet") -> None:
        super().__init__(fleet)
        self.pods: PodIndex = fleet._pods

    def _fill(self, column: Any, key: Key) -> None:
        if key[0] != REQUESTED:
            super()._fill(column, key)
            return
        row_of = self.hosts.row_of
        for node, total in self.pods.nodes().items():
            if node in row_of:
                column.values[row_of[node]] = min(total.get(key[1], 0), LARGEST)
