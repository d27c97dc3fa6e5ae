"""The pods on each node, and the sum of their requests. Nodes need not exist yet."""

from collections.abc import Mapping

from fairway.api.pod import Pod
from fairway.api.pod_requests import PODS, readable_requests
from fairway.nodes.cells import in_milli_units

PodKey = tuple[str, str]
"""(namespace, name)."""

_NOTHING: Mapping[str, int] = {}


def requests_of(pod: Pod) -> dict[str, int]:
    """Return the pod's requests in milli-units, and one pod. Invalid quantities count 0."""
    requests, _ = readable_requests(pod)
    return {**{name: in_milli_units(name, amount) for name, amount in requests.items()}, PODS: 1000}


class PodIndex:
    __slots__ = ("_pods", "_totals", "stamp")

    def __init__(self, *, stamp: int = 0) -> None:
        self.stamp = stamp
        self._pods: dict[PodKey, tuple[str, Mapping[str, int]]] = {}
        self._totals: dict[str, dict[str, int]] = {}
        """Replaced, never modified: copies share them."""

    def get(self, key: PodKey) -> tuple[str, Mapping[str, int]] | None:
        """Return the pod's node and requests; None if it has no node or has finished."""
        return self._pods.get(key)

    def total(self, node: str) -> Mapping[str, int]:
        """Return the sum of the requests of all pods on a node, by resource."""
        return self._totals.get(node, _NOTHING)

    def nodes(self) -> Mapping[str, Mapping[str, int]]:
        return self._totals

    def put(self, key: PodKey, placed: tuple[str, Mapping[str, int]] | None) -> None:
        """Replace a pod; None for one that needs nothing (any more)."""
        old = self._pods.pop(key, None)
        if old is not None:
            self._add(old[0], old[1], -1)
        if placed is not None:
            self._pods[key] = placed
            self._add(placed[0], placed[1], 1)

    def _add(self, node: str, amounts: Mapping[str, int], sign: int) -> None:
        total = dict(self._totals.get(node, _NOTHING))
        for resource, amount in amounts.items():
            left = total.get(resource, 0) + sign * amount
            if left:
                total[resource] = left
            else:
                total.pop(resource, None)
        if total:
            self._totals[node] = total
        else:
            self._totals.pop(node, None)

    def fork(self) -> "PodIndex":
        other = PodIndex()
        other._pods = self._pods.copy()
        other._totals = self._totals.copy()
        return other
