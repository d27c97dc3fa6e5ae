"""The pods on each node, and the sum of what they add to its columns. Nodes need not exist yet."""

from collections.abc import Mapping
from dataclasses import dataclass

from fairway.fleet.column import Key
from fairway.nodes.pod_columns import POD_GROUP, PODS_MATCHING, TERMINATING
from fairway.nodes.pod_selection import PodQuery, TermKind, labels_of, query_of
from fairway.nodes.pod_template import PodInfo

PodKey = tuple[str, str]
"""(namespace, name)."""

_NOTHING: Mapping[Key, int] = {}


@dataclass(frozen=True, slots=True)
class NodePods:
    """The pods on one node."""

    pods: Mapping[PodKey, PodInfo]
    total: Mapping[Key, int]
    """The sum of their amounts by column, without zeros."""


EMPTY = NodePods({}, {})


class PodIndex:
    """The part of the pods that snapshots share. Entries are replaced, never modified: copies share them."""

    __slots__ = ("_nodes", "_priorities", "_terms", "stamp")

    def __init__(self, *, stamp: int = 0) -> None:
        self.stamp = stamp
        self._nodes: dict[str, NodePods] = {}
        self._terms: dict[Key, int] = {}
        """Number of pods with each affinity term."""
        self._priorities: dict[int, int] = {}
        """Number of pods with each priority."""

    def on(self, node: str) -> NodePods:
        return self._nodes.get(node, EMPTY)

    def nodes(self) -> Mapping[str, NodePods]:
        """Return the nodes that have pods."""
        return self._nodes

    def terms(self, kind: TermKind) -> list[Key]:
        """Return the columns of the affinity terms of this kind that pods on nodes have."""
        return [key for key in self._terms if key[1] == kind.value]

    @property
    def lowest_priority(self) -> int | None:
        """The lowest priority of a pod on a node; None without pods."""
        return min(self._priorities, default=None)

    def cell(self, node: str, key: Key) -> int:
        """Return the node's cell of a column that pods fill."""
        return (
            self.on(node).total.get(key, 0) if key[0] != PODS_MATCHING else self._count(node, query_of(key))
        )

    def _count(self, node: str, query: PodQuery) -> int:
        return sum(
            amount
            for group, amount in self.on(node).total.items()
            if group[0] == POD_GROUP and group_matches(query, group)
        )

    def add(self, node: str, key: PodKey, info: PodInfo) -> bool:
        """Add a pod. Return whether an affinity term is new."""
        known = self.on(node)
        self._nodes[node] = NodePods({**known.pods, key: info}, _sum(known.total, info.template.amounts, 1))
        return self._count_terms(info, 1)

    def load(self, node: str, infos: Mapping[PodKey, PodInfo]) -> None:
        """Add all pods of a node that has none."""
        total: dict[Key, int] = {}
        for info in infos.values():
            for key, amount in info.template.amounts.items():
                total[key] = total.get(key, 0) + amount
            self._count_terms(info, 1)
        self._nodes[node] = NodePods(dict(infos), total)

    def remove(self, node: str, key: PodKey) -> bool:
        """Remove a pod. Return whether it was the last one with an affinity term."""
        known = self._nodes[node]
        pods = dict(known.pods)
        info = pods.pop(key)
        if pods:
            self._nodes[node] = NodePods(pods, _sum(known.total, info.template.amounts, -1))
        else:
            del self._nodes[node]
        return self._count_terms(info, -1)

    def _count_terms(self, info: PodInfo, sign: int) -> bool:
        self._priorities[info.priority] = left = self._priorities.get(info.priority, 0) + sign
        if not left:
            del self._priorities[info.priority]
        changed = False
        for key in info.template.term_keys:
            count = self._terms.get(key, 0) + sign
            changed = changed or count == 0 or (count == sign == 1)
            if count:
                self._terms[key] = count
            else:
                del self._terms[key]
        return changed

    def fork(self) -> "PodIndex":
        other = PodIndex()
        other._nodes = self._nodes.copy()
        other._terms = self._terms.copy()
        other._priorities = self._priorities.copy()
        return other


def group_matches(query: PodQuery, group: Key) -> bool:
    """Return whether a query means the pods that a column counts as a group."""
    _, namespace, labels, terminating = group
    return query.matches(namespace, labels_of(labels), terminating=terminating == TERMINATING)


def _sum(total: Mapping[Key, int], amounts: Mapping[Key, int], sign: int) -> dict[Key, int]:
    found = dict(total)
    for key, amount in amounts.items():
        left = found.get(key, 0) + sign * amount
        if left:
            found[key] = left
        else:
            del found[key]
    return found
