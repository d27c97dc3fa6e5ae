"""Nodes as a table, with the requests of the pods on them."""

from collections.abc import Iterable, Iterator, Mapping

from fairway.api.node import Node
from fairway.api.pod import Pod
from fairway.fleet.column import Key
from fairway.fleet.direction import DOWN, UP, Direction
from fairway.fleet.journal import NOTHING, Change
from fairway.fleet.resources import LARGEST, REQUESTED, requested
from fairway.fleet.table import Table
from fairway.nodes import cells
from fairway.nodes.pods import PodIndex, PodKey, requests_of
from fairway.nodes.snapshot import NodeSnapshot


class NodeFleet(Table[Node]):
    def __init__(self) -> None:
        super().__init__(schema=cells)
        self._pods = PodIndex()

    def snapshot(self) -> NodeSnapshot:
        view = NodeSnapshot(self)
        self._snapshots.add(view)
        return view

    def load(self, nodes: Iterable[Node]) -> None:
        """Fill a fleet without nodes at once; several times faster than upserts."""
        if self._hosts.row_of:
            for node in nodes:
                self.upsert_node(node)
        else:
            self._load({node.metadata.name: node for node in nodes})

    def upsert_node(self, node: Node) -> Change:
        return self._put(node.metadata.name, node)

    def delete_node(self, name: str) -> Change:
        """Delete a node. Its pods are kept until they are deleted, too: the node may come back."""
        return self._drop(name)

    def _write_others(self, row: int, name: str) -> Iterator[Key]:
        total = self._pods.total(name)
        for key in self._columns:
            if key[0] == REQUESTED and key[1] in total:
                self._own_column(key).write(row, min(total[key[1]], LARGEST))
                yield key

    # Pods

    def upsert_pod(self, pod: Pod) -> Change:
        """Add or update a pod. One that has finished, or has no node yet, requests nothing."""
        meta, node = pod.metadata, pod.spec.nodeName
        placed = None if pod.finished or not node else (node, requests_of(pod))
        return self._place((meta.namespace, meta.name), placed)

    def delete_pod(self, namespace: str, name: str) -> Change:
        return self._place((namespace, name), None)

    def _place(self, key: PodKey, placed: tuple[str, Mapping[str, int]] | None) -> Change:
        old = self._pods.get(key)
        if old == placed:
            return NOTHING
        self._pods = self._own(self._pods)
        self._pods.put(key, placed)
        if old is not None and placed is not None and old[0] == placed[0]:
            return self._recount({old[0]: _difference(old[1], placed[1])})
        moved = {
            each[0]: _signed(each[1], way) for each, way in ((old, DOWN), (placed, UP)) if each is not None
        }
        return self._recount(moved)

    def _recount(self, moved: Mapping[str, Mapping[str, Direction]]) -> Change:
        """Write the new totals of these nodes."""
        rows: dict[int, str] = {}
        changed: dict[Key, Direction] = {}
        for node, directions in moved.items():
            row = self._hosts.row_of.get(node)
            if row is not None:
                rows[row] = node
            total = self._pods.total(node)
            for resource, direction in directions.items():
                key = requested(resource)
                changed[key] = changed[key] | direction if key in changed else direction
                if row is not None and key in self._columns:
                    self._own_column(key).write(row, min(total.get(resource, 0), LARGEST))
        return self._record(Change(tuple(rows), changed, tuple(rows.values())))


def _signed(amounts: Mapping[str, int], direction: Direction) -> dict[str, Direction]:
    return {resource: direction for resource, amount in amounts.items() if amount}


def _difference(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, Direction]:
    found: dict[str, Direction] = {}
    for resource in old.keys() | new.keys():
        before, after = old.get(resource, 0), new.get(resource, 0)
        if before != after:
            found[resource] = UP if before < after else DOWN
    return found
