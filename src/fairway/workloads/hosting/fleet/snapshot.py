"""A consistent view of the clusters, with the load, the room and the residents of those that host."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fairway.api.cluster import ManagedCluster
from fairway.engine.workload import HostKey
from fairway.hosts import bitmap, selection
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.clusters import ClusterSnapshot, cells
from fairway.hosts.column import Key
from fairway.hosts.snapshot import Snapshot
from fairway.workloads.hosting.fleet.columns import is_amount
from fairway.workloads.hosting.fleet.facts import HostFacts, host_key
from fairway.workloads.hosting.fleet.residents import NO_RESIDENTS, HostResidents
from fairway.workloads.hosting.fleet.roster import Roster
from fairway.workloads.hosting.rules.policy import Policy

if TYPE_CHECKING:
    from fairway.workloads.hosting.fleet.table import HostingTable

NOT_HOSTING = "this plugin places HostedClusterRequests, and needs a snapshot of hosting clusters; got {kind}"


class HostingSnapshot(ClusterSnapshot):
    __slots__ = ("_residents_in_order", "_rosters", "facts", "largest", "residents", "tenants")

    def __init__(self, table: "HostingTable") -> None:
        super().__init__(table)
        self._rosters = table._rosters
        self.facts: Mapping[str, HostFacts] = self._rosters.view()
        """By cluster; only those with the hosting claim."""
        self.residents: Mapping[HostKey, HostResidents] = table.residents.view()
        self.tenants = table.usage.view()
        self.largest = table.offers.view()
        """The largest offer of any host, and the host, by resource; none while no host is known."""
        self._residents_in_order: list[HostResidents] | None = None

    def _fill(self, column: Any, key: Key) -> None:
        if not is_amount(key):  # the table writes it with the first host that has one
            super()._fill(column, key)

    def residents_at(self, row: int) -> HostResidents:
        return self.residents.get(host_key(self.cluster(row)), NO_RESIDENTS)

    @property
    def roster(self) -> Roster:
        return self._rosters.of(self.facts, self.hosts.row_of)

    def residents_in(self, rows: Rows) -> list[HostResidents]:
        """Return the residents of each of these rows. The caller must not modify the list."""
        roster, known = self.roster, self._residents_in_order
        if known is None:
            find = self.residents.get
            known = self._residents_in_order = [find(key, NO_RESIDENTS) for key in roster.keys]
        if np.array_equal(rows, roster.rows):
            return known
        at = roster.at
        return [known[at[row]] if row in at else self.residents_at(row) for row in rows.tolist()]

    def covers(self, policy: Policy, cluster: ManagedCluster) -> bool:
        """Return whether a cluster is in a cluster set of the policy. Without sets, it covers all."""
        if not policy.cluster_sets:
            return True
        labels = cluster.metadata.labels
        return any(
            name in self.sets and self.sets[name].selector.matches(labels) for name in policy.cluster_sets
        )

    def covered(self, policy: Policy, *, among: Bits) -> Bits:
        """Return the rows among the given ones that are in a cluster set of the policy."""
        if not policy.cluster_sets:
            return among
        members = bitmap.empty(self.capacity)
        for name in policy.cluster_sets:
            if name in self.sets:
                members |= selection.select(self, self.sets[name].selector, kind=cells.LABEL, among=among)
        return members


def hosting_of(snapshot: Snapshot[Any]) -> HostingSnapshot:
    """Return the snapshot as one of hosting clusters."""
    if not isinstance(snapshot, HostingSnapshot):
        raise TypeError(NOT_HOSTING.format(kind=type(snapshot).__name__))
    return snapshot
