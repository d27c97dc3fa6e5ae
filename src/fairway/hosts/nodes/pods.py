"""The pods on each node, and the sum of what they add to its columns. Nodes need not exist yet."""

from collections.abc import Mapping
from dataclasses import dataclass

from fairway.hosts.column import Key
from fairway.hosts.nodes.pod_columns import POD_GROUP, PODS_MATCHING, TERMINATING
from fairway.hosts.nodes.pod_selection import PodQuery, TermKind, labels_of, query_of
from fairway.hosts.nodes.pod_template import PodInfo

PodKey = tuple[str, str]
"""(namespace, name)."""

_NOTHING: Mapping[Key, int] = {}
_NO_NODES: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class NodePods:
    """The pods on one node."""

    pods: Mapping[PodKey, PodInfo]
    total: Mapping[Key, int]
    """The sum of their amounts by column, without zeros."""
    levels: Mapping[int, Mapping[Key, int]]
    """The same of the pods of each priority."""

    def below(self, priority: int, key: Key) -> int:
        """Return what the pods of a lower priority add to a column."""
        return sum([total.get(key, 0) for level, total in self.levels.items() if level < priority])


EMPTY = NodePods({}, {}, {})


class PodIndex:
    """The part of the pods that snapshots share. Entries are replaced, never modified: copies share them."""

    __slots__ = ("_holders", "_nodes", "_priorities", "_priorities_with_terms", "_terms", "stamp")

    def __init__(self, *, stamp: int = 0) -> None:
        self.stamp = stamp
        self._nodes: dict[str, NodePods] = {}
        self._terms: dict[Key, int] = {}
        """Number of pods with each affinity term."""
        self._priorities: dict[int, int] = {}
        """Number of pods with each priority."""
        self._priorities_with_terms: dict[int, int] = {}
        """Number of those that have affinity terms."""
        self._holders: dict[Key, Mapping[str, int]] = {}
        """What the pods of each node add to the columns ``HELD``."""

    def on(self, node: str) -> NodePods:
        return self._nodes.get(node, EMPTY)

    def nodes(self) -> Mapping[str, NodePods]:
        """Return the nodes that have pods."""
        return self._nodes

    def terms(self, kind: TermKind) -> list[Key]:
        """Return the columns of the affinity terms of this kind that pods on nodes have."""
        return [key for key in self._terms if key[1] == kind.value]

    def holders(self, key: Key) -> Mapping[str, int]:
        """Return what the pods of each node add to a column of ``HELD``, by node."""
        return self._holders.get(key, _NO_NODES)

    @property
    def lowest_priority(self) -> int | None:
        """The lowest priority of a pod on a node; None without pods."""
        return min(self._priorities, default=None)

    def has_terms_below(self, priority: int) -> bool:
        """Return whether a pod of a lower priority has affinity terms."""
        return min(self._priorities_with_terms, default=priority) < priority

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
        total = _sum(known.total, info.template.amounts, 1)
        self._nodes[node] = NodePods({**known.pods, key: info}, total, _add_level(known.levels, info, total))
        self._count_held(node, info, 1)
        return self._count_terms(info, 1)

    def load(self, node: str, infos: Mapping[PodKey, PodInfo]) -> None:
        """Add all pods of a node that has none."""
        total: dict[Key, int] = {}
        levels: dict[int, dict[Key, int]] = {info.priority: {} for info in infos.values()}
        # Most nodes have pods of one priority, whose level is the total itself: it is neither computed nor kept
        # twice.
        if len(levels) == 1:
            levels = dict.fromkeys(levels, total)
        for info in infos.values():
            level = levels[info.priority]
            for key, amount in info.template.amounts.items():
                total[key] = total.get(key, 0) + amount
                if level is not total:
                    level[key] = level.get(key, 0) + amount
            self._count_held(node, info, 1)
            self._count_terms(info, 1)
        self._nodes[node] = NodePods(dict(infos), total, levels)

    def remove(self, node: str, key: PodKey) -> bool:
        """Remove a pod. Return whether it was the last one with an affinity term."""
        known = self._nodes[node]
        pods = dict(known.pods)
        info = pods.pop(key)
        if pods:
            total = _sum(known.total, info.template.amounts, -1)
            self._nodes[node] = NodePods(pods, total, _remove_level(known.levels, info, total))
        else:
            del self._nodes[node]
        self._count_held(node, info, -1)
        return self._count_terms(info, -1)

    def _count_held(self, node: str, info: PodInfo, sign: int) -> None:
        for key in info.template.held:
            nodes = dict(self._holders.get(key, _NO_NODES))
            nodes[node] = nodes.get(node, 0) + sign * info.template.amounts[key]
            if not nodes[node]:
                del nodes[node]
            if nodes:
                self._holders[key] = nodes
            else:
                del self._holders[key]

    def _count_terms(self, info: PodInfo, sign: int) -> bool:
        _count(self._priorities, info.priority, sign)
        if info.template.term_keys:
            _count(self._priorities_with_terms, info.priority, sign)
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
        other._priorities_with_terms = self._priorities_with_terms.copy()
        other._holders = self._holders.copy()
        return other


Nominated = Mapping[str, Mapping[PodKey, PodInfo]]
"""The pods that wait for room on each node."""


def nominated_amount(nominated: Nominated, pods: PodIndex, node: str, priority: int, key: Key) -> int:
    """Return what pods of at least this priority would add to a column that are nominated to a node, and not on it."""
    present = pods.on(node).pods
    return sum(
        [
            info.template.amounts.get(key, 0)
            for pod, info in nominated.get(node, {}).items()
            if info.priority >= priority and pod not in present
        ]
    )


def group_matches(query: PodQuery, group: Key) -> bool:
    """Return whether a query means the pods that a column counts as a group."""
    _, namespace, labels, terminating = group
    return query.matches(namespace, labels_of(labels), terminating=terminating == TERMINATING)


def _count(numbers: dict[int, int], priority: int, sign: int) -> None:
    numbers[priority] = left = numbers.get(priority, 0) + sign
    if not left:
        del numbers[priority]


def _add_level(
    levels: Mapping[int, Mapping[Key, int]], info: PodInfo, total: Mapping[Key, int]
) -> Mapping[int, Mapping[Key, int]]:
    """Return the levels with one more pod, given the new total. Most nodes have one level, which is the total."""
    priority = info.priority
    if not levels or levels.keys() == {priority}:
        return {priority: total}
    return {**levels, priority: _sum(levels.get(priority, _NOTHING), info.template.amounts, 1)}


def _remove_level(
    levels: Mapping[int, Mapping[Key, int]], info: PodInfo, total: Mapping[Key, int]
) -> Mapping[int, Mapping[Key, int]]:
    priority = info.priority
    if len(levels) == 1:
        return {priority: total}
    level = _sum(levels[priority], info.template.amounts, -1)
    others = {other: amounts for other, amounts in levels.items() if other != priority}
    if level:
        return {**others, priority: level}
    return dict.fromkeys(others, total) if len(others) == 1 else others


def _sum(total: Mapping[Key, int], amounts: Mapping[Key, int], sign: int) -> dict[Key, int]:
    changed = dict(total)
    for key, amount in amounts.items():
        left = changed.get(key, 0) + sign * amount
        if left:
            changed[key] = left
        else:
            del changed[key]
    return changed
