"""Snapshots in which pods were removed from nodes, or added: to find out whether another pod would fit then."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from fairway.api.pod_requests import PODS
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.column import Column, CountColumn, Key
from fairway.hosts.nodes.pod_columns import (
    ADDED,
    ATTACHED_VOLUMES,
    HELD,
    NOMINATED,
    POD_TERMS,
    PODS_MATCHING,
    of_lower_priority,
    of_nominated,
)
from fairway.hosts.nodes.pod_template import PodInfo
from fairway.hosts.nodes.pods import PodKey, nominated_amount
from fairway.hosts.nodes.snapshot import NodeSnapshot, storage_cell
from fairway.hosts.resources import LARGEST, LEDGER, requested

_SHARED = (
    "generation",
    "hosts",
    "journal",
    "namespaces",
    "nominated",
    "nominates_terms",
    "nominations",
    "budgets",
    "evicting",
    "storage",
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
        removed = [info for key, info in before.items() if after.get(key) is not info]
        return removed, [info for key, info in after.items() if before.get(key) is not info]

    def _update(self, node: str, info: PodInfo) -> None:
        self.changed.add(node)
        row, amounts = self.hosts.row_of[node], info.template.amounts
        for key, column in self._columns.items():
            if (
                key in amounts
                or key[0] == PODS_MATCHING
                or (key[0] == ATTACHED_VOLUMES and info.template.held)
            ):
                column.write(row, self._cell(node, key))

    def _cell(self, node: str, key: Key) -> int:
        if key[0] == ATTACHED_VOLUMES:
            return storage_cell(self.pods, self.storage, node, key)
        return min(self.pods.cell(node, key), LARGEST)

    def _column(self, key: Key) -> Column:
        column = self._columns.get(key)
        if column is not None:
            return column
        column = self._base._column(key)
        if key[0] in ADDED or key[0] in (PODS_MATCHING, ATTACHED_VOLUMES):
            column = self._columns[key] = column.fork()
            assert isinstance(column, CountColumn)
            for node in self.changed:
                column.write(self.hosts.row_of[node], self._cell(node, key))
        return column


class _Separately(NodeSnapshot):
    """Every node as if it were the only one whose pods were changed: a ``Supposition``. ``pods`` are those of the
    base."""

    __slots__ = ("_base", "_priority")

    def __init__(self, base: NodeSnapshot, priority: int) -> None:
        for name in _SHARED:
            setattr(self, name, getattr(base, name))
        self.pods = base.pods
        self._base, self._priority = base, priority
        self._columns: dict[Key, Column] = {}

    def shows(self, *, cells: Iterable[Key], shared: Iterable[Key]) -> bool:
        if any(key[0] in LEDGER or key[0] == ATTACHED_VOLUMES for key in cells):
            return False  # the ledger counts pods, too, and pods may share volumes
        keys = frozenset(shared)
        if any(key[0] == PODS_MATCHING or (key[0] in ADDED and key[0] not in HELD) for key in keys):
            return False
        return POD_TERMS not in keys or not (
            self._changes_terms() or (NOMINATED in keys and self.nominates_terms)
        )

    def _changes_terms(self) -> bool:
        raise NotImplementedError

    def _column(self, key: Key) -> Column:
        column = self._columns.get(key)
        if column is None:
            column = self._base._column(key)
            if key[0] in ADDED:
                column = column.fork()
                assert isinstance(column, CountColumn)
                self._change(column, key)
            self._columns[key] = column
        return column

    def _change(self, column: CountColumn, key: Key) -> None:
        raise NotImplementedError


class SeparatelyWithout(_Separately):
    """Each node without its pods of a lower priority."""

    __slots__ = ()

    def nodes_holding(self, key: Key) -> list[str]:
        return [node for node in self.pods.holders(key) if self._keeps(node, key)]

    def unheld(self, key: Key) -> Bits:
        # Pods on other nodes stay: only the node that has all pods in question can be free of them.
        nodes = list(self.pods.holders(key))
        if not nodes:
            return self.live
        if len(nodes) > 1 or self._keeps(nodes[0], key):
            return self.none()
        return bitmap.from_rows(self.rows_named(nodes), self.capacity)

    def _keeps(self, node: str, key: Key) -> bool:
        return any(
            key in info.template.amounts and info.priority >= self._priority
            for info in self.pods.on(node).pods.values()
        )

    def _changes_terms(self) -> bool:
        return self.pods.has_terms_below(self._priority)

    def _change(self, column: CountColumn, key: Key) -> None:
        # A sum that was cut off at the limit is not what is left of it.
        cut = np.flatnonzero(column.values >= LARGEST).tolist()
        column.values -= self._base.counts(of_lower_priority(self._priority, key)).values
        for row in cut:
            on = self.pods.on(self.hosts.names[row])
            column.values[row] = min(on.total.get(key, 0) - on.below(self._priority, key), LARGEST)


class SeparatelyWithNominated(_Separately):
    """Each node with the pods of at least this priority that are nominated to it. ``own`` are the row to which the pod
    itself is nominated, and what it adds to columns: it does not wait for itself."""

    __slots__ = ("_own",)

    def __init__(
        self, base: NodeSnapshot, priority: int, own: tuple[int, Mapping[Key, int]] | None = None
    ) -> None:
        super().__init__(base, priority)
        self._own = own

    def nodes_holding(self, key: Key) -> set[str]:
        return {*self.pods.holders(key), *self._nodes_nominated(key)}

    def unheld(self, key: Key) -> Bits:
        if self.pods.holders(key):
            return self.none()
        rows = self.rows_named(self._nodes_nominated(key))
        return self.live & ~bitmap.from_rows(rows, self.capacity)

    def _nodes_nominated(self, key: Key) -> list[str]:
        """Return the nodes whose nominated pods add to a column of ``HELD``."""
        row, amounts = self._own or (-1, {})
        nodes = []
        for node in self.nominated:
            added = nominated_amount(self.nominated, self.pods, node, self._priority, key)
            if self.hosts.row_of.get(node) == row:
                added -= amounts.get(key, 0)
            if added > 0:
                nodes.append(node)
        return nodes

    def rows(self) -> Bits:
        """Return the nodes that have such pods."""
        return bitmap.pack(self._added(requested(PODS)) > 0)

    def _changes_terms(self) -> bool:
        return self.nominates_terms

    def _change(self, column: CountColumn, key: Key) -> None:
        added = self._added(key)
        column.values[:] = np.minimum(column.values, LARGEST - added) + added

    def _added(self, key: Key) -> npt.NDArray[np.int64]:
        added = self._base.counts(of_nominated(self._priority, key)).values
        if self._own is None:
            return added
        row, amounts = self._own
        added = added.copy()
        added[row] -= amounts.get(key, 0)
        return added
