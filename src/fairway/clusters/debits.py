"""Score debits: how decisions are expected to change the scores of clusters that have not been published since.

A debit lasts until the next version of the AddOnPlacementScore arrives, which measures the real effect, or until the
placement gives up the cluster.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from fairway.clusters.decisions import Owner

Deltas = Mapping[tuple[str, str], int]
"""Expected change by (resource name, score name)."""
NO_DEBITS: Final[Deltas] = MappingProxyType({})


class Debits:
    __slots__ = ("_by_cluster", "stamp")

    def __init__(self, *, stamp: int = 0) -> None:
        self.stamp = stamp
        self._by_cluster: dict[str, dict[Owner, Deltas]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_cluster.values()))

    def __bool__(self) -> bool:
        return bool(self._by_cluster)

    def clusters(self) -> Iterator[str]:
        return iter(self._by_cluster)

    def of(self, cluster: str) -> Mapping[Owner, Deltas]:
        """Return the debits of a cluster by placement. The caller must not modify it."""
        return self._by_cluster.get(cluster, {})

    def total(self, cluster: str, resource: str, score: str) -> int:
        return sum(deltas.get((resource, score), 0) for deltas in self.of(cluster).values())

    def put(self, cluster: str, owner: Owner, deltas: Deltas) -> Deltas:
        """Replace a placement's debit of a cluster; nothing for none. Return the previous one."""
        owners = dict(self.of(cluster))
        old = owners.pop(owner, {})
        if deltas:
            owners[owner] = deltas
        if owners:
            self._by_cluster[cluster] = owners
        else:
            self._by_cluster.pop(cluster, None)
        return old

    def fork(self) -> "Debits":
        other = Debits()
        other._by_cluster = self._by_cluster.copy()
        return other
