"""Nodes as a table, with the pods on them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

from fairway.api.node import Node
from fairway.api.persistent_volume import PersistentVolume, PersistentVolumeClaim
from fairway.api.pod import Pod
from fairway.api.pod_disruption_budget import PodDisruptionBudget
from fairway.fleet.column import Column, CountColumn, Key
from fairway.fleet.direction import ANY, DOWN, UP, Direction
from fairway.fleet.journal import NOTHING, Change
from fairway.fleet.resources import LARGEST
from fairway.fleet.snapshot import Snapshot
from fairway.fleet.steps import Steps, strides
from fairway.fleet.table import Table
from fairway.nodes import cells
from fairway.nodes.pod_columns import (
    ADDED,
    NAMESPACES,
    NOMINATED,
    POD_GROUP,
    POD_TERMS,
    PODS_MATCHING,
    VOLUMES,
)
from fairway.nodes.pod_selection import query_of
from fairway.nodes.pod_template import PodInfo, info_of
from fairway.nodes.pods import PodIndex, PodKey, group_matches
from fairway.nodes.snapshot import NodeSnapshot

MATCHING_LIMIT: Final = 512
"""Maximum number of columns of pods that match a query: each makes changes of pods slower."""
KEPT_GROUPS: Final = 1 << 14
"""Maximum number of groups of pods for which the matching columns are cached."""

_NOTHING: Mapping[Key, int] = {}


class NodeFleet(Table[Node]):
    def __init__(self) -> None:
        super().__init__(schema=cells)
        self._pods = PodIndex()
        self._placed: dict[PodKey, tuple[str, PodInfo]] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._budgets: dict[PodKey, PodDisruptionBudget] = {}
        self.nominations: Mapping[PodKey, str] = {}
        """The nominated node of each pod that waits for room there."""
        self._nominated: Mapping[str, Mapping[PodKey, PodInfo]] = {}
        """The same by node."""
        self._claims: dict[PodKey, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._matching: dict[Key, tuple[Key, ...]] = {}
        """Columns that count the pods of a group, by group."""

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
            self._matching.clear()

    def load_others(
        self,
        *,
        namespaces: Mapping[str, Mapping[str, str]],
        claims: Iterable[PersistentVolumeClaim] = (),
        volumes: Iterable[PersistentVolume] = (),
        budgets: Iterable[PodDisruptionBudget] = (),
    ) -> None:
        """Set what the fleet has beside nodes and pods. Upserts copy all objects of a kind, for earlier snapshots."""
        self._namespaces = {name: dict(labels) for name, labels in namespaces.items()}
        self._claims = {(each.metadata.namespace, each.metadata.name): each for each in claims}
        self._volumes = {each.metadata.name: each for each in volumes}
        self._budgets = {(each.metadata.namespace, each.metadata.name): each for each in budgets}
        self._record(Change((), {NAMESPACES: ANY, VOLUMES: ANY}))

    def upsert_node(self, node: Node) -> Change:
        return self._put(node.metadata.name, node)

    def find_node(self, name: str) -> Node | None:
        row = self._hosts.row_of.get(name)
        return None if row is None else self._hosts.objects[row]

    def delete_node(self, name: str) -> Change:
        """Delete a node. Its pods are kept until they are deleted, too: the node may be created again."""
        return self._drop(name)

    def _write_others(self, row: int, name: str) -> Iterator[Key]:
        for key in self._columns:
            if key[0] in ADDED or key[0] == PODS_MATCHING:
                amount = self._pods.cell(name, key)
                if amount:
                    self._own_column(key).write(row, min(amount, LARGEST))
                    yield key

    # Namespaces

    def upsert_namespace(self, name: str, labels: Mapping[str, str]) -> Change:
        """Add or update a namespace, which affinity terms may select by its labels."""
        if self._namespaces.get(name) == labels:
            return NOTHING
        self._namespaces = {**self._namespaces, name: dict(labels)}
        return self._record(Change((), {NAMESPACES: ANY}))

    def delete_namespace(self, name: str) -> Change:
        if name not in self._namespaces:
            return NOTHING
        self._namespaces = {each: labels for each, labels in self._namespaces.items() if each != name}
        return self._record(Change((), {NAMESPACES: ANY}))

    # Disruption budgets, which only preemption reads: no change of them is reported

    def upsert_budget(self, budget: PodDisruptionBudget) -> None:
        meta = budget.metadata
        self._budgets = {**self._budgets, (meta.namespace, meta.name): budget}

    def delete_budget(self, namespace: str, name: str) -> None:
        self._budgets = {key: each for key, each in self._budgets.items() if key != (namespace, name)}

    # Nominations: few, and replaced as a whole, so that snapshots keep theirs

    def nominated_to(self, node: str) -> list[PodInfo]:
        return list(self._nominated.get(node, {}).values())

    def nominate(self, pod: Pod, node: str) -> Change:
        """Keep room on a node for a pod that waits until other pods there are deleted; no node ends that."""
        key = (pod.metadata.namespace, pod.metadata.name)
        old = self.nominations.get(key, "")
        if old == node:
            return NOTHING
        nominated = {
            each: {other: info for other, info in pods.items() if other != key}
            for each, pods in self._nominated.items()
        }
        if node:
            nominated[node] = {**nominated.get(node, {}), key: info_of(pod)}
        self._nominated = {each: pods for each, pods in nominated.items() if pods}
        self.nominations = {other: each for each, pods in self._nominated.items() for other in pods}
        return self._record(Change((), {NOMINATED: ANY}))

    # Volumes

    def upsert_claim(self, claim: PersistentVolumeClaim) -> Change:
        meta = claim.metadata
        self._claims = {**self._claims, (meta.namespace, meta.name): claim}
        return self._record(Change((), {VOLUMES: ANY}))

    def delete_claim(self, namespace: str, name: str) -> Change:
        self._claims = {key: each for key, each in self._claims.items() if key != (namespace, name)}
        return self._record(Change((), {VOLUMES: ANY}))

    def upsert_volume(self, volume: PersistentVolume) -> Change:
        self._volumes = {**self._volumes, volume.metadata.name: volume}
        return self._record(Change((), {VOLUMES: ANY}))

    def delete_volume(self, name: str) -> Change:
        self._volumes = {key: each for key, each in self._volumes.items() if key != name}
        return self._record(Change((), {VOLUMES: ANY}))

    # Pods

    def upsert_pod(self, pod: Pod) -> Change:
        """Add or update a pod. One that has finished, or has no node yet, requests nothing."""
        meta, node = pod.metadata, pod.spec.nodeName
        placed = None if pod.finished or not node else (node, info_of(pod))
        return self._place((meta.namespace, meta.name), placed)

    def load_pods(self, pods: Iterable[Pod]) -> Steps[None]:
        """Add the pods of a fleet that has none; several times faster than upserts. No snapshot may be alive."""
        on_nodes: dict[str, dict[PodKey, PodInfo]] = {}
        for some in strides(pods):
            yield
            for pod in some:
                if pod.spec.nodeName and not pod.finished:
                    key = (pod.metadata.namespace, pod.metadata.name)
                    on_nodes.setdefault(pod.spec.nodeName, {})[key] = info_of(pod)
        for nodes in strides(on_nodes.items()):
            yield
            for node, infos in nodes:
                self._pods.load(node, infos)
                self._placed.update({key: (node, info) for key, info in infos.items()})
        for column in [each for each in self._columns if each[0] in ADDED or each[0] == PODS_MATCHING]:
            del self._columns[column]
        self._matching.clear()
        self._journal.forget()

    def shows(self, pod: Pod) -> bool:
        """Return whether the fleet has exactly this version of a pod."""
        placed = self._placed.get((pod.metadata.namespace, pod.metadata.name))
        return placed is not None and placed[1].pod is pod

    def delete_pod(self, namespace: str, name: str) -> Change:
        return self._place((namespace, name), None)

    def _place(self, key: PodKey, placed: tuple[str, PodInfo] | None) -> Change:
        old = self._placed.get(key)
        if old == placed:
            return NOTHING
        index = self._pods = self._own(self._pods)
        terms = False
        before = after = _NOTHING
        if old is not None:
            terms = index.remove(old[0], key)
            before = old[1].template.amounts
            del self._placed[key]
        if placed is not None:
            terms = index.add(placed[0], key, placed[1]) or terms
            after = placed[1].template.amounts
            self._placed[key] = placed
        if old is not None and placed is not None and old[0] == placed[0]:
            return self._recount({old[0]: _difference(before, after)}, terms=terms)
        moved: dict[str, Mapping[Key, int]] = {}
        if old is not None:
            moved[old[0]] = {each: -amount for each, amount in before.items()}
        if placed is not None:
            moved[placed[0]] = after
        return self._recount(moved, terms=terms)

    def _recount(self, moved: Mapping[str, Mapping[Key, int]], *, terms: bool) -> Change:
        """Write the new totals of these nodes, whose amounts changed by these differences."""
        rows: dict[int, str] = {}
        changed: dict[Key, Direction] = {}
        newest = self._newest_view()
        for node, differences in moved.items():
            if not differences:
                continue
            row = self._hosts.row_of.get(node)
            if row is not None:
                rows[row] = node
            total = self._pods.on(node).total
            for key, difference in differences.items():
                direction = UP if difference > 0 else DOWN
                changed[key] = changed[key] | direction if key in changed else direction
                if row is not None and key in self._columns:
                    self._counts(key, newest).write(row, min(total.get(key, 0), LARGEST))
                if key[0] == POD_GROUP:
                    found = self._matching.get(key)
                    for matching in self._find_matching(key) if found is None else found:
                        changed[matching] = (
                            changed[matching] | direction if matching in changed else direction
                        )
                        if row is not None:
                            column = self._counts(matching, newest)
                            column.write(row, int(column.values[row]) + difference)
        if terms:
            changed[POD_TERMS] = ANY
        return self._record(Change(tuple(rows), changed, tuple(rows.values()))) if changed else NOTHING

    def _counts(self, key: Key, newest: int) -> CountColumn:
        """Return a column that may be written, given the newest snapshot: finding that takes longer than a write."""
        column = cast("CountColumn", self._columns[key])
        if column.stamp <= newest:
            column = column.fork()
            column.stamp = self._journal.generation + 1
            self._columns[key] = column
        return column

    def _find_matching(self, group: Key) -> tuple[Key, ...]:
        """Return the columns that count the pods of a group, and cache them."""
        found = tuple(
            key for key in self._columns if key[0] == PODS_MATCHING and group_matches(query_of(key), group)
        )
        if len(self._matching) >= KEPT_GROUPS:
            self._matching.clear()
        self._matching[group] = found
        return found

    def _keep(self, view: Snapshot[Node], key: Key) -> Column | None:
        if key[0] == PODS_MATCHING and key not in self._columns:
            self._matching.clear()
            kept = [each for each in self._columns if each[0] == PODS_MATCHING]
            if len(kept) >= MATCHING_LIMIT:
                for each in kept[: MATCHING_LIMIT // 2]:
                    del self._columns[each]
                # Changes of the dropped columns are not reported any more: results that depend on them are stale.
                self._journal.forget()
                return None
        return super()._keep(view, key)


def _difference(old: Mapping[Key, int], new: Mapping[Key, int]) -> dict[Key, int]:
    if old is new:
        return {}
    found: dict[Key, int] = {}
    for key in old.keys() | new.keys():
        difference = new.get(key, 0) - old.get(key, 0)
        if difference:
            found[key] = difference
    return found
