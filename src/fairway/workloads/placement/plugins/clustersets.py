"""ClusterSets: restricts a placement to the clusters of the ManagedClusterSets that are bound to its namespace."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from fairway.api.cluster import CLUSTER_SET_LABEL
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.remedies import AddToList, BindSet, Remedy
from fairway.engine.status import OK, Status, failed, unschedulable
from fairway.hosts import selection
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.hostset import HostSet
from fairway.hosts.clusters.snapshot import ClusterSnapshot, clusters_of
from fairway.hosts.column import MEMBERSHIP, Key
from fairway.workloads.placement.plugins.selector_remedies import meet_selector
from fairway.workloads.placement.workload import PlacementWorkload, placement_of

NAME = "ClusterSets"
SET_FIELD = "spec.clusterSelector of the ManagedClusterSet"

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
MOST_SETS = 12
"""Maximum number of sets that a remedy names."""
_CLUSTER_SETS = ("spec", "clusterSets")
_SET_LABEL = cells.label(CLUSTER_SET_LABEL)


@dataclass(frozen=True, slots=True)
class BoundSets:
    """The sets that the bindings of the namespace select."""

    bound: tuple[str, ...]
    """Existing sets with a binding, by name."""
    eligible: tuple[str, ...]
    """The bound sets that the placement names."""


def find_sets(snapshot: ClusterSnapshot, namespace: str, wanted: Collection[str]) -> BoundSets:
    """``wanted`` are the sets that a placement in the namespace names; empty for all bound ones."""
    bound = [name for name in snapshot.bindings.get(namespace, ()) if name in snapshot.sets]
    bound.sort()
    eligible = [name for name in bound if name in wanted] if wanted else bound
    return BoundSets(bound=tuple(bound), eligible=tuple(eligible))


class ClusterSets(Timeless):
    name = NAME

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        snapshot = clusters_of(context.snapshot)
        sets = _find_bound_sets(context)
        context.state.write(NAME, sets)
        labelled = snapshot.codes(_SET_LABEL)
        exclusive: list[int] = []
        selected: list[Bits] = []
        for name in sets.eligible:
            host_set = snapshot.sets[name]
            if host_set.error is not None:
                return _failure(host_set), None
            if not host_set.exclusive:
                selected.append(
                    selection.select(snapshot, host_set.selector, kind=cells.LABEL, among=snapshot.live)
                )
            elif (code := labelled.code(name)) is not None:
                exclusive.append(code)
        members = labelled.bitmap_of(exclusive)
        for bits in selected:
            members = members | bits
        return OK, members & snapshot.codes(cells.DELETING).bitmap(0)

    def admits(self, context: Context, row: int, /) -> Status:
        snapshot = clusters_of(context.snapshot)
        cluster = snapshot.cluster(row)
        eligible = sets_of(context).eligible
        if not eligible:
            return unschedulable(_unusable(context), plugin=NAME)
        for name in eligible:
            host_set = snapshot.sets[name]
            if host_set.error is not None:
                return _failure(host_set)
            if host_set.selector.matches(cluster.metadata.labels):
                if cluster.metadata.deletionTimestamp is not None:
                    return unschedulable(BEING_DELETED, plugin=NAME)
                return OK
        words = NOT_IN_WANTED if placement_of(context).placement.spec.clusterSets else NOT_A_MEMBER
        return unschedulable(words.format(sets=", ".join(eligible)), plugin=NAME)

    def filter_remedies(self, context: Context, row: int, /) -> Iterator[Remedy]:
        """Propose to make sets with the cluster eligible, or to add the cluster to eligible sets."""
        snapshot = clusters_of(context.snapshot)
        labels = snapshot.cluster(row).metadata.labels
        bound = snapshot.bindings.get(context.workload.namespace, frozenset())
        wanted = placement_of(context).derive(_wanted)
        eligible = _find_bound_sets(context).eligible
        own = [
            name
            for name, host_set in sorted(snapshot.sets.items())
            if host_set.error is None and host_set.selector.matches(labels)
        ]
        for name in own[:MOST_SETS]:
            if name not in bound:
                yield BindSet(name)
            elif wanted and name not in wanted:
                yield AddToList(_CLUSTER_SETS, name)
        for name in eligible[:MOST_SETS]:
            if name not in own:
                yield from meet_selector(snapshot, snapshot.sets[name].selector, labels, kind=cells.LABEL)
        if not eligible:
            # A set must be bound or named first, whatever its members.
            for name in sorted(set(snapshot.sets) - set(own))[:MOST_SETS]:
                if name not in bound and (not wanted or name in wanted):
                    yield BindSet(name)
                elif name in bound and wanted and name not in wanted:
                    yield AddToList(_CLUSTER_SETS, name)

    def reads(self, context: Context, /) -> Reads:
        snapshot, namespace = clusters_of(context.snapshot), context.workload.namespace
        bindings = snapshot.bindings.get(namespace, frozenset())
        keys: set[Key] = {cells.DELETING, MEMBERSHIP}
        for name in bindings:
            host_set = snapshot.sets.get(name)
            if host_set is not None:
                keys.update(cells.label(requirement.key) for requirement in host_set.selector.requirements)
        shared: set[Key] = {(cells.BINDINGS, namespace)}
        shared.update((cells.SETS, name) for name in bindings)
        return Reads(cells=frozenset(keys), shared=frozenset(shared))


def sets_of(context: Context) -> BoundSets:
    """Return the sets of a cycle, also of one that ended before this plugin or in which it is disabled."""
    return context.state.find(NAME, BoundSets) or _find_bound_sets(context)


def _find_bound_sets(context: Context) -> BoundSets:
    workload = placement_of(context)
    wanted = workload.derive(_wanted)
    return find_sets(clusters_of(context.snapshot), workload.owner[0], wanted)


def _wanted(workload: PlacementWorkload) -> frozenset[str]:
    return frozenset(workload.placement.spec.clusterSets)


def _unusable(context: Context) -> str:
    """Describe why no set is eligible."""
    snapshot, namespace = clusters_of(context.snapshot), context.workload.namespace
    bound = _find_bound_sets(context).bound
    if bound:
        wanted = _listed(sorted(placement_of(context).derive(_wanted)))
        return NOT_WANTED.format(wanted=wanted, namespace=namespace, bound=_listed(bound))
    bindings = snapshot.bindings.get(namespace)
    if bindings:
        return BOUND_TO_NONE.format(namespace=namespace, sets=_listed(sorted(bindings)))
    return NOT_BOUND.format(namespace=namespace)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMES_SHOWN
    listed = ", ".join(names[:NAMES_SHOWN])
    return f"{listed} and {more} more" if more > 0 else listed


def _failure(broken: HostSet) -> Status:
    return failed(SET_FAILED.format(name=broken.name, error=broken.error), plugin=NAME, field=SET_FIELD)
