"""HostAvailable: rejects clusters that are not available, not accepted or being deleted."""

from fairway.api.cluster import CONDITION_AVAILABLE
from fairway.api.meta import TRUE, find_condition
from fairway.clusters import cells
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosting.plugins.row import cluster_at

NAME = "HostAvailable"
NOT_AVAILABLE = "is not available: {message}"
NEVER_REPORTED = "its agent has not reported yet"
NOT_ACCEPTED = "is not accepted by the hub"
BEING_DELETED = "is being deleted"


class HostAvailable(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        cluster = cluster_at(context, row)
        if cluster.metadata.deletionTimestamp is not None:
            return unschedulable(BEING_DELETED, plugin=NAME)
        if not cluster.spec.hubAcceptsClient:
            return unschedulable(NOT_ACCEPTED, plugin=NAME)
        condition = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
        if condition is None or condition.status != TRUE:
            message = NEVER_REPORTED if condition is None else condition.message or condition.reason
            return unschedulable(NOT_AVAILABLE.format(message=message), plugin=NAME)
        return OK

    def reads(self, context: Context, /) -> Reads:
        paths = ((cells.PATH, "status", "conditions"), (cells.PATH, "spec", "hubAcceptsClient"))
        for path in paths:
            context.snapshot.codes(path)  # only existing columns are compared when a cluster changes
        return Reads(cells=frozenset({*paths, cells.DELETING}))
