"""Snapshots in which pods were removed from nodes, or added: to find out whether another pod would fit then."""

from collections.abc import Collection, Iterable, Mapping

from fairway.fleet.column import Column, CountColumn, Key
from fairway.fleet.resources import LARGEST, LEDGER
from fairway.nodes.pod_columns import ADDED, POD_TERMS, PODS_MATCHING
from fairway.nodes.pod_template import PodInfo
from fairway.nodes.pods import PodKey
from fairway.nodes.snapshot import NodeSnapshot

_SHARED = (
    "generation",
    "hosts",
    "journal",
    "namespaces",
    "nominated",
    "nominations",
    "budgets",
    "claims",
    "volumes",
    "_schema",
    "_keep",
    "_derived",
)
"""What pods do not change."""


class HypotheticalSnapshot(NodeSnapshot):
    """Changes affect only this object: it has its own copies of the columns that pods fill."""

    __slots__ = ("_base", "changed")

    def __init__(self, base: NodeSnapshot) -> None:
        for name in _SHARED:
            setattr(self, name, getattr(base, name))
        self._base = base
        self._columns: dict[Key, Column] = {}
        self.changed: set[str] = set()
        """Nodes whose pods were changed."""
        self.pods = base.pods.fork()

    def remove_pod(self, node: str, key: PodKey) -> None:
        info = self.pods.on(node).pods[key]
        self.pods.remove(node, key)
        self._update(node, info)

    def add_pod(self, node: str, key: PodKey, info: PodInfo) -> None:
        self.pods.add(node, key, info)
        self._update(node, info)

    def differences(self, node: str) -> tuple[list[PodInfo], list[PodInfo]]:
        """Return the pods that a node has lost, and those that it has gained."""
        before, after = self._base.pods.on(node).pods, self.pods.on(node).pods
        gone = [info for key, info in before.items() if after.get(key) is not info]
        return gone, [info for key, info in after.items() if before.get(key) is not info]

    def _update(self, node: str, info: PodInfo) -> None:
        self.changed.add(node)
        row, amounts = self.hosts.row_of[node], info.template.amounts
        for key, column in self._columns.items():
            if key in amounts or key[0] == PODS_MATCHING:
                column.write(row, min(self.pods.cell(node, key), LARGEST))

    def _column(self, key: Key) -> Column:
        column = self._columns.get(key)
        if column is not None:
            return column
        column = self._base._column(key)
        if key[0] in ADDED or key[0] == PODS_MATCHING:
            column = self._columns[key] = column.fork()
            assert isinstance(column, CountColumn)
            for node in self.changed:
                column.write(self.hosts.row_of[node], min(self.pods.cell(node, key), LARGEST))
        return column


class SeparatelyWithout(NodeSnapshot):
    """Many nodes without some of their pods, each as if it were the only one: a ``Supposition``.

    Only the cells of these nodes differ; ``pods`` are those of the base. Pods that are nominated to them are not
    considered.
    """

    __slots__ = ("_base", "_has_terms", "_removed")

    def __init__(self, base: NodeSnapshot, removed: Mapping[str, Collection[PodInfo]]) -> None:
        for name in _SHARED:
            setattr(self, name, getattr(base, name))
        self.pods = base.pods
        self._base, self._removed = base, removed
        self._columns: dict[Key, Column] = {}
        templates = {id(info.template): info.template for infos in removed.values() for info in infos}
        self._has_terms = any(each.term_keys for each in templates.values())

    def shows(self, *, cells: Iterable[Key], shared: Iterable[Key]) -> bool:
        if any(key[0] in LEDGER for key in cells):
            return False  # the ledger counts pods, too
        return not any(
            key[0] == PODS_MATCHING or key[0] in ADDED or (key == POD_TERMS and self._has_terms)
            for key in shared
        )

    def _column(self, key: Key) -> Column:
        column = self._columns.get(key)
        if column is None:
            column = self._base._column(key)
            if key[0] in ADDED:
                column = column.fork()
                self._remove(column, key)
            self._columns[key] = column
        return column

    def _remove(self, column: Column, key: Key) -> None:
        row_of = self.hosts.row_of
        for node, infos in self._removed.items():
            on = self.pods.on(node)
            left = 0
            if len(infos) < len(on.pods):
                left = on.total.get(key, 0) - sum([info.template.amounts.get(key, 0) for info in infos])
            column.write(row_of[node], min(left, LARGEST))
