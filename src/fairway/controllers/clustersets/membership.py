"""The clusters of each set, updated incrementally.

OCM matches every set's selector against every cluster whenever anything changes: with thousands of clusters and
hundreds of sets, a million matches for one new label. Here a change touches only what it can affect. A member must have
some label that the selector requires, its *anchor*: a key with a value, or a key. Clusters and sets are indexed by
anchor, and only pairs that share one are matched. Selectors without a requirement, such as the empty one, have no
anchor: they are matched against every change.

Labels that no selector requires are not indexed: sets have few keys, clusters many.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from fairway.api.clusterset import ManagedClusterSet
from fairway.hosts.clusters.hostset import HostSet, host_set
from kubewire.api.selector import EXISTS, IN, Selector

Anchors = tuple[str, tuple[str | None, ...]]
"""A key, and the values of which a member has one; None is any value."""

Index = dict[str, defaultdict[str | None, set[str]]]
"""Names by the key and value of an anchor."""


class Membership:
    """Counts are correct after every call. A call reads only clusters and sets that it may affect, except for the
    first set that requires a key: then all clusters are indexed by that key.
    """

    def __init__(self) -> None:
        self._sets: dict[str, HostSet] = {}
        self._members: dict[str, set[str]] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._sets_of: dict[str, set[str]] = {}
        self._sets_at: Index = {}
        self._clusters_at: Index = {}
        """Has the same keys."""
        self._without_anchor: set[str] = set()
        """Sets without an anchor."""

    def count(self, name: str) -> int:
        return len(self._members.get(name, ()))

    def error(self, name: str) -> str | None:
        """Return why the members of a set are unknown: its selector is invalid."""
        known = self._sets.get(name)
        return None if known is None else known.error

    def put_set(self, source: ManagedClusterSet) -> None:
        new = host_set(source)
        if new == self._sets.get(new.name):
            return
        # As a new set: its anchor may be another one, and then nothing of the old index applies.
        self.drop_set(new.name)
        self._sets[new.name] = new
        members = {name for name in self._index_set(new) if new.selector.matches(self._labels[name])}
        self._members[new.name] = members
        for name in members:
            self._sets_of[name].add(new.name)

    def _index_set(self, new: HostSet) -> Iterable[str]:
        """Index a set by its anchor; return the clusters that have it."""
        if new.selector.nothing:
            return ()
        anchors = _anchors(new.selector)
        if anchors is None:
            self._without_anchor.add(new.name)
            return self._labels
        key, values = anchors
        if key not in self._sets_at:
            # Only now, and not for every label of every cluster: most keys are never required by a set.
            clusters_at: defaultdict[str | None, set[str]] = defaultdict(set)
            self._sets_at[key], self._clusters_at[key] = defaultdict(set), clusters_at
            for name, labels in self._labels.items():
                if (value := labels.get(key)) is not None:
                    clusters_at[value].add(name)
                    clusters_at[None].add(name)
        for value in values:
            self._sets_at[key][value].add(new.name)
        return {name for value in values for name in self._clusters_at[key].get(value, ())}

    def drop_set(self, name: str) -> None:
        old = self._sets.pop(name, None)
        if old is None:
            return
        for member in self._members.pop(name):
            self._sets_of[member].discard(name)
        anchors = None if old.selector.nothing else _anchors(old.selector)
        if anchors is None:
            self._without_anchor.discard(name)
            return
        key, values = anchors
        for value in values:
            _remove(self._sets_at[key], value, name)
        if not self._sets_at[key]:
            del self._sets_at[key], self._clusters_at[key]

    def put_cluster(self, name: str, labels: Mapping[str, str]) -> frozenset[str]:
        """Return the sets whose members changed."""
        old = self._labels.get(name)
        if old == labels:
            return frozenset()
        self._index_cluster(name, old or {}, labels)
        self._labels[name] = labels
        before = self._sets_of.get(name, set())
        now = {name for name in self._candidates(labels) if self._sets[name].selector.matches(labels)}
        self._sets_of[name] = now
        for left in before - now:
            self._members[left].discard(name)
        for joined in now - before:
            self._members[joined].add(name)
        return frozenset(before ^ now)

    def drop_cluster(self, name: str) -> frozenset[str]:
        """Return the sets it was in."""
        labels = self._labels.pop(name, None)
        if labels is None:
            return frozenset()
        self._index_cluster(name, labels, {})
        left = self._sets_of.pop(name)
        for set_name in left:
            self._members[set_name].discard(name)
        return frozenset(left)

    def _index_cluster(self, name: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        for key, clusters in self._clusters_at.items():
            before, now = old.get(key), new.get(key)
            if before == now:
                continue
            if before is not None:
                _remove(clusters, before, name)
                _remove(clusters, None, name)
            if now is not None:
                clusters[now].add(name)
                clusters[None].add(name)

    def _candidates(self, labels: Mapping[str, str]) -> Iterator[str]:
        yield from self._without_anchor
        for key, sets in self._sets_at.items():
            if (value := labels.get(key)) is not None:
                yield from sets.get(value, ())
                yield from sets.get(None, ())


def _anchors(selector: Selector) -> Anchors | None:
    """Return None if the selector requires no label."""
    # A value before a key: fewer clusters have it. NotIn and DoesNotExist are no anchors, because clusters without the
    # label match them, too.
    for requirement in selector.requirements:
        if requirement.operator == IN:
            return requirement.key, tuple(requirement.values)
    for requirement in selector.requirements:
        if requirement.operator == EXISTS:
            return requirement.key, (None,)
    return None


def _remove(index: defaultdict[str | None, set[str]], value: str | None, name: str) -> None:
    names = index[value]
    names.discard(name)
    if not names:
        del index[value]
