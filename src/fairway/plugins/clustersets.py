"""ClusterSets: restricts a placement to the clusters of the ManagedClusterSets that are bound to its namespace."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairway.clusters import cells
from fairway.clusters.hostset import HostSet
from fairway.clusters.snapshot import ClusterSnapshot, clusters_of
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, failed, unschedulable
from fairway.fleet import selection
from fairway.fleet.bitmap import Bits
from fairway.fleet.column import MEMBERSHIP, Key

NAME = "ClusterSets"

SET_FAILED = 'failed to get clusters from ClusterSet "{name}": {error}'
NOT_A_MEMBER = "is in none of the sets this namespace may use ({sets})"
NOT_IN_WANTED = "is in none of the sets in spec.clusterSets that this namespace may use ({sets})"
NOT_BOUND = (
    "namespace {namespace} is bound to no cluster set: "
    "create a ManagedClusterSetBinding named like the set in the namespace"
)
BOUND_TO_NONE = (
    "namespace {namespace} is bound only to cluster sets that do not exist ({sets}): "
    "create them, or a ManagedClusterSetBinding named like a set that exists"
)
NOT_WANTED = (
    "the placement asks for the cluster sets {wanted}, and namespace {namespace} is bound to {bound}: "
    "write a bound set in spec.clusterSets, or bind {wanted} with a ManagedClusterSetBinding of that name"
)
NAMES_SHOWN = 5
BEING_DELETED = "is being deleted"


@dataclass(frozen=True, slots=True)
class Found:
    """The sets that the bindings of the namespace select."""

    bound: tuple[str, ...]
    """Existing sets with a binding, by name."""
    eligible: tuple[str, ...]
    """The bound sets that the placement names."""


class ClusterSets(Timeless):
    name = NAME

    def __init__(self, *, namespace: str, wanted: tuple[str, ...]) -> None:
        self._namespace = namespace
        self._wanted = frozenset(wanted)

    def found(self, snapshot: ClusterSnapshot) -> Found:
        bound = [name for name in snapshot.bindings.get(self._namespace, ()) if name in snapshot.sets]
        bound.sort()
        eligible = [name for name in bound if name in self._wanted] if self._wanted else bound
        return Found(bound=tuple(bound), eligible=tuple(eligible))

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        snapshot = clusters_of(context.snapshot)
        found = self.found(snapshot)
        context.state.write(NAME, found)
        members = snapshot.none()
        for name in found.eligible:
            each = snapshot.sets[name]
            if each.error is not None:
                return _failure(each), members
            members |= selection.select(snapshot, each.selector, kind=cells.LABEL, among=snapshot.live)
        return OK, members & snapshot.codes(cells.DELETING).bitmap(0)

    def admits(self, context: Context, row: int, /) -> Status:
        snapshot = clusters_of(context.snapshot)
        cluster = snapshot.cluster(row)
        eligible = self.found(snapshot).eligible
        if not eligible:
            return unschedulable(self._unusable(snapshot), plugin=NAME)
        for name in eligible:
            each = snapshot.sets[name]
            if each.error is not None:
                return _failure(each)
            if each.selector.matches(cluster.metadata.labels):
                if cluster.metadata.deletionTimestamp is not None:
                    return unschedulable(BEING_DELETED, plugin=NAME)
                return OK
        words = NOT_IN_WANTED if self._wanted else NOT_A_MEMBER
        return unschedulable(words.format(sets=", ".join(eligible)), plugin=NAME)

    def _unusable(self, snapshot: ClusterSnapshot) -> str:
        """Describe why no set is eligible."""
        bound = self.found(snapshot).bound
        if bound:
            return NOT_WANTED.format(
                wanted=_listed(sorted(self._wanted)), namespace=self._namespace, bound=_listed(bound)
            )
        bindings = snapshot.bindings.get(self._namespace)
        if bindings:
            return BOUND_TO_NONE.format(namespace=self._namespace, sets=_listed(sorted(bindings)))
        return NOT_BOUND.format(namespace=self._namespace)

    def reads(self, context: Context, /) -> Reads:
        snapshot = clusters_of(context.snapshot)
        bindings = snapshot.bindings.get(self._namespace, frozenset())
        keys: set[Key] = {cells.DELETING, MEMBERSHIP}
        for name in bindings:
            each = snapshot.sets.get(name)
            if each is not None:
                keys.update(cells.label(requirement.key) for requirement in each.selector.requirements)
        shared: set[Key] = {(cells.BINDINGS, self._namespace)}
        shared.update((cells.SETS, name) for name in bindings)
        return Reads(cells=frozenset(keys), shared=frozenset(shared))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMES_SHOWN
    listed = ", ".join(names[:NAMES_SHOWN])
    return f"{listed} and {more} more" if more > 0 else listed


def _failure(broken: HostSet) -> Status:
    return failed(SET_FAILED.format(name=broken.name, error=broken.error), plugin=NAME)
