"""ClusterSets: which clusters a namespace may use at all, by its bindings to ManagedClusterSets."""

from dataclasses import dataclass

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, failed, unschedulable
from fairway.fleet import cells, selection
from fairway.fleet.bitmap import Bits
from fairway.fleet.column import Key
from fairway.fleet.hostset import HostSet
from fairway.fleet.snapshot import Snapshot

NAME = "ClusterSets"

SET_FAILED = 'failed to get clusters from ClusterSet "{name}": {error}'
NOT_A_MEMBER = "is in none of the sets this namespace may use ({sets})"
NO_SETS = "this namespace may use no cluster set: bind one with a ManagedClusterSetBinding named like the set"
BEING_DELETED = "is being deleted"


@dataclass(frozen=True, slots=True)
class Found:
    """What the bindings of the namespace lead to."""

    bound: tuple[str, ...]
    """Existing sets with a binding, by name."""
    eligible: tuple[str, ...]
    """Those of them the placement wants."""


class ClusterSets(Timeless):
    name = NAME

    def __init__(self, *, namespace: str, wanted: tuple[str, ...]) -> None:
        self._namespace = namespace
        self._wanted = frozenset(wanted)

    def found(self, snapshot: Snapshot) -> Found:
        bound = [name for name in snapshot.bindings.get(self._namespace, ()) if name in snapshot.sets]
        bound.sort()
        eligible = [name for name in bound if name in self._wanted] if self._wanted else bound
        return Found(bound=tuple(bound), eligible=tuple(eligible))

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        snapshot = context.snapshot
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
        snapshot = context.snapshot
        cluster = snapshot.cluster(row)
        eligible = self.found(snapshot).eligible
        if not eligible:
            return unschedulable(NO_SETS, plugin=NAME)
        for name in eligible:
            each = snapshot.sets[name]
            if each.error is not None:
                return _failure(each)
            if each.selector.matches(cluster.metadata.labels):
                if cluster.metadata.deletionTimestamp is not None:
                    return unschedulable(BEING_DELETED, plugin=NAME)
                return OK
        return unschedulable(NOT_A_MEMBER.format(sets=", ".join(eligible)), plugin=NAME)

    def reads(self, context: Context, /) -> Reads:
        snapshot = context.snapshot
        bindings = snapshot.bindings.get(self._namespace, frozenset())
        keys: set[Key] = {cells.DELETING, cells.MEMBERSHIP}
        for name in bindings:
            each = snapshot.sets.get(name)
            if each is not None:
                keys.update(cells.label(requirement.key) for requirement in each.selector.requirements)
        shared: set[Key] = {(cells.BINDINGS, self._namespace)}
        shared.update((cells.SETS, name) for name in bindings)
        return Reads(cells=frozenset(keys), shared=frozenset(shared))


def _failure(broken: HostSet) -> Status:
    return failed(SET_FAILED.format(name=broken.name, error=broken.error), plugin=NAME)
