"""PolicyMember: rejects clusters outside of the cluster sets of the request's policy."""

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.snapshot import clusters_of
from fairway.hosts.column import Key
from fairway.workloads.hosting.fleet.snapshot import hosting_of
from fairway.workloads.hosting.plugins.row import cluster_at, spec_in

NAME = "PolicyMember"
NOT_A_MEMBER = "is in none of the cluster sets of policy {policy} ({sets})"


class PolicyMember(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        policy = spec_in(context, NAME).policy
        if hosting_of(context.snapshot).covers(policy, cluster_at(context, row)):
            return OK
        words = NOT_A_MEMBER.format(policy=policy.name, sets=", ".join(policy.cluster_sets))
        return unschedulable(words, plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        return OK, hosting_of(context.snapshot).covered(spec_in(context, NAME).policy, among=candidates)

    def reads(self, context: Context, /) -> Reads:
        sets = clusters_of(context.snapshot).sets
        keys: set[Key] = set()
        shared: set[Key] = set()
        for name in spec_in(context, NAME).policy.cluster_sets:
            shared.add((cells.SETS, name))
            if name in sets:
                requirements = sets[name].selector.requirements
                keys.update(cells.label(requirement.key) for requirement in requirements)
        return Reads(cells=frozenset(keys), shared=frozenset(shared))
