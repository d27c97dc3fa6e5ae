"""PolicyMember: rejects clusters outside of the cluster sets of the request's policy."""

from fairway.clusters import cells
from fairway.clusters.snapshot import clusters_of
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.fleet.column import Key
from fairway.hosting.plugins.row import cluster_at, spec_in
from fairway.hosting.state import HostingState

NAME = "PolicyMember"
NOT_A_MEMBER = "is in none of the cluster sets of policy {policy} ({sets})"


class PolicyMember(Timeless):
    name = NAME

    def __init__(self, *, state: HostingState) -> None:
        self._state = state

    def filter(self, context: Context, row: int, /) -> Status:
        policy = spec_in(context, NAME).policy
        if self._state.covers(policy, cluster_at(context, row)):
            return OK
        words = NOT_A_MEMBER.format(policy=policy.name, sets=", ".join(policy.cluster_sets))
        return unschedulable(words, plugin=NAME)

    def reads(self, context: Context, /) -> Reads:
        sets = clusters_of(context.snapshot).sets
        keys: set[Key] = set()
        shared: set[Key] = set()
        for name in spec_in(context, NAME).policy.cluster_sets:
            shared.add((cells.SETS, name))
            if name in sets:
                keys.update(cells.label(each.key) for each in sets[name].selector.requirements)
        return Reads(cells=frozenset(keys), shared=frozenset(shared))
