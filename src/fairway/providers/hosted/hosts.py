"""Nodes that run hosted control planes, and their free resources.

If nodes are reserved for control planes by a label, only those count. A node reserved for one hosted cluster has no
room for another.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import field, structs

from fairway.api.node import NodeTaint
from fairway.api.pod_requests import CPU, MEMORY, PODS
from fairway.providers.hosted.headroom import Headroom
from fairway.providers.usage.objects import NodeRoom, PodUse
from fairway.providers.usage.policy import WAITING, CountingPolicy
from kubewire.client import Added, Batch, Deleted, Resource, Updated

ZONE: Final = "topology.kubernetes.io/zone"
SET_ASIDE: Final = "hypershift.openshift.io/control-plane"
"""Label and taint of nodes reserved for control planes."""
OF_ONE: Final = "hypershift.openshift.io/cluster"
"""Label of nodes reserved for one hosted cluster."""
WORKER: Final = "node-role.kubernetes.io/worker"


class HostNode(NodeRoom, frozen=True, kw_only=True, gc=False):
    zone: str = field(default="", name="fairway.dev/zone")
    set_aside: bool = field(default=False, name="fairway.dev/set-aside")
    of_one: bool = field(default=False, name="fairway.dev/of-one")
    worker: bool = field(default=False, name="fairway.dev/worker")

    def __post_init__(self) -> None:
        labels = self.metadata.labels
        put = structs.force_setattr
        put(self, "zone", labels.get(ZONE, ""))
        put(self, "set_aside", labels.get(SET_ASIDE) == "true")
        put(self, "of_one", OF_ONE in labels)
        put(self, "worker", WORKER in labels)
        NodeRoom.__post_init__(self)

    @property
    def open(self) -> bool:
        """Whether new control planes can run here; they tolerate the taint of reserved nodes."""
        return self.ready and not self.cordoned and not self.of_one and all(map(_tolerated, self.repelling))


def _tolerated(taint: NodeTaint) -> bool:
    return taint.key == SET_ASIDE


HOST_NODES: Final = Resource(
    group="", version="v1", plural="nodes", kind="Node", namespaced=False, type=HostNode
)


class Hosts:
    """Allocatable resources of nodes, and requests of their pods."""

    def __init__(self) -> None:
        self._policy = CountingPolicy()
        self._nodes: dict[str, HostNode] = {}
        self._taken: dict[str, dict[str, int]] = {}

    def update_nodes(self, batch: Batch[HostNode]) -> None:
        for change in batch.changes:
            match change:
                case Added(node) | Updated(_, node):
                    self._nodes[node.metadata.name] = node
                case Deleted(node):
                    self._nodes.pop(node.metadata.name, None)

    def update_pods(self, batch: Batch[PodUse]) -> bool:
        """Return whether requests changed, which most pod updates do not."""
        changed = False
        for change in batch.changes:
            match change:
                case Added(pod):
                    changed |= self._add_requests(pod, 1)
                case Updated(old, pod):
                    if old.vector != pod.vector or self._policy.place(old) != self._policy.place(pod):
                        changed |= self._add_requests(old, -1) | self._add_requests(pod, 1)
                case Deleted(pod):
                    changed |= self._add_requests(pod, -1)
        return changed

    def headrooms(self) -> list[Headroom]:
        """Free resources of each node that accepts control planes."""
        nodes = [node for node in self._nodes.values() if node.open]
        if any(node.set_aside for node in self._nodes.values()):
            nodes = [node for node in nodes if node.set_aside]
        return [self._headroom(node) for node in nodes]

    def capacity(self) -> Headroom:
        """Total allocatable resources of the nodes for control planes."""
        nodes = list(self._control_plane_nodes())
        return Headroom(
            cpu=sum(node.allocatable.get(CPU, 0) for node in nodes) / 1000,
            memory=sum(node.allocatable.get(MEMORY, 0) for node in nodes),
            pods=sum(node.allocatable.get(PODS, 0) for node in nodes),
        )

    def problems(self) -> list[str]:
        return [node.problem for node in self._nodes.values() if node.problem]

    def _control_plane_nodes(self) -> Iterator[HostNode]:
        for select in (_is_reserved, _is_worker, _is_any):
            selected = [node for node in self._nodes.values() if select(node)]
            if selected:
                yield from (node for node in selected if node.open)
                return

    def _headroom(self, node: HostNode) -> Headroom:
        taken = self._taken.get(node.metadata.name, {})
        return Headroom(
            zone=node.zone,
            cpu=(node.allocatable.get(CPU, 0) - taken.get(CPU, 0)) / 1000,
            memory=node.allocatable.get(MEMORY, 0) - taken.get(MEMORY, 0),
            pods=node.allocatable.get(PODS, 0) - taken.get(PODS, 0),
        )

    def _add_requests(self, pod: PodUse, sign: int) -> bool:
        place = self._policy.place(pod)
        if place is None or place == WAITING:
            return False
        taken = self._taken.setdefault(place, {})
        for resource, amount in pod.vector:
            left = taken.get(resource, 0) + sign * amount
            if left:
                taken[resource] = left
            else:
                taken.pop(resource, None)
        if not taken:
            del self._taken[place]
        return True


def _is_reserved(node: HostNode) -> bool:
    return node.set_aside


def _is_worker(node: HostNode) -> bool:
    return node.worker


def _is_any(_: HostNode) -> bool:
    return True
