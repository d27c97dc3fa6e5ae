"""The cluster sets of each cluster: every set has a budget."""

from collections.abc import Mapping

from fairway.api.clusterset import ManagedClusterSet
from fairway.clusters.hostset import HostSet, host_set


class SetsByCluster:
    """A changed cluster is matched against every set, a changed set against every cluster; both are rare."""

    def __init__(self) -> None:
        self._sets: dict[str, HostSet] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._of: dict[str, frozenset[str]] = {}

    def of(self, cluster: str) -> frozenset[str]:
        return self._of.get(cluster, frozenset())

    def put_cluster(self, name: str, labels: Mapping[str, str]) -> None:
        if self._labels.get(name) != labels:
            self._labels[name] = labels
            self._of[name] = frozenset(
                each.name for each in self._sets.values() if each.selector.matches(labels)
            )

    def drop_cluster(self, name: str) -> None:
        self._labels.pop(name, None)
        self._of.pop(name, None)

    def put_set(self, source: ManagedClusterSet) -> list[str]:
        """Return the clusters that joined or left the set."""
        new = host_set(source)
        if self._sets.get(new.name) == new:
            return []
        self._sets[new.name] = new
        members = {name for name, labels in self._labels.items() if new.selector.matches(labels)}
        return self._adjust(new.name, members)

    def drop_set(self, name: str) -> list[str]:
        return self._adjust(name, set()) if self._sets.pop(name, None) is not None else []

    def _adjust(self, name: str, members: set[str]) -> list[str]:
        changed = [cluster for cluster, sets in self._of.items() if (name in sets) != (cluster in members)]
        for cluster in changed:
            self._of[cluster] ^= {name}
        return changed
