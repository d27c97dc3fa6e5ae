"""Which clusters are in which sets, kept up to date change by change.

A set's members could be found by asking its selector about every cluster, and OCM does so whenever anything changes.
With thousands of clusters and hundreds of sets that is a million questions for one new label. Here a change touches
only what it is about. To be a member, a cluster must at least have some label the selector insists on, its *anchor*:
a key with a value, or just a key. So clusters are kept by label and sets by anchor, and a cluster is asked only about
sets whose anchor it has, a set only about clusters that have its anchor. Selectors that insist on nothing, such as the
empty one, have no anchor: they are asked about everything that changes, for everything may be in them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from fairway.api.clusterset import ManagedClusterSet
from fairway.api.selector import EXISTS, IN, Selector
from fairway.fleet.hostset import HostSet, host_set

Anchor = tuple[str, str | None]
"""A label with its value, or with any value."""


class Membership:
    """Counts are right after every call. No call reads more clusters or sets than may be affected."""

    def __init__(self) -> None:
        self._sets: dict[str, HostSet] = {}
        self._members: dict[str, set[str]] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._sets_of: dict[str, set[str]] = {}
        self._clusters_at: defaultdict[Anchor, set[str]] = defaultdict(set)
        self._sets_at: defaultdict[Anchor, set[str]] = defaultdict(set)
        self._everywhere: set[str] = set()
        """Sets without an anchor."""

    def count(self, name: str) -> int:
        return len(self._members.get(name, ()))

    def error(self, name: str) -> str | None:
        """Why nobody knows the members of a set."""
        known = self._sets.get(name)
        return None if known is None else known.error

    def put_set(self, source: ManagedClusterSet) -> None:
        new = host_set(source)
        if new == self._sets.get(new.name):
            return
        self.drop_set(new.name)
        self._sets[new.name] = new
        anchors = _anchors(new.selector)
        if anchors is None:
            self._everywhere.add(new.name)
            asked: Iterable[str] = self._labels
        else:
            for anchor in anchors:
                self._sets_at[anchor].add(new.name)
            asked = {name for anchor in anchors for name in self._clusters_at.get(anchor, ())}
        members = {name for name in asked if new.selector.matches(self._labels[name])}
        self._members[new.name] = members
        for name in members:
            self._sets_of[name].add(new.name)

    def drop_set(self, name: str) -> None:
        old = self._sets.pop(name, None)
        if old is None:
            return
        anchors = _anchors(old.selector)
        if anchors is None:
            self._everywhere.discard(name)
        else:
            for anchor in anchors:
                _remove(self._sets_at, anchor, name)
        for member in self._members.pop(name):
            self._sets_of[member].discard(name)

    def put_cluster(self, name: str, labels: Mapping[str, str]) -> frozenset[str]:
        """Returns the sets whose members changed."""
        old = self._labels.get(name, {})
        if old == labels and name in self._labels:
            return frozenset()
        for anchor in _offered(old, beyond=labels):
            _remove(self._clusters_at, anchor, name)
        for anchor in _offered(labels, beyond=old):
            self._clusters_at[anchor].add(name)
        self._labels[name] = labels
        before = self._sets_of.get(name, set())
        now = {each for each in self._candidates(labels) if self._sets[each].selector.matches(labels)}
        self._sets_of[name] = now
        for left in before - now:
            self._members[left].discard(name)
        for joined in now - before:
            self._members[joined].add(name)
        return frozenset(before ^ now)

    def drop_cluster(self, name: str) -> frozenset[str]:
        """Returns the sets it was in."""
        labels = self._labels.pop(name, None)
        if labels is None:
            return frozenset()
        for anchor in _offered(labels):
            _remove(self._clusters_at, anchor, name)
        left = self._sets_of.pop(name)
        for each in left:
            self._members[each].discard(name)
        return frozenset(left)

    def _candidates(self, labels: Mapping[str, str]) -> Iterator[str]:
        yield from self._everywhere
        for anchor in _offered(labels):
            yield from self._sets_at.get(anchor, ())


def _anchors(selector: Selector) -> tuple[Anchor, ...] | None:
    """One of them every member has; None if there need not be any."""
    if selector.nothing:
        return ()
    for each in selector.requirements:
        if each.operator == IN:
            return tuple((each.key, value) for value in each.values)
    for each in selector.requirements:
        if each.operator == EXISTS:
            return ((each.key, None),)
    return None


def _offered(labels: Mapping[str, str], *, beyond: Mapping[str, str] | None = None) -> Iterator[Anchor]:
    """The anchors these labels are; only those that the labels ``beyond`` are not, if given."""
    other = {} if beyond is None else beyond
    for key, value in labels.items():
        known = other.get(key)
        if known != value:
            yield key, value
        if known is None:
            yield key, None


def _remove(index: defaultdict[Anchor, set[str]], anchor: Anchor, name: str) -> None:
    names = index[anchor]
    names.discard(name)
    if not names:
        del index[anchor]
