"""The cluster sets of each cluster: every set has a budget."""

from collections.abc import Callable, Mapping

from fairway.api.clusterset import ManagedClusterSet
from fairway.hosts.clusters.hostset import HostSet, host_set
from fairway.hosts.steps import Steps, strides
from kubewire.api.selector import IN

_Label = tuple[str, str]


class SetsByCluster:
    """A changed cluster is matched against the sets that its labels may match, a changed set against every cluster.

    Both numbers are large: with 100,000 clusters, a set is changed in steps, between which clusters may change too.
    """

    def __init__(self) -> None:
        self._sets: dict[str, HostSet] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._of: dict[str, frozenset[str]] = {}
        self._by_label: dict[_Label, dict[str, HostSet]] = {}
        """Sets that need one of these labels. Most sets are exclusive, and need exactly one."""
        self._others: dict[str, HostSet] = {}

    def of(self, cluster: str) -> frozenset[str]:
        return self._of.get(cluster, frozenset())

    def put_cluster(self, name: str, labels: Mapping[str, str]) -> None:
        if self._labels.get(name) != labels:
            self._labels[name] = labels
            possible = [self._others, *(self._by_label.get(label, {}) for label in labels.items())]
            self._of[name] = frozenset(
                cluster_set.name
                for sets in possible
                for cluster_set in sets.values()
                if cluster_set.selector.matches(labels)
            )

    def drop_cluster(self, name: str) -> None:
        self._labels.pop(name, None)
        self._of.pop(name, None)

    def put_set(self, source: ManagedClusterSet, *, moved: Callable[[str], None]) -> Steps[None]:
        """Call ``moved`` for each cluster that joined or left the set."""
        new = host_set(source)
        if self._sets.get(new.name) == new:
            return
        self._remove(new.name)
        self._sets[new.name] = new
        if label_values := _needed_labels(new):
            for label in label_values:
                self._by_label.setdefault(label, {})[new.name] = new
        else:
            self._others[new.name] = new
        yield from self._adjust(new.name, new, moved)

    def drop_set(self, name: str, *, moved: Callable[[str], None]) -> Steps[None]:
        """Call ``moved`` for each cluster that was in the set."""
        if self._remove(name):
            yield from self._adjust(name, None, moved)

    def _remove(self, name: str) -> bool:
        old = self._sets.pop(name, None)
        if old is None:
            return False
        self._others.pop(name, None)
        for label in _needed_labels(old):
            sets = self._by_label[label]
            del sets[name]
            if not sets:
                del self._by_label[label]
        return True

    def _adjust(self, name: str, new: HostSet | None, moved: Callable[[str], None]) -> Steps[None]:
        # A copy, because clusters are added and deleted between two steps. One that is new then was matched against
        # the changed set by ``put_cluster`` already.
        for part in strides(tuple(self._labels)):
            for cluster in part:
                labels = self._labels.get(cluster)
                if labels is None:
                    continue  # deleted between two steps
                member = new is not None and new.selector.matches(labels)
                if member != (name in self._of[cluster]):
                    self._of[cluster] ^= {name}
                    moved(cluster)
            yield


def _needed_labels(source: HostSet) -> list[_Label]:
    """Return labels of which each member has one; none if there may be members without."""
    for requirement in source.selector.requirements:
        if requirement.operator == IN:
            return [(requirement.key, value) for value in requirement.values]
    return []
