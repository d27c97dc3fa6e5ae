"""Index of decisions: the hosts of every placement, and the number of decisions that name each host."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

Owner = tuple[str, str]
"""(namespace, placement name), the latter from the decision's label."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A PlacementDecision: its placement (None without a placement label) and its clusters."""

    owner: Owner | None
    clusters: tuple[str, ...]


class Decisions:
    __slots__ = ("_by_owner", "_counted", "_holdings", "absent_clusters", "stamp")

    def __init__(self, *, stamp: int = 0) -> None:
        self.absent_clusters: dict[str, int] = {}
        """Counts of cluster names in decisions that are not hosts."""
        self.stamp = stamp
        self._holdings: dict[tuple[str, str], Holding] = {}
        self._by_owner: dict[Owner, dict[str, Holding]] = {}
        self._counted: tuple[Owner, Mapping[str, int]] | None = None

    def get(self, namespace: str, name: str) -> Holding | None:
        return self._holdings.get((namespace, name))

    def has(self, owner: Owner) -> bool:
        return owner in self._by_owner

    def clusters_of(self, owner: Owner) -> list[str]:
        """Return the cluster names of all of a placement's decisions, with duplicates."""
        holdings = self._by_owner.get(owner)
        if not holdings:
            return []
        if len(holdings) == 1:
            (holding,) = holdings.values()
            return list(holding.clusters)
        return [cluster for holding in holdings.values() for cluster in holding.clusters]

    def counted(self, owner: Owner) -> Mapping[str, int]:
        """Return how often a placement's decisions name each cluster; cached for the last placement."""
        if self._counted is None or self._counted[0] != owner:
            self._counted = (owner, Counter(self.clusters_of(owner)))
        return self._counted[1]

    def put(self, namespace: str, name: str, holding: Holding | None) -> Holding | None:
        """Store or (None) delete a decision, and return the previous one."""
        key = (namespace, name)
        old = self._holdings.pop(key, None)
        if self._counted is not None and any(
            version is not None and version.owner == self._counted[0] for version in (old, holding)
        ):
            self._counted = None
        if old is not None and old.owner is not None:
            siblings = self._by_owner[old.owner]
            del siblings[name]
            if not siblings:
                del self._by_owner[old.owner]
        if holding is not None:
            self._holdings[key] = holding
            if holding.owner is not None:
                self._by_owner.setdefault(holding.owner, {})[name] = holding
        return old

    def fork(self) -> "Decisions":
        other = Decisions()
        other.absent_clusters = self.absent_clusters.copy()
        other._holdings = self._holdings.copy()
        other._by_owner = {owner: holdings.copy() for owner, holdings in self._by_owner.items()}
        return other
