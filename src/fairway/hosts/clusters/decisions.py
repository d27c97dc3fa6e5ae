"""Index of decisions: the hosts of every placement, and the number of decisions that name each host."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fairway.api.decision import ClusterDecision
from fairway.hosts.clusters.tenures import Tenure, Tenures, tenures_of
from fairway.hosts.instant import Micros

Owner = tuple[str, str]
"""(namespace, placement name), the latter from the decision's label."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A PlacementDecision: its placement (None without a placement label) and its clusters."""

    owner: Owner | None
    clusters: tuple[str, ...]
    tenures: Tenures = ()

    @classmethod
    def of(cls, owner: Owner | None, decisions: Iterable[ClusterDecision]) -> "Holding":
        listed = tuple(decisions)
        clusters = tuple(decision.clusterName for decision in listed)
        return cls(owner=owner, clusters=clusters, tenures=tenures_of(listed))


class Decisions:
    __slots__ = ("_by_owner", "_counted", "_holdings", "_moves", "absent_clusters", "stamp")

    def __init__(self, *, stamp: int = 0) -> None:
        self.absent_clusters: dict[str, int] = {}
        """Counts of cluster names in decisions that are not hosts."""
        self.stamp = stamp
        self._holdings: dict[tuple[str, str], Holding] = {}
        self._by_owner: dict[Owner, dict[str, Holding]] = {}
        self._counted: tuple[Owner, Mapping[str, int]] | None = None
        self._moves: dict[str | None, list[Micros]] = {}
        """The times of recorded moves in each namespace, ascending; of all namespaces under None."""

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

    def tenures_of(self, owner: Owner) -> dict[str, Tenure]:
        """Return what a placement's decisions record, by cluster."""
        tenures: dict[str, Tenure] = {}
        for holding in (self._by_owner.get(owner) or {}).values():
            for cluster, tenure in holding.tenures:
                # While pages are rewritten, an older record may be on another page.
                if cluster not in tenures or len(tenure.moves) > len(tenures[cluster].moves):
                    tenures[cluster] = tenure
        return tenures

    def moves_in(self, namespace: str | None) -> Sequence[Micros]:
        """Return the times of the recorded moves of a namespace, ascending; None for all. Read-only."""
        return self._moves.get(namespace, ())

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
        self._count_moves(old, holding)
        if holding is not None:
            self._holdings[key] = holding
            if holding.owner is not None:
                self._by_owner.setdefault(holding.owner, {})[name] = holding
        return old

    def _count_moves(self, old: Holding | None, new: Holding | None) -> None:
        if old is not None and old.owner is not None:
            for namespace in (old.owner[0], None) if old.tenures else ():
                moments = self._moves.get(namespace, [])
                for _, tenure in old.tenures:
                    for moment in tenure.moves:
                        del moments[bisect_left(moments, moment)]
                if not moments:
                    self._moves.pop(namespace, None)
        if new is not None and new.owner is not None:
            for namespace in (new.owner[0], None):
                for _, tenure in new.tenures:
                    for moment in tenure.moves:
                        insort(self._moves.setdefault(namespace, []), moment)

    def fork(self) -> "Decisions":
        other = Decisions()
        other.absent_clusters = self.absent_clusters.copy()
        other._holdings = self._holdings.copy()
        other._moves = {namespace: moments.copy() for namespace, moments in self._moves.items()}
        other._by_owner = {owner: holdings.copy() for owner, holdings in self._by_owner.items()}
        return other
