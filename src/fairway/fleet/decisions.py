"""Which decisions exist: for every placement the hosts it holds, and for every host how often it is held."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

Owner = tuple[str, str]
"""(namespace, placement name), the latter as the decision's label says it."""


@dataclass(frozen=True, slots=True)
class Holding:
    """One PlacementDecision: who it belongs to (None when it bears no placement label) and the clusters in it."""

    owner: Owner | None
    clusters: tuple[str, ...]


class Decisions:
    __slots__ = ("_by_owner", "_counted", "_holdings", "outsiders", "stamp")

    def __init__(self, *, stamp: int = 0) -> None:
        self.outsiders: dict[str, int] = {}
        """Counts of cluster names in decisions that no host bears."""
        self.stamp = stamp
        self._holdings: dict[tuple[str, str], Holding] = {}
        self._by_owner: dict[Owner, dict[str, Holding]] = {}
        self._counted: tuple[Owner, Mapping[str, int]] | None = None

    def get(self, namespace: str, name: str) -> Holding | None:
        return self._holdings.get((namespace, name))

    def of(self, owner: Owner) -> dict[str, Holding]:
        """A placement's decisions by their names. The caller must not write to it."""
        return self._by_owner.get(owner, {})

    def clusters_of(self, owner: Owner) -> list[str]:
        """Cluster names over all of a placement's decisions, duplicates kept."""
        found = self._by_owner.get(owner)
        if not found:
            return []
        if len(found) == 1:
            (holding,) = found.values()
            return list(holding.clusters)
        return [cluster for holding in found.values() for cluster in holding.clusters]

    def counted(self, owner: Owner) -> Mapping[str, int]:
        """How often each cluster is named in a placement's decisions; kept for the placement last asked for."""
        if self._counted is None or self._counted[0] != owner:
            self._counted = (owner, Counter(self.clusters_of(owner)))
        return self._counted[1]

    def put(self, namespace: str, name: str, holding: Holding | None) -> Holding | None:
        """Stores or (None) forgets a decision and returns what was there before."""
        key = (namespace, name)
        old = self._holdings.pop(key, None)
        if self._counted is not None and any(
            each is not None and each.owner == self._counted[0] for each in (old, holding)
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
        other.outsiders = self.outsiders.copy()
        other._holdings = self._holdings.copy()
        other._by_owner = {owner: found.copy() for owner, found in self._by_owner.items()}
        return other
